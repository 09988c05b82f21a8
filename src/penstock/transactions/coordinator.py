"""The transaction coordinator: its shards, one for each partition of `__transaction_state`, and operations on all of
them.

Requests go to `shards` with a line of `operations`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator, Iterable

from penstock.coordinators.routing import ShardKind, Shards
from penstock.protocol.errors import ApiError, ErrorCode
from penstock.transactions import administration, transaction_end
from penstock.transactions.outcome import Markers, TimerKey, TransactionOutcome
from penstock.transactions.requests import ListTransactionsRequest
from penstock.transactions.results import ListTransactionsResult
from penstock.transactions.settings import TransactionSettings
from penstock.transactions.shard import TransactionShard
from penstock.transactions.state import Transaction, TransactionState

TransactionShards = Shards[TransactionShard, TransactionOutcome, TimerKey, TransactionSettings]


class TransactionCoordinator:
    def __init__(self, settings: TransactionSettings, partition_count: int, new_producer_id: Callable[[], int]) -> None:
        """`new_producer_id` gives a new, unique id, or raises ApiError (COORDINATOR_LOAD_IN_PROGRESS during the fetch
        of the next block of ids): the client gets its code.
        """
        self._new_producer_id = new_producer_id
        kind = ShardKind(TransactionOutcome, self._new_shard, transaction_end.resume, transaction_end.on_timer)
        self.shards: TransactionShards = Shards(kind, settings, partition_count)

    def _new_shard(self, partition: int, leader_epoch: int) -> TransactionShard:
        return TransactionShard(partition, leader_epoch, self.shards.settings, self._new_producer_id)

    def on_markers_written(self, written: Markers, now_ms: int) -> TransactionOutcome:
        """`written.partitions` may be some of the requested partitions: the transaction is complete with the last. A
        repeated report is harmless.
        """
        return self.shards.run(
            written.state_partition, lambda shard: transaction_end.on_markers_written(shard, written, now_ms)
        )

    def list_transactions(
        self, request: ListTransactionsRequest, now_ms: int
    ) -> Generator[None, None, ListTransactionsResult]:
        """One step for each transaction. Between two steps the transactions may change in any way."""
        if self.shards.is_loading:
            return ListTransactionsResult(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        try:
            wanted = administration.compile_filter(request)
        except ApiError as error:
            return ListTransactionsResult(error.code)
        listed = []
        for transactional_id, transaction in [
            each for shard in self.shards.active() for each in shard.transactions.items()
        ]:
            try:
                is_wanted = yield from wanted.accepts(transactional_id, transaction, now_ms)
            except ApiError as error:  # the pattern takes too long
                return ListTransactionsResult(error.code)
            if is_wanted:
                listed.append(administration.show_listed(transactional_id, transaction))
            yield
        return ListTransactionsResult(ErrorCode.NONE, tuple(listed), administration.unknown_states(request))

    def expire_transactional_ids(
        self, partition: int, now_ms: int, candidates: Iterable[str] | None = None
    ) -> TransactionOutcome:
        """Call this periodically (transaction.remove.expired.transaction.cleanup.interval.ms)."""
        return self.shards.run(
            partition, lambda shard: administration.expire_transactional_ids(shard, now_ms, candidates)
        )

    def all_transactions(self) -> list[Transaction]:
        return [transaction for shard in self.shards.active() for transaction in shard.transactions.values()]

    def transaction_counts(self) -> Counter[TransactionState]:
        return Counter(transaction.state for transaction in self.all_transactions())
