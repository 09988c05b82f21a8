from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from threading import Event, Thread

from penstock.log.formats import names
from penstock.log.storage.files import Files, StrPath
from penstock.testing.disks.faulty_files import FaultyFiles
from tests.unit.log.support import NOW, SMALL, Disk, append, append_many, batch, read_all


class SlowRename(Files):
    """The rename of the epoch file waits on demand."""

    def __init__(self) -> None:
        self.is_slow = False
        self.arrived, self.go_on = Event(), Event()
        self.errors: list[OSError] = []

    def rename(self, source: StrPath, target: StrPath) -> None:
        if self.is_slow and str(target).endswith(names.LEADER_EPOCHS):
            self.arrived.set()
            assert self.go_on.wait(30)
        try:
            super().rename(source, target)
        except OSError as error:
            self.errors.append(error)
            raise


def synced(files: FaultyFiles) -> list[str]:
    return [Path(operation.path).name for operation in files.operations if operation.name == "sync"]


def test_no_fsync_happens_when_a_partition_begins_and_grows(tmp_path: Path) -> None:
    files = FaultyFiles()
    log = Disk(tmp_path, files).create()
    append_many(log, 50)
    assert synced(files) == []


def test_everything_new_is_synced_when_flushed(tmp_path: Path) -> None:
    files = FaultyFiles()
    disk = Disk(tmp_path, files)
    log = disk.create()
    append_many(log, 20)
    assert log.flushing.flush() == 20
    # The indexes of the active segment need not be durable: recovery builds them from the log.
    sealed_indexes = {*disk.names(".index")[:-1], *disk.names(".timeindex")[:-1]}
    expected = {*disk.names(".log"), *sealed_indexes, *disk.names(".snapshot"), names.LEADER_EPOCHS, tmp_path.name}
    # The partition's own name is new as well: its parent directory has to hold it.
    assert set(synced(files)) == expected | {tmp_path.parent.name}
    files.operations.clear()
    assert log.flushing.flush() == 20
    assert synced(files) == []
    append(log, batch("one more"))
    log.flushing.flush()
    assert synced(files) == [disk.names(".log")[-1]]


def test_older_epochs_stay_on_disk_until_a_flush_when_a_new_one_begins(tmp_path: Path) -> None:
    """Written at once the file would need an fsync on the event loop, or a power failure could take the older ones."""
    files = FaultyFiles()
    log = Disk(tmp_path, files).create()
    append(log, batch("a"))
    log.flushing.flush()
    older = (tmp_path / names.LEADER_EPOCHS).read_bytes()
    files.operations.clear()
    append(log, batch("b"), leader_epoch=1)
    assert (tmp_path / names.LEADER_EPOCHS).read_bytes() == older
    assert synced(files) == []
    log.flushing.flush()
    assert (tmp_path / names.LEADER_EPOCHS).read_bytes() == b"0\n2\n0 0\n1 1\n"
    assert tmp_path.name in synced(files)


def test_a_new_epoch_waits_for_the_next_flush_when_one_is_under_way(tmp_path: Path) -> None:
    log = Disk(tmp_path).create()
    append(log, batch("a"))
    log.flushing.flush()
    append(log, batch("b"), leader_epoch=1)
    flush = log.flushing.prepare()
    assert flush is not None
    append(log, batch("c"), leader_epoch=2)
    flush.run()
    log.flushing.mark_flushed(flush)
    log.flushing.flush()
    assert (tmp_path / names.LEADER_EPOCHS).read_bytes() == b"0\n3\n0 0\n1 1\n2 2\n"


def test_only_the_log_is_opened_and_written_when_a_partition_begins(tmp_path: Path) -> None:
    """The epoch file waits for the flush: the first append runs on the event loop."""
    files = FaultyFiles()
    disk = Disk(tmp_path, files)
    log = disk.create()
    files.operations.clear()
    append(log, batch("a"))
    append(log, batch("b"), leader_epoch=1)
    log_file = str(tmp_path / names.segment_file(0, names.LOG))
    assert {(each.name, each.path) for each in files.operations} == {("open", log_file), ("write", log_file)}
    log = disk.crash(log)
    assert (log.epochs.epoch_for_offset(0), log.epochs.epoch_for_offset(1)) == (0, 1)
    log.flushing.flush()
    assert (tmp_path / names.LEADER_EPOCHS).read_bytes() == b"0\n2\n0 0\n1 1\n"


def test_epochs_that_were_cut_off_stay_away_when_a_flush_was_under_way(tmp_path: Path) -> None:
    log = Disk(tmp_path).create()
    append(log, batch("a"))
    log.flushing.flush()
    append(log, batch("b"), leader_epoch=1)
    append(log, batch("c"), leader_epoch=2)
    flush = log.flushing.prepare()
    assert flush is not None
    log.truncate_to(2)
    flush.run()
    log.flushing.mark_flushed(flush)
    assert (tmp_path / names.LEADER_EPOCHS).read_bytes() == b"0\n2\n0 0\n1 1\n"


def test_cut_waits_for_the_epoch_file_when_a_flush_is_writing_it(tmp_path: Path) -> None:
    """Both write a temporary file of the same name first."""
    files = SlowRename()
    log = Disk(tmp_path, files).create()
    append(log, batch("a"))
    append(log, batch("b"), leader_epoch=1)
    flush = log.flushing.prepare()
    assert flush is not None
    files.is_slow = True
    flushing = Thread(target=flush.run)
    flushing.start()
    assert files.arrived.wait(30)
    files.is_slow = False
    cutting = Thread(target=log.truncate_to, args=(1,))
    cutting.start()
    files.go_on.set()
    flushing.join()
    cutting.join()
    assert files.errors == []
    assert (tmp_path / names.LEADER_EPOCHS).read_bytes() == b"0\n1\n0 0\n"


def test_epochs_are_found_again_when_a_crash_came_before_the_flush(tmp_path: Path) -> None:
    disk = Disk(tmp_path)
    log = disk.create()
    append(log, batch("a"))
    disk.recovery_point = log.flushing.flush()
    append(log, batch("b"), leader_epoch=3)
    log = disk.crash(log)
    assert log.epochs.epoch_for_offset(1) == 3
    assert log.epochs.epoch_for_offset(0) == 0


def test_appends_go_on_when_a_flush_runs_in_another_thread(tmp_path: Path) -> None:
    log = Disk(tmp_path).create()
    append_many(log, 20)
    flush = log.flushing.prepare()
    assert flush is not None
    thread = Thread(target=flush.run)
    thread.start()
    append_many(log, 20)
    thread.join()
    assert log.recovery_point == 0
    log.flushing.mark_flushed(flush, NOW + 1)
    assert (log.recovery_point, log.flushing.last_flush_ms) == (20, NOW + 1)
    assert len(read_all(log)) == 40


def test_a_flush_does_not_count_when_the_log_was_truncated_meanwhile(tmp_path: Path) -> None:
    log = Disk(tmp_path).create()
    append_many(log, 20)
    flush = log.flushing.prepare()
    assert flush is not None
    log.truncate_to(10)
    append_many(log, 15)
    flush.run()
    log.flushing.mark_flushed(flush)
    assert log.recovery_point == 0


def test_a_flush_succeeds_when_retention_removed_the_segment_meanwhile(tmp_path: Path) -> None:
    disk = Disk(tmp_path, settings=replace(SMALL, retention_ms=1, file_delete_delay_ms=0))
    log = disk.create()
    append_many(log, 30)
    flush = log.flushing.prepare()
    assert flush is not None
    log.apply_retention(NOW + 10**6)
    disk.deletes.remove_due(NOW + 10**7)
    assert flush.run() == 30
    log.flushing.mark_flushed(flush)
    assert log.recovery_point == 30


def test_a_flush_is_due_when_a_segment_was_sealed_or_time_is_up(tmp_path: Path) -> None:
    log = Disk(tmp_path, settings=replace(SMALL, flush_ms=100)).create()
    assert not log.flushing.is_due(NOW + 10**6)
    append(log, batch("a"))
    assert not log.flushing.is_due(NOW + 99)
    assert log.flushing.is_due(NOW + 100)
    log.flushing.flush()
    assert not log.flushing.is_due(NOW + 100)
    append_many(log, 20)
    assert log.flushing.is_due(NOW)
    assert log.flushing.prepare() is not None
    log.flushing.flush()
    assert log.flushing.prepare() is None


def test_leader_epochs_of_a_deleted_log_stay_out_of_its_successor_when_a_flush_ends_late(tmp_path: Path) -> None:
    disk = Disk(tmp_path / "orders-0")
    old = disk.create()
    old.append_as_leader(batch(), 0, NOW)
    old.flushing.flush()
    old.append_as_leader(batch(), 5, NOW)
    late = old.flushing.prepare()
    assert late is not None
    old.availability.mark_removed()
    old.close(clean=False)
    disk.directory.rename(tmp_path / "orders-0.a-delete")
    new = disk.create()
    append_many(new, 10)
    late.run()
    new = disk.crash(new)
    assert [entry.epoch for entry in new.epochs.entries] == [0]
