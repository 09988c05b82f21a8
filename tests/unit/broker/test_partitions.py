from __future__ import annotations

import asyncio
import errno
import threading
from collections import Counter
from collections.abc import Awaitable, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from penstock.broker.partitions.purgatory import Waiter
from penstock.cluster.image import PartitionState
from penstock.core.log_settings import LogSettings
from penstock.core.metrics.counters import TopicMetrics
from penstock.core.types import ZERO_TOPIC_ID
from penstock.protocol.errors import ApiError, ErrorCode
from penstock.testing.disks.faulty_files import Fault, FaultyFiles
from tests.unit.broker.harness import EMPTY, NODE, Host, image, lone_partition, topic_image
from tests.unit.log.support import NOW, batch

FOREVER_MS = 2**31 - 1


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(tmp_path)


async def count_turns(work: Awaitable[None]) -> int:
    """The turns of the loop that others got while the work was done."""
    working = asyncio.ensure_future(work)
    turns = 0
    while not working.done():
        await asyncio.sleep(0)
        turns += 1
    await working
    return turns


class BrokenWaiter(Waiter):
    def wake(self) -> None:
        raise RuntimeError("a fault of ours")


class UnreadableSettings(dict[str, LogSettings]):
    def __init__(self, unreadable: str, settings: Mapping[str, LogSettings]) -> None:
        super().__init__(settings)
        self._unreadable = unreadable

    def get(self, topic: str, default: LogSettings) -> LogSettings:  # type: ignore[override]
        if topic == self._unreadable:
            raise ValueError("a fault of ours")
        return super().get(topic, default)


def code_of(error: pytest.ExceptionInfo[ApiError]) -> ErrorCode:
    return error.value.code


class TestFollowingTheImage:
    def test_logs_are_made_when_a_topic_is_created(self, host: Host) -> None:
        host.apply(topic_image("orders", 3))
        assert host.names() == ["orders-0", "orders-1", "orders-2"]
        assert len(host.partitions) == 3
        assert host.partitions.topic_name(topic_image("orders").topic_id) == "orders"
        assert host.partition("orders", 2).log.topic_id == topic_image("orders").topic_id

    def test_logs_go_and_waiters_wake_when_a_topic_is_deleted(self, host: Host) -> None:
        async def scenario() -> None:
            host.apply(topic_image("orders"))
            partition = host.partition("orders")
            waiting = Waiter(1).wait([partition], FOREVER_MS)
            host.apply()
            assert host.partitions.find("orders", 0) is None
            assert host.partitions.topic_name(partition.topic_id) is None
            await asyncio.wait_for(waiting, 1)
            with pytest.raises(ApiError) as caught:
                partition.append(batch(), 1, NOW)
            assert code_of(caught) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

        asyncio.run(scenario())

    def test_log_is_empty_when_a_topic_is_made_anew_under_its_old_name(self, host: Host) -> None:
        host.apply(topic_image("orders", topic_id=b"1" * 16))
        host.partition("orders").append(batch(), 1, NOW)
        host.apply(topic_image("orders", topic_id=b"2" * 16))
        assert host.partition("orders").log.log_end_offset == 0
        assert host.partitions.topic_name(b"1" * 16) is None
        assert host.partitions.topic_name(b"2" * 16) == "orders"

    def test_one_line_tells_of_all_stray_logs_when_a_crash_came_after_a_topic_was_deleted(
        self, host: Host, caplog: pytest.LogCaptureFixture
    ) -> None:
        host.apply(topic_image("orders", 3), topic_image("kept", 2))
        caplog.clear()
        host.partitions.remove_strays(image(topic_image("kept", 2)))
        assert [record.getMessage() for record in caplog.records if record.levelname == "WARNING"] == [
            "deleting the logs of orders (partitions: 3): they are not this broker's any more"
        ]
        assert {topic_partition.topic for topic_partition in host.directories.logs} == {"kept"}

    def test_data_directory_is_synced_once_when_many_stray_logs_are_removed(self, tmp_path: Path) -> None:
        files = FaultyFiles()
        host = Host(tmp_path, files)
        host.apply(topic_image("orders", 200), topic_image("kept"))
        files.operations.clear()
        host.partitions.remove_strays(image(topic_image("kept")))
        asked = Counter(operation.name for operation in files.operations)
        assert (asked["rename"], asked["sync"]) == (200, 1)
        assert [name for name in host.names() if not name.endswith("-delete")] == ["kept-0"]

    @pytest.mark.parametrize(("replicas", "is_kept"), [((NODE,), True), ((NODE, NODE + 1), False)])
    def test_a_log_of_an_unknown_topic_goes_at_the_start_when_other_replicas_have_the_records(
        self, host: Host, replicas: tuple[int, ...], is_kept: bool
    ) -> None:
        """The topic was made anew while the broker was away, or its creation was never written."""
        host.apply(topic_image("orders", topic_id=b"1" * 16))
        anew = topic_image("orders", topic_id=b"2" * 16)
        states = tuple(state._replace(replicas=replicas, isr=replicas) for state in anew.partitions)
        host.partitions.remove_strays(image(anew._replace(partitions=states)))
        assert bool(host.directories.logs) is is_kept

    def test_log_goes_at_the_start_when_its_replica_moved_to_other_brokers_meanwhile(self, host: Host) -> None:
        topic = topic_image("orders", 2)
        host.apply(topic)
        moved = topic.partitions[1]._replace(replicas=(NODE + 1,), isr=(NODE + 1,), leader=NODE + 1)
        host.partitions.remove_strays(image(topic._replace(partitions=(topic.partitions[0], moved))))
        assert list(host.directories.logs) == [("orders", 0)]

    def test_exchanged_logs_stay_at_the_start_when_both_topics_are_known(self, host: Host) -> None:
        host.apply(topic_image("orders", topic_id=b"1" * 16), topic_image("payments", topic_id=b"2" * 16))
        exchanged = [topic_image("orders", topic_id=b"2" * 16), topic_image("payments", topic_id=b"1" * 16)]
        host.partitions.remove_strays(image(*exchanged))
        assert len(host.directories.logs) == 2

    def test_partitions_are_added_when_a_topic_grows(self, host: Host) -> None:
        host.apply(topic_image("orders", 1))
        first = host.partition("orders")
        host.apply(topic_image("orders", 3))
        assert len(host.partitions) == 3
        assert host.partition("orders") is first

    def test_settings_reach_the_logs_when_a_topic_is_configured(self, host: Host) -> None:
        host.apply(topic_image("orders"))
        host.settings["orders"] = LogSettings(max_message_bytes=77)
        host.apply(topic_image("orders", configs={"max.message.bytes": "77"}))
        assert host.partition("orders").log.settings.max_message_bytes == 77

    def test_settings_reach_every_log_when_the_brokers_defaults_change(self, host: Host) -> None:
        host.apply(topic_image("a"), topic_image("b"))
        host.settings = {name: LogSettings(retention_ms=5) for name in "ab"}
        changed = replace(host.image, default_broker_config={"log.retention.ms": "5"})
        host.partitions.apply(host.image, changed)
        assert [partition.log.settings.retention_ms for partition in host.partitions] == [5, 5]

    def test_state_is_taken_over_when_a_leader_epoch_moves(self, host: Host) -> None:
        topic = topic_image("orders")
        host.apply(topic)
        host.apply(topic._replace(partitions=(topic.partitions[0]._replace(leader_epoch=4),)))
        assert host.partition("orders").state.leader_epoch == 4

    def test_partition_is_left_to_others_when_this_broker_has_no_replica(self, host: Host) -> None:
        topic = topic_image("orders")
        host.apply(topic._replace(partitions=(topic.partitions[0]._replace(replicas=(NODE + 1,)),)))
        assert len(host.partitions) == 0

    def test_existing_logs_are_taken_up_when_the_broker_starts_again(self, host: Host) -> None:
        host.apply(topic_image("orders"))
        host.partition("orders").append(batch("a", "b"), 1, NOW)
        host.directories.close()
        host.open()
        host.partitions.apply(EMPTY, image(topic_image("orders")))
        log = host.partition("orders").log
        assert (log.log_end_offset, log.high_watermark) == (2, 2)

    def test_other_topics_work_when_the_disk_refuses_one(self, tmp_path: Path) -> None:
        files = FaultyFiles()
        host = Host(tmp_path, files)
        files.fail(Fault.on("make_directory", "broken-0", errno.ENOSPC))
        host.apply(topic_image("broken"), topic_image("fine"))
        assert host.partitions.find("broken", 0) is None
        assert not host.partitions.is_online("broken", 0)
        assert host.partitions.is_online("fine", 0)
        host.partition("fine").append(batch(), 1, NOW)

    def test_disk_is_asked_nothing_when_prepared_partitions_are_taken_over(self, tmp_path: Path) -> None:
        files = FaultyFiles()
        host = Host(tmp_path, files)
        new = image(topic_image("orders", 200))
        files.operations.clear()
        asyncio.run(host.partitions.prepare(EMPTY, new))
        assert host.partitions.find("orders", 0) is None
        assert threading.get_ident() not in {operation.thread_id for operation in files.operations}
        files.operations.clear()
        host.partitions.apply(EMPTY, new)
        assert files.operations == []
        assert len(host.partitions) == 200
        host.partition("orders", 199).append(batch(), 1, NOW)

    def test_disk_is_asked_nothing_when_many_partitions_move_here(self, tmp_path: Path) -> None:
        files = FaultyFiles()
        host = Host(tmp_path, files)
        here = topic_image("orders", 200)
        elsewhere = here._replace(partitions=tuple(each._replace(replicas=(NODE + 1,)) for each in here.partitions))
        host.apply(elsewhere)
        assert len(host.partitions) == 0
        files.operations.clear()
        new = image(here)
        asyncio.run(host.partitions.prepare(host.image, new))
        assert threading.get_ident() not in {operation.thread_id for operation in files.operations}
        files.operations.clear()
        host.partitions.apply(host.image, new)
        assert files.operations == []
        assert len(host.partitions) == 200
        host.partition("orders", 199).append(batch(), 1, NOW)

    def test_disk_is_asked_nothing_when_deleted_partitions_stop_being_served(self, tmp_path: Path) -> None:
        files = FaultyFiles()
        host = Host(tmp_path, files)
        host.apply(topic_image("orders", 3))
        partition = host.partition("orders")
        partition.append(batch(), 1, NOW)
        files.operations.clear()
        host.partitions.apply(host.image, EMPTY)
        assert files.operations == []
        assert host.directories.logs == {}
        asyncio.run(host.partitions.settle())
        assert all(name.endswith("-delete") for name in host.names())

    def test_prepared_log_has_the_settings_of_the_new_image_when_its_file_is_allocated_ahead(self, host: Host) -> None:
        host.settings["orders"] = LogSettings(preallocate=True, segment_bytes=5_000)
        new = image(topic_image("orders"))
        asyncio.run(host.partitions.prepare(EMPTY, new))
        assert (host.path / "orders-0" / f"{0:020d}.log").stat().st_size == 5_000
        host.partitions.apply(EMPTY, new)
        assert host.partition("orders").log.settings.segment_bytes == 5_000

    def test_no_thread_is_needed_when_a_change_is_abandoned_for_which_nothing_was_made(self, host: Host) -> None:
        with pytest.raises(StopIteration):  # at once, without a loop
            host.partitions.abandon().send(None)

    def test_partitions_leave_a_few_in_each_turn_when_a_topic_with_many_is_deleted(self, host: Host) -> None:
        host.apply(topic_image("orders", 500))
        host.partitions.apply(host.image, EMPTY)
        assert len(host.partitions) == 0
        assert len(host.directories.logs) > 400
        turns = asyncio.run(count_turns(host.partitions.settle()))
        assert turns >= 500 // 100
        assert host.directories.logs == {}
        assert all(name.endswith("-delete") for name in host.names())

    def test_all_logs_go_first_when_a_topic_with_many_partitions_is_made_anew_under_its_old_name(
        self, host: Host
    ) -> None:
        host.apply(topic_image("orders", 200, topic_id=b"1" * 16))
        host.partition("orders", 199).append(batch(), 1, NOW)
        host.apply(topic_image("orders", 200, topic_id=b"2" * 16))
        assert len(host.directories.logs) == 200
        assert host.partition("orders", 199).log.log_end_offset == 0

    def test_settings_reach_a_few_logs_in_each_turn_when_a_topic_has_many(self, host: Host) -> None:
        host.apply(topic_image("orders", 500), topic_image("last"))
        host.settings = {name: LogSettings(retention_ms=5) for name in ("orders", "last")}
        changed = replace(host.image, default_broker_config={"log.retention.ms": "5"})
        host.partitions.apply(host.image, changed)
        told = [partition for partition in host.partitions if partition.log.settings.retention_ms == 5]
        assert 0 < len(told) <= 50
        turns = asyncio.run(count_turns(host.partitions.settle()))
        assert turns >= 500 // 100
        assert {partition.log.settings.retention_ms for partition in host.partitions} == {5}

    def test_counters_are_kept_in_the_sum_when_a_topic_is_deleted(self, host: Host) -> None:
        host.apply(topic_image("orders"))
        host.partition("orders").metrics.bytes_in += 10
        host.apply()
        assert dict(host.metrics.samples("bytes_in")) == {("",): 10}

    def test_iteration_goes_on_when_topics_come_and_go_meanwhile(self, host: Host) -> None:
        host.apply(topic_image("a"), topic_image("b"))
        seen = []
        for partition in host.partitions:
            seen.append(partition.topic_partition.topic)
            host.apply(topic_image("c"))
        assert sorted(seen) == ["a", "b"]


def test_strays_are_set_aside_at_the_first_start_when_the_cluster_was_restored_and_deleted_later(
    host: Host,
) -> None:
    for restoration_id, topic, ending in (
        ("r1", "late", "-stray"),
        ("r1", "old", "-delete"),
        ("r2", "later", "-stray"),
        ("", "oldest", "-delete"),
    ):
        host.apply(topic_image(topic), topic_image("kept"))
        host.partitions.remove_strays(image(topic_image("kept")), restoration_id)
        (name,) = (name for name in host.names() if name.startswith(f"{topic}-0"))
        assert name.endswith(ending)


class TestRefusedPartitions:
    def test_refused_partition_is_tried_again_with_the_next_change_when_preparation_failed(
        self, tmp_path: Path
    ) -> None:
        files = FaultyFiles()
        host = Host(tmp_path, files)
        files.fail(Fault.on("make_directory", "orders-0", errno.ENOSPC))
        host.apply(topic_image("orders", 2))
        new = image(topic_image("orders", 3))
        assert asyncio.run(host.partitions.prepare(host.image, new)) is None  # the change can be made nevertheless
        files.operations.clear()
        host.partitions.apply(host.image, new)
        assert files.operations == []
        assert host.partitions.why_missing("orders", 0) == ErrorCode.KAFKA_STORAGE_ERROR
        assert host.partitions.is_online("orders", 1)
        assert host.partitions.is_online("orders", 2)
        files.heal()
        host.partitions.apply(new, image(topic_image("orders", 3, configs={"retention.ms": "7"})))
        assert host.partitions.is_online("orders", 0)

    @pytest.mark.parametrize("change", ["configured", "grown", "defaults"])
    def test_a_thread_makes_the_files_when_a_partition_that_was_refused_is_tried_again(
        self, tmp_path: Path, change: str
    ) -> None:
        files = FaultyFiles()
        host = Host(tmp_path, files)
        files.fail(Fault.on("make_directory", "orders-0", errno.ENOSPC))
        host.apply(topic_image("orders", 2), topic_image("other"))
        files.heal()
        host.settings["orders"] = LogSettings(max_message_bytes=77)
        new = {
            "configured": image(topic_image("orders", 2, configs={"max.message.bytes": "77"}), topic_image("other")),
            "grown": image(topic_image("orders", 3), topic_image("other")),
            "defaults": replace(host.image, default_broker_config={"message.max.bytes": "77"}),
        }[change]
        files.operations.clear()
        assert asyncio.run(host.partitions.prepare(host.image, new)) is None
        assert "make_directory" in {operation.name for operation in files.operations}
        assert threading.get_ident() not in {operation.thread_id for operation in files.operations}
        assert host.partitions.find("orders", 0) is None
        files.operations.clear()
        host.partitions.apply(host.image, new)
        assert files.operations == []
        assert host.partitions.is_online("orders", 0)
        assert host.partition("orders").log.settings.max_message_bytes == 77
        assert host.partitions.why_missing("orders", 0) != ErrorCode.KAFKA_STORAGE_ERROR

    def test_partition_that_was_refused_stays_without_a_log_when_the_next_change_is_abandoned(
        self, tmp_path: Path
    ) -> None:
        files = FaultyFiles()
        host = Host(tmp_path, files)
        files.fail(Fault.on("make_directory", "orders-0", errno.ENOSPC))
        host.apply(topic_image("orders", 2))
        files.heal()
        asyncio.run(host.partitions.prepare(host.image, image(topic_image("orders", 3))))
        asyncio.run(host.partitions.abandon())
        assert host.names() == ["orders-1"]
        assert host.partitions.why_missing("orders", 0) == ErrorCode.KAFKA_STORAGE_ERROR

    def test_log_that_could_not_be_opened_is_kept_when_a_change_is_abandoned(self, tmp_path: Path) -> None:
        files = FaultyFiles()
        host = Host(tmp_path, files)
        host.apply(topic_image("orders", topic_id=ZERO_TOPIC_ID))
        host.partition("orders").append(batch(), 1, NOW)
        host.directories.close()
        host.open()
        files.fail(Fault.on("write_file", "orders-0", errno.ENOSPC))
        host.partitions.apply(EMPTY, image(topic_image("orders")))
        assert host.partitions.why_missing("orders", 0) == ErrorCode.KAFKA_STORAGE_ERROR
        files.heal()
        asyncio.run(host.partitions.prepare(image(topic_image("orders")), image(topic_image("orders", 2))))
        asyncio.run(host.partitions.abandon())
        assert host.names() == ["orders-0"]


class TestFaultsOfOurs:
    def test_other_partitions_leave_when_one_cannot_be_taken_out_of_service(
        self, host: Host, caplog: pytest.LogCaptureFixture
    ) -> None:
        async def scenario() -> None:
            host.apply(topic_image("orders", 120))
            for index in (1, 100):  # in the turn of the change, and after it
                host.partition("orders", index).waiters[BrokenWaiter(1)] = None
            host.partitions.apply(host.image, EMPTY)
            await host.partitions.settle()

        asyncio.run(scenario())
        assert host.directories.logs == {}
        assert all(name.endswith("-delete") for name in host.names())
        assert [record.getMessage() for record in caplog.records if record.exc_info] == [
            "taking orders-1 out of service failed",
            "taking orders-100 out of service failed",
        ]

    def test_settings_reach_other_topics_when_those_of_one_cannot_be_read(
        self, host: Host, caplog: pytest.LogCaptureFixture
    ) -> None:
        host.apply(topic_image("a"), topic_image("b"))
        host.settings = UnreadableSettings("a", {"b": LogSettings(retention_ms=5)})
        host.partitions.apply(host.image, replace(host.image, default_broker_config={"log.retention.ms": "5"}))
        assert host.partition("b").log.settings.retention_ms == 5
        assert "reading the settings of a failed" in caplog.text


class TestPartition:
    def test_high_watermark_and_waiters_follow_when_a_lone_leader_appends(self, tmp_path: Path) -> None:
        async def scenario() -> None:
            partition = lone_partition(tmp_path / "log")
            waiting = Waiter(1).wait([partition], FOREVER_MS)
            result = partition.append(batch("a", "b"), 1, NOW)
            assert (result.base_offset, partition.log.high_watermark) == (0, 2)
            await asyncio.wait_for(waiting, 1)
            await asyncio.sleep(0)
            assert not partition.waiters

        asyncio.run(scenario())

    def test_high_watermark_stays_when_a_follower_is_in_sync(self, tmp_path: Path) -> None:
        partition = lone_partition(tmp_path / "log")
        partition.adopt(partition.state._replace(replicas=(1, 2), isr=(1, 2)))
        partition.append(batch(), -1, NOW)
        assert (partition.log.log_end_offset, partition.log.high_watermark) == (1, 0)

    def test_append_is_refused_when_too_few_replicas_are_in_sync_for_acks_all(self, tmp_path: Path) -> None:
        partition = lone_partition(tmp_path / "log", settings=LogSettings(min_insync_replicas=2))
        partition.adopt(partition.state._replace(replicas=(1, 2)))
        with pytest.raises(ApiError) as caught:
            partition.append(batch(), -1, NOW)
        assert code_of(caught) == ErrorCode.NOT_ENOUGH_REPLICAS
        assert partition.append(batch(), 1, NOW).base_offset == 0

    def test_append_is_taken_when_the_minimum_is_above_the_number_of_replicas(self, tmp_path: Path) -> None:
        partition = lone_partition(tmp_path / "log", settings=LogSettings(min_insync_replicas=2))
        assert partition.append(batch(), -1, NOW).base_offset == 0

    @pytest.mark.parametrize(
        ("epoch", "error"),
        [(3, ErrorCode.FENCED_LEADER_EPOCH), (5, ErrorCode.UNKNOWN_LEADER_EPOCH), (-2, ErrorCode.FENCED_LEADER_EPOCH)],
    )
    def test_reader_is_told_when_its_epoch_is_another(self, tmp_path: Path, epoch: int, error: ErrorCode) -> None:
        partition = lone_partition(tmp_path / "log")
        partition.state = partition.state._replace(leader_epoch=4)
        partition.check_leader_epoch(-1)
        partition.check_leader_epoch(4)
        with pytest.raises(ApiError) as caught:
            partition.check_leader_epoch(epoch)
        assert code_of(caught) == error

    def test_metrics_are_its_topics_when_partitions_share_one(self, host: Host) -> None:
        host.apply(topic_image("orders", 2))
        first, second = host.partition("orders", 0).metrics, host.partition("orders", 1).metrics
        assert first is second
        assert isinstance(first, TopicMetrics)


def test_replica_waits_until_it_is_out_of_sync_when_its_data_directory_is_gone(tmp_path: Path) -> None:
    host = Host(tmp_path)
    host.partitions.has_lost_directory = True
    topic = topic_image("orders", 2)
    in_sync = PartitionState(0, (NODE, 2), (2, NODE), 2)
    alone = PartitionState(1, (NODE,), (NODE,), NODE)
    host.apply(topic._replace(partitions=(in_sync, alone)))
    assert host.partitions.why_missing("orders", 0) == ErrorCode.KAFKA_STORAGE_ERROR
    assert host.names() == ["orders-1"]  # it has no other replica to fetch from
    out_of_sync = in_sync._replace(isr=(2,), partition_epoch=1)
    host.apply(topic._replace(partitions=(out_of_sync, alone)))
    assert host.partition("orders", 0).log.log_end_offset == 0
    assert host.partitions.without_log == set()
