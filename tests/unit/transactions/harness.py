"""A runtime small enough to see through: appends to a list, replays, answers, keeps time by hand, and writes markers
when it is told to.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any, TypeVar

from penstock.coordinators.outcome import CoordinatorRecord, Result
from penstock.core.types import TopicPartition
from penstock.protocol.errors import ApiError, ErrorCode
from penstock.transactions.coordinator import TransactionCoordinator
from penstock.transactions.operations import (
    ADD_OFFSETS,
    ADD_PARTITIONS,
    DESCRIBE_TRANSACTION,
    END_TRANSACTION,
    INIT_PRODUCER_ID,
)
from penstock.transactions.outcome import Markers, TimerKey, TransactionOutcome
from penstock.transactions.requests import (
    AddOffsetsRequest,
    AddPartitionsRequest,
    DescribeTransactionRequest,
    EndTransactionRequest,
    InitProducerIdRequest,
)
from penstock.transactions.results import (
    AddOffsetsResult,
    AddPartitionsResult,
    EndTransactionResult,
    InitProducerIdResult,
)
from penstock.transactions.settings import TransactionSettings
from penstock.transactions.state import Transaction
from tests.unit.coordinators.tokens import Receipt

R = TypeVar("R", bound=Result)

ID = "payments"
START_MS = 1_700_000_000_000
TIMEOUT_MS = 60_000
FIRST_PRODUCER_ID = 1000
ORDERS_0 = TopicPartition("orders", 0)
ORDERS_1 = TopicPartition("orders", 1)
ITEMS_0 = TopicPartition("items", 0)


class Runtime:
    def __init__(
        self,
        settings: TransactionSettings | None = None,
        partition_count: int = 1,
        log: list[CoordinatorRecord] | None = None,
        coordinator_epoch: int = 0,
        producer_ids: Iterator[int] | None = None,
        now_ms: int = START_MS,
    ) -> None:
        self.now_ms = now_ms
        self.coordinator_epoch = coordinator_epoch
        self.log: list[CoordinatorRecord] = []
        self.replies: dict[object, Result] = {}
        self.timers: dict[TimerKey, int] = {}
        self.markers: list[Markers] = []  # asked for and not yet written
        self.fail_next_append_with: ErrorCode | None = None
        self.has_producer_ids = True
        self.producer_ids = producer_ids or itertools.count(FIRST_PRODUCER_ID)
        self.transactions = TransactionCoordinator(
            settings or TransactionSettings(), partition_count, self.new_producer_id
        )
        for partition in range(partition_count):
            self.transactions.shards.begin_loading(partition, coordinator_epoch)
            for record in log or ():
                self.transactions.shards.replay(partition, *record)
            self.run(self.transactions.shards.finish_loading(partition, self.now_ms))
        self.log += log or ()

    def new_producer_id(self) -> int:
        if not self.has_producer_ids:
            raise ApiError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        return next(self.producer_ids)

    def run(self, outcome: TransactionOutcome) -> None:
        for change in outcome.timers:
            if change.delay_ms is None:
                self.timers.pop(change.key, None)
            else:
                self.timers[change.key] = self.now_ms + change.delay_ms
        if outcome.records and self.fail_next_append_with is not None:
            error, self.fail_next_append_with = self.fail_next_append_with, None
            self.run(self.transactions.shards.on_append_failed(outcome, error, START_MS))
            return
        for record in outcome.records:
            self.log.append(record)
            self.transactions.shards.replay(outcome.partition, *record)
        for reply in outcome.replies:
            reply.release()
        self.markers += outcome.markers

    def restarted(self, **more: Any) -> Runtime:
        """Another broker takes over, with what is in the log."""
        return Runtime(
            more.pop("settings", self.transactions.shards.settings),
            log=list(self.log),
            coordinator_epoch=self.coordinator_epoch + 1,
            producer_ids=self.producer_ids,
            now_ms=self.now_ms,
            **more,
        )

    def advance(self, milliseconds: int) -> None:
        end_ms = self.now_ms + milliseconds
        while self.timers:
            key, when = min(self.timers.items(), key=lambda timer: timer[1])
            if when > end_ms:
                break
            self.now_ms = max(self.now_ms, when)
            del self.timers[key]
            self.run(self.transactions.shards.on_timer(key, self.now_ms))
        self.now_ms = end_ms

    # ------------------------------------------------------------------------------------------ requests

    def token(self) -> Receipt:
        return Receipt(self.replies)

    def answer(self, token: object, kind: type[R]) -> R:
        result = self.replies[token]
        assert isinstance(result, kind)
        return result

    def init(self, transactional_id: str = ID, timeout_ms: int = TIMEOUT_MS, **more: Any) -> InitProducerIdResult:
        token = self.token()
        request = InitProducerIdRequest(transactional_id, timeout_ms, **more)
        self.run(self.transactions.shards.perform(INIT_PRODUCER_ID, token, request, self.now_ms))
        return self.answer(token, InitProducerIdResult)

    def add(
        self,
        producer_id: int,
        producer_epoch: int,
        *partitions: TopicPartition,
        version: int = 2,
        transactional_id: str = ID,
        **more: Any,
    ) -> ErrorCode:
        token = self.token()
        request = AddPartitionsRequest(transactional_id, producer_id, producer_epoch, partitions, version, **more)
        self.run(self.transactions.shards.perform(ADD_PARTITIONS, token, request, self.now_ms))
        result = self.answer(token, AddPartitionsResult)
        assert [entry.partition for entry in result.partitions] == list(partitions)
        (error,) = {entry.error for entry in result.partitions}
        return error

    def add_offsets(self, producer_id: int, producer_epoch: int, offsets_partition: int, **more: Any) -> ErrorCode:
        token = self.token()
        request = AddOffsetsRequest(ID, producer_id, producer_epoch, offsets_partition, **more)
        self.run(self.transactions.shards.perform(ADD_OFFSETS, token, request, self.now_ms))
        return self.answer(token, AddOffsetsResult).error

    def end(
        self,
        producer_id: int,
        producer_epoch: int,
        is_commit: bool = True,
        version: int = 2,
        transactional_id: str = ID,
        **more: Any,
    ) -> EndTransactionResult:
        token = self.token()
        request = EndTransactionRequest(transactional_id, producer_id, producer_epoch, is_commit, version, **more)
        self.run(self.transactions.shards.perform(END_TRANSACTION, token, request, self.now_ms))
        return self.answer(token, EndTransactionResult)

    def write_markers(self) -> None:
        """All that were asked for."""
        while self.markers:
            self.run(self.transactions.on_markers_written(self.markers.pop(0), self.now_ms))

    # --------------------------------------------------------------------------------------------- sight

    def transaction(self, transactional_id: str = ID) -> Transaction:
        return self.transactions.shards.hosted(0).transactions[transactional_id]

    def state(self, transactional_id: str = ID) -> str:
        return self.transactions.shards.read(DESCRIBE_TRANSACTION, DescribeTransactionRequest(transactional_id)).state

    def states(self, transactional_id: str = ID) -> tuple[str, int, int]:
        found = self.transaction(transactional_id)
        return found.state.title, found.producer_id, found.producer_epoch

    # ------------------------------------------------------------------------------------------ abbreviations

    def ongoing(self, *partitions: TopicPartition, version: int = 2) -> tuple[int, int]:
        """A producer within a transaction."""
        result = self.init()
        assert result.error is ErrorCode.NONE
        assert (
            self.add(result.producer_id, result.producer_epoch, *(partitions or (ORDERS_0,)), version=version)
            is ErrorCode.NONE
        )
        return result.producer_id, result.producer_epoch

    def with_epoch(self, producer_epoch: int) -> None:
        """As after a very long life of the producer."""
        shard = self.transactions.shards.hosted(0)
        outcome = shard.outcome()
        shard.stage(outcome, ID, shard.transactions[ID]._replace(producer_epoch=producer_epoch))
        self.run(outcome)
