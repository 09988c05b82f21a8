"""The transactions of a cluster."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from penstock.admin.look import Look
from penstock.admin.names import list_names
from penstock.admin.queries.topics import read_brokers
from penstock.admin.queries.transactions import (
    abort_request,
    check_abort,
    describe_transactions,
    list_transactions,
    producers_request,
    read_open_transactions,
    transactions_request,
)
from penstock.admin.state.parts import Failure, Partial
from penstock.admin.state.transactions import ListedTransaction, OpenTransaction, TransactionState
from penstock.client.brokers import Brokers
from penstock.core.types import TopicPartition
from penstock.protocol.errors import ErrorCode, error_of


class AsyncTransactions:
    """Raises what `AsyncAdmin` raises."""

    def __init__(self, brokers: Brokers, timeout_s: float) -> None:
        self._brokers = brokers
        self._timeout_s = timeout_s

    async def find(
        self,
        *,
        states: Sequence[str] = (),
        producer_ids: Sequence[int] = (),
        open_for_ms: int | None = None,
        pattern: str | None = None,
    ) -> Partial[dict[str, ListedTransaction]]:
        """All that the caller may describe, or those in one of these states, of these producers, open for longer than
        this, with an id that fits the regular expression. Brokers before Kafka 4.1 know no pattern, and brokers before
        3.8 no age: they are not asked, and are among the failures.
        """
        request = transactions_request(list_names(states), producer_ids, open_for_ms, pattern)
        look = Look(self._brokers, self._timeout_s)
        return await list_transactions(look, read_brokers(await look.metadata([])), request)

    async def describe(self, transactional_ids: Collection[str]) -> Partial[dict[str, TransactionState]]:
        """One that no broker knows, or that the caller may not see, is among the failures."""
        wanted = list_names(transactional_ids)
        look = Look(self._brokers, self._timeout_s)
        nodes = read_brokers(await look.metadata([]))
        listed, silent = await list_transactions(look, nodes, transactions_request())
        described, refused = await describe_transactions(look, [listed[each] for each in wanted if each in listed])
        absent = error_of(ErrorCode.TRANSACTIONAL_ID_NOT_FOUND)
        missing = [Failure.of(f"transaction {each}", absent) for each in wanted if each not in listed]
        return Partial(described, (*silent, *refused, *missing))

    async def open_in(self, place: TopicPartition) -> list[OpenTransaction]:
        """What the leader of the partition knows to be open there, whether or not a coordinator does."""
        answer = await self._brokers.ask_leader(place.topic, place.partition, producers_request(place), retry=True)
        return read_open_transactions(answer)

    async def abort(self, place: TopicPartition, transaction: OpenTransaction) -> None:
        """For one that `open_in` tells of and no coordinator will end: its records are lost to readers of committed
        ones. Sent once.
        """
        request = abort_request(place, transaction)
        check_abort(await self._brokers.ask_leader(place.topic, place.partition, request))
