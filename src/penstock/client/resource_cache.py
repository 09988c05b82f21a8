"""Open things that live from one task to the next: connections, producers, engines, lookup tables.

Opening them is what costs, so a process keeps them. At most `most` are kept: the one that was used longest ago is
closed when there are more. The rest is closed when the registry goes, with its thread or at the exit of the process.
(Spark ends the workers that it has forked without Python's exit handlers; there the kernel closes the sockets.)
"""

from __future__ import annotations

import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")


class ResourceCache(Generic[Key, Value]):
    """`close` is called with each value that goes. The registry is safe for several threads. Where a value is not, its
    users `take` it and `give_back`, or each thread has a registry."""

    def __init__(self, most: int, close: Callable[[Value], object]) -> None:
        self._most = most
        self._close = close
        self._values: OrderedDict[Key, Value] = OrderedDict()
        self._lock = threading.Lock()
        weakref.finalize(self, _close_all, self._values, close)

    def __len__(self) -> int:
        return len(self._values)

    def get(self, key: Key, open_value: Callable[[], Value]) -> Value:
        """The value stays in the registry, which may close it when another key is opened. Use `get` for values that
        open themselves anew, or that are never more than `most` at a time."""
        value = self._use(key)
        if value is None:
            opened = open_value()
            value = self._use(key)
            if value is None:
                value = opened
                self.give_back(key, value)
            else:  # another thread was quicker, and its value is in use
                self._close(opened)
        return value

    def _use(self, key: Key) -> Value | None:
        with self._lock:
            if key in self._values:
                self._values.move_to_end(key)
            return self._values.get(key)

    def take(self, key: Key) -> Value | None:
        """Removes the value and returns it; None where there is none. The caller owns it until `give_back`."""
        with self._lock:
            return self._values.pop(key, None)

    def give_back(self, key: Key, value: Value) -> None:
        with self._lock:
            replaced = self._values.pop(key, None)
            self._values[key] = value
            gone = [] if replaced is None or replaced is value else [replaced]
            while len(self._values) > self._most:
                gone.append(self._values.popitem(last=False)[1])
        for each in gone:
            self._close(each)

    def close(self) -> None:
        with self._lock:
            values = list(self._values.values())
            self._values.clear()
        for value in values:
            self._close(value)


def _close_all(values: OrderedDict[Key, Value], close: Callable[[Value], object]) -> None:
    while values:
        close(values.popitem(last=False)[1])
