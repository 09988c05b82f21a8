from __future__ import annotations

import asyncio
import gc
import itertools
import logging
import tracemalloc
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from penstock.core.internal_topics import CONSUMER_OFFSETS
from penstock.core.log_settings import LogSettings
from penstock.groups.classic.group import GroupState
from penstock.groups.consumer.group import ConsumerGroup
from penstock.groups.operations.table import (
    CONSUMER_HEARTBEAT,
    DESCRIBE_GROUP,
    SYNC_GROUP,
)
from penstock.groups.requests import (
    ConsumerHeartbeatRequest,
    DeletedTopic,
    DescribeGroupRequest,
    JoinRequest,
    MemberAssignment,
    OffsetCommitRequest,
    OffsetToCommit,
    Protocol,
    SyncRequest,
)
from penstock.protocol.errors import ErrorCode
from penstock.testing.disks.faulty_files import Fault, FaultyFiles
from tests.unit.broker.group_rig import PARTITIONS, SETTINGS, Rig
from tests.unit.broker.harness import GatedFiles, lead_all
from tests.unit.groups.harness import count_states
from tests.unit.log.support import NOW, batch
from tests.waiting import until


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    return Rig(tmp_path)


class TestWriting:
    def test_record_is_in_the_log_and_replayed_when_the_answer_comes(self, rig: Rig) -> None:
        async def scenario() -> None:
            assert await rig.commit(7) == ErrorCode.NONE
            assert rig.committed() == 7
            ends = [partition.log.log_end_offset for partition in rig.host.partitions]
            assert sorted(ends) == [0, 1]

        rig.run(scenario)

    def test_error_is_answered_and_nothing_changes_when_the_append_fails(self, rig: Rig) -> None:
        async def scenario() -> None:
            await rig.commit(7)
            for partition in rig.host.partitions:
                partition.log.go_offline("for the test")
            assert await rig.commit(8) == ErrorCode.NOT_COORDINATOR
            assert rig.committed() == 7

        rig.run(scenario)

    def test_answer_waits_for_the_disk_when_the_topic_flushes_every_message(self, tmp_path: Path) -> None:
        files = GatedFiles()
        rig = Rig(tmp_path, files, LogSettings(flush_messages=1))

        async def scenario() -> None:
            waiting = asyncio.create_task(rig.commit(7))
            assert await asyncio.to_thread(files.arrived.acquire, timeout=30)
            assert not waiting.done()
            files.let_pass()
            assert await waiting == ErrorCode.NONE

        rig.run(scenario)

    def test_offset_is_not_told_when_its_fsync_is_still_running(self, tmp_path: Path) -> None:
        files = GatedFiles()
        rig = Rig(tmp_path, files, LogSettings(flush_messages=1))

        async def scenario() -> None:
            committing = asyncio.create_task(rig.commit(7))
            assert await asyncio.to_thread(files.arrived.acquire, timeout=30)
            fetching = asyncio.create_task(rig.fetch())
            elsewhere = next(f"group-{n}" for n in range(9) if rig.partition_of(f"group-{n}") != rig.partition_of("g"))
            assert await rig.fetch(elsewhere) == -1  # waits for nothing
            await asyncio.sleep(0)
            assert not committing.done()
            assert not fetching.done()
            files.let_pass()
            assert await fetching == 7
            assert await committing == ErrorCode.NONE

        rig.run(scenario)

    def test_offset_is_never_told_when_its_fsync_fails(self, tmp_path: Path) -> None:
        files = GatedFiles()
        rig = Rig(tmp_path, files, LogSettings(flush_messages=1))

        async def scenario() -> None:
            committing = asyncio.create_task(rig.commit(7))
            assert await asyncio.to_thread(files.arrived.acquire, timeout=30)
            fetching = asyncio.create_task(rig.fetch())
            await asyncio.sleep(0)
            files.error = OSError(5, "Input/output error")
            files.let_pass()
            assert await fetching == ErrorCode.NOT_COORDINATOR
            assert await committing == ErrorCode.NOT_COORDINATOR

        rig.run(scenario)

    def test_assignment_is_not_told_when_its_fsync_is_still_running(self, tmp_path: Path) -> None:
        files = GatedFiles()
        rig = Rig(tmp_path, files, LogSettings(flush_messages=1))

        async def scenario() -> None:
            files.let_pass(1)  # the group is recorded
            leader = await rig.join()
            joined = await rig.join(leader.member_id)
            assert joined.error == ErrorCode.NONE
            assert files.arrived.acquire(blocking=False)
            syncing = asyncio.create_task(rig.sync(leader.member_id, joined.generation_id, b"all of it"))
            assert await asyncio.to_thread(files.arrived.acquire, timeout=30)
            again = asyncio.create_task(rig.sync(leader.member_id, joined.generation_id))
            await asyncio.sleep(0)
            assert not syncing.done()
            assert not again.done()
            files.let_pass()
            assert (await syncing).assignment == b"all of it"
            assert (await again).assignment == b"all of it"

        rig.run(scenario)

    def test_what_was_written_stays_written_when_a_later_batch_of_a_clean_up_fails(self, tmp_path: Path) -> None:
        files, writes = FaultyFiles(), itertools.count()
        rig = Rig(tmp_path, files)
        offsets = [OffsetToCommit("orders", index, 7) for index in range(375)]

        async def scenario() -> None:
            await rig.submit(OffsetCommitRequest("g", offsets))
            rig.host.clock.advance(SETTINGS.offsets_retention_ms + 1)
            files.fail(Fault(lambda asked: asked.name == "write" and ".log" in asked.path and next(writes) > 0))
            await rig.runtime.expire_offsets()
            assert rig.runtime.coordinator.offset_count() == 125
            assert rig.runtime.metrics.offset_expirations == 250

        rig.run(scenario)

    def test_error_is_answered_when_the_disk_fails_under_the_flush(self, tmp_path: Path) -> None:
        files = GatedFiles()
        rig = Rig(tmp_path, files, LogSettings(flush_messages=1))

        async def scenario() -> None:
            files.error = OSError(5, "Input/output error")
            files.let_pass()
            assert await rig.commit(7) == ErrorCode.NOT_COORDINATOR
            # Whoever asks is not told of an offset that may be lost.
            assert rig.committed() == ErrorCode.NOT_COORDINATOR

        rig.run(scenario)

    def test_shutdown_is_clean_when_an_answer_waits_for_the_disk(self, tmp_path: Path) -> None:
        files = GatedFiles()
        rig = Rig(tmp_path, files, LogSettings(flush_messages=1))

        async def scenario() -> None:
            waiting = asyncio.create_task(rig.commit(7))
            assert await asyncio.to_thread(files.arrived.acquire, timeout=30)
            waiting.cancel()  # its connection is closed first
            await asyncio.gather(waiting, return_exceptions=True)
            files.let_pass()

        rig.run(scenario)

    def test_offsets_go_when_their_topic_does(self, rig: Rig) -> None:
        async def scenario() -> None:
            await rig.commit(7)
            await rig.commit(9, topic="other")
            rig.runtime.remove_topics([DeletedTopic("orders")])
            assert rig.committed() == -1
            assert rig.committed(topic="other") == 9

        rig.run(scenario)

    def test_offsets_go_when_their_time_is_up(self, rig: Rig) -> None:
        async def scenario() -> None:
            await rig.commit(7)
            await rig.runtime.expire_offsets()
            assert rig.committed() == 7
            rig.host.clock.advance(SETTINGS.offsets_retention_ms + 1)
            await rig.runtime.expire_offsets()
            assert rig.committed() == -1

        rig.run(scenario)


class TestWaiting:
    def test_member_is_answered_when_its_group_has_gathered(self, rig: Rig) -> None:
        async def scenario() -> None:
            required = await rig.join()
            assert required.error == ErrorCode.MEMBER_ID_REQUIRED
            joined = await rig.join(required.member_id)
            assert (joined.error, joined.leader) == (ErrorCode.NONE, required.member_id)

        rig.run(scenario)

    def test_group_goes_on_when_a_member_left_while_it_waited(self, rig: Rig) -> None:
        async def scenario() -> None:
            required = await rig.join()
            waiting = asyncio.create_task(rig.join(required.member_id))
            await asyncio.sleep(0)
            waiting.cancel()
            await asyncio.gather(waiting, return_exceptions=True)
            again = await rig.join(required.member_id)
            assert again.error == ErrorCode.NONE

        rig.run(scenario)

    def test_member_is_dropped_when_its_session_ends(self, rig: Rig) -> None:
        async def scenario() -> None:
            required = await rig.join(timeout_ms=5)
            await rig.join(required.member_id, timeout_ms=5)
            rig.host.clock.advance(10)
            await until(lambda: not rig.runtime.shards.read(DESCRIBE_GROUP, DescribeGroupRequest("g")).members)

        rig.run(scenario)

    def test_lines_are_few_when_very_many_members_are_dropped(self, rig: Rig, caplog: pytest.LogCaptureFixture) -> None:
        async def drop(group: str) -> None:
            request = JoinRequest(
                group, "", "consumer", (Protocol("range", b""),), 1, 1, accepts_member_id_required=False
            )
            await rig.submit(request)

        async def scenario() -> None:
            for number in range(50):
                await drop(f"group-{number}")
            # They go with their members, whom nobody has heard of.
            await until(lambda: not rig.runtime.coordinator.all_groups())

        with caplog.at_level(logging.INFO, logger="penstock"):
            rig.run(scenario)
        expelled = [line for line in caplog.messages if "is out of its group" in line]
        assert 0 < len(expelled) <= 10
        assert len(caplog.messages) <= 20

    def test_memory_is_given_back_when_large_members_with_odd_names_are_gone(self, rig: Rig) -> None:
        async def visit(number: int) -> None:
            padding = bytes([number]) * (1 << 18)
            offers = (Protocol(f"{number}" * 30_000, b"\0\0" + padding), Protocol("range", padding))
            group, client = f"group-{number}", f"{number}" * 30_000
            joined = await rig.submit(
                JoinRequest(group, "", "consumer", offers, 1, 1, client_id=client, accepts_member_id_required=False)
            )
            own = MemberAssignment(joined.member_id, padding)
            request = SyncRequest(group, joined.member_id, joined.generation_id, assignments=(own,))
            await rig.runtime.submit(SYNC_GROUP, request)
            beat = ConsumerHeartbeatRequest(
                f"consumers-{number}",
                client,
                0,
                rebalance_timeout_ms=1,
                topic_names=frozenset({client}),
                owned=frozenset(),
            )
            await rig.runtime.submit(CONSUMER_HEARTBEAT, beat)

        async def scenario() -> None:
            rig.runtime.coordinator.change_settings(SETTINGS._replace(consumer_session_timeout_ms=1), {})
            await visit(0)  # what is made once and stays
            counts = partial(count_states, rig.runtime.coordinator)
            await until(lambda: counts()[GroupState.EMPTY] == counts().total())
            tracemalloc.start()
            try:
                for number in range(1, 9):
                    await visit(number)
                await until(lambda: counts()[GroupState.EMPTY] == counts().total() == 18)
                gc.collect()
                assert tracemalloc.get_traced_memory()[0] < 1 << 20
            finally:
                tracemalloc.stop()

        rig.run(scenario)

    def test_no_timer_is_left_when_the_runtime_closes(self, rig: Rig) -> None:
        async def scenario() -> None:
            required = await rig.join()
            waiting = asyncio.create_task(rig.join(required.member_id))
            await asyncio.sleep(0)
            await rig.runtime.close()
            waiting.cancel()
            await asyncio.gather(waiting, return_exceptions=True)

        rig.run(scenario)


class TestLoading:
    def restart(self, rig: Rig) -> None:
        rig.new_runtime()
        lead_all(rig.runtime, PARTITIONS)

    def test_offsets_are_back_when_the_log_is_replayed(self, rig: Rig) -> None:
        async def scenario() -> None:
            for offset in range(100):
                await rig.commit(offset, group=f"group-{offset}")
            self.restart(rig)
            await rig.loaded()
            assert [rig.committed(f"group-{offset}") for offset in range(100)] == list(range(100))

        rig.run(scenario)

    def test_clients_are_told_to_wait_when_their_partition_is_loading(self, rig: Rig) -> None:
        async def scenario() -> None:
            await rig.commit(7)
            self.restart(rig)
            assert rig.committed() == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
            assert await rig.commit(8) == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
            await rig.loaded()
            assert rig.committed() == 7

        rig.run(scenario)

    def test_other_partitions_load_when_one_cannot_be_read(self, rig: Rig) -> None:
        async def scenario() -> None:
            for number in range(20):
                await rig.commit(number, group=f"group-{number}")
            broken = rig.host.partition(CONSUMER_OFFSETS, 0)
            file = broken.log.directory / f"{0:020d}.log"
            data = bytearray(file.read_bytes())
            data[70] ^= 0xFF
            file.write_bytes(data)
            self.restart(rig)
            await until(lambda: bool(rig.runtime.shards.active_partitions()))
            answers = [rig.committed(f"group-{number}") for number in range(20)]
            assert any(isinstance(answer, ErrorCode) for answer in answers)
            assert any(answer == number for number, answer in enumerate(answers))

        rig.run(scenario)

    def test_other_partitions_load_when_a_file_is_shorter_than_it_was(self, rig: Rig) -> None:
        """The read fails below the log, where no partition error is made of it."""

        async def scenario() -> None:
            for number in range(20):
                await rig.commit(number, group=f"group-{number}")
            broken = rig.host.partition(CONSUMER_OFFSETS, 0)
            (broken.log.directory / f"{0:020d}.log").write_bytes(b"")
            self.restart(rig)
            await until(lambda: rig.runtime.shards.active_partitions() == [1])

        rig.run(scenario)

    def test_loading_stops_when_the_topic_is_deleted_meanwhile(self, rig: Rig) -> None:
        async def scenario() -> None:
            for number in range(20):
                await rig.commit(number, group=f"group-{number}")
            self.restart(rig)
            await asyncio.sleep(0)
            rig.runtime.unload()
            rig.host.apply()
            rig.create_topic()
            lead_all(rig.runtime, PARTITIONS)
            await rig.loaded()
            assert {rig.committed(f"group-{number}") for number in range(20)} == {-1}
            assert await rig.commit(5) == ErrorCode.NONE

        rig.run(scenario)

    def test_loading_goes_on_when_a_record_is_not_of_a_group(self, rig: Rig) -> None:
        async def scenario() -> None:
            await rig.commit(7)
            for partition in rig.host.partitions:
                partition.append(batch("stranger", key=None), 1, NOW)
            self.restart(rig)
            await rig.loaded()
            assert rig.committed() == 7

        rig.run(scenario)

    def test_groups_are_gone_when_their_partitions_are_unloaded(self, rig: Rig) -> None:
        async def scenario() -> None:
            await rig.commit(7)
            rig.runtime.unload()
            assert rig.committed() == ErrorCode.NOT_COORDINATOR

        rig.run(scenario)


def test_rebalances_of_both_protocols_are_counted_when_they_begin_and_end(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    coordinator, metrics = rig.runtime.coordinator, rig.runtime.metrics

    async def beat(member_id: str, epoch: int, **more: Any) -> Any:
        request = ConsumerHeartbeatRequest(
            **{
                "group_id": "g",
                "member_id": member_id,
                "member_epoch": epoch,
                "client_id": "",
                "client_host": "",
                **more,
            }
        )
        return await rig.runtime.submit(CONSUMER_HEARTBEAT, request)

    async def scenario() -> None:
        await rig.loaded()
        joining = {"rebalance_timeout_ms": 10_000, "topic_names": frozenset({"orders"}), "owned": frozenset()}
        first = await beat("a", 0, **joining)
        assert (metrics.consumer_rebalances, metrics.completed_rebalances) == (1, 1)
        await beat("a", first.member_epoch)
        assert (metrics.consumer_rebalances, metrics.completed_rebalances) == (1, 1)
        rig.host.clock.advance(SETTINGS.consumer_assignment_interval_ms)
        await beat("b", 0, **joining)
        assert (metrics.consumer_rebalances, metrics.completed_rebalances) == (2, 1)
        assert count_states(coordinator, ConsumerGroup) == {GroupState.RECONCILING: 1}
        await beat("a", first.member_epoch)
        assert (metrics.consumer_rebalances, metrics.completed_rebalances) == (2, 2)
        assert count_states(coordinator, ConsumerGroup) == {GroupState.STABLE: 1}
        await beat("a", -1)
        assert metrics.consumer_rebalances == 3

    rig.run(scenario)
