"""DeleteRecords on a partition with several replicas: done when every live replica has moved its start."""

from __future__ import annotations

import asyncio
from pathlib import Path

from penstock.cluster.image import PartitionState
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from tests.unit.broker.replication_rig import TOPIC, Node, ReplicaCluster, replicating
from tests.unit.log.support import batch
from tests.waiting import until

LONG_MS = 600_000
# A follower without news fetches once in an hour.
PATIENT = dict.fromkeys(
    ("replica.fetch.wait.max.ms", "replica.socket.timeout.ms", "replica.lag.time.max.ms"), "3600000"
)


async def delete(node: Node, offset: int, timeout_ms: int = LONG_MS) -> DeleteRecordsPartitionResult:
    asked = DeleteRecordsPartition(partition_index=0, offset=offset)
    request = DeleteRecordsRequest(topics=[DeleteRecordsTopic(name=TOPIC, partitions=[asked])], timeout_ms=timeout_ms)
    result: DeleteRecordsPartitionResult = (await node.ask(request, 2)).topics[0].partitions[0]
    return result


async def fill(cluster: ReplicaCluster) -> None:
    for value in "abc":
        assert (await cluster.nodes[1].produce(batch(value))).error_code == ErrorCode.NONE
    await cluster.until_equal()


def start_of(cluster: ReplicaCluster, node_id: int) -> int:
    return cluster.nodes[node_id].partition().log_start_offset


def test_records_are_gone_from_every_replica_when_the_deletion_is_answered(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with replicating(tmp_path, properties=PATIENT) as cluster:
            await fill(cluster)
            for offset, start in ((2, 2), (1, 2), (-1, 3)):
                answer = await delete(cluster.nodes[1], offset)
                assert (answer.error_code, answer.low_watermark) == (ErrorCode.NONE, start)
                assert [start_of(cluster, node_id) for node_id in (1, 2, 3)] == [start] * 3

    asyncio.run(scenario())


def test_a_deletion_waits_for_a_live_replica_and_not_for_a_dead_one(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with replicating(tmp_path) as cluster:
            await fill(cluster)
            cluster.cuts.add(frozenset((1, 2)))
            answer = await delete(cluster.nodes[1], 2, timeout_ms=50)
            assert (answer.error_code, answer.low_watermark) == (ErrorCode.REQUEST_TIMED_OUT, 0)
            assert start_of(cluster, 1) == 2
            waiting = asyncio.ensure_future(delete(cluster.nodes[1], 2))
            await until(lambda: has_waiting_deletion(cluster))
            assert not waiting.done()
            await cluster.stop(2)
            answer = await waiting
            assert (answer.error_code, answer.low_watermark) == (ErrorCode.NONE, 2)

    asyncio.run(scenario())


def has_waiting_deletion(cluster: ReplicaCluster) -> bool:
    deletions = cluster.nodes[1].partition().deletions
    return deletions is not None and bool(deletions.waiters)


def test_a_deletion_is_answered_when_the_leader_changes_meanwhile(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with replicating(tmp_path) as cluster:
            await fill(cluster)
            cluster.cuts.add(frozenset((1, 2)))
            waiting = asyncio.ensure_future(delete(cluster.nodes[1], 2))
            await until(lambda: has_waiting_deletion(cluster))
            cluster.elect(3)
            answer = await waiting
            assert (answer.error_code, answer.low_watermark) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)
            refused = await delete(cluster.nodes[1], 2)
            assert (refused.error_code, refused.low_watermark) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)

    asyncio.run(scenario())


def test_a_deletion_is_answered_at_once_when_there_is_one_replica(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with replicating(tmp_path, PartitionState(0, (1,), (1,), 1)) as cluster:
            assert (await cluster.nodes[1].produce(batch("a"))).error_code == ErrorCode.NONE
            answer = await delete(cluster.nodes[1], 1, timeout_ms=0)
            assert (answer.error_code, answer.low_watermark) == (ErrorCode.NONE, 1)
            beyond = await delete(cluster.nodes[1], 2, timeout_ms=0)
            assert (beyond.error_code, beyond.low_watermark) == (ErrorCode.OFFSET_OUT_OF_RANGE, -1)

    asyncio.run(scenario())
