"""A broker whose disk fails under some of its partitions: they count as dead, and the others go on."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest

from penstock.broker.replicas.lost_replicas import LostReplicas
from penstock.cluster.image import NO_LEADER, PartitionState
from penstock.protocol.errors import ApiError, ErrorCode
from penstock.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from penstock.replication.changes import LostReplica
from penstock.testing.disks.faulty_files import Fault, FaultyFiles
from tests.unit.broker.replication_rig import TOPIC, replicating
from tests.unit.log.support import batch
from tests.waiting import until


def test_another_broker_leads_when_the_leaders_disk_fails(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with replicating(tmp_path) as cluster:
            assert (await cluster.nodes[1].produce(batch("a"))).error_code == ErrorCode.NONE
            await cluster.until_equal()
            cluster.nodes[1].partition().log.go_offline("the disk is gone")
            cluster.nodes[1].look_for_lost()
            await until(lambda: cluster.state().leader == 2)
            assert cluster.state().isr == (2, 3)
            assert (await cluster.nodes[1].produce(batch("b"))).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
            assert (await cluster.nodes[2].produce(batch("b"))).error_code == ErrorCode.NONE
            assert cluster.nodes[3].partition().log.log_end_offset == 2
            # There is nothing to report any more.
            epoch = cluster.state().partition_epoch
            cluster.nodes[1].look_for_lost()
            await asyncio.sleep(0)
            assert cluster.state().partition_epoch == epoch

    asyncio.run(scenario())


def test_followers_keep_their_records_when_the_leaders_log_could_not_be_opened(tmp_path: Path) -> None:
    """It was the last in-sync replica by the controller's knowledge. The others may have the only copies."""

    async def scenario() -> None:
        async with replicating(tmp_path) as cluster:
            for value in "ab":
                assert (await cluster.nodes[1].produce(batch(value))).error_code == ErrorCode.NONE
            await cluster.until_equal()
            cluster.elect(2)
            await cluster.stop(1, clean=False)
            cluster.nodes[1].files = FaultyFiles(Fault.on("read", f"{TOPIC}-0/"))
            cluster.restart(1)
            assert not cluster.nodes[1].partition().is_online
            cluster.elect(1, isr=(1,))
            fetches = cluster.fetch_count
            await until(lambda: cluster.fetch_count > fetches + 6)
            assert [cluster.nodes[other].partition().log.log_end_offset for other in (2, 3)] == [2, 2]
            with pytest.raises(ApiError) as refused:
                cluster.nodes[1].partition().end_offset_for_epoch(0)
            assert refused.value.code == ErrorCode.KAFKA_STORAGE_ERROR
            asked = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1000)
            answer = await cluster.nodes[1].ask(FetchRequest(topics=[FetchTopic(topic=TOPIC, partitions=[asked])]), 11)
            assert answer.responses[0].partitions[0].error_code == ErrorCode.KAFKA_STORAGE_ERROR

    asyncio.run(scenario())


def test_writers_do_not_wait_for_a_follower_when_its_disk_has_failed(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with replicating(tmp_path) as cluster:
            cluster.nodes[3].partition().log.go_offline("the disk is gone")
            writing = asyncio.ensure_future(cluster.nodes[1].produce(batch("a"), timeout_ms=600_000))
            await until(lambda: cluster.nodes[2].partition().log.log_end_offset == 1)
            assert not writing.done()
            cluster.nodes[3].look_for_lost()
            assert (await writing).error_code == ErrorCode.NONE
            assert cluster.state().isr == (1, 2)

    asyncio.run(scenario())


def test_nobody_leads_and_the_replica_stays_in_sync_when_the_last_one_loses_its_disk(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with replicating(tmp_path, PartitionState(0, (1, 2), (1,), 1)) as cluster:
            cluster.cuts.add(frozenset((1, 2)))
            cluster.nodes[1].partition().log.go_offline("the disk is gone")
            cluster.nodes[1].look_for_lost()
            await until(lambda: cluster.state().leader == NO_LEADER)
            assert cluster.state().isr == (1,)

    asyncio.run(scenario())


def test_a_partition_without_others_keeps_its_leader_when_the_disk_fails(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with replicating(tmp_path, PartitionState(0, (1,), (1,), 1)) as cluster:
            cluster.nodes[1].partition().log.go_offline("the disk is gone")
            cluster.nodes[1].look_for_lost()
            await asyncio.sleep(0)
            assert cluster.state().leader == 1
            assert (await cluster.nodes[1].produce(batch("a"))).error_code == ErrorCode.KAFKA_STORAGE_ERROR

    asyncio.run(scenario())


def test_few_lines_are_logged_when_the_controller_cannot_be_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def refuse(lost: Sequence[LostReplica]) -> None:
        raise ApiError(ErrorCode.NOT_CONTROLLER)

    async def scenario() -> None:
        async with replicating(tmp_path) as cluster:
            node = cluster.nodes[1]
            lost_replicas = LostReplicas(1, node.partitions, refuse)
            node.partition().log.go_offline("the disk is gone")
            caplog.clear()
            for _ in range(40):
                for _ in lost_replicas.look():
                    pass
                await asyncio.sleep(0)
            await lost_replicas.close()

    asyncio.run(scenario())
    told = [record.getMessage() for record in caplog.records if "told" in record.message or "telling" in record.message]
    assert len(told) == 2
