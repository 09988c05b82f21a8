"""A producer and a coordinator that wait for the same record: when both are answered, and when only one of them is."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path

import pytest

from penstock.broker.partitions.durability_wait import Appended, settle
from penstock.broker.partitions.partition import Partition
from penstock.broker.runtimes.coordinator_log import CoordinatorLog
from penstock.cluster.image import PartitionState
from penstock.core.log_settings import LogSettings
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.produce import PartitionProduceResponse
from tests.unit.broker.in_sync_rig import ALL, close, driven, fetch
from tests.unit.broker.replication_rig import TOPIC, Node, ReplicaCluster
from tests.unit.log.support import NOW, batch
from tests.waiting import turns, until

MOVED, NONE = ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NONE
LONG_MS = 20_000


class Both:
    """One record in the log of a leader with two followers, for which a producer and a coordinator wait."""

    def __init__(self, cluster: ReplicaCluster) -> None:
        self.cluster = cluster
        self.leader: Node = cluster.nodes[1]
        self.partition: Partition = self.leader.partition()
        self.producer: asyncio.Future[PartitionProduceResponse]
        self.coordinator: asyncio.Future[ErrorCode]

    async def begin(self, timeout_ms: int) -> None:
        self.producer = asyncio.ensure_future(self.leader.produce(batch("a"), timeout_ms=timeout_ms))
        await until(lambda: self.partition.log.log_end_offset == 1)
        self.coordinator = asyncio.ensure_future(self.settle(Appended.now(self.partition), timeout_ms))
        await turns(3)

    async def settle(self, appended: Appended, timeout_ms: int = LONG_MS) -> ErrorCode:
        errors = await settle(self.leader.broker.flusher, [appended], timeout_ms)
        return errors.get(self.partition, NONE)

    async def replicate(self, epoch: int = 0) -> None:
        for offset in (0, 1):
            for follower in (2, 3):
                last_epoch = -1 if offset == 0 else 0
                code = await fetch(self.leader, follower, offset, epoch=epoch, last_epoch=last_epoch)
                assert code == NONE


def run(
    directory: Path,
    scenario: Callable[[Both], Awaitable[None]],
    timeout_ms: int = LONG_MS,
    settings: LogSettings | None = None,
) -> None:
    async def whole() -> None:
        cluster = driven(directory, PartitionState(0, ALL, ALL, 1), settings)
        both = Both(cluster)
        try:
            await both.begin(timeout_ms)
            assert not both.producer.done()
            assert not both.coordinator.done()
            await scenario(both)
        finally:
            both.producer.cancel()
            both.coordinator.cancel()
            await close(cluster)

    asyncio.run(whole())


def test_both_are_answered_when_all_in_sync_replicas_have_the_record(tmp_path: Path) -> None:
    async def scenario(both: Both) -> None:
        await both.replicate()
        assert (await both.producer).error_code == NONE
        assert await both.coordinator is NONE

    run(tmp_path, scenario)


def test_only_the_coordinator_is_sent_away_when_the_leader_is_suspended_and_the_producer_gets_its_answer_later(
    tmp_path: Path,
) -> None:
    """The leader may lead again and have the record, so the producer must not hear that it was not written."""

    async def scenario(both: Both) -> None:
        both.partition.allow_leading(False)
        assert await both.coordinator is MOVED
        assert await both.settle(Appended.now(both.partition)) is MOVED  # at once, as long as nobody may lead here
        await turns(3)
        assert not both.producer.done()
        both.partition.allow_leading(True)
        again = asyncio.ensure_future(both.settle(Appended.now(both.partition)))
        await turns(3)
        assert not again.done()
        await both.replicate()
        assert (await both.producer).error_code == NONE
        assert await again is NONE

    run(tmp_path, scenario)


def test_only_the_coordinator_is_sent_away_when_the_same_broker_leads_in_the_next_epoch(tmp_path: Path) -> None:
    """The coordinator's state is loaded anew in that epoch. The record is still in the log."""

    async def scenario(both: Both) -> None:
        old = Appended.now(both.partition)
        both.cluster.elect(1)
        assert await both.coordinator is MOVED
        await turns(3)
        assert not both.producer.done()
        await both.replicate(epoch=1)
        assert (await both.producer).error_code == NONE
        assert await both.settle(old) is MOVED  # also when the watermark has reached the offset of old

    run(tmp_path, scenario)


def test_coordinator_waits_on_when_the_in_sync_set_changes_within_its_epoch(tmp_path: Path) -> None:
    async def scenario(both: Both) -> None:
        both.cluster.change(isr=(1, 2))
        await turns(3)
        assert not both.coordinator.done()
        await both.replicate()
        assert await both.coordinator is NONE

    run(tmp_path, scenario)


@pytest.mark.parametrize("is_suspended", [False, True])
def test_both_are_sent_away_when_another_broker_leads(tmp_path: Path, *, is_suspended: bool) -> None:
    async def scenario(both: Both) -> None:
        if is_suspended:
            both.partition.allow_leading(False)
        both.cluster.elect(2)
        assert (await both.producer).error_code == MOVED
        assert await both.coordinator is MOVED

    run(tmp_path, scenario)


def test_both_are_sent_away_when_the_topic_is_deleted(tmp_path: Path) -> None:
    async def scenario(both: Both) -> None:
        both.cluster.publish(replace(both.cluster.image, topics={}))
        assert (await both.producer).error_code == MOVED
        assert await both.coordinator is MOVED

    run(tmp_path, scenario)


def test_producer_is_acknowledged_and_the_coordinator_sent_away_when_all_followers_leave(tmp_path: Path) -> None:
    """The leader epoch changes when replicas leave."""

    async def scenario(both: Both) -> None:
        both.cluster.change(replicas=(1,), isr=(1,), leader_epoch=1)
        assert (await both.producer).error_code == NONE
        assert await both.coordinator is MOVED

    run(tmp_path, scenario)


def test_both_may_have_written_when_their_time_ends(tmp_path: Path) -> None:
    async def scenario(both: Both) -> None:
        assert (await both.producer).error_code == ErrorCode.REQUEST_TIMED_OUT
        assert await both.coordinator is ErrorCode.REQUEST_TIMED_OUT

    run(tmp_path, scenario, timeout_ms=50)


def test_coordinator_learns_of_the_disk_when_its_time_ends_and_the_log_is_offline(tmp_path: Path) -> None:
    async def scenario(both: Both) -> None:
        both.partition.log.go_offline("the disk is gone")
        assert await both.coordinator is ErrorCode.KAFKA_STORAGE_ERROR
        assert await both.settle(Appended.now(both.partition)) is ErrorCode.KAFKA_STORAGE_ERROR  # at once

    run(tmp_path, scenario, timeout_ms=50)


@pytest.mark.parametrize(("is_offline", "code"), [(True, ErrorCode.KAFKA_STORAGE_ERROR), (False, MOVED)])
def test_only_waits_for_a_coordinators_state_end_when_the_state_is_dropped(
    tmp_path: Path, *, is_offline: bool, code: ErrorCode
) -> None:
    async def scenario(both: Both) -> None:
        broker = both.leader.broker
        log = CoordinatorLog(TOPIC, broker.partitions, broker.flusher, broker.clock, broker.slices)
        if is_offline:
            both.partition.log.go_offline("the disk is gone")
        log.wake(0)
        assert await both.coordinator is code
        assert not both.producer.done()

    run(tmp_path, scenario)


def test_waits_of_a_cancelled_request_answer_nobody_when_the_record_is_replicated(tmp_path: Path) -> None:
    async def scenario(both: Both) -> None:
        both.coordinator.cancel()
        await turns(3)
        await both.replicate()
        assert (await both.producer).error_code == NONE
        assert both.partition.leading is not None
        assert not both.partition.leading.acknowledgements

    run(tmp_path, scenario)


def test_nothing_waits_for_replicas_when_the_partition_has_no_followers(tmp_path: Path) -> None:
    async def scenario() -> None:
        cluster = driven(tmp_path, PartitionState(0, (1,), (1,), 1))
        partition = cluster.nodes[1].partition()
        partition.append(batch("a"), -1, NOW)
        settling = settle(cluster.nodes[1].broker.flusher, [Appended.now(partition)], LONG_MS)
        with pytest.raises(StopIteration) as end:
            settling.send(None)  # it ends in its first turn
        assert end.value.value == {}
        await close(cluster)

    asyncio.run(scenario())
