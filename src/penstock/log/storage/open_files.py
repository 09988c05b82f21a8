"""Limits the number of open files and the size of loaded indexes, however many segments there are.

A second-chance cache: each use of an item costs one attribute store, so the hot path never touches the cache itself; an
item used since its last check moves to the back of the queue, an unused item is evicted.
"""

from __future__ import annotations

from typing import Protocol

from penstock.log.storage.files import Files, OpenFile
from penstock.log.storage.roll_allowance import RollAllowance

# Most systems allow a process 1,024 descriptors by default; half are left for connections. A server may raise both.
MAX_OPEN_FILES = 512
# Indexes of sealed segments: a full one takes 5 MiB, a usual one some kilobytes.
MAX_INDEX_BYTES = 32 * 1024 * 1024


class Evictable(Protocol):
    recently_used: bool

    def evict(self) -> None:
        """Gives the resource back; the next use opens or reads it again."""


class SecondChanceCache:
    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.weight = 0
        self._items: dict[Evictable, int] = {}

    def __len__(self) -> int:
        return len(self._items)

    def add(self, item: Evictable, weight: int = 1) -> None:
        self.remove(item)
        self._items[item] = weight
        self.weight += weight
        item.recently_used = True
        while self.weight > self.capacity and len(self._items) > 1:
            self._evict_one(item)

    def remove(self, item: Evictable) -> None:
        self.weight -= self._items.pop(item, 0)

    def _evict_one(self, newest: Evictable) -> None:
        while True:
            candidate = next(iter(self._items))
            weight = self._items.pop(candidate)
            if candidate is newest or candidate.recently_used:
                candidate.recently_used = False
                self._items[candidate] = weight
                if candidate is newest:
                    continue
            else:
                self.weight -= weight
                candidate.evict()
                return


class OpenResources:
    """The resources that the segments of one broker share."""

    def __init__(
        self, files: Files, max_open_files: int = MAX_OPEN_FILES, max_index_bytes: int = MAX_INDEX_BYTES
    ) -> None:
        self.files = files
        self.log_files = SecondChanceCache(max_open_files)
        self.indexes = SecondChanceCache(max_index_bytes)
        self.roll_allowance = RollAllowance()


class LogFile:
    """The `.log` file of a segment, opened on demand.

    An eviction only drops this reference: an open slice keeps the descriptor, and data written through a closed
    descriptor is in the page cache of the file, where a later fsync through another finds it.
    """

    __slots__ = ("_file", "path", "recently_used", "resources")

    def __init__(self, path: str, resources: OpenResources) -> None:
        self.path = path
        self.resources = resources
        self.recently_used = False
        self._file: OpenFile | None = None

    def get(self) -> OpenFile:
        file = self._file
        if file is None:
            file = self._file = self.resources.files.open(self.path)
            self.resources.log_files.add(self)
        self.recently_used = True
        return file

    def create(self) -> None:
        self._file = self.resources.files.open(self.path, create=True)
        self.resources.log_files.add(self)

    def evict(self) -> None:
        self._file = None

    def relocate(self, path: str) -> None:
        """The same bytes lie under another path."""
        self.close()
        self.path = path

    def close(self) -> None:
        self.resources.log_files.remove(self)
        self._file = None
