"""The transactional ids of one partition of `__transaction_state`: replay builds them, and failed appends change
them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator

from penstock.coordinators.record_framing import SkippedRecords, UnknownRecord
from penstock.core.internal_topics import TRANSACTION_STATE
from penstock.core.types import NO_OFFSET, NO_PRODUCER_ID, TopicPartition
from penstock.protocol.errors import ErrorCode
from penstock.transactions.outcome import AppendPurpose, Markers, PendingAppend, TimerKind, TransactionOutcome
from penstock.transactions.records import decode_record, decode_transactional_id, encode_transaction, value_version
from penstock.transactions.settings import TransactionSettings
from penstock.transactions.state import NEXT_STATES, NO_TIMEOUT_MS, PREPARED, Transaction, sort_partitions

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
        # The partitions of a decided transaction whose markers are still missing; no entry without a decision.
        self.unmarked: dict[str, set[TopicPartition]] = {}
        # The transactions on their way to the log. The log does not keep all of a transaction; replay takes the rest
        # from here.
        self._staged: deque[tuple[str, Transaction]] = deque()
        self._skipped = SkippedRecords(TRANSACTION_STATE, partition)

    def outcome(self) -> TransactionOutcome:
        return TransactionOutcome(self.partition)

    # ---------------------------------------------------------------------------------- toward the log

    def stage(self, outcome: TransactionOutcome, transactional_id: str, transaction: Transaction) -> None:
        before = self._staged[-1][1] if self._staged else self.transactions.get(transactional_id)
        assert before is None or transaction.state in NEXT_STATES[before.state], (before, transaction)
        version = value_version(self.settings.transaction_version)
        outcome.records.append(encode_transaction(transactional_id, transaction, version))
        self._staged.append((transactional_id, transaction))

    def stage_tombstone(self, outcome: TransactionOutcome, transactional_id: str) -> None:
        version = value_version(self.settings.transaction_version)
        outcome.records.append(encode_transaction(transactional_id, None, version))

    def ask_for_markers(self, outcome: TransactionOutcome, transactional_id: str, transaction: Transaction) -> None:
        outcome.markers.append(
            Markers(
                state_partition=self.partition,
                transactional_id=transactional_id,
                producer_id=transaction.producer_id,
                producer_epoch=transaction.producer_epoch,
                coordinator_epoch=self.coordinator_epoch,
                is_commit=transaction.is_commit,
                partitions=sort_partitions(transaction.partitions),
                transaction_version=transaction.client_transaction_version,
            )
        )

    def expect_end(
        self, outcome: TransactionOutcome, transactional_id: str, transaction: Transaction, now_ms: int
    ) -> None:
        """The timer outlives a transaction that ends in time: it is harmless then, and its cancellation would be wrong
        if the end cannot be written. A clock that was set back delays the next look by one timeout at most: the clock
        may have been set right again by then.
        """
        if transaction.timeout_ms != NO_TIMEOUT_MS:
            delay_ms = min(max(0, transaction.remaining_ms(now_ms) + 1), transaction.timeout_ms + 1)
            outcome.set_timer(TimerKind.TRANSACTION_TIMEOUT, transactional_id, delay_ms)

    # ----------------------------------------------------------------------------------------- replay

    def replay(
        self, key: bytes, value: bytes | None, record_offset: int = NO_OFFSET, producer_id: int = NO_PRODUCER_ID
    ) -> None:
        if self._staged and value is not None:
            # The value was encoded from the staged transaction in this turn. To decode 10,000 partitions takes 5 ms.
            transactional_id, transaction = self._staged.popleft()
            assert transactional_id == decode_transactional_id(key), "records were replayed in another order"
            self._take_over(transactional_id, transaction)
            return
        change = decode_record(key, value)
        if isinstance(change, UnknownRecord):
            self._skipped.note(change)
            return
        self._take_over(*change)

    def _take_over(self, transactional_id: str, transaction: Transaction | None) -> None:
        self.unmarked.pop(transactional_id, None)
        if transaction is None:
            self.transactions.pop(transactional_id, None)
            return
        self.transactions[transactional_id] = transaction
        if transaction.state in PREPARED:
            self.unmarked[transactional_id] = set(transaction.partitions)

    # -------------------------------------------------------------------------- failed appends, unload

    def on_append_failed(self, failed: TransactionOutcome, append_error: ErrorCode, _now_ms: int) -> TransactionOutcome:
        """Nothing has happened, because memory follows the log. The coordinator repeats its own operations."""
        self._staged.clear()
        outcome = self.outcome()
        outcome.replies = failed.failed_replies(append_error)
        if failed.pending is not None:
            self.try_again(outcome, failed.pending)
        return outcome

    def try_again(self, outcome: TransactionOutcome, pending: PendingAppend) -> None:
        outcome.set_timer(_RETRY_TIMERS[pending.purpose], pending.transactional_id, self.settings.retry_backoff_ms)

    def abandon(self, _now_ms: int) -> Iterator[TransactionOutcome]:
        """No request is ever parked here, so none waits. One transactional id per step is freed."""
        while self.transactions:
            transactional_id, _ = self.transactions.popitem()
            self.unmarked.pop(transactional_id, None)
            outcome = self.outcome()
            for kind in TimerKind:
                outcome.cancel_timer(kind, transactional_id)
            yield outcome
