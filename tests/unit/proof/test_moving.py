from __future__ import annotations

import math

from proof.moving.clients import Figures, Times
from proof.moving.rounds import MovingReport


def test_only_times_that_began_in_a_period_count_when_it_is_asked_for() -> None:
    times = Times()
    for index, (began, took_s) in enumerate(((3.0, 0.3), (1.0, 0.1), (2.0, 0.2), (2.5, 9.0))):
        times.add(began, took_s, partition=index)
    assert times.between(1.0, 2.5) == Figures(2, 0.1, 0.2, 0.2)
    assert times.between(2.0, 4.0) == Figures(3, 0.3, 9.0, 9.0)
    assert times.between(7.0, 8.0).count == 0
    assert times.between(2.0, 4.0, lambda partition: partition != 3) == Figures(2, 0.2, 0.3, 0.3)


def test_the_99th_percentile_is_the_time_that_99_of_100_did_not_exceed() -> None:
    figures = Figures.of([number / 1000 for number in range(1, 201)])
    assert (figures.count, figures.median_s, figures.p99_s, figures.worst_s) == (200, 0.1, 0.198, 0.2)
    assert math.isnan(Figures.of([]).p99_s)


def report(moving_p99_s: float, *, problem: str = "", errors: list[str] | None = None) -> MovingReport:
    quiet, moving = Figures(100, 0.001, 0.010, 0.020), Figures(100, 0.001, moving_p99_s, 0.050)
    return MovingReport(7, 1_000, 50_000, 1_000_000, (quiet, quiet), (moving, quiet), 12.0, problem, errors or [])


def test_the_goal_is_shown_as_met_or_missed_when_the_times_are_those_of_a_move() -> None:
    met, missed = str(report(0.020)), str(report(0.021))
    assert "2.00 times the quiet p99, goal 2 met" in met
    assert "2.10 times the quiet p99, goal 2 MISSED" in missed
    assert "throttle 1,000,000 bytes/s" in met


def test_a_move_is_sound_when_it_ended_and_no_client_saw_an_error() -> None:
    assert report(0.5).is_sound
    assert not report(0.01, problem="moved-3: still under way after 1800 s").is_sound
    assert not report(0.01, errors=["writes: _MSG_TIMED_OUT 1"]).is_sound
