"""Changelogs on their way into the file, as brokers that behave oddly answer."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from penstock.protocol.errors import ApiError, ErrorCode
from penstock.protocol.messages.fetch import FetchableTopicResponse, FetchRequest, FetchResponse, PartitionData
from penstock.protocol.messages.metadata import MetadataResponse, MetadataResponsePartition, MetadataResponseTopic
from penstock.protocol.records import Record, build_batch
from penstock.streams.stores.changelog_follower import ChangelogFollower
from penstock.streams.stores.storage import Storage
from tests.own_time import pass_time, run_in_own_time

TOPIC = "shop-counts-changelog"
BROKEN, FINE = 0, 1


class OneBroken:
    """A broker with a changelog of two partitions, of which one has lost a byte."""

    timeout_s = 1.0

    def __init__(self) -> None:
        good = build_batch([Record(b'"a"', b"1", (), 5)])
        self._batches = {BROKEN: good[:-1] + bytes([good[-1] ^ 1]), FINE: good}

    def dedicated(self) -> OneBroken:
        return self

    async def close(self) -> None:
        pass

    async def metadata(self, topics: Sequence[str] | None) -> MetadataResponse:
        partitions = [MetadataResponsePartition(partition_index=each, leader_id=7) for each in self._batches]
        topic = MetadataResponseTopic(name=TOPIC, topic_id=b"1" * 16, partitions=partitions)
        return MetadataResponse(cluster_id="cluster", topics=[topic])

    async def ask(self, request: Any, **_: Any) -> Any:
        raise ApiError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)

    async def ask_node(self, node: int, request: FetchRequest, **_: Any) -> FetchResponse:
        await pass_time(0.001)
        (topic,) = request.topics
        parts = [
            PartitionData(
                partition_index=each.partition,
                high_watermark=1,
                last_stable_offset=1,
                records=self._batches[each.partition] if each.fetch_offset == 0 else b"",
            )
            for each in topic.partitions
        ]
        return FetchResponse(responses=[FetchableTopicResponse(topic=TOPIC, partitions=parts)])


async def follow_until_fine(storage: Storage) -> dict[int, int]:
    brokers: Any = OneBroken()
    following = ChangelogFollower(brokers, storage, "shop", lambda: 1_000)
    running = asyncio.create_task(following.run())
    try:
        async with asyncio.timeout(5):
            while "counts" not in following.stores or following.stores["counts"].position.get(FINE) != 1:
                assert not running.done()
                await pass_time(0.01)
        return dict(following.stores["counts"].position)
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


def test_the_other_partitions_are_read_when_one_cannot_be(tmp_path: Path) -> None:
    storage = Storage(tmp_path / "stores.sqlite", "shop", "cluster")
    assert run_in_own_time(follow_until_fine(storage)) == {BROKEN: 0, FINE: 1}
    storage.close()
