"""A cache with bounds: so many values, so large in all, and for so long. For several threads."""

from __future__ import annotations

import math
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, NamedTuple, TypeVar

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")


class _Entry(NamedTuple):
    value: object
    size: int
    expires_at: float


class BoundedCache(Generic[Key, Value]):
    """Evicts the least recently used entries first. Does not keep a value larger than `most_of_one`, by default a
    quarter of the whole.
    """

    def __init__(
        self,
        most: int,
        most_bytes: int = 1 << 62,
        *,
        most_of_one: int | None = None,
        keep_s: float = math.inf,
        clock: Callable[[], float] = lambda: 0.0,
    ) -> None:
        """Values never expire without `clock`."""
        self._most = most
        self._most_bytes = most_bytes
        self._most_of_one = most_bytes // 4 if most_of_one is None else most_of_one
        self._keep_s = keep_s
        self._clock = clock
        self._entries: OrderedDict[Key, _Entry] = OrderedDict()
        self._bytes = 0
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, key: Key) -> Value | None:
        with self._lock:
            entry = self._entries.get(key)
            if entry is None:
                return None
            if self._clock() >= entry.expires_at:
                self._drop(key)
                return None
            self._entries.move_to_end(key)
            return entry.value  # type: ignore[return-value]  # what `put` has taken

    def put(self, key: Key, value: Value, size: int = 0) -> None:
        with self._lock:
            if key in self._entries:
                self._drop(key)
            if size > self._most_of_one:
                return
            self._entries[key] = _Entry(value, size, self._clock() + self._keep_s)
            self._bytes += size
            while len(self._entries) > self._most or self._bytes > self._most_bytes:
                self._drop(next(iter(self._entries)))

    def forget(self, key: Key) -> None:
        with self._lock:
            if key in self._entries:
                self._drop(key)

    def clear(self) -> None:
        with self._lock:
            self._entries.clear()
            self._bytes = 0

    def _drop(self, key: Key) -> None:
        self._bytes -= self._entries.pop(key).size
