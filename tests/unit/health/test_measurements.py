"""What a look at a cluster asks for, and how long it waits for brokers that are silent."""

from __future__ import annotations

import asyncio
from typing import cast

from penstock.admin.async_admin import AsyncAdmin
from penstock.admin.picture import Wish
from penstock.admin.state.cluster import ClusterState
from penstock.admin.state.configs import ConfigPlace
from penstock.client.brokers import Brokers
from penstock.health.measurements import CAREFUL_LOOK, LOOK
from tests.own_time import run_in_own_time
from tests.unit.admin.fake_wire import FakeWire

TIMEOUT_S = 5.0


def look(wire: FakeWire, wish: Wish = LOOK) -> tuple[ClusterState, float]:
    """The picture, and how long it took."""

    async def read() -> tuple[ClusterState, float]:
        loop = asyncio.get_running_loop()
        began = loop.time()
        state = await AsyncAdmin(cast("Brokers", wire), TIMEOUT_S).read_wish(wish)
        return state, loop.time() - began

    return run_in_own_time(read())


def test_controller_is_waited_for_once_when_it_is_paused() -> None:
    wire = FakeWire({"orders": 2}, brokers=(2, 1))
    wire.silent = {2}
    wire.lagging = {"orders"}
    seen, took_s = look(wire)
    assert took_s < 2 * TIMEOUT_S
    assert seen.controller_id == 2
    assert seen.controller_silence == seen.brokers[2].silence == "no answer within 5 s"
    assert [broker.node_id for broker in seen.brokers.values() if broker.silence] == [2]
    assert set(seen.min_in_sync) == {"orders"}


def test_settings_are_asked_of_lagging_topics_when_no_broker_is_to_stop() -> None:
    wire = FakeWire({"well": 1, "late": 1}, brokers=(1, 2))
    wire.lagging = {"late"}
    assert set(look(wire)[0].configs) == {ConfigPlace.topic("late")}
    assert set(look(wire, CAREFUL_LOOK)[0].configs) == {ConfigPlace.topic("late"), ConfigPlace.topic("well")}


def test_log_ends_are_those_of_lagging_partitions_when_all_brokers_answer() -> None:
    wire = FakeWire({"well": 1, "late": 1}, brokers=(1, 2))
    wire.lagging = {"late"}
    seen, _ = look(wire)
    assert {(key.topic, key.node_id) for key in seen.log_ends} == {("late", 1), ("late", 2)}
