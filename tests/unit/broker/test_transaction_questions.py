"""Questions to other coordinators go together while one is under way."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from penstock.broker.peers.peer import PeerUnavailableError
from penstock.broker.runtimes.transaction_questions import TransactionQuestions
from penstock.protocol.message import Message
from penstock.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTransaction,
)
from tests.waiting import until


class Coordinators:
    """Each request waits until the test answers it."""

    def __init__(self) -> None:
        self.questions = TransactionQuestions()
        self.requests: list[tuple[int, list[str]]] = []
        self.answers: list[asyncio.Future[AddPartitionsToTxnResponse]] = []

    async def _ask(self, node_id: int, request: Message, *, timeout_s: float, channel: str) -> Any:
        assert isinstance(request, AddPartitionsToTxnRequest)
        assert timeout_s > 0
        assert channel
        self.requests.append((node_id, [each.transactional_id for each in request.transactions]))
        self.answers.append(asyncio.get_running_loop().create_future())
        return await self.answers[-1]

    def ask(self, transactional_id: str, coordinator: int = 1) -> asyncio.Task[AddPartitionsToTxnResponse]:
        transaction = AddPartitionsToTxnTransaction(transactional_id=transactional_id)
        return asyncio.ensure_future(self.questions.ask(self._ask, coordinator, transaction))

    async def until_asked(self, count: int) -> None:
        await until(lambda: len(self.requests) == count)


def test_what_is_asked_meanwhile_goes_in_one_request_when_one_is_under_way() -> None:
    async def scenario() -> None:
        coordinators = Coordinators()
        first = coordinators.ask("a")
        await coordinators.until_asked(1)
        second, third, elsewhere = coordinators.ask("b"), coordinators.ask("c"), coordinators.ask("d", coordinator=2)
        await coordinators.until_asked(2)
        assert coordinators.requests == [(1, ["a"]), (2, ["d"])]
        one, two, three = (AddPartitionsToTxnResponse() for _ in range(3))
        coordinators.answers[0].set_result(one)
        assert await first is one
        await coordinators.until_asked(3)
        assert coordinators.requests[2] == (1, ["b", "c"])
        coordinators.answers[2].set_result(two)
        assert await second is two
        assert await third is two
        coordinators.answers[1].set_result(three)
        assert await elsewhere is three
        later = coordinators.ask("e")
        await coordinators.until_asked(4)
        coordinators.answers[3].set_result(one)
        assert await later is one

    asyncio.run(scenario())


def test_questions_about_one_transaction_go_in_different_requests() -> None:
    async def scenario() -> None:
        coordinators = Coordinators()
        asked = [coordinators.ask(name) for name in ("a", "b", "b", "c")]
        for number, expected in enumerate((["a", "b", "c"], ["b"])):
            await coordinators.until_asked(number + 1)
            assert coordinators.requests[number] == (1, expected)
            coordinators.answers[number].set_result(AddPartitionsToTxnResponse(throttle_time_ms=number))
        assert [answer.throttle_time_ms for answer in await asyncio.gather(*asked)] == [0, 0, 1, 0]

    asyncio.run(scenario())


def test_each_hears_of_it_when_the_coordinator_cannot_be_reached_and_nobody_is_asked_for_clients_that_are_gone() -> (
    None
):
    async def scenario() -> None:
        coordinators = Coordinators()
        first = coordinators.ask("a")
        await coordinators.until_asked(1)
        second, gone = coordinators.ask("b"), coordinators.ask("c")
        await asyncio.sleep(0)
        gone.cancel()
        await asyncio.sleep(0)
        for number, task in enumerate((first, second)):
            await coordinators.until_asked(number + 1)
            coordinators.answers[number].set_exception(PeerUnavailableError("away"))
            with pytest.raises(PeerUnavailableError):
                await task
        assert coordinators.requests == [(1, ["a"]), (1, ["b"])]

    asyncio.run(scenario())
