"""The two sparse indexes of a segment, in memory; the bytes on disk are Kafka's.

`.index`: 8-byte entries (i32 relative offset, i32 file position): the last offset of the batch that begins at the
position.
`.timeindex`: 12-byte entries (i64 timestamp, i32 relative offset): the largest timestamp so far and the last offset of
its batch.

Both grow in both columns, so a lookup is a binary search. They carry no checksum: `decode` refuses impossible entries
and the segment is scanned again.
"""

from __future__ import annotations

import sys
from array import array
from bisect import bisect_left, bisect_right

from penstock.core.types import NO_TIMESTAMP

OFFSET_ENTRY_SIZE = 8
TIME_ENTRY_SIZE = 12
MAX_RELATIVE_OFFSET = 2**31 - 1


class CorruptIndexError(ValueError):
    """An index file has impossible content; it is rebuilt from the log."""


def _big_endian(values: array[int]) -> array[int]:
    """Swaps in place between the machine's order and the file's."""
    if sys.byteorder == "little":
        values.byteswap()
    return values


class OffsetIndex:
    """Columns of 32-bit numbers: a full index of 262,144 entries takes 2 MiB, and bisect runs on it in C."""

    __slots__ = ("base_offset", "offsets", "positions")

    def __init__(self, base_offset: int) -> None:
        self.base_offset = base_offset
        self.offsets: array[int] = array("i")
        self.positions: array[int] = array("i")

    def __len__(self) -> int:
        return len(self.offsets)

    def append(self, offset: int, position: int) -> None:
        self.offsets.append(offset - self.base_offset)
        self.positions.append(position)

    def lookup(self, offset: int) -> int:
        """The position of a batch that begins at or before `offset`; 0 when no entry is low enough."""
        slot = bisect_right(self.offsets, offset - self.base_offset) - 1
        return self.positions[slot] if slot >= 0 else 0

    def find_end_offset(self, position: int) -> int | None:
        """An offset that no batch before `position` reaches; None when the index ends before that."""
        slot = bisect_left(self.positions, position)
        return self.base_offset + self.offsets[slot] if slot < len(self.positions) else None

    def end_offset_before(self, position: int) -> int:
        """An offset up to which all batches end before `position`: that of the last entry but one that is not behind
        it, because an entry has the last offset of the batch which begins there.
        """
        slot = bisect_right(self.positions, position) - 2
        return self.base_offset + (self.offsets[slot] + 1 if slot >= 0 else 0)

    def last_position(self) -> int:
        return self.positions[-1] if self.positions else 0

    def truncate(self, offset: int) -> None:
        """Drop every entry at or past `offset`."""
        slot = bisect_left(self.offsets, offset - self.base_offset)
        del self.offsets[slot:]
        del self.positions[slot:]

    def encode(self, start: int = 0) -> bytes:
        """The entries from number `start` on."""
        offsets = self.offsets[start:]
        words: array[int] = array("i", bytes(OFFSET_ENTRY_SIZE * len(offsets)))
        words[0::2] = offsets
        words[1::2] = self.positions[start:]
        return _big_endian(words).tobytes()

    @classmethod
    def decode(cls, base_offset: int, data: bytes, log_size: int) -> OffsetIndex:
        if len(data) % OFFSET_ENTRY_SIZE:
            raise CorruptIndexError(f"{len(data)} bytes are not a whole number of entries")
        words: array[int] = array("i")
        words.frombytes(data)
        _big_endian(words)
        index = cls(base_offset)
        index.offsets, index.positions = words[0::2], words[1::2]
        if data and not (_grows(index.offsets) and _grows(index.positions) and index.positions[-1] < log_size):
            raise CorruptIndexError("its entries do not grow, or point past the end of the log")
        return index


class TimeIndex:
    __slots__ = ("base_offset", "offsets", "timestamps")

    def __init__(self, base_offset: int) -> None:
        self.base_offset = base_offset
        self.timestamps: array[int] = array("q")
        self.offsets: array[int] = array("i")

    def __len__(self) -> int:
        return len(self.offsets)

    def append(self, timestamp: int, offset: int) -> None:
        """Does nothing unless the timestamp is newer than the last entry's."""
        if timestamp > (self.timestamps[-1] if self.timestamps else NO_TIMESTAMP):
            self.timestamps.append(timestamp)
            self.offsets.append(offset - self.base_offset)

    def last_entry(self) -> tuple[int, int]:
        """(timestamp, offset); (-1, base offset) when empty."""
        if not self.offsets:
            return NO_TIMESTAMP, self.base_offset
        return self.timestamps[-1], self.base_offset + self.offsets[-1]

    def lookup(self, timestamp: int) -> int:
        """An offset at or before the first record as new as `timestamp`."""
        # An entry names the first batch that reached its timestamp, so an equal timestamp is early enough.
        slot = bisect_right(self.timestamps, timestamp) - 1
        return self.base_offset + (self.offsets[slot] if slot >= 0 else 0)

    def truncate(self, offset: int) -> None:
        slot = bisect_left(self.offsets, offset - self.base_offset)
        del self.timestamps[slot:]
        del self.offsets[slot:]

    def encode(self, start: int = 0) -> bytes:
        """The entries from number `start` on."""
        halves: array[int] = array("I")
        halves.frombytes(_big_endian(self.timestamps[start:]).tobytes())
        offsets: array[int] = array("I")
        offsets.frombytes(_big_endian(self.offsets[start:]).tobytes())
        words: array[int] = array("I", bytes(TIME_ENTRY_SIZE * len(offsets)))
        words[0::3], words[1::3], words[2::3] = halves[0::2], halves[1::2], offsets
        return words.tobytes()

    @classmethod
    def decode(cls, base_offset: int, data: bytes) -> TimeIndex:
        if len(data) % TIME_ENTRY_SIZE:
            raise CorruptIndexError(f"{len(data)} bytes are not a whole number of entries")
        words: array[int] = array("I")
        words.frombytes(data)
        halves: array[int] = array("I", bytes(8 * (len(words) // 3)))
        halves[0::2], halves[1::2] = words[0::3], words[1::3]
        index = cls(base_offset)
        index.timestamps.frombytes(halves.tobytes())
        index.offsets.frombytes(words[2::3].tobytes())
        _big_endian(index.timestamps)
        _big_endian(index.offsets)
        if data and not (_grows(index.timestamps) and _grows(index.offsets)):
            raise CorruptIndexError("its entries do not grow")
        return index


def _grows(column: array[int]) -> bool:
    """First and last entry only: an index is trusted or rebuilt, and a read of all of it would cost as much as a
    rebuild.
    """
    return column[0] >= 0 and (len(column) == 1 or column[0] < column[-1])
