"""Asks the transaction coordinators on other brokers: may a producer write to these partitions?

One request is in flight to each coordinator. Questions that come meanwhile go into the next request, so a broker that
many producers write to sends few requests, and no question waits for longer than two of them. An answer tells
transactions apart by their ids, so two questions about one transaction go into different requests (Kafka's
AddPartitionsToTxnManager).
"""

from __future__ import annotations

import asyncio
from typing import NamedTuple

from penstock.broker.peers.peer_requests import Ask
from penstock.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTransaction,
)

# A producer gives a request up after 30 s (request.timeout.ms), and its connection with it. An earlier error that makes
# it try again costs less.
_TIMEOUT_SECONDS = 10.0
_CHANNEL = "transactions"
# The number of transactions in one request: some 100 KB.
_MOST_AT_ONCE = 1_000


class _Question(NamedTuple):
    transaction: AddPartitionsToTxnTransaction
    answered: asyncio.Future[AddPartitionsToTxnResponse]


class TransactionQuestions:
    def __init__(self) -> None:
        self._waiting: dict[int, list[_Question]] = {}  # by coordinator; each has a task that asks
        self._asking: set[asyncio.Task[None]] = set()

    async def ask(
        self, ask: Ask, coordinator: int, transaction: AddPartitionsToTxnTransaction
    ) -> AddPartitionsToTxnResponse:
        """The answer to all questions of a request, among them this question. Raises the errors of `ask`."""
        loop = asyncio.get_running_loop()
        question = _Question(transaction, loop.create_future())
        waiting = self._waiting.get(coordinator)
        if waiting is not None:
            waiting.append(question)
        else:
            self._waiting[coordinator] = [question]
            task = loop.create_task(self._ask_in_turn(ask, coordinator), name=f"asks coordinator {coordinator}")
            self._asking.add(task)
            task.add_done_callback(self._asking.discard)
        return await question.answered

    async def _ask_in_turn(self, ask: Ask, coordinator: int) -> None:
        try:
            while asked := self._take(coordinator):
                request = AddPartitionsToTxnRequest(transactions=[each.transaction for each in asked.values()])
                try:
                    answer = await ask(coordinator, request, timeout_s=_TIMEOUT_SECONDS, channel=_CHANNEL)
                except Exception as error:  # noqa: BLE001  # each of those who asked deals with it
                    _tell(asked, error)
                else:
                    _tell(asked, answer)
        finally:
            del self._waiting[coordinator]

    def _take(self, coordinator: int) -> dict[str, _Question]:
        taken: dict[str, _Question] = {}
        left: list[_Question] = []
        for each in self._waiting[coordinator]:
            if each.answered.done():
                continue  # its client is gone
            transactional_id = each.transaction.transactional_id
            if len(taken) < _MOST_AT_ONCE and transactional_id not in taken:
                taken[transactional_id] = each
            else:
                left.append(each)
        self._waiting[coordinator] = left
        return taken


def _tell(asked: dict[str, _Question], outcome: AddPartitionsToTxnResponse | Exception) -> None:
    for question in asked.values():
        if question.answered.done():
            continue
        if isinstance(outcome, Exception):
            question.answered.set_exception(outcome)
        else:
            question.answered.set_result(outcome)
