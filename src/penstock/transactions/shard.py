"""The transactional ids of one partition of `__transaction_state`: what replay builds, and what failed appends do
to it.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable

from penstock.core.types import TopicPartition
from penstock.protocol.errors import ErrorCode
from penstock.transactions.outcome import AppendPurpose, Markers, Outcome, PendingAppend, TimerKind
from penstock.transactions.records import UnknownRecord, decode_record, encode_transaction, value_version
from penstock.transactions.settings import TransactionSettings
from penstock.transactions.state import NEXT_STATES, NO_TIMEOUT_MS, PREPARED, Transaction

logger = logging.getLogger(__name__)

_RETRY_TIMERS = {
    AppendPurpose.COMPLETE: TimerKind.COMPLETION_RETRY,
    AppendPurpose.ABORT_TIMED_OUT: TimerKind.TRANSACTION_TIMEOUT,
}


class TransactionShard:
    def __init__(
        self,
        partition: int,
        coordinator_epoch: int,
        settings: TransactionSettings,
        new_producer_id: Callable[[], int],
    ) -> None:
        self.partition = partition
        self.coordinator_epoch = coordinator_epoch
        self.settings = settings
        self.new_producer_id = new_producer_id
        self.transactions: dict[str, Transaction] = {}
        # Where a decided transaction's markers are still missing; no entry when nothing was decided.
        self.unmarked: dict[str, set[TopicPartition]] = {}
        # What is on its way to the log. The log does not keep all of a transaction; replay takes the rest from here.
        self._staged: deque[tuple[str, Transaction]] = deque()
        self._warned_of: set[str] = set()

    def outcome(self) -> Outcome:
        return Outcome(self.partition)

    # ---------------------------------------------------------------------------------- toward the log

    def stage(self, outcome: Outcome, transactional_id: str, transaction: Transaction) -> None:
        before = self._staged[-1][1] if self._staged else self.transactions.get(transactional_id)
        assert before is None or transaction.state in NEXT_STATES[before.state], (before, transaction)
        version = value_version(self.settings.transaction_version)
        outcome.records.append(encode_transaction(transactional_id, transaction, version))
        self._staged.append((transactional_id, transaction))

    def stage_tombstone(self, outcome: Outcome, transactional_id: str) -> None:
        version = value_version(self.settings.transaction_version)
        outcome.records.append(encode_transaction(transactional_id, None, version))

    def ask_for_markers(self, outcome: Outcome, transactional_id: str, transaction: Transaction) -> None:
        outcome.markers.append(
            Markers(
                state_partition=self.partition,
                transactional_id=transactional_id,
                producer_id=transaction.producer_id,
                producer_epoch=transaction.producer_epoch,
                coordinator_epoch=self.coordinator_epoch,
                is_commit=transaction.is_commit,
                partitions=tuple(sorted(transaction.partitions)),
                transaction_version=transaction.client_transaction_version,
            )
        )

    def expect_end(self, outcome: Outcome, transactional_id: str, transaction: Transaction, now_ms: int) -> None:
        """The timer outlives a transaction that ends in time: it is harmless then, and cancelling it would be wrong
        if the end cannot be written.
        """
        if transaction.timeout_ms != NO_TIMEOUT_MS:
            delay_ms = max(0, transaction.remaining_ms(now_ms) + 1)
            outcome.set_timer(TimerKind.TRANSACTION_TIMEOUT, transactional_id, delay_ms)

    # ----------------------------------------------------------------------------------------- replay

    def replay(self, key: bytes, value: bytes | None) -> None:
        change = decode_record(key, value)
        if isinstance(change, UnknownRecord):
            self._warn_once(change)
            return
        transactional_id, transaction = change
        self.unmarked.pop(transactional_id, None)
        if transaction is None:
            self.transactions.pop(transactional_id, None)
            return
        if self._staged:
            staged_id, transaction = self._staged.popleft()
            assert staged_id == transactional_id, "records were replayed in another order"
        self.transactions[transactional_id] = transaction
        if transaction.state in PREPARED:
            self.unmarked[transactional_id] = set(transaction.partitions)

    def _warn_once(self, unknown: UnknownRecord) -> None:
        if unknown.what not in self._warned_of:
            self._warned_of.add(unknown.what)
            logger.warning(
                "records of newer software are skipped",
                extra={"what": unknown.what, "transactions_partition": self.partition},
            )

    # -------------------------------------------------------------------------- failed appends, unload

    def on_append_failed(self, failed: Outcome, append_error: ErrorCode) -> Outcome:
        """Nothing has happened, because memory follows the log. What the coordinator wanted of its own accord it will
        try again.
        """
        self._staged.clear()
        logger.warning(
            "transaction records could not be written",
            extra={"transactions_partition": self.partition, "error": append_error.name},
        )
        outcome = self.outcome()
        outcome.replies = failed.failed_replies(append_error)
        if failed.pending is not None:
            self.try_again(outcome, failed.pending)
        return outcome

    def try_again(self, outcome: Outcome, pending: PendingAppend) -> None:
        outcome.set_timer(_RETRY_TIMERS[pending.purpose], pending.transactional_id, self.settings.retry_backoff_ms)

    def on_unloaded(self) -> Outcome:
        """No request is ever parked here, so nobody waits."""
        outcome = self.outcome()
        for transactional_id in self.transactions:
            for kind in TimerKind:
                outcome.cancel_timer(kind, transactional_id)
        return outcome
