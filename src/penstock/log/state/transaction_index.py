"""The transaction index of a segment, in memory; the bytes of `.txnindex` are Kafka's.

34-byte entries: i16 version = 0, i64 producer id, i64 first offset, i64 last offset (the marker's), i64 last stable
offset when the marker was written. Only aborted transactions have an entry, in the segment that holds their marker; a
transaction may have begun segments earlier. The index carries no checksum: `decode` refuses impossible entries and the
segment is replayed.
"""

from __future__ import annotations

import struct
from array import array
from bisect import bisect_left
from typing import NamedTuple

from penstock.log.storage.indexes import CorruptIndexError

TRANSACTION_ENTRY_SIZE = 34
_VERSION = 0
_ENTRY = struct.Struct(">hqqqq")


class AbortedTransaction(NamedTuple):
    """From the first offset to the last, the transactional records of this producer do not count."""

    producer_id: int
    first_offset: int
    last_offset: int  # the marker's
    last_stable_offset: int  # every transaction before it was decided once the marker stood


class TransactionIndex:
    """Columns of 64-bit numbers in the order of the markers: 32 bytes for an aborted transaction."""

    __slots__ = ("base_offset", "first_offsets", "last_offsets", "last_stable_offsets", "producer_ids")

    def __init__(self, base_offset: int) -> None:
        self.base_offset = base_offset
        self.producer_ids: array[int] = array("q")
        self.first_offsets: array[int] = array("q")
        self.last_offsets: array[int] = array("q")
        self.last_stable_offsets: array[int] = array("q")

    def __len__(self) -> int:
        return len(self.last_offsets)

    def __getitem__(self, slot: int) -> AbortedTransaction:
        return AbortedTransaction(
            self.producer_ids[slot],
            self.first_offsets[slot],
            self.last_offsets[slot],
            self.last_stable_offsets[slot],
        )

    def append(self, aborted: AbortedTransaction) -> None:
        """Does nothing when the marker is there already: replay may begin before the last entry."""
        if self.last_offsets and aborted.last_offset <= self.last_offsets[-1]:
            return
        self.producer_ids.append(aborted.producer_id)
        self.first_offsets.append(aborted.first_offset)
        self.last_offsets.append(aborted.last_offset)
        self.last_stable_offsets.append(aborted.last_stable_offset)

    def truncate(self, offset: int) -> None:
        """Drop every transaction whose marker stands at or past `offset`."""
        slot = bisect_left(self.last_offsets, offset)
        for column in (self.producer_ids, self.first_offsets, self.last_offsets, self.last_stable_offsets):
            del column[slot:]

    def collect(self, start_offset: int, end_offset: int, overlapping: list[AbortedTransaction]) -> bool:
        """Adds the transactions that overlap [start_offset, end_offset); returns whether later segments need no search.

        Later segments need no search once every transaction before `end_offset` was decided when an entry was made: a
        transaction that was aborted after that began after that.
        """
        for slot in range(bisect_left(self.last_offsets, start_offset), len(self.last_offsets)):
            if self.first_offsets[slot] < end_offset:
                overlapping.append(self[slot])
            if self.last_stable_offsets[slot] >= end_offset:
                return True
        return False

    def encode(self) -> bytes:
        columns = (self.producer_ids, self.first_offsets, self.last_offsets, self.last_stable_offsets)
        return b"".join(_ENTRY.pack(_VERSION, *entry) for entry in zip(*columns, strict=True))

    @classmethod
    def decode(cls, base_offset: int, data: bytes) -> TransactionIndex:
        if len(data) % TRANSACTION_ENTRY_SIZE:
            raise CorruptIndexError(f"{len(data)} bytes are not a whole number of entries")
        index = cls(base_offset)
        previous = base_offset - 1
        for version, producer_id, first_offset, last_offset, last_stable_offset in _ENTRY.iter_unpack(data):
            if version != _VERSION:
                raise CorruptIndexError(f"an entry has version {version}, not {_VERSION}")
            if producer_id < 0 or not 0 <= first_offset < last_offset or not 0 <= last_stable_offset <= last_offset + 1:
                raise CorruptIndexError(f"the entry of the marker at {last_offset} cannot be right")
            if last_offset <= previous:
                raise CorruptIndexError(f"the marker at {last_offset} comes after one at {previous}")
            previous = last_offset
            index.append(AbortedTransaction(producer_id, first_offset, last_offset, last_stable_offset))
        return index
