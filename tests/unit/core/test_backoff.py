"""The pause before another attempt, with a chance that is chosen."""

from __future__ import annotations

from random import Random

import pytest

from penstock.core.time.backoff import Backoff, Pauses

LEAST, MIDDLE, MOST = 0.0, 0.5, 1.0 - 2**-53


def pauses(backoff: Backoff, chance: float, count: int) -> list[float]:
    return [backoff.pause_s(failures, lambda: chance) for failures in range(1, count + 1)]


def test_pauses_double_up_to_the_longest_when_failures_follow_each_other() -> None:
    assert pauses(Backoff(0.25, 1.5), MIDDLE, 5) == [0.25, 0.5, 1.0, 1.5, 1.5]


@pytest.mark.parametrize(("chance", "factor"), [(LEAST, 0.8), (0.25, 0.9), (0.75, 1.1), (MOST, 1.2)])
def test_a_pause_is_up_to_a_fifth_shorter_or_longer_when_chance_says_so(chance: float, factor: float) -> None:
    assert pauses(Backoff(0.1, 10.0), chance, 3) == pytest.approx([0.1 * factor, 0.2 * factor, 0.4 * factor])


def test_no_pause_is_longer_than_the_longest_when_jitter_would_make_it_so() -> None:
    assert pauses(Backoff(0.1, 0.4), MOST, 4) == pytest.approx([0.12, 0.24, 0.4, 0.4])


def test_the_longest_pauses_differ_when_chance_makes_them_shorter() -> None:
    assert pauses(Backoff(0.1, 0.4), LEAST, 5)[-1] == pytest.approx(0.32)


def test_every_pause_is_within_the_bounds_when_chance_is_any() -> None:
    chance = Random(1).random
    backoff = Backoff(0.02, 1.0)
    for failures in range(1, 200):
        whole = min(1.0, 0.02 * 2.0 ** (failures - 1))
        assert 0.8 * whole <= backoff.pause_s(failures, chance) <= min(1.0, 1.2 * whole)


@pytest.mark.parametrize(
    ("backoff", "pause_s"), [(Backoff(0.5, 0.5), 0.5), (Backoff(2.0, 1.0), 1.0), (Backoff(0.0, 0.0), 0.0)]
)
def test_a_pause_has_no_jitter_when_it_does_not_grow(backoff: Backoff, pause_s: float) -> None:
    assert pauses(backoff, LEAST, 3) == [pause_s] * 3


def test_a_pause_is_exact_when_no_jitter_is_wanted() -> None:
    assert pauses(Backoff(0.1, 1.0, jitter=0.0), LEAST, 2) == [0.1, 0.2]


@pytest.mark.parametrize("failures", [65, 1_024, 10**9])
def test_nothing_overflows_when_there_were_very_many_failures(failures: int) -> None:
    assert Backoff(0.001, 30.0).pause_s(failures, lambda: MIDDLE) == 30.0


def test_pauses_are_the_same_when_the_source_of_chance_is() -> None:
    def drawn(seed: int) -> list[float]:
        each = Pauses(Backoff(0.05, 1.0), Random(seed).random)
        return [each.next_s() for _ in range(20)]

    assert drawn(7) == drawn(7)
    assert drawn(7) != drawn(8)


def test_the_first_pause_comes_again_when_there_was_a_success() -> None:
    each = Pauses(Backoff(1.0, 8.0), lambda: MIDDLE)
    assert [each.next_s(), each.next_s()] == [1.0, 2.0]
    each.reset()
    assert [each.next_s(), each.next_s()] == [1.0, 2.0]
