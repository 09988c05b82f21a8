"""Who of the other brokers is there: what answers about leaders wait for, and whom they name."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from random import Random

from penstock.broker.peers.departed import Departed
from penstock.broker.peers.peer import PeerUnavailableError
from penstock.broker.peers.peers import BackOff, Peers
from penstock.broker.peers.presence import Presence
from penstock.broker.peers.pulse import Pulse
from penstock.protocol.message import Message
from tests.unit.broker.harness import until
from tests.unit.broker.peers.links import Network, image_of, registration


class Rig:
    def __init__(self) -> None:
        self.network = Network()
        self.network.add(1)
        self.peers = Peers(1, self.network.find, self.network.connect, Random(1), BackOff(0.0, 0.0))
        self.changes = 0
        self.presence = Presence(1, self.peers, lambda: self.network.image, self._changed)

    def _changed(self) -> None:
        self.changes += 1

    def remove(self, node_id: int) -> None:
        before = self.network.image
        self.network.image = image_of(*(each for each in before.brokers.values() if each.node_id != node_id))
        self.peers.follow(before, self.network.image)
        self.presence.follow(before, self.network.image)


def run(scene: Callable[[Rig], Awaitable[None]]) -> None:
    async def whole() -> None:
        rig = Rig()
        try:
            async with asyncio.timeout(20):
                await scene(rig)
        finally:
            await rig.presence.close()
            await rig.peers.close()

    asyncio.run(whole())


def test_nothing_is_waited_for_when_there_are_no_others() -> None:
    async def scene(rig: Rig) -> None:
        assert rig.presence.is_known
        await rig.presence.settle()

    run(scene)


def test_every_other_broker_is_asked_for_a_sign_when_an_answer_is_wanted() -> None:
    async def scene(rig: Rig) -> None:
        others = [rig.network.add(2), rig.network.add(3)]
        assert not rig.presence.is_known
        await rig.presence.settle()
        assert [len(broker.links) for broker in others] == [1, 1]
        assert not rig.presence.suspects

    run(scene)


def test_answer_waits_for_the_next_image_when_a_broker_dies_before_its_sign() -> None:
    async def scene(rig: Rig) -> None:
        broker = rig.network.add(2)
        await rig.presence.settle()
        broker.kill()
        assert 2 in rig.presence.suspects
        assert rig.changes == 1
        waiting = asyncio.ensure_future(rig.presence.settle())
        await asyncio.sleep(0.01)
        assert not waiting.done()
        rig.remove(2)
        await waiting
        assert rig.presence.is_known
        assert [each.node_id for each in rig.presence.departed] == [2]

    run(scene)


def test_nobody_is_suspected_when_an_attempt_to_reach_a_broker_fails_after_the_image_told_of_its_death() -> None:
    async def scene(rig: Rig) -> None:
        broker = rig.network.add(2)
        await rig.presence.settle()
        rig.remove(2)
        broker.kill()
        assert not rig.presence.suspects
        assert rig.presence.is_known

    run(scene)


def test_nobody_is_suspected_when_a_broker_that_stops_closes_its_port() -> None:
    async def scene(rig: Rig) -> None:
        broker = rig.network.add(2)
        await rig.presence.settle()
        rig.network.image = image_of(registration(1), registration(2)._replace(is_stopping=True))
        broker.kill()
        assert not rig.presence.suspects
        assert rig.presence.is_known

    run(scene)


def test_suspicion_ends_when_a_broker_that_was_cut_off_can_be_reached() -> None:
    async def scene(rig: Rig) -> None:
        broker = rig.network.add(2)
        await rig.presence.settle()
        broker.links[0].cut()
        assert 2 in rig.presence.suspects
        await rig.presence.settle()
        assert 2 not in rig.presence.suspects
        assert len(broker.links) == 2

    run(scene)


def test_questions_share_the_next_round_when_signs_are_asked_for_already() -> None:
    async def scene() -> None:
        asked: list[int] = []
        answering = asyncio.Event()

        async def ask(node_id: int, request: Message, *, timeout_s: float, channel: str) -> None:
            asked.append(node_id)
            await answering.wait()

        pulse = Pulse(ask, lambda: [2])
        first = asyncio.ensure_future(pulse.take())
        await until(lambda: asked == [2])
        await asyncio.sleep(0.01)  # what comes now must not be content with a sign that was asked for before
        others = [asyncio.ensure_future(pulse.take()) for _ in range(10)]
        await asyncio.sleep(0)
        answering.set()
        await asyncio.gather(first, *others)
        assert asked == [2, 2]
        await pulse.close()

    asyncio.run(scene())


def test_silent_broker_is_not_waited_for_by_every_answer_when_it_did_not_answer_before() -> None:
    async def scene() -> None:
        asked: list[int] = []

        async def ask(node_id: int, request: Message, *, timeout_s: float, channel: str) -> None:
            asked.append(node_id)
            if node_id == 2:
                raise PeerUnavailableError("no answer")

        pulse = Pulse(ask, lambda: [2, 3])
        await pulse.take()
        await asyncio.sleep(0.01)  # a sign of then is too old
        await pulse.take()
        assert asked == [2, 3, 3]
        await pulse.close()

    asyncio.run(scene())


def test_broker_that_left_is_not_named_as_such_when_it_is_back() -> None:
    async def scene() -> None:
        departed = Departed(lambda: None)
        both, one = image_of(registration(1), registration(2)), image_of(registration(1))
        departed.follow(both, one)
        assert [each.node_id for each in departed] == [2]
        departed.follow(one, image_of(registration(1), registration(2, epoch=5)))
        assert list(departed) == []
        departed.follow(both, one)
        departed.close()
        assert list(departed) == []

    asyncio.run(scene())
