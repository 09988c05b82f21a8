from __future__ import annotations

from collections.abc import Callable

import pytest

from penstock.log.compaction.decisions import (
    LogBounds,
    SegmentDirt,
    SegmentLimits,
    SourceSegment,
    decide_first_dirty,
    group_segments,
    measure_dirt,
)
from tests.unit.log.compacted import COMPACTED, with_settings

NOW = 1_000_000


def segment(base: int, size: int = 100, newest: int = 0, oldest: int = 1) -> SegmentDirt:
    return SegmentDirt(base, base + 10, size, lambda: newest, lambda: oldest)


def bounds(**changes: int | None) -> LogBounds:
    values: dict[str, int | None] = {
        "log_start_offset": 0,
        "log_end_offset": 45,
        "last_stable_offset": 45,
        "active_base_offset": 40,
        "cleaned_end": None,
        "delete_horizon_ms": None,
    }
    return LogBounds(**{**values, **changes})  # type: ignore[arg-type]


FOUR = [segment(0), segment(10), segment(20), segment(30)]


class TestRange:
    def test_everything_sealed_is_dirty_when_nothing_was_cleaned(self) -> None:
        dirt = measure_dirt(FOUR, bounds(), COMPACTED, NOW)
        assert dirt[:4] == (0, 40, 0, 400)
        assert dirt.ratio == 1.0

    def test_clean_part_counts_apart_when_a_checkpoint_is_there(self) -> None:
        dirt = measure_dirt(FOUR, bounds(cleaned_end=30), COMPACTED, NOW)
        assert dirt[:4] == (30, 40, 300, 100)
        assert dirt.ratio == 0.25

    @pytest.mark.parametrize(("stable", "end"), [(40, 40), (39, 30), (30, 30), (25, 20), (5, 0)])
    def test_segment_is_left_when_it_holds_the_last_stable_offset(self, stable: int, end: int) -> None:
        assert measure_dirt(FOUR, bounds(last_stable_offset=stable), COMPACTED, NOW).first_uncleanable_offset == end

    def test_segments_are_left_when_a_record_is_younger_than_the_minimum_lag(self) -> None:
        young = [segment(0), segment(10, newest=NOW - 5), segment(20), segment(30)]
        settings = with_settings(min_compaction_lag_ms=10)
        assert measure_dirt(young, bounds(), settings, NOW).first_uncleanable_offset == 10
        assert measure_dirt(young, bounds(), settings, NOW + 5).first_uncleanable_offset == 40

    @pytest.mark.parametrize(("cleaned_end", "expected"), [(None, 3), (2, 3), (3, 3), (40, 40), (45, 45), (46, 3)])
    def test_cleaning_begins_anew_when_the_checkpoint_lies_outside_the_log(
        self, cleaned_end: int | None, expected: int
    ) -> None:
        assert decide_first_dirty(bounds(log_start_offset=3, cleaned_end=cleaned_end)) == expected


class TestWorth:
    @pytest.mark.parametrize(("cleaned_end", "expected"), [(10, True), (20, False), (40, False)])
    def test_log_is_cleaned_when_more_of_it_is_dirty_than_the_ratio(self, cleaned_end: int, expected: bool) -> None:
        dirt = measure_dirt(FOUR, bounds(cleaned_end=cleaned_end), COMPACTED, NOW)
        assert dirt.is_worth_cleaning(0.5) == expected

    def test_log_is_cleaned_when_a_dirty_record_is_older_than_the_maximum_lag(self) -> None:
        settings = with_settings(max_compaction_lag_ms=100)
        segments = [segment(0, oldest=1), segment(10, oldest=1), segment(20, oldest=1), segment(30, oldest=NOW - 101)]
        dirt = measure_dirt(segments, bounds(cleaned_end=30), settings, NOW)
        assert dirt.delay_ms == 1
        assert dirt.is_worth_cleaning(0.5)
        assert not measure_dirt(segments, bounds(cleaned_end=30), settings, NOW - 1).is_worth_cleaning(0.5)

    def test_log_is_cleaned_when_a_delete_horizon_has_passed(self) -> None:
        waiting = bounds(cleaned_end=40, delete_horizon_ms=NOW)
        assert not measure_dirt(FOUR, waiting, COMPACTED, NOW - 1).is_worth_cleaning(0.5)
        assert measure_dirt(FOUR, waiting, COMPACTED, NOW).is_worth_cleaning(0.5)

    def test_nothing_is_worth_it_when_the_log_is_empty(self) -> None:
        dirt = measure_dirt([], bounds(active_base_offset=0), COMPACTED, NOW)
        assert (dirt.ratio, dirt.is_worth_cleaning(0.0)) == (0.0, False)


def source(base: int, end: int, size: int = 100, index_bytes: int = 0) -> SourceSegment:
    return SourceSegment(base, end, "", size, index_bytes, 0)


def limited(name: str, value: int) -> Callable[[list[SourceSegment]], list[list[int]]]:
    def run(sources: list[SourceSegment]) -> list[list[int]]:
        return [
            [each.base_offset for each in group]
            for group in group_segments(sources, SegmentLimits.of(with_settings(**{name: value})))
        ]

    return run


class TestGroups:
    def test_neighbours_join_when_they_fit_a_segment(self) -> None:
        sources = [source(0, 10), source(10, 20), source(20, 30), source(30, 40, 250), source(40, 50)]
        assert limited("segment_bytes", 300)(sources) == [[0, 10, 20], [30], [40]]

    def test_groups_end_when_the_index_would_be_too_large(self) -> None:
        sources = [source(base, base + 10, index_bytes=50) for base in (0, 10, 20)]
        assert limited("segment_index_bytes", 100)(sources) == [[0, 10], [20]]

    def test_groups_end_when_an_offset_would_not_fit_the_index(self) -> None:
        sources = [source(0, 10), source(10, 2**31), source(2**31, 2**31 + 1), source(2**31 + 1, 2**31 + 9, size=0)]
        assert limited("segment_bytes", 1000)(sources) == [[0, 10], [2**31, 2**31 + 1]]
