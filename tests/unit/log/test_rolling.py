from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from penstock.core.log_settings import LogSettings
from tests.unit.log.support import NOW, SMALL, Disk, append, append_many, batch, read_all


def segments_after(tmp_path: Path, settings: LogSettings, *timestamps: int) -> list[str]:
    disk = Disk(tmp_path, settings=settings)
    log = disk.create()
    for timestamp in timestamps:
        append(log, batch("a", timestamp=timestamp))
    return [name.removesuffix(".log").lstrip("0") or "0" for name in disk.names(".log")]


def test_a_segment_begins_when_the_batch_does_not_fit_the_old_one(tmp_path: Path) -> None:
    size = len(batch("a"))
    assert segments_after(tmp_path / "fits", replace(SMALL, segment_bytes=2 * size), NOW, NOW) == ["0"]
    assert segments_after(tmp_path / "full", replace(SMALL, segment_bytes=2 * size), NOW, NOW, NOW) == ["0", "2"]


def test_a_segment_begins_when_the_first_batch_is_older_than_segment_ms(tmp_path: Path) -> None:
    settings = replace(SMALL, segment_ms=100)
    assert segments_after(tmp_path, settings, NOW, NOW + 100, NOW + 50, NOW + 101, NOW + 102) == ["0", "3"]


def test_the_first_batch_is_read_back_when_the_segment_was_loaded(tmp_path: Path) -> None:
    disk = Disk(tmp_path, settings=replace(SMALL, segment_ms=100))
    log = disk.create()
    append(log, batch("a", timestamp=NOW))
    log = disk.reopen(log)
    append(log, batch("b", timestamp=NOW + 101))
    assert len(log.segments) == 2


def test_the_brokers_clock_counts_when_batches_carry_no_timestamp(tmp_path: Path) -> None:
    disk = Disk(tmp_path, settings=replace(SMALL, segment_ms=100))
    log = disk.create()
    append(log, batch("a", timestamp=-1), now_ms=NOW + 50)
    append(log, batch("b", timestamp=-1), now_ms=NOW + 100)
    assert len(log.segments) == 1
    append(log, batch("c", timestamp=-1), now_ms=NOW + 101)
    assert len(log.segments) == 2


def test_segments_begin_earlier_but_never_later_when_jitter_is_set(tmp_path: Path) -> None:
    settings = replace(SMALL, segment_ms=1000, segment_jitter_ms=500)
    assert segments_after(tmp_path, settings, NOW, NOW + 1001) == ["0", "1"]
    assert segments_after(tmp_path / "b", settings, NOW, NOW + 499) == ["0"]


def test_a_segment_begins_when_an_index_is_full(tmp_path: Path) -> None:
    # room for two entries; the time index keeps one of its own for sealing
    settings = replace(SMALL, segment_bytes=10**6, index_interval_bytes=0, segment_index_bytes=24)
    assert segments_after(tmp_path, settings, *(NOW + index for index in range(5))) == ["0", "2", "4"]


def test_each_segment_has_its_files_when_a_new_one_begins(tmp_path: Path) -> None:
    disk = Disk(tmp_path)
    log = disk.create()
    append_many(log, 30)
    segments = [name.removesuffix(".log") for name in disk.names(".log")]
    assert [name.removesuffix(".index") for name in disk.names(".index")] == segments
    assert [name.removesuffix(".timeindex") for name in disk.names(".timeindex")] == segments
    begun = [name.removesuffix(".log") for name in disk.names(".log")[1:]]
    assert [name.removesuffix(".snapshot") for name in disk.names(".snapshot")] == begun
    assert log.flushing.has_unflushed_segments


def test_preallocated_space_is_cut_off_when_a_segment_is_sealed(tmp_path: Path) -> None:
    disk = Disk(tmp_path, settings=replace(SMALL, preallocate=True))
    log = disk.create()
    append(log, batch("a"))
    assert disk.log_file().stat().st_size == 1000
    append_many(log, 20)
    assert disk.log_file().stat().st_size < 1000
    expected = read_all(log)
    assert read_all(disk.reopen(log)) == expected
    log = disk.open(is_clean=False)
    append_many(log, 1)
    assert len(read_all(disk.crash(log))) == len(expected) + 1
