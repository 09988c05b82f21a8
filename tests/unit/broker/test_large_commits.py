"""A commit of many offsets is one decision and one batch, however many slices its request takes."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from penstock.core.internal_topics import CONSUMER_OFFSETS
from penstock.protocol.batch import read_header
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages import (
    find_coordinator,
    init_producer_id,
    join_group,
    offset_commit,
    offset_fetch,
    txn_offset_commit,
)
from tests.unit.broker.served import Served, serving

PARTITIONS = 1_000
CONFIG = {"offsets.topic.num.partitions": "1", "transaction.state.log.num.partitions": "1"}


def commit_request(offset: int, metadata: str = "") -> offset_commit.OffsetCommitRequest:
    partitions = [
        offset_commit.OffsetCommitRequestPartition(
            partition_index=index, committed_offset=offset, committed_metadata=metadata
        )
        for index in range(PARTITIONS)
    ]
    topic = offset_commit.OffsetCommitRequestTopic(name="orders", partitions=partitions)
    return offset_commit.OffsetCommitRequest(group_id="g", generation_id_or_member_epoch=-1, topics=[topic])


def codes(response: Any) -> set[int]:
    return {partition.error_code for topic in response.topics for partition in topic.partitions}


def batch_sizes(served: Served) -> list[int]:
    """The number of records of each batch of the offsets' partition."""
    partition = served.broker.partitions.find(CONSUMER_OFFSETS, 0)
    assert partition is not None
    log = partition.log
    piece = log.reader.read(0, 100_000_000, log.log_end_offset, at_least_one=True)
    assert piece is not None
    data, position, sizes = piece.read(0, len(piece)), 0, []
    while position < len(data):
        header = read_header(data, position)
        sizes.append(header.record_count)
        position += header.size
    return sizes


def run_with_topic(directory: Path, check: Callable[[Served], Awaitable[None]], **config: str) -> None:
    async def run() -> None:
        properties = CONFIG | {key.replace("_", "."): text for key, text in config.items()}
        async with serving(directory, properties) as served:
            for key_type in (0, 1):
                await served.ask(find_coordinator.FindCoordinatorRequest(key_type=key_type, coordinator_keys=["x"]), 4)
            await served.create("orders", PARTITIONS)
            await check(served)

    asyncio.run(run())


def test_offsets_are_one_batch_when_a_commit_names_many(tmp_path: Path) -> None:
    async def check(served: Served) -> None:
        assert codes(await served.ask(commit_request(7), 8)) == {ErrorCode.NONE}
        assert batch_sizes(served) == [PARTITIONS]
        assert served.broker.groups.metrics.offset_commits == PARTITIONS

    run_with_topic(tmp_path, check)


def test_all_or_no_offsets_are_committed_when_a_member_joins_meanwhile(tmp_path: Path) -> None:
    async def check(served: Served) -> None:
        committing = asyncio.ensure_future(served.ask(commit_request(7), 8))
        protocol = join_group.JoinGroupRequestProtocol(name="range", metadata=b"")
        join = join_group.JoinGroupRequest(
            group_id="g",
            session_timeout_ms=6_000,
            rebalance_timeout_ms=6_000,
            protocol_type="consumer",
            protocols=[protocol],
        )
        for _ in range(3):
            await asyncio.sleep(0)
        joining = asyncio.ensure_future(served.ask(join, 3))
        assert len(codes(await committing)) == 1
        assert len(batch_sizes(served)) <= 1
        joining.cancel()

    run_with_topic(tmp_path, check)


def test_offsets_are_of_one_commit_when_many_are_fetched_meanwhile(tmp_path: Path) -> None:
    async def check(served: Served) -> None:
        topic = offset_fetch.OffsetFetchRequestTopics(name="orders", partition_indexes=list(range(PARTITIONS)))
        asked = offset_fetch.OffsetFetchRequest(
            groups=[offset_fetch.OffsetFetchRequestGroup(group_id="g", topics=[topic])]
        )
        await served.ask(commit_request(0), 8)
        for offset in range(1, 11):
            fetching = asyncio.ensure_future(served.ask(asked, 8))
            await asyncio.gather(served.ask(commit_request(offset), 8), fetching)
            ((fetched,),) = [group.topics for group in fetching.result().groups]
            assert len({partition.committed_offset for partition in fetched.partitions}) == 1

    run_with_topic(tmp_path, check)


def test_no_offset_is_committed_when_the_batch_is_too_large(tmp_path: Path) -> None:
    async def check(served: Served) -> None:
        response = await served.ask(commit_request(7, "m" * 2_000), 8)
        assert codes(response) == {ErrorCode.UNKNOWN_SERVER_ERROR}
        assert served.broker.groups.coordinator.offset_count() == 0

    run_with_topic(tmp_path, check)


def test_offsets_of_a_transaction_are_one_batch_when_a_commit_names_many(tmp_path: Path) -> None:
    async def check(served: Served) -> None:
        init = init_producer_id.InitProducerIdRequest(transactional_id="t", transaction_timeout_ms=60_000)
        producer = await served.ask(init, 4)
        partitions = [
            txn_offset_commit.TxnOffsetCommitRequestPartition(partition_index=index, committed_offset=7)
            for index in range(PARTITIONS)
        ]
        request = txn_offset_commit.TxnOffsetCommitRequest(
            transactional_id="t",
            group_id="g",
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch,
            topics=[txn_offset_commit.TxnOffsetCommitRequestTopic(name="orders", partitions=partitions)],
        )
        assert codes(await served.ask(request, 5)) == {ErrorCode.NONE}
        assert batch_sizes(served) == [PARTITIONS]

    run_with_topic(tmp_path, check)
