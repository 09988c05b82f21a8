"""Who of the other brokers is there: what answers about leaders wait for, and whom they name."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from random import Random

from penstock.broker.peers.departed_brokers import Departed
from penstock.broker.peers.peer import PeerUnavailableError
from penstock.broker.peers.peers import Peers
from penstock.broker.peers.presence import Presence
from penstock.broker.peers.pulse import Pulse
from penstock.core.time.backoff import Backoff
from penstock.protocol.message import Message
from tests.own_time import pass_time, run_in_own_time
from tests.unit.broker.peers.links import Network, image_of, registration
from tests.waiting import until


class Rig:
    def __init__(self) -> None:
        self.network = Network()
        self.network.add(1)
        self.peers = Peers(1, self.network.find, self.network.connect, Random(1).random, Backoff(0.0, 0.0))
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

    run_in_own_time(whole())


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
        await pass_time(0.01)
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


def test_nobody_is_suspected_when_connections_fall_silent() -> None:
    """A cut between this broker and another one hid what the other one led, for 3 s with each connection that ended."""

    async def scene(rig: Rig) -> None:
        lost: list[int] = []
        rig.peers.on_lost(lost.append)
        broker = rig.network.add(2)
        await rig.presence.settle()
        await rig.peers.open(2, "idle")
        for link in broker.links:
            link.fall_silent()
        assert lost == [2, 2]  # whoever watches the broker hears of it
        assert (len(rig.presence.suspects), rig.changes) == (0, 0)

    run(scene)


def test_suspicion_ends_when_a_broker_that_lost_one_connection_of_several_answers() -> None:
    async def scene(rig: Rig) -> None:
        broker = rig.network.add(2)
        await rig.presence.settle()
        await rig.peers.open(2, "idle")
        broker.links[1].cut()
        assert 2 in rig.presence.suspects
        await pass_time(0.01)  # a sign of before is too old
        await rig.presence.settle()
        assert 2 not in rig.presence.suspects
        assert len(broker.links) == 2  # the sign came by a connection that was open

    run(scene)


def test_suspicion_stays_when_the_sign_of_life_was_asked_for_before_the_loss() -> None:
    async def scene(rig: Rig) -> None:
        broker = rig.network.add(2)
        for name in ("first", "second"):
            await rig.peers.open(2, name)
        suspects = rig.presence.suspects
        before = suspects.losses
        broker.links[0].cut()
        between = suspects.losses
        broker.links[1].cut()
        suspects.hear_sign(2, after=before)
        suspects.hear_sign(2, after=between)
        assert 2 in suspects
        suspects.hear_sign(2, after=suspects.losses)
        assert 2 not in suspects

    run(scene)


def test_nobody_is_suspected_when_a_broker_that_starts_does_not_listen_yet() -> None:
    async def scene(rig: Rig) -> None:
        broker = rig.network.add(2)
        broker.is_away = True
        await rig.presence.settle()
        assert broker.attempts == 1
        assert not rig.presence.suspects

    run(scene)


def test_nobody_is_suspected_when_a_broker_that_is_back_with_another_epoch_does_not_listen_yet() -> None:
    async def scene(rig: Rig) -> None:
        rig.network.add(2)
        await rig.presence.settle()
        before = rig.network.image
        broker = rig.network.add(2, epoch=5)
        broker.is_away = True
        rig.peers.follow(before, rig.network.image)
        rig.presence.follow(before, rig.network.image)
        await pass_time(0.01)  # a sign of before is too old
        await rig.presence.settle()
        assert broker.attempts == 1
        assert not rig.presence.suspects

    run(scene)


def test_questions_share_the_next_round_when_signs_are_asked_for_already() -> None:
    async def scene(rig: Rig) -> None:
        asked: list[int] = []
        answering = asyncio.Event()

        async def ask(node_id: int, request: Message, *, timeout_s: float, channel: str) -> None:
            asked.append(node_id)
            await answering.wait()

        pulse = Pulse(ask, lambda: [2], rig.presence.suspects)
        first = asyncio.ensure_future(pulse.take())
        await until(lambda: asked == [2])
        await pass_time(0.01)  # what comes now must not be content with a sign that was asked for before
        others = [asyncio.ensure_future(pulse.take()) for _ in range(10)]
        await asyncio.sleep(0)
        answering.set()
        await asyncio.gather(first, *others)
        assert asked == [2, 2]
        await pulse.close()

    run(scene)


def test_silent_broker_is_not_waited_for_by_every_answer_when_it_did_not_answer_before() -> None:
    async def scene(rig: Rig) -> None:
        asked: list[int] = []

        async def ask(node_id: int, request: Message, *, timeout_s: float, channel: str) -> None:
            asked.append(node_id)
            if node_id == 2:
                raise PeerUnavailableError("no answer")

        pulse = Pulse(ask, lambda: [2, 3], rig.presence.suspects, silence_s=3600)
        await pulse.take()
        await pass_time(0.01)  # a sign of then is too old
        await pulse.take()
        assert asked == [2, 3, 3]
        await pulse.close()

    run(scene)


def test_silent_broker_is_asked_again_when_it_comes_under_suspicion() -> None:
    async def scene(rig: Rig) -> None:
        asked: list[int] = []

        async def ask(node_id: int, request: Message, *, timeout_s: float, channel: str) -> None:
            asked.append(node_id)
            raise PeerUnavailableError("no answer")

        broker = rig.network.add(2)
        await rig.peers.open(2, "watch")
        pulse = Pulse(ask, lambda: [2], rig.presence.suspects, silence_s=3600)
        await pulse.take()
        broker.kill()
        for _ in range(2):
            await pass_time(0.01)  # a sign of then is too old
            await pulse.take()
        assert asked == [2, 2, 2]
        await pulse.close()

    run(scene)


def test_round_waits_for_all_signs_when_an_answer_cannot_be_read() -> None:
    async def scene(rig: Rig) -> None:
        answering = asyncio.Event()
        answered: list[int] = []

        async def ask(node_id: int, request: Message, *, timeout_s: float, channel: str) -> None:
            if node_id == 2:
                raise ValueError("no such answer")
            await answering.wait()
            answered.append(node_id)

        pulse = Pulse(ask, lambda: [2, 3], rig.presence.suspects)
        taking = asyncio.ensure_future(pulse.take())
        await pass_time(0.01)
        assert not taking.done()
        answering.set()
        await taking
        assert answered == [3]
        await pulse.close()

    run(scene)


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

    run_in_own_time(scene())
