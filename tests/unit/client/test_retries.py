from __future__ import annotations

from collections.abc import Callable

import pytest

from penstock.client.retries import Outlook, Retrying, RetryPolicy


class Clock:
    """Time that passes only while somebody sleeps, or when it is told to."""

    def __init__(self) -> None:
        self.now = 0.0
        self.pauses: list[float] = []

    def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.now += seconds


def failing(times: int, clock: Clock | None = None, each_takes_s: float = 0.0) -> Callable[[], str]:
    left = [times]

    def work() -> str:
        if clock is not None:
            clock.now += each_takes_s
        if left[0]:
            left[0] -= 1
            raise ValueError(f"{left[0]} failures left")
        return "done"

    return work


def retrying(clock: Clock, policy: RetryPolicy, *, counts_work: bool = True) -> Retrying:
    """Without jitter: its bounds are tested with `Backoff`."""
    return Retrying(policy, (lambda: clock.now) if counts_work else None, clock.sleep, chance=lambda: 0.5)


def test_pauses_double_up_to_the_longest_when_failures_pass() -> None:
    clock = Clock()
    tried = retrying(clock, RetryPolicy(60, 0.25, 1.0))
    assert tried.run(failing(5), ValueError, lambda _: Outlook.PASSING) == "done"
    assert clock.pauses == [0.25, 0.5, 1.0, 1.0, 1.0]
    assert tried.attempts == 5


def test_the_last_failure_is_raised_when_the_patience_is_used_up() -> None:
    clock = Clock()
    tried = retrying(clock, RetryPolicy(3, 1, 1))
    with pytest.raises(ValueError, match="96 failures left"):
        tried.run(failing(100), ValueError, lambda _: Outlook.PASSING)
    assert (tried.attempts, tried.elapsed_s) == (4, 3)


def test_attempts_are_counted_when_a_failure_is_doubtful() -> None:
    clock = Clock()
    tried = retrying(clock, RetryPolicy(1000, 1, 1, attempts=3))
    with pytest.raises(ValueError, match="7 failures left"):
        tried.run(failing(10), ValueError, lambda _: Outlook.DOUBTFUL)
    assert tried.attempts == 3


def test_all_attempts_are_made_when_the_patience_is_shorter() -> None:
    clock = Clock()
    tried = retrying(clock, RetryPolicy(0, 1, 1, attempts=3))
    assert tried.run(failing(2), ValueError, lambda _: Outlook.PASSING) == "done"


def test_nothing_is_tried_again_when_a_failure_is_final_or_of_another_kind() -> None:
    clock = Clock()
    for errors in (ValueError, KeyError):
        with pytest.raises(ValueError, match="9 failures left"):
            retrying(clock, RetryPolicy(60, 1, 1, attempts=3)).run(failing(10), errors, lambda _: Outlook.FINAL)
    assert clock.pauses == []


def test_long_work_uses_up_no_patience_when_only_pauses_count() -> None:
    clock = Clock()
    tried = retrying(clock, RetryPolicy(3, 1, 1), counts_work=False)
    with pytest.raises(ValueError, match="96 failures left"):
        tried.run(failing(100, clock, each_takes_s=50), ValueError, lambda _: Outlook.PASSING)
    assert tried.elapsed_s == 3


def test_patience_and_pauses_begin_anew_when_there_was_progress() -> None:
    clock = Clock()
    tried = retrying(clock, RetryPolicy(3, 1, 4))
    for _ in range(2):
        assert tried.may_go_on(Outlook.PASSING)
        tried.pause()
    assert not tried.may_go_on(Outlook.PASSING)
    tried.restart()
    assert tried.may_go_on(Outlook.PASSING)
    tried.pause()
    assert clock.pauses == [1, 2, 1]


def test_each_failure_is_told_when_another_attempt_follows() -> None:
    clock = Clock()
    told: list[str] = []
    tried = retrying(clock, RetryPolicy(60, 1, 1))
    tried.run(failing(2), ValueError, lambda _: Outlook.PASSING, lambda error: told.append(str(error)))
    assert told == ["1 failures left", "0 failures left"]
