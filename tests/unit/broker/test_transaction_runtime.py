from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Coroutine
from pathlib import Path
from random import Random
from typing import Any

import pytest

from penstock.broker.partitions.flusher import Flusher
from penstock.broker.partitions.partition import Partition
from penstock.broker.partitions.partitions import Partitions
from penstock.broker.runtimes.group_runtime import GroupRuntime
from penstock.broker.runtimes.transaction_markers import Leaders, MarkerWriter
from penstock.broker.runtimes.transaction_runtime import TransactionRuntime
from penstock.broker.slices import Slices
from penstock.cluster.image import TopicImage
from penstock.core.internal_topics import CONSUMER_OFFSETS, TRANSACTION_STATE
from penstock.core.log_settings import LogSettings
from penstock.core.metrics.counters import GroupMetrics, LogMetrics
from penstock.core.types import TopicPartition
from penstock.groups.coordinator import GroupCoordinator
from penstock.groups.operations.table import COMMIT_IN_TRANSACTION, FETCH_OFFSETS
from penstock.groups.requests import OffsetFetchRequest, OffsetToCommit, TransactionalCommitRequest
from penstock.groups.settings import GroupSettings
from penstock.log.storage.files import Files
from penstock.protocol.errors import ErrorCode
from penstock.protocol.records import Record, build_batch
from penstock.transactions.coordinator import TransactionCoordinator
from penstock.transactions.operations import ADD_PARTITIONS, DESCRIBE_TRANSACTION, END_TRANSACTION, INIT_PRODUCER_ID
from penstock.transactions.requests import (
    AddPartitionsRequest,
    DescribeTransactionRequest,
    EndTransactionRequest,
    InitProducerIdRequest,
)
from penstock.transactions.settings import TransactionSettings
from tests.unit.broker.harness import NODE, GatedFiles, Host, lead_all, topic_image
from tests.waiting import until

ORDERS = TopicPartition("orders", 0)
OFFSETS = TopicPartition(CONSUMER_OFFSETS, 0)
ID = "payments"
INTERNAL = (topic_image(CONSUMER_OFFSETS), topic_image(TRANSACTION_STATE))


class Curtain(Partitions):
    """The broker's partitions, some of which are not online for a while."""

    def __init__(self, behind: Partitions) -> None:
        self.behind = behind
        self.hidden: set[TopicPartition] = set()

    def find(self, topic: str, partition: int) -> Partition | None:
        return None if (topic, partition) in self.hidden else self.behind.find(topic, partition)


class Rig:
    """Transactions and groups of one broker, whose logs are on a real disk."""

    def __init__(self, path: Path, files: Files | None = None, state: LogSettings | None = None) -> None:
        self.host = Host(path, files)
        self.host.settings[TRANSACTION_STATE] = state or LogSettings()
        self.flusher = Flusher(LogMetrics(), self.host.clock)
        self.existing = {ORDERS, OFFSETS}
        self.show(topic_image("orders"))
        self.producer_id, self.epoch = -1, -1
        self.new_runtimes()

    def show(self, *topics: TopicImage) -> None:
        self.host.apply(*INTERNAL, *topics)

    def new_runtimes(self) -> None:
        partitions, clock = self.host.partitions, self.host.clock
        coordinator, slices = GroupCoordinator(GroupSettings(), 1), Slices(lambda: 0.0)
        self.groups = GroupRuntime(coordinator, partitions, self.flusher, clock, GroupMetrics(), slices)
        self.curtain = Curtain(partitions)
        leaders = Leaders(NODE, lambda where: NODE if where in self.existing else None)
        markers = MarkerWriter(self.curtain, leaders, self.groups, clock, Random(1).random)
        transactions = TransactionCoordinator(TransactionSettings(), 1, itertools.count(100).__next__)
        self.runtime = TransactionRuntime(transactions, partitions, markers, self.flusher, clock, slices)

    async def load(self) -> None:
        lead_all(self.groups, 1)
        await until(lambda: self.groups.shards.is_active(0))
        lead_all(self.runtime, 1)
        await until(lambda: bool(self.runtime.shards.active_partitions()))

    # ------------------------------------------------------------------------------------------- requests

    async def init(self, timeout_ms: int = 60_000) -> ErrorCode:
        request = InitProducerIdRequest(ID, timeout_ms)
        result = await self.runtime.submit(INIT_PRODUCER_ID, request)
        self.producer_id, self.epoch = result.producer_id, result.producer_epoch
        return ErrorCode(result.error)

    async def add(self, *partitions: TopicPartition) -> ErrorCode:
        request = AddPartitionsRequest(ID, self.producer_id, self.epoch, partitions)
        result = await self.runtime.submit(ADD_PARTITIONS, request)
        return ErrorCode(result.partitions[0].error)

    async def end(self, is_commit: bool = True) -> ErrorCode:
        request = EndTransactionRequest(ID, self.producer_id, self.epoch, is_commit)
        result = await self.runtime.submit(END_TRANSACTION, request)
        return ErrorCode(result.error)

    async def commit_offset(self, offset: int) -> ErrorCode:
        request = TransactionalCommitRequest("g", self.producer_id, self.epoch, [OffsetToCommit("orders", 0, offset)])
        result = await self.groups.submit(COMMIT_IN_TRANSACTION, request)
        return ErrorCode(result.partitions[0].error)

    def write(self) -> None:
        now_ms = self.host.clock.now_ms()
        batch = build_batch(
            [Record(b"k", b"v", timestamp=now_ms)],
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            base_sequence=0,
            is_transactional=True,
        )
        self.host.partition("orders").append(batch, -1, now_ms)

    async def begin(self) -> None:
        assert await self.init() is ErrorCode.NONE
        assert await self.add(ORDERS) is ErrorCode.NONE
        self.write()

    # ------------------------------------------------------------------------------------------- what is seen

    @property
    def state(self) -> str:
        return self.runtime.shards.read(DESCRIBE_TRANSACTION, DescribeTransactionRequest(ID)).state

    @property
    def stable(self) -> tuple[int, int]:
        log = self.host.partition("orders").log
        return log.last_stable_offset, log.log_end_offset

    def offset(self) -> tuple[int, ErrorCode]:
        request = OffsetFetchRequest("g", [ORDERS], require_stable=True)
        (found,) = self.groups.shards.read(FETCH_OFFSETS, request).partitions
        return found.offset, found.error

    def run(self, scenario: Callable[[], Coroutine[Any, Any, None]]) -> None:
        async def whole() -> None:
            try:
                await self.load()
                await scenario()
            finally:
                await self.close()
                await self.flusher.close()
                assert len(asyncio.all_tasks()) == 1

        asyncio.run(whole())

    async def close(self) -> None:
        await self.runtime.close()
        await self.groups.close()

    async def start_over(self) -> None:
        await self.close()
        self.new_runtimes()
        await self.load()


@pytest.mark.parametrize("is_commit", [True, False])
def test_markers_are_written_when_a_transaction_ends(tmp_path: Path, is_commit: bool) -> None:
    rig = Rig(tmp_path)

    async def scenario() -> None:
        await rig.begin()
        assert rig.stable == (0, 1)
        assert await rig.end(is_commit) is ErrorCode.NONE
        assert rig.stable == (2, 2)
        assert rig.state == ("CompleteCommit" if is_commit else "CompleteAbort")

    rig.run(scenario)


@pytest.mark.parametrize(("is_commit", "offset"), [(True, 7), (False, -1)])
def test_offsets_count_when_the_transaction_is_committed(tmp_path: Path, is_commit: bool, offset: int) -> None:
    rig = Rig(tmp_path)

    async def scenario() -> None:
        await rig.init()
        await rig.add(OFFSETS)
        assert await rig.commit_offset(7) is ErrorCode.NONE
        assert rig.offset() == (-1, ErrorCode.UNSTABLE_OFFSET_COMMIT)
        await rig.start_over()  # pending offsets are found again in the log
        assert rig.offset() == (-1, ErrorCode.UNSTABLE_OFFSET_COMMIT)
        await rig.end(is_commit)
        assert rig.offset() == (offset, ErrorCode.NONE)
        await rig.start_over()
        assert rig.offset() == (offset, ErrorCode.NONE)

    rig.run(scenario)


def test_offset_of_a_zombie_is_refused_when_the_log_knows_a_later_epoch(tmp_path: Path) -> None:
    rig = Rig(tmp_path)

    async def scenario() -> None:
        await rig.init()
        await rig.add(OFFSETS)
        await rig.commit_offset(7)
        rig.epoch -= 1
        assert await rig.commit_offset(8) is ErrorCode.INVALID_PRODUCER_EPOCH

    rig.run(scenario)


def test_open_transaction_is_aborted_when_its_time_is_up(tmp_path: Path) -> None:
    rig = Rig(tmp_path)

    async def scenario() -> None:
        await rig.init(timeout_ms=5)
        await rig.add(ORDERS)
        rig.write()
        rig.host.clock.advance(10)
        await until(lambda: rig.state == "CompleteAbort")
        assert rig.stable == (2, 2)

    rig.run(scenario)


def test_marker_is_written_later_when_its_partition_is_not_online(tmp_path: Path) -> None:
    rig = Rig(tmp_path)

    async def scenario() -> None:
        await rig.begin()
        rig.curtain.hidden.add(ORDERS)
        assert await rig.end() is ErrorCode.NONE
        assert rig.state == "PrepareCommit"
        assert rig.runtime.waiting_markers == 1
        rig.curtain.hidden.clear()
        await until(lambda: rig.state == "CompleteCommit")
        assert rig.stable == (2, 2)
        assert rig.runtime.waiting_markers == 0

    rig.run(scenario)


def test_transaction_completes_when_its_topic_was_deleted(tmp_path: Path) -> None:
    rig = Rig(tmp_path)

    async def scenario() -> None:
        await rig.begin()
        rig.show()
        rig.existing.discard(ORDERS)
        assert await rig.end() is ErrorCode.NONE
        assert rig.state == "CompleteCommit"

    rig.run(scenario)


def test_decision_is_carried_out_when_the_broker_starts_again(tmp_path: Path) -> None:
    rig = Rig(tmp_path)

    async def scenario() -> None:
        await rig.begin()
        await rig.add(OFFSETS)
        await rig.commit_offset(7)
        rig.curtain.hidden.add(ORDERS)
        await rig.end()
        assert rig.offset() == (7, ErrorCode.NONE)  # one marker of two is there
        await rig.start_over()
        assert rig.state == "CompleteCommit"
        assert rig.stable == (2, 2)
        assert rig.offset() == (7, ErrorCode.NONE)

    rig.run(scenario)


def test_offsets_wait_for_their_marker_when_the_group_is_still_loading(tmp_path: Path) -> None:
    rig = Rig(tmp_path)

    async def scenario() -> None:
        await rig.init()
        await rig.add(OFFSETS)
        await rig.commit_offset(7)
        rig.groups.unload()
        await rig.end()
        assert rig.state == "PrepareCommit"
        lead_all(rig.groups, 1)
        await until(lambda: rig.state == "CompleteCommit")
        assert rig.offset() == (7, ErrorCode.NONE)

    rig.run(scenario)


def test_client_is_sent_away_when_the_state_cannot_be_written(tmp_path: Path) -> None:
    rig = Rig(tmp_path)

    async def scenario() -> None:
        await rig.begin()
        rig.host.partition(TRANSACTION_STATE).log.go_offline("disk failed")
        assert await rig.end() is ErrorCode.NOT_COORDINATOR
        assert rig.state == "Ongoing"
        assert rig.stable == (0, 1)

    rig.run(scenario)


def test_nothing_follows_from_a_decision_before_it_is_durable(tmp_path: Path) -> None:
    files = GatedFiles()
    rig = Rig(tmp_path, files, LogSettings(flush_messages=1))

    async def scenario() -> None:
        files.let_pass(2)
        await rig.begin()
        ending = asyncio.ensure_future(rig.end())
        again = asyncio.ensure_future(rig.end())  # sees the decision, and must not tell of it either
        await until(lambda: rig.state == "PrepareCommit")
        await asyncio.sleep(0)
        assert not ending.done()
        assert not again.done()
        assert rig.stable == (0, 1)
        files.let_pass()
        assert await ending is ErrorCode.NONE
        await until(lambda: rig.state == "CompleteCommit")
        assert rig.stable == (2, 2)
        await again

    rig.run(scenario)


def test_committed_offset_is_not_told_before_its_marker_is_durable(tmp_path: Path) -> None:
    files = GatedFiles()
    rig = Rig(tmp_path, files)
    rig.host.partition(CONSUMER_OFFSETS).log.update_settings(LogSettings(flush_messages=1))

    async def scenario() -> None:
        await rig.init()
        await rig.add(OFFSETS)
        files.let_pass(1)
        assert await rig.commit_offset(7) is ErrorCode.NONE
        assert await rig.end() is ErrorCode.NONE
        assert rig.offset() == (7, ErrorCode.NONE)  # the marker is in the log, and not yet on disk
        fetching = asyncio.ensure_future(rig.groups.read(["g"], rig.offset))
        await asyncio.sleep(0)
        assert not fetching.done()
        files.let_pass()
        assert await fetching == (7, ErrorCode.NONE)

    rig.run(scenario)


def test_nobody_learns_of_a_decision_when_the_disk_fails(tmp_path: Path) -> None:
    files = GatedFiles()
    rig = Rig(tmp_path, files, LogSettings(flush_messages=1))

    async def scenario() -> None:
        files.let_pass(2)
        await rig.begin()
        files.error = OSError(5, "no such disk")
        files.let_pass()
        assert await rig.end() is ErrorCode.NOT_COORDINATOR
        assert rig.stable == (0, 1)

    rig.run(scenario)


def test_transactions_are_unavailable_when_their_log_is_damaged(tmp_path: Path) -> None:
    rig = Rig(tmp_path)

    async def scenario() -> None:
        await rig.begin()
        await rig.close()
        rig.host.partition(TRANSACTION_STATE).append(
            build_batch([Record(b"\0\0garbage", b"\0\1", timestamp=1)]), -1, rig.host.clock.now_ms()
        )
        rig.new_runtimes()
        lead_all(rig.groups, 1)
        lead_all(rig.runtime, 1)
        await until(lambda: not rig.runtime._tasks)
        assert await rig.init() is ErrorCode.NOT_COORDINATOR

    rig.run(scenario)
