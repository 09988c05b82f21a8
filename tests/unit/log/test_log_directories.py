from __future__ import annotations

import errno
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from penstock.core.log_settings import LogSettings
from penstock.core.types import TopicPartition
from penstock.log.directories.checkpoint_write import CheckpointCapture
from penstock.log.directories.log_directories import LogDirectories, LogDirectoryError
from penstock.log.directories.partition_directories import NewPartition
from penstock.log.formats import names
from penstock.log.formats.checkpoints import decode_offsets
from penstock.log.storage.files import Files
from penstock.protocol.errors import ApiError, ErrorCode
from penstock.testing.disks.faulty_files import Fault, FaultyFiles
from tests.unit.log.support import NOW, SMALL, TOPIC_ID, append, append_many, batch, contents, read_all

CLUSTER = "MkU3OEVBNTcwNTJENDM2Qg"


class FixedClock:
    def now_ms(self) -> int:
        return NOW

    def monotonic_ms(self) -> int:
        return NOW


def opened(
    *paths: Path,
    files: Files | None = None,
    node_id: int = 1,
    cluster_id: str = CLUSTER,
    settings_for: Callable[[str], LogSettings] = lambda topic: SMALL,
    max_open_files: int = 100,
) -> LogDirectories:
    return LogDirectories.open(
        paths,
        node_id=node_id,
        cluster_id=cluster_id,
        settings_for=settings_for,
        clock=FixedClock(),
        files=files or Files(),
        max_open_files=max_open_files,
    )


def partition(number: int, topic: str = "orders") -> TopicPartition:
    return TopicPartition(topic, number)


def filled(directories: LogDirectories, count: int = 3) -> None:
    for number in range(count):
        append_many(directories.create(partition(number), TOPIC_ID, SMALL), 20)


def test_logs_come_back_when_the_directory_is_opened_again(tmp_path: Path) -> None:
    directories = opened(tmp_path)
    filled(directories)
    directories.close()
    assert (tmp_path / names.CLEAN_SHUTDOWN).read_bytes() == b'{"version":0,"brokerEpoch":-1}'
    directories = opened(tmp_path)
    assert not (tmp_path / names.CLEAN_SHUTDOWN).exists()
    assert sorted(directories.logs) == [partition(0), partition(1), partition(2)]
    for log in directories.logs.values():
        assert (log.topic_id, log.high_watermark, log.recovery_point) == (TOPIC_ID, 20, 20)
        assert len(read_all(log)) == 20
    directories.close()


def test_the_files_of_a_directory_are_kafkas_when_closed(tmp_path: Path) -> None:
    directories = opened(tmp_path, node_id=4)
    filled(directories, 2)
    directories.logs[partition(1)].delete_records_before(7)
    directories.close()
    properties = (tmp_path / names.META_PROPERTIES).read_text().splitlines()
    assert properties[:4] == ["#", "version=1", "node.id=4", f"cluster.id={CLUSTER}"]
    assert len(properties[4].removeprefix("directory.id=")) == 22
    assert (tmp_path / names.RECOVERY_POINTS).read_text() == "0\n2\norders 0 20\norders 1 20\n"
    assert (tmp_path / names.HIGH_WATERMARKS).read_text() == "0\n2\norders 0 20\norders 1 20\n"
    assert (tmp_path / names.LOG_START_OFFSETS).read_text() == "0\n1\norders 1 7\n"
    directory_id = properties[4]
    directories = opened(tmp_path, node_id=4)
    assert directories.logs[partition(1)].log_start_offset == 7
    directories.close()
    assert (tmp_path / names.META_PROPERTIES).read_text().splitlines()[4] == directory_id


def test_a_second_opener_is_told_when_the_directory_is_in_use(tmp_path: Path) -> None:
    directories = opened(tmp_path)
    with pytest.raises(LogDirectoryError, match="in use by another broker"):
        opened(tmp_path)
    directories.close()
    opened(tmp_path).close()


def test_a_new_directory_is_nobodys_again_when_its_first_broker_does_not_start(tmp_path: Path) -> None:
    known, new = tmp_path / "known", tmp_path / "new"
    opened(known).close()
    directories = opened(known, new)
    for directory in directories.directories.values():
        directory.give_back()
    directories.close(clean=False)
    assert (known / names.META_PROPERTIES).exists()
    opened(new, node_id=2).close()
    with pytest.raises(LogDirectoryError, match="belongs to node 2"):
        opened(known, new)


@pytest.mark.parametrize(
    ("node_id", "cluster_id", "message"), [(2, CLUSTER, "belongs to node 1"), (1, "other", "belongs to cluster")]
)
def test_a_directory_is_refused_when_it_is_somebody_elses(
    tmp_path: Path, node_id: int, cluster_id: str, message: str
) -> None:
    opened(tmp_path).close()
    with pytest.raises(LogDirectoryError, match=message):
        opened(tmp_path, node_id=node_id, cluster_id=cluster_id)
    opened(tmp_path).close()


@pytest.mark.parametrize("content", ["", "version=0\nbroker.id=1\n", "version=1\nnode.id=1\n", "nonsense"])
def test_a_directory_is_refused_when_its_meta_properties_are_damaged(tmp_path: Path, content: str) -> None:
    (tmp_path / names.META_PROPERTIES).write_text(content)
    with pytest.raises(LogDirectoryError, match="cannot be read"):
        opened(tmp_path)


def test_partitions_spread_evenly_when_there_are_several_directories(tmp_path: Path) -> None:
    first, second = tmp_path / "a", tmp_path / "b"
    directories = opened(first, second)
    filled(directories, 6)
    assert len(list(first.glob("orders-*"))) == len(list(second.glob("orders-*"))) == 3
    directories.close()
    directories = opened(first, second)
    assert len(directories.logs) == 6
    directories.close()


def test_opening_fails_when_a_partition_is_in_two_directories(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name / "orders-0").mkdir(parents=True)
    with pytest.raises(LogDirectoryError, match="remove the older"):
        opened(tmp_path / "a", tmp_path / "b")


def test_a_partition_is_not_created_twice_when_it_exists(tmp_path: Path) -> None:
    directories = opened(tmp_path)
    filled(directories, 1)
    with pytest.raises(ApiError, match="exists already"):
        directories.create(partition(0), TOPIC_ID, SMALL)
    directories.close()


def test_records_survive_when_the_process_was_killed(tmp_path: Path) -> None:
    directories = opened(tmp_path)
    filled(directories)
    directories.close(clean=False)
    directories = opened(tmp_path)
    for log in directories.logs.values():
        assert (log.log_end_offset, log.high_watermark, log.recovery_point) == (20, 0, 0)
        assert len(read_all(log)) == 20
    directories.close()


def test_damaged_checkpoints_cost_time_but_no_data_when_opened(tmp_path: Path) -> None:
    directories = opened(tmp_path)
    filled(directories)
    directories.close()
    for name in (names.RECOVERY_POINTS, names.HIGH_WATERMARKS, names.LOG_START_OFFSETS):
        (tmp_path / name).write_bytes(b"\xff\x00 nonsense")
    (tmp_path / names.CLEAN_SHUTDOWN).unlink()
    directories = opened(tmp_path)
    assert all(len(read_all(log)) == 20 for log in directories.logs.values())
    directories.close()


def test_other_directories_are_left_alone_when_they_are_no_partitions(tmp_path: Path) -> None:
    for name in ("lost+found", "orders-0.b1946ac92492d2347c6235b4d2611184-future", "notes", "x-y"):
        (tmp_path / name).mkdir()
    directories = opened(tmp_path)
    assert directories.logs == {}
    directories.close()
    assert (tmp_path / "notes").exists()


def test_files_go_later_when_a_partition_is_deleted(tmp_path: Path) -> None:
    directories = opened(tmp_path)
    filled(directories, 1)
    log = directories.logs[partition(0)]
    slice_ = log.reader.read(0, 10**6, 20, True)
    before = contents(slice_)
    directories.delete([partition(0)], NOW)
    directories.delete([partition(0)], NOW)
    assert partition(0) not in directories.logs
    with pytest.raises(ApiError) as caught:
        log.append_as_leader(batch("late"), 0, NOW)
    assert caught.value.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    (gone,) = tmp_path.glob("*-delete")
    append(directories.create(partition(0), bytes(16), SMALL), batch("new"))
    directories.delayed_deletes.remove_due(NOW + SMALL.file_delete_delay_ms - 1)
    assert gone.exists()
    assert contents(slice_) == before
    directories.delayed_deletes.remove_due(NOW + SMALL.file_delete_delay_ms)
    assert not gone.exists()
    assert read_all(directories.logs[partition(0)]) == [(0, "new")]
    directories.close()


def test_the_name_is_free_when_a_retired_partition_was_renamed_in_a_thread(tmp_path: Path) -> None:
    files = FaultyFiles()
    directories = opened(tmp_path, files=files)
    filled(directories, 1)
    files.operations.clear()
    directories.retire(partition(0), NOW)
    assert not [each for each in files.operations if each.name in ("rename", "sync")], "nothing is done to the disk"
    renames = directories.prepare_renames()
    assert renames is not None
    in_a_thread(renames.run)
    directories.settle_renames(renames)
    touched = [(each.name, each.thread_id) for each in files.operations if each.name in ("rename", "sync")]
    assert [name for name, _ in touched] == ["rename", "sync"]
    assert threading.get_ident() not in {thread_id for _, thread_id in touched}
    assert directories.prepare_renames() is None
    append(directories.create(partition(0), bytes(16), SMALL), batch("new"))
    directories.delayed_deletes.remove_due(NOW + SMALL.file_delete_delay_ms)
    assert list(tmp_path.glob("*-delete")) == []
    directories.close()


def test_directories_are_made_in_a_thread_when_partitions_come(tmp_path: Path) -> None:
    files = FaultyFiles()
    directories = opened(tmp_path / "a", tmp_path / "b", files=files)
    files.operations.clear()
    creation = directories.prepare_creation([NewPartition(partition(number), TOPIC_ID) for number in range(4)])
    assert creation is not None
    in_a_thread(creation.run)
    directories.settle_creation(creation)
    logs = [directories.create(partition(number), TOPIC_ID, SMALL) for number in range(4)]
    assert [log.directory.parent.name for log in logs] == ["a", "b", "a", "b"]
    makers = {each.thread_id for each in files.operations if each.name in ("make_directory", "write_file")}
    assert makers
    assert threading.get_ident() not in makers
    for log in logs:
        append(log, batch("a"))
    directories.close()


def test_nothing_is_tried_twice_when_no_directory_takes_a_partition(tmp_path: Path) -> None:
    files = FaultyFiles(Fault.on("write_file", "orders-5", errno.ENOSPC))
    directories = opened(tmp_path, files=files)
    creation = directories.prepare_creation([NewPartition(partition(5), TOPIC_ID)])
    assert creation is not None
    creation.run()
    directories.settle_creation(creation)
    files.operations.clear()
    with pytest.raises(ApiError) as caught:
        directories.create(partition(5), TOPIC_ID, SMALL)
    assert caught.value.code == ErrorCode.KAFKA_STORAGE_ERROR
    assert files.operations == []
    assert not (tmp_path / "orders-5").exists()
    directories.close()


def in_a_thread(work: Callable[[], None]) -> None:
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()


def test_a_half_deleted_partition_goes_when_the_broker_starts_again(tmp_path: Path) -> None:
    directories = opened(tmp_path)
    filled(directories, 1)
    directories.delete([partition(0)], NOW)
    directories.close()
    directories = opened(tmp_path)
    assert directories.logs == {}
    directories.delayed_deletes.remove_due(NOW)
    assert list(tmp_path.glob("*-delete")) == []
    directories.close()


def test_a_long_topic_name_fits_when_its_partition_is_deleted(tmp_path: Path) -> None:
    directories = opened(tmp_path)
    directories.create(partition(0, "t" * 249), TOPIC_ID, SMALL)
    directories.delete([partition(0, "t" * 249)], NOW)
    assert len(list(tmp_path.glob("*-delete"))) == 1
    directories.close()


# ---- failures


def test_only_the_broken_partition_is_offline_when_its_files_cannot_be_loaded(tmp_path: Path) -> None:
    directories = opened(tmp_path)
    filled(directories)
    directories.close()
    directories = opened(tmp_path, files=FaultyFiles(Fault.on("list", "orders-1")))
    assert list(directories.offline_logs) == [partition(1)]
    assert directories.offline == {}
    with pytest.raises(ApiError) as caught:
        directories.logs[partition(1)].reader.read(0, 10, 10, True)
    assert caught.value.code == ErrorCode.KAFKA_STORAGE_ERROR
    assert len(read_all(directories.logs[partition(2)])) == 20
    directories.close()
    assert not (tmp_path / names.CLEAN_SHUTDOWN).exists()
    directories = opened(tmp_path)
    assert len(read_all(directories.logs[partition(1)])) == 20
    directories.close()


def test_the_others_go_on_when_one_directory_cannot_be_opened(tmp_path: Path) -> None:
    files = FaultyFiles(Fault.on("lock", "bad", errno.EROFS))
    directories = opened(tmp_path / "bad", tmp_path / "good", files=files)
    assert list(directories.offline) == [tmp_path / "bad"]
    filled(directories)
    assert {log.directory.parent for log in directories.logs.values()} == {tmp_path / "good"}
    directories.close()


def test_opening_fails_when_no_directory_can_be_used(tmp_path: Path) -> None:
    with pytest.raises(LogDirectoryError, match="no data directory can be used"):
        opened(tmp_path / "bad", files=FaultyFiles(Fault.on("make_directory", error=errno.EACCES)))


def test_another_directory_takes_the_partition_when_the_first_fails(tmp_path: Path) -> None:
    files = FaultyFiles()
    directories = opened(tmp_path / "a", tmp_path / "b", files=files)
    filled(directories, 2)
    files.fail(Fault.on("make_directory", "/a/"))
    log = directories.create(partition(9), TOPIC_ID, SMALL)
    assert log.directory.parent == tmp_path / "b"
    assert list(directories.offline) == [tmp_path / "a"]
    assert len(directories.offline_logs) == 1
    directories.close()
    assert not (tmp_path / "a" / names.CLEAN_SHUTDOWN).exists()
    assert (tmp_path / "b" / names.CLEAN_SHUTDOWN).exists()


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EMFILE, errno.ENFILE, errno.ENOMEM])
def test_the_directory_stays_online_when_it_is_only_full_or_nothing_can_be_opened(tmp_path: Path, error: int) -> None:
    files = FaultyFiles()
    directories = opened(tmp_path, files=files)
    filled(directories, 1)
    for operation in ("make_directory", "write_file", "create"):
        files.heal()
        files.fail(Fault.on(operation, "orders-5", error))
        with pytest.raises(ApiError) as caught:
            directories.create(partition(5), TOPIC_ID, SMALL)
        assert caught.value.code == ErrorCode.KAFKA_STORAGE_ERROR
        assert not (tmp_path / "orders-5").exists()
    assert directories.offline == {}
    files.heal()
    append(directories.create(partition(5), TOPIC_ID, SMALL), batch("a"))
    directories.close()


def test_other_partitions_go_on_when_one_meets_a_full_disk(tmp_path: Path) -> None:
    files = FaultyFiles()
    directories = opened(tmp_path, files=files)
    filled(directories)
    files.fail(Fault.on("write", "orders-1", errno.ENOSPC, partial_bytes=30))
    with pytest.raises(ApiError):
        directories.logs[partition(1)].append_as_leader(batch("a"), 0, NOW)
    append(directories.logs[partition(0)], batch("a"))
    assert list(directories.offline_logs) == [partition(1)]
    files.heal()
    directories.close()
    directories = opened(tmp_path)
    append(directories.logs[partition(1)], batch("back again"))
    assert len(read_all(directories.logs[partition(1)])) == 21
    directories.close()


def test_the_directory_goes_offline_when_its_checkpoints_cannot_be_written(tmp_path: Path) -> None:
    files = FaultyFiles()
    directories = opened(tmp_path / "a", tmp_path / "b", files=files)
    filled(directories, 4)
    files.fail(Fault.on("write_file", "/a/recovery-point"))
    directories.write_checkpoints()
    assert list(directories.offline) == [tmp_path / "a"]
    assert len(directories.offline_logs) == 2
    assert (tmp_path / "b" / names.HIGH_WATERMARKS).exists()
    directories.close()


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EMFILE, errno.ENFILE, errno.ENOMEM])
def test_checkpoints_are_tried_again_when_the_disk_was_full_or_nothing_could_be_opened(
    tmp_path: Path, error: int
) -> None:
    files = FaultyFiles()
    directories = opened(tmp_path, files=files)
    filled(directories, 2)
    files.fail(Fault.on("write_file", "checkpoint", error))
    write = directories.prepare_checkpoints()
    assert write is not None
    write.run()
    files.heal()
    directories.write_checkpoints()
    assert directories.offline == {}
    assert (tmp_path / names.HIGH_WATERMARKS).read_text() == "0\n2\norders 0 20\norders 1 20\n"
    directories.close()


def test_a_failed_write_in_another_thread_is_noticed_when_the_next_is_prepared(tmp_path: Path) -> None:
    files = FaultyFiles()
    directories = opened(tmp_path, files=files)
    filled(directories, 1)
    files.fail(Fault.on("write_file", "checkpoint"))
    write = directories.prepare_checkpoints()
    assert write is not None
    write.run()
    assert directories.offline == {}
    assert directories.prepare_checkpoints() is None
    assert list(directories.offline) == [tmp_path]
    directories.close()


def test_a_new_log_is_not_taken_for_durable_when_its_namesake_was_deleted_meanwhile(tmp_path: Path) -> None:
    directories = opened(tmp_path)
    filled(directories, 2)
    for log in directories.logs.values():
        log.flushing.flush()
    capture = CheckpointCapture()
    for log in directories.logs.values():
        capture.add(log)
    directories.delete([partition(0)], NOW)
    append(directories.create(partition(0), TOPIC_ID, SMALL), batch("new"))
    directories.begin_checkpoints(capture).run()
    assert decode_offsets((tmp_path / names.RECOVERY_POINTS).read_bytes()) == {partition(1): 20}
    directories.close()


def test_checkpoints_are_written_only_when_something_changed(tmp_path: Path) -> None:
    files = FaultyFiles()
    directories = opened(tmp_path, files=files)
    filled(directories, 1)
    write = directories.prepare_checkpoints()
    assert write is not None
    assert {content.name for content in write.contents} == {
        names.RECOVERY_POINTS,
        names.LOG_START_OFFSETS,
        names.HIGH_WATERMARKS,
        names.CLEANER_OFFSETS,
    }
    write.run()
    assert directories.prepare_checkpoints() is None
    append(directories.logs[partition(0)], batch("a"))
    write = directories.prepare_checkpoints()
    assert write is not None
    assert [content.name for content in write.contents] == [names.HIGH_WATERMARKS]
    directories.close()


def test_sealed_segments_are_due_for_a_flush_when_asked(tmp_path: Path) -> None:
    directories = opened(tmp_path)
    filled(directories, 2)
    append(directories.create(partition(7), TOPIC_ID, SMALL), batch("a"))
    due = [log for log in directories.logs.values() if log.flushing.is_due(NOW)]
    assert [log.topic_partition for log in due] == [partition(0), partition(1)]
    for log in due:
        log.flushing.flush()
    assert not any(log.flushing.is_due(NOW) for log in directories.logs.values())
    directories.close()


def test_few_files_stay_open_when_there_are_many_partitions(tmp_path: Path) -> None:
    directories = opened(tmp_path, max_open_files=4)
    filled(directories, 20)
    assert len(directories._resources.log_files) <= 4
    for log in directories.logs.values():
        assert len(read_all(log)) == 20
        append_many(log, 5)
    assert len(directories._resources.log_files) <= 4
    directories.close()
    directories = opened(tmp_path, max_open_files=4, settings_for=lambda topic: replace(SMALL))
    assert all(len(read_all(log)) == 25 for log in directories.logs.values())
    directories.close()
