from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from random import Random

import pytest

from penstock.broker.peers.failure_detection import FailureDetector, Probe, is_dead, watched_brokers
from penstock.broker.peers.peers import Peers
from penstock.core.listeners import Endpoint
from penstock.core.time.backoff import Backoff
from penstock.protocol.errors import ApiError, ErrorCode
from tests.unit.broker.peers.links import FakeBroker, Network, image_of, registration
from tests.waiting import until


class Rig:
    def __init__(self, keep_alive_s: float | None = None) -> None:
        self.network = Network()
        self.network.add(1)
        self.peers = Peers(1, self.network.find, self.network.connect, Random(1).random, Backoff(0.0, 0.0))
        self.answers: dict[int, Probe] = {}
        self.probed: list[int] = []
        self.dead: list[tuple[int, int]] = []
        self.error: ApiError | None = None
        self.detector = FailureDetector(
            1, self.peers, self.network.find, self._probe, self._report, Random(1).random, keep_alive_s
        )

    def follow(self) -> None:
        self.detector.follow(self.network.image)

    async def _probe(self, endpoint: Endpoint) -> Probe:
        node_id = int(endpoint.host.rpartition("-")[2])
        self.probed.append(node_id)
        return self.answers.get(node_id, Probe.REFUSED if self.network.brokers[endpoint].is_away else Probe.ACCEPTED)

    async def _report(self, node_id: int, epoch: int) -> None:
        self.dead.append((node_id, epoch))
        if self.error is not None:
            raise self.error


def run(scene: Callable[[Rig], Awaitable[None]], keep_alive_s: float | None = None) -> None:
    async def whole() -> None:
        rig = Rig(keep_alive_s)
        try:
            async with asyncio.timeout(20):
                await scene(rig)
        finally:
            await rig.detector.close()
            await rig.peers.close()

    asyncio.run(whole())


async def connected(broker: FakeBroker) -> None:
    await until(lambda: any(link.is_open for link in broker.links))
    await asyncio.sleep(0)
    await asyncio.sleep(0)


@pytest.mark.parametrize("was_connected", [False, True])
@pytest.mark.parametrize("probe", Probe)
def test_broker_is_dead_when_it_was_connected_and_refuses(was_connected: bool, probe: Probe) -> None:
    expected = was_connected and probe is Probe.REFUSED
    assert is_dead(was_connected=was_connected, probe=probe) is expected


def test_controller_watches_all_and_is_watched_by_all_when_there_are_several() -> None:
    image = image_of(registration(1, 5), registration(2, 7), registration(3, 9), controller=1)
    assert watched_brokers(image, 1) == {2: 7, 3: 9}
    assert watched_brokers(image, 2) == watched_brokers(image, 3) == {1: 5}
    stopping = image_of(registration(1, 5), registration(2, 7)._replace(is_stopping=True), controller=1)
    assert watched_brokers(stopping, 1) == {}


def test_death_is_reported_with_the_epoch_when_a_process_is_gone() -> None:
    async def scene(rig: Rig) -> None:
        broker = rig.network.add(2, epoch=7)
        rig.follow()
        await connected(broker)
        broker.kill()
        await until(lambda: rig.dead != [])
        assert rig.dead == [(2, 7)]

    run(scene)


@pytest.mark.parametrize("probe", [Probe.ACCEPTED, Probe.UNKNOWN])
def test_nothing_is_reported_when_the_port_accepts_or_does_not_answer(probe: Probe) -> None:
    async def scene(rig: Rig) -> None:
        broker = rig.network.add(2)
        rig.answers[2] = probe
        rig.follow()
        await connected(broker)
        broker.links[0].cut()
        await until(lambda: rig.probed == [2])
        await until(lambda: len(broker.links) == 2)  # watched on
        assert rig.dead == []

    run(scene)


def test_nothing_is_reported_when_a_broker_refuses_before_it_ever_listened() -> None:
    async def scene(rig: Rig) -> None:
        broker = rig.network.add(2)
        broker.is_away = True
        rig.follow()
        await until(lambda: broker.attempts == 2)
        assert rig.probed == []
        broker.is_away = False
        await connected(broker)
        broker.kill()
        await until(lambda: rig.dead != [])

    run(scene)


def test_broker_is_watched_at_once_when_somebody_else_has_reached_it() -> None:
    async def scene(rig: Rig) -> None:
        broker = rig.network.add(2)
        broker.is_away = True
        rig.follow()
        await until(lambda: broker.attempts == 3)  # the pauses grow
        broker.is_away = False
        await rig.peers.open(2, "replication")
        await until(lambda: len(broker.links) == 2)
        broker.kill()
        await until(lambda: rig.dead != [])

    run(scene)


def test_death_is_reported_again_when_it_could_not_be_recorded() -> None:
    async def scene(rig: Rig) -> None:
        broker = rig.network.add(2)
        rig.error = ApiError(ErrorCode.KAFKA_STORAGE_ERROR)
        rig.follow()
        await connected(broker)
        broker.kill()
        await until(lambda: rig.dead == [(2, 1), (2, 1)])

    run(scene)


def test_broker_is_watched_anew_when_it_has_another_epoch() -> None:
    async def scene(rig: Rig) -> None:
        former = rig.network.add(2, epoch=1)
        rig.follow()
        await connected(former)
        before = rig.network.image
        broker = rig.network.add(2, epoch=5)
        rig.peers.follow(before, rig.network.image)
        rig.follow()
        await connected(broker)
        broker.kill()
        await until(lambda: rig.dead != [])
        assert rig.dead == [(2, 5)]

    run(scene)


def test_broker_is_not_watched_any_more_when_a_third_one_is_the_controller() -> None:
    async def scene(rig: Rig) -> None:
        broker = rig.network.add(2)
        rig.follow()
        await connected(broker)
        rig.detector.follow(image_of(*rig.network.image.brokers.values(), controller=3))
        await until(lambda: not broker.links[0].is_open)
        broker.kill()
        assert rig.dead == []

    run(scene)


def test_watched_broker_hears_something_when_its_idle_limit_draws_near() -> None:
    async def scene(rig: Rig) -> None:
        broker = rig.network.add(2)
        rig.follow()
        await connected(broker)
        await until(lambda: len(broker.links[0].sent) > 3)
        assert rig.probed == []
        broker.kill()
        await until(lambda: rig.dead != [])

    run(scene, keep_alive_s=0.001)


def test_broker_is_watched_anew_when_it_does_not_answer_on_the_idle_connection() -> None:
    async def scene(rig: Rig) -> None:
        broker = rig.network.add(2)
        rig.follow()
        await connected(broker)
        await broker.links[0].close()  # as after a request that timed out: nobody is told of a loss
        await until(lambda: len(broker.links) == 2)
        assert rig.dead == []

    run(scene, keep_alive_s=0.001)
