"""Key -> the offset of its last record, within a bound of memory.

A dict is the only table that Python searches at the speed of C. A key of fewer than 16 bytes stands for itself, a
longer one is replaced by a digest of exactly 16, so that no key can be taken for the digest of another.
"""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import blake2b
from itertools import islice

DIGEST_SIZE = 16
# The maximum size of an entry, dict growth included: 64 bytes of key, 32 of offset, up to 96 of table. Measured with
# tracemalloc: 121 to 189.
ENTRY_BYTES = 192
_SURVIVORS_PER_STEP = 4096  # under half a millisecond


class OffsetMap:
    __slots__ = ("capacity", "entries", "latest_offset")

    def __init__(self, capacity: int, latest_offset: int) -> None:
        self.capacity = capacity
        self.entries: dict[bytes, int] = {}
        self.latest_offset = latest_offset  # the map has every record up to this offset

    @classmethod
    def within(cls, memory: int, load_factor: float, latest_offset: int) -> OffsetMap:
        return cls(max(int(memory * load_factor) // ENTRY_BYTES, 1), latest_offset)

    @property
    def is_full(self) -> bool:
        """Checked between batches, so one batch may exceed it: a map too small for a batch still makes progress."""
        return len(self.entries) >= self.capacity

    @property
    def utilization(self) -> float:
        return len(self.entries) / self.capacity

    def put(self, key: bytes, offset: int) -> None:
        self.entries[key if len(key) < DIGEST_SIZE else digest(key)] = offset

    def get(self, key: bytes) -> int:
        """-1 when the key is not there."""
        return self.entries.get(key if len(key) < DIGEST_SIZE else digest(key), -1)


class Survivors:
    """The offsets that the map still points to, so that a batch without any of them need not be opened a second time.
    That is most batches where keys are rewritten often, and to open one costs 1.2 us for each of its records.
    """

    __slots__ = ("_first_offset", "_marks")

    def __init__(self, first_offset: int) -> None:
        self._first_offset = first_offset  # the map has every record from this offset on
        self._marks = bytearray()

    def gather(self, offsets: OffsetMap, memory: int) -> Iterator[None]:
        """Gathers in small steps, as far as the memory reaches: a byte for each offset."""
        first = self._first_offset
        marks = bytearray(min(max(offsets.latest_offset + 1 - first, 0), memory))
        size = len(marks)
        entries = iter(offsets.entries.values())
        while some := list(islice(entries, _SURVIVORS_PER_STEP)):
            for offset in some:
                if offset - first < size:
                    marks[offset - first] = 1
            yield
        self._marks = marks

    def has_none(self, base_offset: int, last_offset: int) -> bool:
        """False also where nothing is known."""
        start, end = base_offset - self._first_offset, last_offset + 1 - self._first_offset
        return start >= 0 and end <= len(self._marks) and self._marks.find(1, start, end) < 0


def digest(key: bytes) -> bytes:
    return blake2b(key, digest_size=DIGEST_SIZE).digest()
