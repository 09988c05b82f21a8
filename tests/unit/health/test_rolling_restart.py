"""What must hold before a broker of a rolling restart stops, and after it is back."""

from __future__ import annotations

from typing import cast

import pytest

from penstock.admin.async_admin import AsyncAdmin
from penstock.admin.blocking_admin import Admin
from penstock.admin.state.cluster import ClusterState
from penstock.admin.state.partitions import PartitionState
from penstock.client.brokers import Brokers
from penstock.client.versioned_client import Response, VersionedClient
from penstock.health.condition import judge
from penstock.health.rolling_restart import (
    Rolling,
    check_known,
    find_interrupted,
    plan_order,
    why_not_back,
    why_not_well,
)
from penstock.protocol.message import Message
from tests.unit.admin.fake_wire import FakeWire
from tests.unit.admin.pictured import broker, partition, pictured

ALL = frozenset({1, 2, 3})


def test_controller_is_restarted_last_when_the_order_is_planned() -> None:
    seen = pictured(controller=2)
    assert plan_order(seen) == [1, 3, 2]
    assert plan_order(seen, only=(2, 1)) == [1, 2]
    assert plan_order(seen, first=3) == [3, 2]
    assert plan_order(seen, only=(3, 2), first=2) == [2]


@pytest.mark.parametrize(("only", "first"), [((4,), None), ((), 4), ((1,), 2)])
def test_order_is_refused_when_it_names_a_broker_that_is_not_there(only: tuple[int, ...], first: int | None) -> None:
    with pytest.raises(ValueError, match="broker"):
        plan_order(pictured(), only, first)


def test_broker_is_known_when_it_is_here_or_has_replicas() -> None:
    seen = pictured([partition(0, 1, [1, 4], [1])])
    for node_id in (1, 4):
        check_known(seen, node_id)
    with pytest.raises(ValueError, match="there is no broker 9"):
        check_known(seen, 9)


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
    seen = pictured([partition(0, replicas[0], replicas)], min_in_sync=minimum)
    assert bool(find_interrupted(seen, 1)) is is_interrupted


@pytest.mark.parametrize(
    ("isr", "minimum", "is_interrupted"),
    [
        ((1,), 1, True),  # the others copy yet
        ((1, 2), 1, False),
        ((1, 2), 2, True),
        ((1, 2, 3), 2, False),
    ],
)
def test_replica_that_a_move_adds_counts_when_it_is_in_sync(
    isr: tuple[int, ...], minimum: int, is_interrupted: bool
) -> None:
    moving = PartitionState("t", 0, 1, (2, 3, 1), isr, adding=(2, 3), removing=(1,))
    assert bool(find_interrupted(pictured([moving], min_in_sync=minimum), 1)) is is_interrupted


class Scripted(VersionedClient):
    """A broker's connections: each request takes the next of the outcomes that they share. None is an answer."""

    def __init__(self, outcomes: list[OSError | None]) -> None:
        self.address = ("host", 9091)
        self._outcomes = outcomes
        self._is_open = True

    @property
    def is_open(self) -> bool:
        return self._is_open

    def request(self, message: Message, response: type[Response], *, timeout_s: float | None = None) -> Response:
        assert self._is_open
        outcome = self._outcomes.pop(0)
        if outcome is not None:
            self.close()
            raise outcome
        return response()

    def close(self) -> None:
        self._is_open = False


def test_broker_has_not_ended_when_it_does_not_answer_in_time() -> None:
    outcomes: list[OSError | None] = [None, TimeoutError(), TimeoutError(), None, ConnectionResetError()]
    with Admin(lambda: AsyncAdmin(cast("Brokers", FakeWire({})))) as admin:
        rolling = Rolling(
            admin, lambda address, timeout_s: Scripted(outcomes), lambda _: None, lambda node_id, what: None
        )
        rolling._wait_until_ended(Scripted(outcomes), 1)
    assert outcomes == []


@pytest.mark.parametrize(
    ("seen", "reason"),
    [
        (pictured([partition(0, 1, [1, 2, 3])]), ""),
        (pictured(controller=None), "no broker is the controller"),
        (pictured(brokers=[broker(1), broker(2, silence="timed out")]), "broker 2 does not answer: timed out"),
        (pictured([partition(0, -1, [1], [1])]), "1 partition (t-0) without a leader"),
        (pictured([partition(0, 1, [1, 2], [1])]), "1 partition (t-0) without all their replicas in sync"),
    ],
)
def test_no_broker_is_stopped_when_something_is_wrong(seen: ClusterState, reason: str) -> None:
    assert why_not_well(judge(seen)) == reason


def test_broker_is_back_when_it_leads_what_it_should() -> None:
    away = judge(pictured([partition(0, 2, [2, 3])], brokers=[broker(2), broker(3)]))
    assert why_not_back(away, 1, ALL) == "broker 1 is not registered"
    led_by_others = judge(pictured([partition(0, 2, [1, 2]), partition(1, 3, [2, 3])]))
    assert why_not_back(led_by_others, 1, ALL) == "1 partition (t-0) not led by broker 1, which should lead them"
    assert why_not_back(judge(pictured([partition(0, 1, [1, 2])])), 1, ALL) == ""
