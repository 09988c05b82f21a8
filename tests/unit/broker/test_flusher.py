from __future__ import annotations

import asyncio
import errno
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from penstock.broker.partitions.flusher import Flusher
from penstock.broker.partitions.partition import Partition
from penstock.core.metrics.counters import LogMetrics
from penstock.testing.clock import ManualClock
from tests.unit.broker.harness import GatedFiles, lone_partition
from tests.unit.log.support import NOW, batch


class Rig:
    def __init__(self, path: Path) -> None:
        self.files = GatedFiles()
        self.metrics = LogMetrics()
        self.partitions = [lone_partition(path / str(index), self.files) for index in range(3)]
        self.flusher = Flusher(self.metrics, ManualClock())

    def append(self, *partitions: Partition) -> None:
        for partition in partitions or self.partitions:
            partition.append(batch(), 1, NOW)

    def flush(self, *partitions: Partition) -> asyncio.Task[list[Partition]]:
        return asyncio.create_task(self.flusher.flush(list(partitions) or self.partitions))

    async def arrival(self) -> None:
        """An fsync has begun."""
        assert await asyncio.to_thread(self.files.arrived.acquire, timeout=30)

    def run(self, scenario: Callable[[], Coroutine[Any, Any, None]]) -> None:
        async def whole() -> None:
            try:
                await scenario()
            finally:
                self.files.let_pass()
                await self.flusher.close()
                for partition in self.partitions:
                    partition.log.close(clean=False)

        asyncio.run(whole())


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    return Rig(tmp_path)


def test_records_are_durable_when_the_flush_returns(rig: Rig) -> None:
    async def scenario() -> None:
        rig.files.let_pass()
        rig.append()
        assert await rig.flush() == []
        assert [partition.log.recovery_point for partition in rig.partitions] == [1, 1, 1]
        assert sum(rig.metrics.flush_time_ms.counts) == 3

    rig.run(scenario)


def test_disk_is_left_alone_when_everything_is_durable_already(rig: Rig) -> None:
    async def scenario() -> None:
        assert await rig.flush() == []
        assert rig.files.sync_count == 0

    rig.run(scenario)


def test_one_fsync_serves_all_when_many_join_while_another_runs(rig: Rig) -> None:
    async def scenario() -> None:
        partition = rig.partitions[0]
        rig.append(partition)
        first = rig.flush(partition)
        await rig.arrival()
        later = []
        for _ in range(50):
            rig.append(partition)
            later.append(rig.flush(partition))
        await asyncio.sleep(0)
        assert rig.files.sync_count == 1
        rig.files.let_pass()
        assert await first == []
        assert await asyncio.gather(*later) == [[]] * 50
        assert rig.files.sync_count == 2
        assert partition.log.recovery_point == 51

    rig.run(scenario)


def test_later_append_is_not_called_durable_when_it_joined_an_fsync_under_way(rig: Rig) -> None:
    async def scenario() -> None:
        partition = rig.partitions[0]
        rig.append(partition)
        first = rig.flush(partition)
        await rig.arrival()
        rig.append(partition)
        second = rig.flush(partition)
        await asyncio.sleep(0)
        rig.files.let_pass(1)
        await first
        await rig.arrival()
        assert not second.done()
        assert partition.log.recovery_point == 1
        rig.files.let_pass(1)
        await second
        assert partition.log.recovery_point == 2

    rig.run(scenario)


def test_partitions_do_not_wait_for_each_other_when_flushed_apart(rig: Rig) -> None:
    async def scenario() -> None:
        rig.append()
        waiting = [rig.flush(partition) for partition in rig.partitions]
        for _ in waiting:
            await rig.arrival()
        assert rig.files.sync_count == 3
        rig.files.let_pass()
        assert await asyncio.gather(*waiting) == [[], [], []]

    rig.run(scenario)


def test_partition_goes_offline_and_all_who_wait_are_told_when_the_disk_fails(rig: Rig) -> None:
    async def scenario() -> None:
        partition = rig.partitions[0]
        rig.append(partition)
        first = rig.flush(partition)
        await rig.arrival()
        rig.append(partition)
        second = rig.flush(partition)
        await asyncio.sleep(0)
        rig.files.error = OSError(5, "Input/output error")
        rig.files.let_pass()
        assert await first == [partition]
        assert await second == [partition]
        assert "Input/output error" in (partition.log.offline_reason or "")
        assert await rig.flush(partition) == [partition]

    rig.run(scenario)


def test_only_the_failed_partition_is_named_when_others_are_well(rig: Rig) -> None:
    async def scenario() -> None:
        rig.files.let_pass()
        rig.append()
        rig.partitions[1].log.go_offline("for the test")
        assert await rig.flush() == [rig.partitions[1]]

    rig.run(scenario)


def test_others_are_served_when_one_who_waits_is_cancelled(rig: Rig) -> None:
    async def scenario() -> None:
        partition = rig.partitions[0]
        rig.append(partition)
        gone, stays = rig.flush(partition), rig.flush(partition)
        await rig.arrival()
        gone.cancel()
        rig.files.let_pass()
        assert await stays == []
        assert gone.cancelled()

    rig.run(scenario)


def test_nobody_waits_for_ever_when_an_fsync_fails_in_an_unforeseen_way(rig: Rig) -> None:
    async def scenario() -> None:
        told: list[object] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: told.append(context))
        partition = rig.partitions[0]
        rig.append(partition)
        first = rig.flush(partition)
        await rig.arrival()
        second = rig.flush(partition)
        await asyncio.sleep(0)
        rig.files.error = RuntimeError("a bug")
        rig.files.let_pass()
        assert await first == [partition]
        assert await second == [partition]
        await asyncio.sleep(0)

    rig.run(scenario)


def test_flush_goes_on_and_the_log_stays_online_when_no_file_could_be_opened_for_a_while(rig: Rig) -> None:
    async def scenario() -> None:
        partition = rig.partitions[0]
        rig.append(partition)
        rig.files.error = OSError(errno.EMFILE, "Too many open files")
        waiting = rig.flush(partition)
        rig.files.let_pass()
        await rig.arrival()
        await rig.arrival()  # the first one has failed
        assert not waiting.done()
        rig.files.error = None
        assert await waiting == []
        assert (partition.log.offline_reason, partition.log.recovery_point) == (None, 1)

    rig.run(scenario)


def test_closing_ends_when_no_file_can_be_opened(rig: Rig) -> None:
    async def scenario() -> None:
        partition = rig.partitions[0]
        rig.append(partition)
        rig.files.error = OSError(errno.EMFILE, "Too many open files")
        rig.files.let_pass()
        waiting = rig.flush(partition)
        await rig.arrival()
        await rig.flusher.close()
        assert await waiting == [partition]

    rig.run(scenario)


def test_closing_waits_when_an_fsync_is_under_way(rig: Rig) -> None:
    async def scenario() -> None:
        partition = rig.partitions[0]
        rig.append(partition)
        waiting = rig.flush(partition)
        await rig.arrival()
        closing = asyncio.create_task(rig.flusher.close())
        await asyncio.sleep(0)
        assert not closing.done()
        rig.files.let_pass()
        await closing
        assert await waiting == []

    rig.run(scenario)
