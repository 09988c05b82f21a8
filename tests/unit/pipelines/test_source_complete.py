"""Offsets of all partitions, or an error that names those without."""

from __future__ import annotations

import pytest

from penstock.client.retries import Retrying, RetryPolicy
from penstock.core.types import TopicPartition
from penstock.pipelines.source.complete import UnansweredError, ask_for_all

BOTH = [TopicPartition("t", 0), TopicPartition("t", 1)]


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def sleep(self, seconds: float) -> None:
        self.now += seconds


def patient(seconds: float) -> Retrying:
    clock = Clock()
    return Retrying(RetryPolicy(seconds, 0.25, 0.25), lambda: clock.now, clock.sleep)


def test_it_is_asked_again_when_a_partition_is_unknown_for_a_moment() -> None:
    answers = iter([{BOTH[0]: 5}, {}, {BOTH[0]: 6, BOTH[1]: 7}])

    assert ask_for_all(BOTH, lambda: next(answers), patient(5)) == {BOTH[0]: 6, BOTH[1]: 7}


def test_the_partition_is_named_when_nobody_tells_its_offsets() -> None:
    with pytest.raises(UnansweredError, match="offsets of t-1, which"):
        ask_for_all(BOTH, lambda: {BOTH[0]: 5}, patient(5))
