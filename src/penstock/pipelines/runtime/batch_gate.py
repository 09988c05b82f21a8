"""The gate that every batch of a run passes before it begins: it is closed while the run is paused.

A batch that has begun is never interrupted by the gate. `rested` is called once for each closing, when no batch is
under way any more: at once, or by the last batch as it leaves.
"""

from __future__ import annotations

import threading
from collections.abc import Callable


class BatchGate:
    """Safe for several threads. `rested` is called without the gate's lock, on the thread that brought it about."""

    def __init__(self, rested: Callable[[], None] = lambda: None) -> None:
        self._rested = rested
        self._lock = threading.Lock()
        self._is_closed = False
        self._under_way = 0

    def close(self) -> None:
        with self._lock:
            is_at_rest = not self._is_closed and self._under_way == 0
            self._is_closed = True
        if is_at_rest:
            self._rested()

    def open(self) -> None:
        with self._lock:
            self._is_closed = False

    def try_enter(self) -> bool:
        """Whether the batch may begin. It has to `leave`."""
        with self._lock:
            if not self._is_closed:
                self._under_way += 1
            return not self._is_closed

    def leave(self) -> None:
        with self._lock:
            self._under_way -= 1
            is_at_rest = self._is_closed and self._under_way == 0
        if is_at_rest:
            self._rested()
