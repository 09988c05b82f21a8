"""A log changes its data directory while it serves."""

from __future__ import annotations

import errno
from dataclasses import replace
from pathlib import Path

import pytest

from penstock.log.compaction.log_compaction import clean_log
from penstock.log.directories.log_move import Ending
from penstock.log.formats import names
from penstock.log.formats.checkpoints import decode_offsets
from penstock.log.replica_copies.steps import RESERVED_BYTES
from penstock.log.storage.files import DiskSpace, StrPath
from penstock.protocol.errors import ApiError, ErrorCode
from penstock.testing.disks.memory import DiskFault, MemoryFiles
from tests.unit.log.compacted import COMPACTED, fill, read_keyed, roll
from tests.unit.log.moving_rig import NAME, A, B, MovingDisk
from tests.unit.log.support import (
    NOW,
    PARTITION,
    SMALL,
    TOPIC_ID,
    append,
    append_many,
    batch,
    contents,
    end_transaction,
    read_all,
    read_committed,
    sequenced,
    transactional,
)


def test_records_and_all_that_is_known_of_them_are_there_when_a_log_has_moved() -> None:
    disk = MovingDisk()
    log = disk.log
    append(log, *(sequenced(number) for number in range(12)), leader_epoch=1)
    append(log, transactional(0, 2, producer_id=8), leader_epoch=2)
    end_transaction(log, is_commit=False, producer_id=8)
    append(log, *(batch(f"late {number}", timestamp=NOW + number) for number in range(10)), leader_epoch=3)
    append(log, transactional(2, producer_id=8), leader_epoch=3)  # open
    log.delete_records_before(3)
    before = (read_all(log), read_committed(log, 3), log.offsets(), list(log.epochs.entries))
    move = disk.move()
    disk.run(move)
    assert (move.ending, log.directory, disk.places) == (Ending.MOVED, B / NAME, ["b"])
    assert (read_all(log), read_committed(log, 3), log.offsets(), list(log.epochs.entries)) == before
    assert log.append_as_leader(sequenced(11), 3, NOW).is_duplicate
    append(log, sequenced(12), leader_epoch=3)
    after = (read_all(log), read_committed(log, 3), log.log_start_offset, list(log.epochs.entries))
    for end in (disk.kill, disk.restart):
        log = end()
        assert (read_all(log), read_committed(log, 3), log.log_start_offset, list(log.epochs.entries)) == after
        assert log.append_as_leader(sequenced(12), 3, NOW).is_duplicate
        assert disk.places == ["b"]


def test_appends_while_a_log_is_copied_are_in_its_new_place() -> None:
    disk = MovingDisk()
    append_many(disk.log, 30)
    values = [f"meanwhile {number}" for number in range(200)]
    pending = iter(values)
    move = disk.move(step_bytes=200)
    disk.run(move, lambda: append(disk.log, batch(next(pending))))
    assert move.ending is Ending.MOVED
    written = [value for _, value in read_all(disk.log)][30:]
    assert written == values[: len(written)]
    assert len(written) > 5
    assert [value for _, value in read_all(disk.kill())][30:] == written


def test_slices_of_the_old_place_stay_readable_when_a_log_has_moved() -> None:
    disk = MovingDisk()
    append_many(disk.log, 20)
    slice_ = disk.log.reader.read(0, 500, 20, at_least_one=True)
    disk.run(disk.move())
    disk.directories.delayed_deletes.remove_due(NOW + SMALL.file_delete_delay_ms)
    assert disk.directories_of(A) == []
    assert contents(slice_) == contents(disk.log.reader.read(0, 500, 20, at_least_one=True))


def test_checkpoints_of_both_directories_are_right_when_a_log_has_moved() -> None:
    disk = MovingDisk()
    append_many(disk.log, 20)
    disk.log.delete_records_before(5)
    disk.run(disk.move())
    disk.directories.write_checkpoints()
    for path, expected in ((A, {}), (B, {PARTITION: 20})):
        assert decode_offsets(disk.files.read_file(path / names.RECOVERY_POINTS)) == expected
        assert decode_offsets(disk.files.read_file(path / names.HIGH_WATERMARKS)) == expected
    assert decode_offsets(disk.files.read_file(B / names.LOG_START_OFFSETS)) == {PARTITION: 5}


def test_log_start_and_recovery_point_hold_when_the_broker_is_killed_right_after_the_change() -> None:
    disk = MovingDisk()
    append_many(disk.log, 30)
    disk.log.delete_records_before(7)
    move = disk.move()
    for step in move.steps():
        if move.has_changed_over:
            break
        disk.do(step)
    assert disk.places == ["a", "b"]
    log = disk.kill()
    assert disk.places == ["b"]
    assert (log.log_start_offset, log.log_end_offset) == (7, 30)
    assert disk.directories.directories[B].recovery_points == {PARTITION: 30}


def test_copy_begins_anew_when_the_log_is_cut_and_written_again() -> None:
    disk = MovingDisk()
    append_many(disk.log, 40)
    move = disk.move(step_bytes=400)
    steps = move.steps()
    for _ in range(8):
        disk.do(next(steps))
    disk.log.truncate_to(10)
    append(disk.log, *(batch(f"other {number}") for number in range(35)), leader_epoch=1)
    expected = read_all(disk.log)
    for step in steps:
        disk.do(step)
    assert move.ending is Ending.MOVED
    assert read_all(disk.log) == expected
    assert read_all(disk.kill()) == expected


def test_log_is_not_cut_while_its_old_place_may_still_count() -> None:
    disk = MovingDisk()
    append_many(disk.log, 10)
    move = disk.move()
    for step in move.steps():
        if move.has_changed_over:
            with pytest.raises(ApiError) as caught:
                disk.log.truncate_to(5)
            assert caught.value.code == ErrorCode.REPLICA_NOT_AVAILABLE
        disk.do(step)
    disk.log.truncate_to(5)
    assert len(read_all(disk.log)) == 5


def test_segments_that_retention_deletes_are_not_in_the_new_place() -> None:
    disk = MovingDisk(replace(SMALL, retention_ms=10_000))
    append_many(disk.log, 40)
    append(disk.log, batch("young", timestamp=NOW + 20_000))
    move = disk.move(step_bytes=300)
    steps = move.steps()
    for _ in range(6):
        disk.do(next(steps))
    disk.log.apply_retention(NOW + 20_000)
    expected_segments = len(disk.log.segments)
    for step in steps:
        disk.do(step)
    logs = [name for name in disk.files.list_names(B / NAME) if name.endswith(names.LOG)]
    assert len(logs) == len(disk.log.segments) == expected_segments
    start = disk.log.log_start_offset
    assert disk.kill().log_start_offset == start


def test_compacted_segments_are_in_the_new_place_when_a_cleaning_comes_in_between() -> None:
    disk = MovingDisk(COMPACTED)
    fill(disk.log, 40)
    roll(disk.log)
    move = disk.move(step_bytes=1_000)
    steps = move.steps()
    for _ in range(6):
        disk.do(next(steps))
    clean_log(disk.log.compaction, NOW)
    expected = read_keyed(disk.log)
    for step in steps:
        disk.do(step)
    assert move.ending is Ending.MOVED
    assert read_keyed(disk.log) == expected
    cleaned_end = disk.log.compaction.cleaned_end
    log = disk.kill()
    assert read_keyed(log) == expected
    assert log.compaction.cleaned_end == cleaned_end


def test_log_stays_and_the_copy_goes_when_the_move_is_cancelled() -> None:
    disk = MovingDisk()
    append_many(disk.log, 30)
    move = disk.move(step_bytes=300)
    for number, step in enumerate(move.steps()):
        disk.do(step)
        move.is_wanted = number < 3
    assert (move.ending, disk.log.directory, disk.places) == (Ending.CANCELLED, A / NAME, ["a"])
    disk.directories.delayed_deletes.remove_due(NOW)
    assert disk.directories_of(B) == []
    assert disk.directories.standbys == {}
    assert len(read_all(disk.log)) == 30


def test_copy_and_both_places_go_when_the_partition_is_deleted() -> None:
    for deleted_at in range(40):
        disk = MovingDisk()
        append_many(disk.log, 15)
        move = disk.move(step_bytes=500)
        for number, step in enumerate(move.steps()):
            disk.do(step)
            if number == deleted_at:
                disk.directories.delete([PARTITION], NOW)
                append_many(disk.directories.create(PARTITION, bytes(16), SMALL), 1)
        disk.directories.delayed_deletes.remove_due(NOW + SMALL.file_delete_delay_ms)
        assert disk.directories.offline == {}
        is_deleted = move.ending is not Ending.MOVED
        assert len(disk.places) == 1
        assert sorted([*disk.directories_of(A), *disk.directories_of(B)]) == [NAME]
        disk.kill()
        assert len(disk.places) == 1
        if not is_deleted:
            return
    raise AssertionError("the move was never over")


def test_target_goes_offline_and_the_log_stays_when_the_disk_refuses_the_copy() -> None:
    for code, is_offline in ((errno.EIO, True), (errno.ENOSPC, False)):
        disk = MovingDisk()
        append_many(disk.log, 15)

        def refuse(name: str, path: str, code: int = code) -> None:
            if name == "write" and names.FUTURE_DIRECTORY in path:
                raise DiskFault(code, "no", path)

        disk.files.check = refuse
        move = disk.move()
        disk.run(move)
        assert (move.ending, disk.log.offline_reason, disk.places) == (Ending.FAILED, None, ["a"])
        assert (B in disk.directories.offline) == is_offline
        assert len(read_all(disk.log)) == 15


class SmallDisk(MemoryFiles):
    usable_bytes = 0

    def space(self, path: StrPath) -> DiskSpace:
        return DiskSpace(2**40, self.usable_bytes)


def test_log_stays_and_nothing_is_written_when_the_disk_has_no_room_for_all_of_it() -> None:
    for usable_bytes, ending in ((RESERVED_BYTES + 500, Ending.FAILED), (RESERVED_BYTES + 5_000, Ending.MOVED)):
        files = SmallDisk()
        disk = MovingDisk(files=files)
        append_many(disk.log, 15)
        assert 500 < disk.log.size < 5_000
        files.usable_bytes = usable_bytes
        move = disk.move()
        disk.run(move)
        assert (move.ending, disk.directories.offline, disk.log.offline_reason) == (ending, {}, None)
        assert move.copy.size == (disk.log.size if ending is Ending.MOVED else 0)


def test_log_can_come_back_when_it_has_moved_away() -> None:
    disk = MovingDisk()
    append_many(disk.log, 15)
    for target in (B, A, B):
        disk.run(disk.move(target))
        append(disk.log, batch(f"in {target}"))
        assert disk.log.directory == target / NAME
    assert disk.directories.log_counts == {A: 0, B: 1}
    assert len(read_all(disk.kill())) == 18
    assert disk.places == ["b"]


def test_new_place_counts_when_the_old_directory_was_away_and_returns() -> None:
    disk = MovingDisk()
    append_many(disk.log, 15)
    move = disk.move()
    for step in move.steps():
        if move.has_changed_over:
            break
        disk.do(step)
    disk.files = disk.files.after_kill()

    def refuse(name: str, path: str) -> None:
        if path.startswith(str(A)):
            raise DiskFault(errno.EIO, "gone", path)

    disk.files.check = refuse
    log = disk.start()
    assert A in disk.directories.offline
    log.truncate_to(5)
    disk.files.check = None
    assert len(read_all(disk.kill())) == 5
    assert disk.places == ["b"]


def test_partition_alone_is_offline_when_one_of_two_directories_of_an_unfinished_move_cannot_be_read() -> None:
    for unreadable in (A, B):
        disk = MovingDisk()
        append_many(disk.log, 15)
        move = disk.move()
        for step in move.steps():
            if move.has_changed_over:
                break
            disk.do(step)
        disk.files = disk.files.after_kill()

        def refuse(name: str, path: str, unreadable: Path = unreadable) -> None:
            if name == "list" and path == str(unreadable / NAME):
                raise DiskFault(errno.EIO, "gone", path)

        disk.files.check = refuse
        log = disk.start()
        assert "gone" in (log.offline_reason or "")
        assert (disk.directories.offline, disk.places) == ({}, ["a", "b"])
        disk.directories.close()
        assert not any(disk.files.exists(path / names.CLEAN_SHUTDOWN) for path in (A, B))
        disk.files.check = None
        assert len(read_all(disk.start())) == 15
        assert disk.places == ["b"]


def test_start_is_refused_when_two_logs_of_one_partition_are_not_those_of_a_move() -> None:
    disk = MovingDisk()
    append_many(disk.log, 3)
    disk.directories.close()
    disk.files.make_directory(B / NAME)
    for name in disk.files.list_names(A / NAME):
        disk.files.write_file(B / NAME / name, disk.files.read_file(A / NAME / name))
    with pytest.raises(Exception, match="remove the older of the two"):
        disk.restart()


def test_new_partitions_count_copies_when_they_are_placed() -> None:
    disk = MovingDisk()
    move = disk.move()
    steps = move.steps()
    next(steps)
    assert disk.directories.log_counts == {A: 1, B: 1}
    other = PARTITION._replace(partition=1)
    assert disk.directories.create(other, TOPIC_ID, SMALL).directory.parent == A
