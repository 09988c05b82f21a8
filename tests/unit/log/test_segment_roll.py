from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from penstock.core.log_settings import LogSettings
from penstock.log.append.segment_roll import YOUNG_MS
from penstock.log.storage.roll_allowance import MOST_AT_ONCE, SEGMENTS_A_SECOND
from tests.unit.log.support import NOW, SMALL, TOPIC_ID, Disk, append, append_many, batch, read_all
from tests.unit.log.test_log_directories import opened, partition

LEAST_SEGMENT_MS = LogSettings().penstock_segment_least_ms
# When a segment that was made at NOW may be followed by another one for other reasons than its size.
LATER = NOW + LEAST_SEGMENT_MS


def segments_after(
    tmp_path: Path, settings: LogSettings, *timestamps: int, step_ms: int = LEAST_SEGMENT_MS
) -> list[str]:
    """Each batch comes so long after the one before."""
    disk = Disk(tmp_path, settings=settings)
    log = disk.create()
    for index, timestamp in enumerate(timestamps, start=1):
        append(log, batch("a", timestamp=timestamp), now_ms=NOW + index * step_ms)
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
    append(log, batch("b", timestamp=NOW + 101), now_ms=LATER)
    assert len(log.segments) == 2


def test_the_brokers_clock_counts_when_batches_carry_no_timestamp(tmp_path: Path) -> None:
    disk = Disk(tmp_path, settings=replace(SMALL, segment_ms=5000))
    log = disk.create()
    append(log, batch("a", timestamp=-1), now_ms=NOW + 50)
    append(log, batch("b", timestamp=-1), now_ms=NOW + 5000)
    assert len(log.segments) == 1
    append(log, batch("c", timestamp=-1), now_ms=NOW + 5001)
    assert len(log.segments) == 2


def test_segments_begin_earlier_but_never_later_when_jitter_is_set(tmp_path: Path) -> None:
    settings = replace(SMALL, segment_ms=1000, segment_jitter_ms=500)
    assert segments_after(tmp_path, settings, NOW, NOW + 1001) == ["0", "1"]
    assert segments_after(tmp_path / "b", settings, NOW, NOW + 499) == ["0"]


def test_a_segment_begins_when_an_index_is_full(tmp_path: Path) -> None:
    # room for two entries; the time index keeps one of its own for sealing
    settings = replace(SMALL, segment_bytes=10**6, index_interval_bytes=0, segment_index_bytes=24)
    assert segments_after(tmp_path, settings, *(NOW + index for index in range(5))) == ["0", "2", "4"]


def test_a_client_makes_no_more_than_one_segment_a_second_by_what_it_says(tmp_path: Path) -> None:
    roomy = replace(SMALL, segment_bytes=10**6)
    days = [day * 86_400_000 for day in range(40)]
    assert segments_after(tmp_path / "times", replace(roomy, segment_ms=1), *days, step_ms=50) == ["0", "19", "39"]
    full = replace(roomy, index_interval_bytes=0, segment_index_bytes=4)
    assert segments_after(tmp_path / "indexes", full, *[NOW] * 40, step_ms=50) == ["0", "19", "39"]


def test_a_follower_begins_segments_where_its_leader_did_when_it_copies_hours_in_a_second(tmp_path: Path) -> None:
    disk = Disk(tmp_path, settings=replace(SMALL, segment_bytes=10**6, segment_ms=1_000))
    log = disk.create()
    for number in range(3):
        log.append_as_follower(batch("a", base_offset=number, timestamp=NOW + number * 5_000), NOW)
    assert len(disk.names(".log")) == 3


def test_a_client_makes_no_more_segments_than_the_broker_allows_when_it_writes_to_many_partitions(
    tmp_path: Path,
) -> None:
    directories = opened(tmp_path)
    settings = replace(SMALL, segment_bytes=10**6, segment_ms=1)
    logs = [directories.create(partition(index), TOPIC_ID, settings) for index in range(MOST_AT_ONCE + 50)]

    def segments_after_a_batch_each(after_ms: int) -> int:
        for log in logs:
            append(log, batch("a", timestamp=NOW - 10**9 + after_ms), now_ms=NOW + after_ms)
        return sum(len(log.segments) for log in logs)

    assert segments_after_a_batch_each(0) == len(logs)
    assert segments_after_a_batch_each(1000) == len(logs) + MOST_AT_ONCE
    assert segments_after_a_batch_each(2000) == len(logs) + MOST_AT_ONCE + SEGMENTS_A_SECOND
    before = segments_after_a_batch_each(2000)
    assert segments_after_a_batch_each(2000 + YOUNG_MS) == before + len(logs), "old segments have no such bound"
    directories.close()


def test_a_segment_is_followed_by_another_when_the_clock_was_set_back(tmp_path: Path) -> None:
    settings = replace(SMALL, segment_ms=100)
    assert segments_after(tmp_path, settings, NOW, NOW + 101, step_ms=-5000) == ["0", "1"]


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
