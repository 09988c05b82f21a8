"""The offsets that groups have committed, and those that open transactions will commit. Changed by replay alone."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeVar

from penstock.core.types import NO_PRODUCER_ID, TopicPartition
from penstock.groups.records.consumer_offsets import CommittedOffset

V = TypeVar("V")

OffsetsByPartition = dict[TopicPartition, CommittedOffset]


class OffsetStore:
    def __init__(self) -> None:
        self._committed: dict[str, OffsetsByPartition] = {}  # by group
        self._pending: dict[int, dict[str, OffsetsByPartition]] = {}  # by producer id, by group
        # The same, the other way round: which producers have an open transaction on a partition of a group.
        self._open_transactions: dict[str, dict[TopicPartition, set[int]]] = {}

    def of_group(self, group_id: str) -> OffsetsByPartition:
        return self._committed.get(group_id, {})

    def get(self, group_id: str, partition: TopicPartition) -> CommittedOffset | None:
        return self.of_group(group_id).get(partition)

    def count(self) -> int:
        return sum(map(len, self._committed.values()))

    def has_open_transaction(self, group_id: str, partition: TopicPartition | None = None) -> bool:
        open_partitions = self._open_transactions.get(group_id, {})
        return bool(open_partitions) if partition is None else partition in open_partitions

    def partitions_with_open_transaction(self, group_id: str) -> list[TopicPartition]:
        return list(self._open_transactions.get(group_id, ()))

    def partitions_of(self, group_id: str) -> list[TopicPartition]:
        """With an offset, or with one that a transaction may yet commit."""
        return list(dict.fromkeys([*self.of_group(group_id), *self._open_transactions.get(group_id, ())]))

    def versions(self, group_id: str, partition: TopicPartition) -> Iterator[CommittedOffset]:
        """The offset that counts, and those that open transactions may commit."""
        committed = self.get(group_id, partition)
        if committed is not None:
            yield committed
        for producer_id in self._open_transactions.get(group_id, {}).get(partition, ()):
            pending = self._pending.get(producer_id, {}).get(group_id, {}).get(partition)
            if pending is not None:
                yield pending

    def groups(self) -> list[str]:
        return list(self._committed.keys() | self._open_transactions.keys())

    # ----------------------------------------------------------------------------------------- replay

    def replay_commit(
        self, group_id: str, partition: TopicPartition, committed: CommittedOffset, producer_id: int
    ) -> None:
        if producer_id == NO_PRODUCER_ID:
            self._committed.setdefault(group_id, {})[partition] = committed
            return
        self._pending.setdefault(producer_id, {}).setdefault(group_id, {})[partition] = committed
        self._open_transactions.setdefault(group_id, {}).setdefault(partition, set()).add(producer_id)

    def replay_delete(self, group_id: str, partition: TopicPartition) -> None:
        _discard(self._committed, group_id, partition)
        # A deleted offset does not come back when a transaction ends.
        for producer_id in self._open_transactions.get(group_id, {}).get(partition, ()):
            _discard(self._pending.get(producer_id, {}), group_id, partition)
        _discard(self._open_transactions, group_id, partition)

    def replay_transaction_end(self, producer_id: int, is_committed: bool) -> None:
        for group_id, offsets in self._pending.pop(producer_id, {}).items():
            for partition, pending in offsets.items():
                self._close_transaction(group_id, partition, producer_id)
                current = self.get(group_id, partition)
                # A plain commit written after the transaction's wins. The position in the log decides, because
                # compaction may have removed either of the two since.
                if is_committed and (current is None or pending.record_offset > current.record_offset):
                    self._committed.setdefault(group_id, {})[partition] = pending

    def _close_transaction(self, group_id: str, partition: TopicPartition, producer_id: int) -> None:
        producers = self._open_transactions.get(group_id, {}).get(partition)
        if producers is not None:
            producers.discard(producer_id)
            if not producers:
                _discard(self._open_transactions, group_id, partition)


def _discard(by_group: dict[str, dict[TopicPartition, V]], group_id: str, partition: TopicPartition) -> None:
    of_group = by_group.get(group_id)
    if of_group is not None:
        of_group.pop(partition, None)
        if not of_group:
            del by_group[group_id]
