from __future__ import annotations

import pytest

from penstock.broker.upkeep.compaction_pacing import MAX_PAUSE_SECONDS, Pacing, Slice, decide_lateness, decide_share

NO_LIMIT = 1.7976931348623157e308


@pytest.mark.parametrize(("busy", "share"), [(0.0, 0.5), (0.4, 0.5), (0.6, 0.3), (0.8, 0.1), (1.0, 0.1)])
def test_share_shrinks_when_the_loop_is_busy(busy: float, share: float) -> None:
    assert decide_share(busy) == pytest.approx(share)


@pytest.mark.parametrize(("late_ms", "busy"), [(0.0, 0.0), (0.4, 0.0), (1.5, 0.5), (2.5, 1.0), (50.0, 1.0)])
def test_loop_counts_as_busy_when_it_wakes_sleepers_late(late_ms: float, busy: float) -> None:
    assert decide_lateness(late_ms / 1000) == pytest.approx(busy)


def test_rest_is_as_long_as_the_share_asks_when_the_disk_is_not_limited() -> None:
    assert Pacing().pause_after(Slice(0.002, 0.002, 100_000), 0.0, NO_LIMIT) == pytest.approx(0.002)
    assert Pacing().pause_after(Slice(0.002, 0.002, 100_000), 1.0, NO_LIMIT) == pytest.approx(0.018)


def test_waiting_counts_as_rest_when_a_slice_had_little_of_a_processor() -> None:
    assert Pacing().pause_after(Slice(0.010, 0.002, 100_000), 1.0, NO_LIMIT) == pytest.approx(0.010)
    assert Pacing().pause_after(Slice(0.050, 0.002, 100_000), 1.0, NO_LIMIT) == 0.0


def test_bytes_stay_below_the_limit_when_one_is_set() -> None:
    pacing = Pacing()
    elapsed = 0.0
    for _ in range(100):
        elapsed += 0.002 + pacing.pause_after(Slice(0.002, 0.002, 50_000), 0.0, 1_000_000)
    while pause := pacing.pause_after(Slice(0.0, 0.0, 0), 0.0, 1_000_000):
        elapsed += pause
    assert 100 * 50_000 / elapsed == pytest.approx(1_000_000)


def test_rest_is_taken_in_pieces_when_it_is_long() -> None:
    pacing = Pacing()
    assert pacing.pause_after(Slice(0.002, 0.002, 1_000_000), 0.0, 4_000_000) == MAX_PAUSE_SECONDS
    assert pacing.pause_after(Slice(0.0, 0.0, 0), 0.0, 4_000_000) == MAX_PAUSE_SECONDS


def test_rest_is_by_time_alone_when_the_limit_makes_no_sense() -> None:
    assert Pacing().pause_after(Slice(0.002, 0.002, 1_000), 0.0, 0) == pytest.approx(0.002)
