"""For whom a controller waits before it takes brokers for dead. Broker 1 is the controller."""

from __future__ import annotations

import pytest

from penstock.cluster.controller.company import Company
from penstock.cluster.image import BrokerRegistration
from tests.unit.cluster.harness import broker

ALL = {node_id: broker(node_id) for node_id in (1, 2, 3)}
RETURNED = broker(1)._replace(epoch=9)


def wait_s(own: BrokerRegistration, *registered: int, counted: dict[int, BrokerRegistration] = ALL) -> float:
    return Company().wait_s(own, counted, {node_id: broker(node_id) for node_id in registered}, now=100.0)


@pytest.mark.parametrize(
    ("own", "registered", "is_waiting"),
    [
        (ALL[1], (1, 2, 3), False),
        (ALL[1], (1, 2), False),  # the ordinary death of one
        (ALL[1], (1, 2, 3, 4), False),
        (ALL[1], (1,), True),
        (RETURNED, (1, 2), True),
        (RETURNED, (1, 2, 3), False),
    ],
)
def test_controller_waits_when_all_the_others_are_gone_or_its_own_session_ended(
    own: BrokerRegistration, registered: tuple[int, ...], is_waiting: bool
) -> None:
    assert (wait_s(own, *registered) > 0) is is_waiting


def test_nobody_is_waited_for_when_there_was_one_other_broker() -> None:
    assert wait_s(ALL[1], 1, counted={1: ALL[1], 2: ALL[2]}) == 0


def test_broker_is_not_waited_for_when_it_was_about_to_stop() -> None:
    stopping = {node_id: each._replace(is_stopping=node_id != 1) for node_id, each in ALL.items()}
    assert wait_s(RETURNED, 1, counted=stopping) == 0
    assert wait_s(ALL[1], 1, counted={**stopping, 2: ALL[2]}) == 0


def test_nobody_is_waited_for_when_the_controller_itself_is_not_counted() -> None:
    assert wait_s(RETURNED, 1, counted={2: ALL[2], 3: ALL[3]}) == 0


def test_controller_waits_for_the_last_when_the_first_is_back_and_once_for_each_absence() -> None:
    company, own = Company(), ALL[1]
    both, one = {1: own, 2: ALL[2]._replace(epoch=9)}, {1: own}
    assert company.wait_s(own, ALL, one, now=100.0) == 3.0
    assert company.wait_s(own, ALL, both, now=101.0) == 2.0
    assert company.wait_s(own, ALL, one, now=103.5) == 0.0
    assert company.wait_s(own, ALL, ALL, now=104.0) == 0.0
    assert company.wait_s(own, ALL, one, now=105.0) == 3.0
