"""What bounds are worth when a question runs later than they were read."""

from __future__ import annotations

import pytest

from penstock.pipelines.tables.bounds import UNBOUNDED, Bounds, Interval
from penstock.pipelines.tables.clocks import Clock, bounds_at

_HOUR = 3_600_000_000
_BOUNDS = Bounds(frozenset({1}), Interval(3, 9), Interval(10 * _HOUR, 20 * _HOUR), frozenset({"k"}))


@pytest.mark.parametrize(
    ("clock", "times"),
    [
        (Clock.NONE, Interval(10 * _HOUR, 20 * _HOUR)),
        (Clock.STEADY, Interval(10 * _HOUR - 60_000_000, 20 * _HOUR + 60_000_000)),
        # Midnight may have passed: the day that ends there is another one.
        (Clock.STEPPING, Interval(8 * _HOUR, None)),
    ],
)
def test_times_are_bounded_by_what_holds_later_when_a_clock_moves_them(clock: Clock, times: Interval) -> None:
    assert bounds_at(_BOUNDS, clock) == Bounds(frozenset({1}), Interval(3, 9), times, frozenset({"k"}))


def test_nothing_is_bounded_when_a_clock_may_be_in_any_condition() -> None:
    assert bounds_at(_BOUNDS, Clock.WILD) == UNBOUNDED
