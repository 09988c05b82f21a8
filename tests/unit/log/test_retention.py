from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from penstock.core.log_settings import LogSettings
from penstock.log.upkeep.retention import DeletionReason, SegmentFacts, plan_deletions
from penstock.protocol.errors import ApiError, ErrorCode
from tests.unit.log.support import NOW, SMALL, Disk, append, append_many, batch, read_all, sequenced


def facts(*segments: tuple[int, int]) -> list[SegmentFacts]:
    """(size, age in ms) of segments of ten offsets each; the last one is active."""
    return [
        SegmentFacts(
            base_offset=10 * index,
            end_offset=10 * index + 10,
            size=size,
            is_active=index == len(segments) - 1,
            largest_timestamp=lambda age=age: NOW - age,  # type: ignore[misc]
        )
        for index, (size, age) in enumerate(segments)
    ]


def plan(
    segments: list[SegmentFacts], start: int = 0, high_watermark: int = 1000, **settings: int | frozenset[str]
) -> list[tuple[int, DeletionReason]]:
    rules = replace(LogSettings(retention_ms=-1), **settings)  # type: ignore[arg-type]
    return [tuple(deletion) for deletion in plan_deletions(segments, start, high_watermark, rules, NOW)]  # type: ignore[misc]


BY_AGE, BY_SIZE, BY_START = DeletionReason.RETENTION_MS, DeletionReason.RETENTION_BYTES, DeletionReason.LOG_START_OFFSET


@pytest.mark.parametrize(
    ("segments", "settings", "expected"),
    [
        (facts((5, 100), (5, 100)), {}, []),
        (facts((5, 101), (5, 100), (5, 500)), {"retention_ms": 100}, [(0, BY_AGE)]),
        (facts((5, 101), (5, 101)), {"retention_ms": 100}, [(0, BY_AGE), (10, BY_AGE)]),
        (facts((5, 101), (0, 101)), {"retention_ms": 100}, [(0, BY_AGE)]),
        (facts((0, 101)), {"retention_ms": 0}, []),
        (facts((50, 0), (50, 0), (50, 0)), {"retention_bytes": 101}, []),
        (facts((50, 0), (50, 0), (50, 0)), {"retention_bytes": 100}, [(0, BY_SIZE)]),
        (facts((50, 0), (50, 0), (50, 0)), {"retention_bytes": 0}, [(0, BY_SIZE), (10, BY_SIZE), (20, BY_SIZE)]),
        (facts((50, 9), (50, 9), (50, 0)), {"retention_bytes": 100, "retention_ms": 5}, [(0, BY_SIZE), (10, BY_AGE)]),
        (facts((5, 9), (5, 9)), {"retention_ms": 1, "cleanup_policy": frozenset({"compact"})}, []),
        (facts((5, 9), (5, 0)), {"retention_ms": 1, "cleanup_policy": frozenset({"compact", "delete"})}, [(0, BY_AGE)]),
    ],
)
def test_the_oldest_segments_go_when_a_limit_is_passed(
    segments: list[SegmentFacts], settings: dict[str, int], expected: list[tuple[int, DeletionReason]]
) -> None:
    assert plan(segments, **settings) == expected


def test_nothing_goes_when_it_is_at_or_past_the_high_watermark() -> None:
    segments = facts((5, 900), (5, 900), (5, 900))
    assert plan(segments, high_watermark=19, retention_ms=1) == [(0, BY_AGE)]
    assert plan(segments, high_watermark=9, retention_ms=1) == []


@pytest.mark.parametrize("policy", ["delete", "compact"])
def test_segments_below_the_log_start_go_when_records_were_deleted(policy: str) -> None:
    segments = facts((5, 0), (5, 0), (5, 0))
    assert plan(segments, start=20, cleanup_policy=frozenset({policy})) == [(0, BY_START), (10, BY_START)]
    assert plan(segments, start=19, cleanup_policy=frozenset({policy})) == [(0, BY_START)]
    assert plan(segments, start=30, cleanup_policy=frozenset({policy})) == [(0, BY_START), (10, BY_START)]


def test_files_are_marked_then_removed_when_retention_applies(tmp_path: Path) -> None:
    disk = Disk(tmp_path, settings=replace(SMALL, retention_ms=1000, file_delete_delay_ms=500))
    log = disk.create()
    append_many(log, 30, timestamp=NOW)
    append(log, batch("young", timestamp=NOW + 5000), now_ms=NOW + 5000)
    segment_count = len(log.segments)
    deleted = log.apply_retention(NOW + 2000)
    assert len(deleted) == segment_count - 1
    assert {found.reason for found in deleted} == {BY_AGE}
    assert log.log_start_offset > 0
    assert read_all(log)[-1][1] == "young"
    marked = disk.names(".deleted")
    assert sum(name.endswith(".log.deleted") for name in marked) == len(deleted)
    disk.deletes.remove_due(NOW + 2499)
    assert disk.names(".deleted") == marked
    disk.deletes.remove_due(NOW + 2500)
    assert disk.names(".deleted") == []
    assert read_all(disk.reopen(log))[-1][1] == "young"


def test_a_new_segment_begins_when_the_active_one_is_too_old_as_well(tmp_path: Path) -> None:
    disk = Disk(tmp_path, settings=replace(SMALL, retention_ms=1000))
    log = disk.create()
    append_many(log, 3)
    assert len(log.apply_retention(NOW + 2000)) == 1
    assert (log.log_start_offset, log.log_end_offset, log.size) == (3, 3, 0)
    assert log.apply_retention(NOW + 10**9) == []
    append_many(log, 1)
    assert read_all(disk.reopen(log)) == [(3, "value-000000")]


def test_the_age_of_the_file_counts_when_records_have_no_timestamp(tmp_path: Path) -> None:
    disk = Disk(tmp_path, settings=replace(SMALL, retention_ms=1000))
    log = disk.create()
    append_many(log, 20, timestamp=-1)
    assert len(log.segments) > 1
    for path in disk.directory.glob("*.log"):
        os.utime(path, (NOW // 1000, NOW // 1000))
    assert log.apply_retention(NOW + 1000) == []
    assert len(log.apply_retention(NOW + 1001)) > 1


def test_the_log_starts_later_when_records_are_deleted(tmp_path: Path) -> None:
    disk = Disk(tmp_path)
    log = disk.create()
    append_many(log, 30)
    assert log.delete_records_before(17) == 17
    assert log.delete_records_before(5) == 17
    assert read_all(log)[0] == (17, "value-000017")
    with pytest.raises(ApiError) as caught:
        log.reader.read(16, 100, 30, True)
    assert caught.value.code == ErrorCode.OFFSET_OUT_OF_RANGE
    assert {found.reason for found in log.apply_retention(NOW)} == {BY_START}
    assert log.reader.read(17, 100, 30, True) is not None
    disk.log_start_offset = 17
    assert disk.reopen(log).log_start_offset == 17


@pytest.mark.parametrize("offset", [-1, 31])
def test_records_are_not_deleted_when_the_offset_is_past_the_high_watermark(tmp_path: Path, offset: int) -> None:
    log = Disk(tmp_path).create()
    append_many(log, 30)
    with pytest.raises(ApiError) as caught:
        log.delete_records_before(offset)
    assert caught.value.code == ErrorCode.OFFSET_OUT_OF_RANGE


def test_producers_are_remembered_when_their_batches_were_deleted(tmp_path: Path) -> None:
    log = Disk(tmp_path, settings=replace(SMALL, retention_ms=1000)).create()
    for sequence in range(20):
        append(log, sequenced(sequence))
    log.apply_retention(NOW + 5000)
    assert log.log_start_offset == 20
    assert append(log, sequenced(20)) == [20]
    log.producers.remove_expired(NOW + SMALL.producer_id_expiration_ms - 1, log.settings.producer_id_expiration_ms)
    assert len(log.producers.active()) == 1
    log.producers.remove_expired(NOW + SMALL.producer_id_expiration_ms, log.settings.producer_id_expiration_ms)
    assert log.producers.active() == []
