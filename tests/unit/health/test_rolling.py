"""What must hold before a broker of a rolling restart stops, and after it is back."""

from __future__ import annotations

import pytest

from penstock.health.condition import judge
from penstock.health.observed import Observed
from penstock.health.rolling import find_interrupted, plan_order, why_not_back, why_not_well
from tests.unit.health.seen import broker, observed, partition

ALL = frozenset({1, 2, 3})


def test_controller_is_restarted_last_when_the_order_is_planned() -> None:
    seen = observed(controller=2)
    assert plan_order(seen) == [1, 3, 2]
    assert plan_order(seen, only=(2, 1)) == [1, 2]
    assert plan_order(seen, first=3) == [3, 2]
    assert plan_order(seen, only=(3, 2), first=2) == [2]


@pytest.mark.parametrize(("only", "first"), [((4,), None), ((), 4), ((1,), 2)])
def test_order_is_refused_when_it_names_a_broker_that_is_not_there(only: tuple[int, ...], first: int | None) -> None:
    with pytest.raises(ValueError, match="broker"):
        plan_order(observed(), only, first)


@pytest.mark.parametrize(
    ("replicas", "minimum", "is_interrupted"),
    [
        ([1, 2, 3], 2, False),
        ([1, 2, 3], 3, True),
        ([1, 2], 1, False),
        ([1], 1, True),
        ([2, 3], 2, False),
        ([1, 2], 5, True),
    ],
)
def test_partition_stands_still_when_too_few_replicas_are_left(
    replicas: list[int], minimum: int, is_interrupted: bool
) -> None:
    seen = observed([partition(0, replicas[0], replicas)], min_in_sync=minimum)
    assert bool(find_interrupted(seen, 1)) is is_interrupted


@pytest.mark.parametrize(
    ("seen", "reason"),
    [
        (observed([partition(0, 1, [1, 2, 3])]), ""),
        (observed(controller=None), "no broker is the controller"),
        (observed(brokers=[broker(1), broker(2, silence="timed out")]), "broker 2 does not answer: timed out"),
        (observed([partition(0, -1, [1], [1])]), "1 partition (t-0) without a leader"),
        (observed([partition(0, 1, [1, 2], [1])]), "1 partition (t-0) without all their replicas in sync"),
    ],
)
def test_no_broker_is_stopped_when_something_is_wrong(seen: Observed, reason: str) -> None:
    assert why_not_well(judge(seen)) == reason


def test_broker_is_back_when_it_leads_what_it_should() -> None:
    away = judge(observed([partition(0, 2, [2, 3])], brokers=[broker(2), broker(3)]))
    assert why_not_back(away, 1, ALL) == "broker 1 is not registered"
    led_by_others = judge(observed([partition(0, 2, [1, 2]), partition(1, 3, [2, 3])]))
    assert why_not_back(led_by_others, 1, ALL) == "1 partition (t-0) not led by broker 1, which should lead them"
    assert why_not_back(judge(observed([partition(0, 1, [1, 2])])), 1, ALL) == ""
