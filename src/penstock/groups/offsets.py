"""The committed offsets of groups, and the pending offsets of open transactions. Changed by replay alone.

A commit or deletion of thousands of offsets is also replayed in one go (`replay_commits`, `replay_deletes`,
`replay_group_delete`), with the same result as record by record.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from collections.abc import Set as AbstractSet
from operator import itemgetter

from penstock.core.types import NO_PRODUCER_ID, TopicPartition
from penstock.groups.records.consumer_offsets import BatchPlace, CommittedOffset

OffsetsByPartition = dict[TopicPartition, CommittedOffset]

_BATCH: Callable[[CommittedOffset], BatchPlace | None] = itemgetter(CommittedOffset._fields.index("batch"))
_RECORD_OFFSET: Callable[[CommittedOffset], int] = itemgetter(CommittedOffset._fields.index("record_offset"))
_FEW = 100  # offsets of a transaction that are handled one by one


class OffsetStore:
    def __init__(self) -> None:
        self._committed: dict[str, OffsetsByPartition] = {}  # by group
        self._pending: dict[int, dict[str, OffsetsByPartition]] = {}  # by producer id, by group
        # The same, the other way round: by group, by producer id. The innermost dictionaries are those of `_pending`.
        self._open_transactions: dict[str, dict[int, OffsetsByPartition]] = {}

    def of_group(self, group_id: str) -> OffsetsByPartition:
        return self._committed.get(group_id, {})

    def get(self, group_id: str, partition: TopicPartition) -> CommittedOffset | None:
        return self.of_group(group_id).get(partition)

    def count(self) -> int:
        return sum(map(len, self._committed.values()))

    def has_open_transaction(self, group_id: str, partition: TopicPartition | None = None) -> bool:
        transactions = self._open_transactions.get(group_id)
        if not transactions:
            return False
        return partition is None or any(partition in pending for pending in transactions.values())

    def partitions_with_open_transaction(self, group_id: str) -> frozenset[TopicPartition]:
        return frozenset().union(*self._open_transactions.get(group_id, {}).values())

    def partitions_of(self, group_id: str) -> list[TopicPartition]:
        """The partitions with an offset, or with an offset that a transaction may yet commit."""
        partitions = dict.fromkeys(self.of_group(group_id))
        for pending in self._open_transactions.get(group_id, {}).values():
            partitions.update(dict.fromkeys(pending))
        return list(partitions)

    def has_others(self, group_id: str, partitions: AbstractSet[TopicPartition]) -> bool:
        """Whether the group has offsets, committed or pending, besides those of `partitions`."""
        pending = self._open_transactions.get(group_id, {}).values()
        return not all(offsets.keys() <= partitions for offsets in (self.of_group(group_id), *pending))

    def has_any(self, group_id: str, partitions: Iterable[TopicPartition]) -> bool:
        """Whether the group has an offset, committed or pending, of any of `partitions`."""
        pending = self._open_transactions.get(group_id, {}).values()
        return not all(offsets.keys().isdisjoint(partitions) for offsets in (self.of_group(group_id), *pending))

    def versions(self, group_id: str, partition: TopicPartition) -> Iterator[CommittedOffset]:
        """The offset that counts, and those that open transactions may commit."""
        committed = self.get(group_id, partition)
        if committed is not None:
            yield committed
        for pending in self._open_transactions.get(group_id, {}).values():
            if partition in pending:
                yield pending[partition]

    def groups(self) -> list[str]:
        # In an order that does not depend on hashes.
        return list(dict.fromkeys((*self._committed, *self._open_transactions)))

    # ----------------------------------------------------------------------------------------- replay

    def replay_commit(
        self, group_id: str, partition: TopicPartition, committed: CommittedOffset, producer_id: int
    ) -> None:
        self._offsets_to_change(group_id, producer_id)[partition] = committed

    def replay_commits(self, group_id: str, committed: OffsetsByPartition, producer_id: int) -> None:
        if committed:
            self._offsets_to_change(group_id, producer_id).update(committed)

    def _offsets_to_change(self, group_id: str, producer_id: int) -> OffsetsByPartition:
        if producer_id == NO_PRODUCER_ID:
            return self._committed.setdefault(group_id, {})
        pending = self._pending.setdefault(producer_id, {}).setdefault(group_id, {})
        self._open_transactions.setdefault(group_id, {})[producer_id] = pending
        return pending

    def replay_delete(self, group_id: str, partition: TopicPartition) -> None:
        self.replay_deletes(group_id, (partition,))

    def replay_deletes(self, group_id: str, partitions: Iterable[TopicPartition]) -> None:
        committed = self._committed.get(group_id)
        if committed is not None:
            _remove(committed, partitions)
            if not committed:
                del self._committed[group_id]
        # A deleted offset does not come back when a transaction ends.
        for producer_id, pending in list(self._open_transactions.get(group_id, {}).items()):
            _remove(pending, partitions)
            if not pending:
                self._pending[producer_id].pop(group_id)
                self._close_transaction(group_id, producer_id)

    def replay_group_delete(self, group_id: str) -> None:
        self._committed.pop(group_id, None)
        for producer_id in self._open_transactions.pop(group_id, {}):
            self._pending[producer_id].pop(group_id)

    def replay_transaction_end(self, producer_id: int, is_committed: bool) -> None:
        for group_id, offsets in self._pending.pop(producer_id, {}).items():
            self._close_transaction(group_id, producer_id)
            if is_committed:
                self._commit_pending(group_id, offsets)

    def _commit_pending(self, group_id: str, offsets: OffsetsByPartition) -> None:
        """A plain commit written after the transaction's wins. The place in the log decides, because compaction may
        have removed either of the two since.
        """
        committed = self._committed.setdefault(group_id, {})
        if not committed or (len(offsets) > _FEW and _last_place(committed) < _first_place(offsets)):
            committed.update(offsets)
            return
        for partition, pending in offsets.items():
            current = committed.get(partition)
            if current is None or pending.log_offset > current.log_offset:
                committed[partition] = pending

    def _close_transaction(self, group_id: str, producer_id: int) -> None:
        transactions = self._open_transactions[group_id]
        del transactions[producer_id]
        if not transactions:
            del self._open_transactions[group_id]


def _last_place(offsets: OffsetsByPartition) -> int:
    """None of these offsets was written later in the log. Found without a check of each: a tenth of the time."""
    bases = [0 if batch is None else batch.base_offset for batch in set(map(_BATCH, offsets.values()))]
    return max(bases) + max(map(_RECORD_OFFSET, offsets.values()))


def _first_place(offsets: OffsetsByPartition) -> int:
    """None of these offsets was written earlier in the log."""
    bases = [0 if batch is None else batch.base_offset for batch in set(map(_BATCH, offsets.values()))]
    return min(bases) + min(map(_RECORD_OFFSET, offsets.values()))


def _remove(offsets: OffsetsByPartition, partitions: Iterable[TopicPartition]) -> None:
    for partition in partitions:
        offsets.pop(partition, None)
