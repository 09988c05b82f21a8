"""The positions of a consumer instance in its partitions. Plain decisions, without any I/O.

A position is the offset of the next record for the caller. Fetched records that did not fit into an answer are kept for
the next answer; every move of a position drops them. Each change of the partitions begins a new `epoch`: records that
were fetched for an older epoch are dropped.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from penstock.client.partition_fetch import FetchedRecord
from penstock.core.types import TopicPartition


class Read(NamedTuple):
    """A record with its source."""

    partition: TopicPartition
    record: FetchedRecord

    @property
    def size(self) -> int:
        return len(self.record.key or b"") + len(self.record.value or b"")


class _Kept(NamedTuple):
    reads: deque[Read]  # so that an answer costs as much as its own records, not as the kept ones behind them
    next_offset: int


class Positions:
    def __init__(self) -> None:
        self.epoch = 0
        self._positions: dict[TopicPartition, int | None] = {}  # None: unknown yet
        self._kept: dict[TopicPartition, _Kept] = {}
        self._dirty: set[TopicPartition] = set()
        self._turn = 0
        self.kept_bytes = 0  # of all records that are kept

    def __contains__(self, partition: TopicPartition) -> bool:
        return partition in self._positions

    @property
    def partitions(self) -> list[TopicPartition]:
        return sorted(self._positions)

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Positions of partitions that stay are kept. The others are unknown at first."""
        kept = self._positions
        self._positions = {each: kept.get(each) for each in partitions}
        self._forget_kept()
        self._dirty.intersection_update(self._positions)
        self.epoch += 1

    def clear(self) -> None:
        self._positions.clear()
        self._forget_kept()
        self._dirty.clear()
        self.epoch += 1

    def seek(self, partition: TopicPartition, offset: int | None) -> None:
        """None: unknown yet."""
        assert partition in self._positions
        self._positions[partition] = offset
        self._forget(partition)
        self._dirty.add(partition)

    def settle(self, partition: TopicPartition, offset: int) -> None:
        """Sets positions that were unknown. This reads no record."""
        self._positions[partition] = offset

    @property
    def unsettled(self) -> list[TopicPartition]:
        return [each for each, position in self._positions.items() if position is None]

    def next_turn(self) -> list[tuple[TopicPartition, int]]:
        """Partitions with their positions. Another partition comes first each time, so that no partition starves behind
        the others.
        """
        settled = [(each, position) for each, position in self._positions.items() if position is not None]
        if not settled:
            return []
        self._turn = (self._turn + 1) % len(settled)
        return [*settled[self._turn :], *settled[: self._turn]]

    def has_kept(self, partition: TopicPartition) -> bool:
        return partition in self._kept

    def keep(self, partition: TopicPartition, records: Sequence[FetchedRecord], next_offset: int) -> None:
        """Keeps the records fetched from the position on. Without records the position moves at once, past markers."""
        if records:
            self._forget(partition)
            reads = deque(Read(partition, each) for each in records)
            self._kept[partition] = _Kept(reads, next_offset)
            self.kept_bytes += sum(each.size for each in reads)
        elif partition in self._positions:
            self._positions[partition] = next_offset

    def peek(self, max_bytes: int) -> list[Read]:
        """The records of the next answer: as many kept records as fit, and one record in any case."""
        found: list[Read] = []
        size = 0
        for kept in self._kept.values():
            for read in kept.reads:
                size += read.size
                if found and size > max_bytes:
                    return found
                found.append(read)
        return found

    def _forget(self, partition: TopicPartition) -> None:
        kept = self._kept.pop(partition, None)
        if kept is not None:
            self.kept_bytes -= sum(each.size for each in kept.reads)

    def _forget_kept(self) -> None:
        self._kept.clear()
        self.kept_bytes = 0

    def advance(self, given: Sequence[Read]) -> None:
        """The caller gets these records of a `peek`: positions move behind them."""
        for read in given:
            self._kept[read.partition].reads.popleft()
            self.kept_bytes -= read.size
        for partition in dict.fromkeys(each.partition for each in given):
            kept = self._kept.pop(partition)
            if kept.reads:
                self._kept[partition] = kept  # behind the others: each has its turn
                self._positions[partition] = kept.reads[0].record.offset
            else:
                self._positions[partition] = kept.next_offset
            self._dirty.add(partition)

    def take_dirty(self) -> dict[TopicPartition, int]:
        """The positions that moved since the last call, for a commit."""
        dirty = {each: self._positions.get(each) for each in self._dirty}
        self._dirty.clear()
        return {each: position for each, position in dirty.items() if position is not None}

    def put_back(self, dirty: Iterable[TopicPartition]) -> None:
        """These positions could not be committed."""
        self._dirty.update(dirty)

    def all(self) -> dict[TopicPartition, int]:
        return {each: position for each, position in self._positions.items() if position is not None}
