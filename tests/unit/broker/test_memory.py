"""Nothing that outlives a request is keyed or sized by what a client sends, unless it is bounded in bytes.

Each test sends odd names, then lets go of everything, and looks at what the process still holds.
"""

from __future__ import annotations

import asyncio
import gc
import tracemalloc
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from penstock.protocol.message import Message
from penstock.protocol.messages.api_versions import ApiVersionsRequest
from penstock.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from penstock.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from penstock.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from penstock.protocol.records import Record, build_batch
from tests.unit.broker.served import Served, serving

LONG = 32_000
REQUESTS = 300
# 300 names of 32 KB are 9.6 MB.
MAX_HELD = 1_000_000


def _name(number: int) -> str:
    return f"{number:08}" + "x" * (LONG - 8)


def _produce(number: int) -> Message:
    data = PartitionProduceData(index=0, records=build_batch([Record(None, b"value")]))
    return ProduceRequest(acks=1, topic_data=[TopicProduceData(name=_name(number), partition_data=[data])])


def _fetch(number: int) -> Message:
    topic = FetchTopic(topic=_name(number), partitions=[FetchPartition(partition=0)])
    return FetchRequest(max_wait_ms=0, session_epoch=0, topics=[topic])


def _metadata(number: int) -> Message:
    return MetadataRequest(topics=[MetadataRequestTopic(name=_name(number))])


def _api_versions(number: int) -> Message:
    return ApiVersionsRequest(client_software_name=_name(number), client_software_version=_name(number))


def _held_after(directory: Path, use: Callable[[Served, int], Awaitable[object]]) -> int:
    """Bytes that stay after many uses, beyond what the first few needed for code and tables."""

    async def run() -> int:
        async with serving(directory) as served:
            for number in range(5):
                await use(served, number)
            gc.collect()
            before, _ = tracemalloc.get_traced_memory()
            for number in range(5, 5 + REQUESTS):
                await use(served, number)
            gc.collect()
            after, _ = tracemalloc.get_traced_memory()
            return after - before

    tracemalloc.start()
    try:
        return asyncio.run(run())
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    ("make", "version"),
    [(_produce, 8), (_produce, 9), (_fetch, 12), (_metadata, 5), (_metadata, 12), (_api_versions, 4)],
)
def test_no_name_is_kept_when_a_client_names_what_does_not_exist(
    tmp_path: Path, make: Callable[[int], Message], version: int
) -> None:
    held = _held_after(tmp_path, lambda served, number: served.send(make(number), version))
    assert held < MAX_HELD


def test_no_client_id_is_kept_when_every_request_brings_another(tmp_path: Path) -> None:
    held = _held_after(tmp_path, lambda served, number: served.send(ApiVersionsRequest(), 0, _name(number)))
    assert held < MAX_HELD


def test_software_name_is_cut_when_a_client_gives_itself_a_long_one(tmp_path: Path) -> None:
    async def run() -> None:
        async with serving(tmp_path) as served:
            await served.ask(_api_versions(1), 4)
            assert len(served.session.client_software_name) <= 100
            assert len(served.session.client_software_version) <= 100

    asyncio.run(run())
