from __future__ import annotations

from pathlib import Path

import pytest

from penstock.protocol.errors import ApiError, ErrorCode
from tests.unit.log.support import NOW, Disk, append, append_many, batch, read_all, sequenced


def from_leader(base_offset: int, *values: str, epoch: int = 0) -> bytes:
    return batch(*values, base_offset=base_offset, leader_epoch=epoch)


def test_offsets_stay_as_the_leader_gave_them_when_a_follower_appends(tmp_path: Path) -> None:
    log = Disk(tmp_path).create()
    log.append_as_follower(from_leader(0, "a", "b") + from_leader(2, "c", epoch=1) + from_leader(10, "d", epoch=4), NOW)
    assert read_all(log) == [(0, "a"), (1, "b"), (2, "c"), (10, "d")]
    assert log.log_end_offset == 11
    assert log.epochs.end_offset_for(0, log.log_end_offset) == (0, 2)
    assert log.epochs.end_offset_for(1, log.log_end_offset) == (1, 10)
    assert log.epochs.end_offset_for(3, log.log_end_offset) == (1, 10)
    assert log.epochs.end_offset_for(4, log.log_end_offset) == (4, 11)
    assert log.epochs.end_offset_for(5, log.log_end_offset) == (-1, -1)


def test_a_cut_batch_is_left_out_when_the_fetch_ended_inside_it(tmp_path: Path) -> None:
    log = Disk(tmp_path).create()
    log.append_as_follower(from_leader(0, "a") + from_leader(1, "b")[:-3], NOW)
    assert read_all(log) == [(0, "a")]
    assert log.append_as_follower(b"", NOW).last_offset == 0


@pytest.mark.parametrize(
    "data",
    [
        from_leader(0, "a") + from_leader(0, "again"),
        from_leader(5, "a") + from_leader(3, "back"),
        from_leader(0, "a")[:-2] + b"xx",
        b"\x00" * 100,
    ],
)
def test_nothing_is_stored_when_the_leader_sends_nonsense(tmp_path: Path, data: bytes) -> None:
    log = Disk(tmp_path).create()
    with pytest.raises(ApiError) as caught:
        log.append_as_follower(data, NOW)
    assert caught.value.code == ErrorCode.CORRUPT_MESSAGE
    assert (log.log_end_offset, log.size) == (0, 0)


def test_a_segment_begins_when_offsets_no_longer_fit_the_index(tmp_path: Path) -> None:
    disk = Disk(tmp_path)
    log = disk.create()
    log.append_as_follower(from_leader(0, "a"), NOW)
    log.append_as_follower(from_leader(2**31 - 1, "fits"), NOW)
    log.append_as_follower(from_leader(2**31 + 5, "too far"), NOW)
    assert disk.names(".log") == ["00000000000000000000.log", "00000000002147483648.log"]
    assert read_all(log) == [(0, "a"), (2**31 - 1, "fits"), (2**31 + 5, "too far")]
    assert read_all(disk.reopen(log)) == [(0, "a"), (2**31 - 1, "fits"), (2**31 + 5, "too far")]


def test_everything_after_the_offset_goes_when_a_follower_truncates(tmp_path: Path) -> None:
    disk = Disk(tmp_path)
    log = disk.create()
    append_many(log, 50)
    assert len(log.segments) > 3
    log.truncate_to(20)
    assert read_all(log) == [(index, f"value-{index:06d}") for index in range(20)]
    assert (log.log_end_offset, log.high_watermark) == (20, 20)
    append_many(log, 5)
    expected = [(index, f"value-{index if index < 20 else index - 20:06d}") for index in range(25)]
    assert read_all(log) == expected
    assert read_all(disk.reopen(log)) == expected


def test_the_whole_batch_goes_when_truncation_hits_its_middle(tmp_path: Path) -> None:
    log = Disk(tmp_path).create()
    log.append_as_leader(batch("a", "b", "c"), 0, NOW)
    log.append_as_leader(batch("d", "e"), 0, NOW)
    log.truncate_to(4)
    assert log.log_end_offset == 3


def test_epochs_and_producers_are_forgotten_when_their_batches_are_truncated(tmp_path: Path) -> None:
    disk = Disk(tmp_path)
    log = disk.create()
    for sequence in range(30):
        log.append_as_leader(sequenced(sequence), sequence // 10, NOW)
    log.truncate_to(15)
    assert log.epochs.latest == 1
    assert log.epochs.end_offset_for(1, log.log_end_offset) == (1, 15)
    assert [entry.last_sequence for entry in log.producers.active()] == [14]
    log.append_as_leader(sequenced(15), 1, NOW)
    assert log.log_end_offset == 16


def test_the_log_begins_anew_when_it_is_truncated_below_its_start(tmp_path: Path) -> None:
    disk = Disk(tmp_path)
    disk.log_start_offset = 100
    log = disk.create()
    append_many(log, 5)
    log.truncate_to(40)
    assert (log.log_start_offset, log.log_end_offset, log.high_watermark) == (40, 40, 40)
    log.append_as_follower(from_leader(40, "a"), NOW)
    assert read_all(log) == [(40, "a")]
    assert disk.names(".log") == ["00000000000000000040.log"]


def test_whole_segments_are_left_to_a_thread_when_a_log_is_cut_or_starts_over(tmp_path: Path) -> None:
    """To remove a gigabyte held the event loop for a third of a second."""
    disk = Disk(tmp_path)
    log = disk.create()
    append_many(log, 60)
    before = disk.names(".log")
    log.truncate_to(15, NOW)
    kept = disk.names(".log")
    assert disk.names(".log.deleted") == [f"{name}.deleted" for name in before if name not in kept] != []
    log.start_over(90, NOW)
    assert disk.names(".log") == ["00000000000000000090.log"]
    disk.deletes.remove_due(NOW)
    assert disk.names(".deleted") == []
    append(log, batch("next"))
    assert read_all(disk.crash(log)) == [(90, "next")]
