from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from random import Random

import pytest

from penstock.broker.peers.controller import Controller
from penstock.broker.peers.peers import Peers, PeerUnavailableError
from penstock.core.time.backoff import Backoff
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from tests.unit.broker.peers.links import Network
from tests.unit.broker.peers.pair import View
from tests.waiting import until

ASKED = ListGroupsRequest()


async def accept(answer: ListGroupsResponse) -> ListGroupsResponse | None:
    return None if answer.error_code == ErrorCode.NOT_CONTROLLER else answer


class Rig:
    """This broker is 1; 2 and 3 are others."""

    def __init__(self) -> None:
        self.network = Network()
        self.network.add(1)
        self.two = self.network.add(2)
        self.three = self.network.add(3)
        self.view = View(self.network.image)
        self.peers = Peers(1, self.network.find, self.network.connect, Random(1).random, Backoff(0.0, 0.0))
        self.controller = Controller(1, self.peers, self.view, Random(1).random)

    async def ask(self, timeout_s: float = 10) -> ListGroupsResponse | None:
        return await self.controller.ask(ASKED, accept, timeout_s=timeout_s)


def run(scene: Callable[[Rig], Awaitable[None]]) -> None:
    async def whole() -> None:
        rig = Rig()
        try:
            async with asyncio.timeout(20):
                await scene(rig)
        finally:
            await rig.peers.close()

    asyncio.run(whole())


def test_controller_of_the_image_is_asked() -> None:
    async def scene(rig: Rig) -> None:
        rig.view.publish(controller_id=3)
        assert await rig.ask() == ListGroupsResponse()
        assert (len(rig.two.links), len(rig.three.links)) == (0, 1)

    run(scene)


def test_next_controller_is_asked_when_the_first_one_is_none_any_more() -> None:
    async def scene(rig: Rig) -> None:
        rig.view.publish(controller_id=2)
        rig.two.answer = lambda _: ListGroupsResponse(error_code=ErrorCode.NOT_CONTROLLER)
        asked = asyncio.ensure_future(rig.ask())
        await until(lambda: bool(rig.two.links and rig.two.links[0].sent[1:]))
        rig.view.publish(controller_id=3)
        assert await asked == ListGroupsResponse()
        assert len(rig.three.links) == 1

    run(scene)


def test_same_controller_is_asked_again_when_it_was_away() -> None:
    async def scene(rig: Rig) -> None:
        rig.view.publish(controller_id=2)
        rig.two.is_away = True
        asked = asyncio.ensure_future(rig.ask())
        await until(lambda: rig.two.attempts > 0)
        rig.two.is_away = False
        assert await asked == ListGroupsResponse()

    run(scene)


@pytest.mark.parametrize("controller_id", [-1, 2])
def test_request_fails_when_no_controller_answers_in_time(controller_id: int) -> None:
    async def scene(rig: Rig) -> None:
        rig.view.publish(controller_id=controller_id)
        rig.two.is_silent = True
        with pytest.raises(PeerUnavailableError, match="no answer of a controller"):
            await rig.ask(timeout_s=0.05)

    run(scene)


def test_caller_does_the_work_when_this_broker_becomes_the_controller() -> None:
    async def scene(rig: Rig) -> None:
        rig.view.publish(controller_id=-1)
        asked = asyncio.ensure_future(rig.ask())
        await asyncio.sleep(0)
        rig.view.is_controller = True
        rig.view.publish(controller_id=1)
        assert await asked is None

    run(scene)
