"""The timers a coordinator asks for, on the event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable, Iterable
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)


class CoordinatorTimers(Generic[Key]):
    def __init__(self, on_timer: Callable[[Key], None]) -> None:
        self._on_timer = on_timer
        self._handles: dict[Key, asyncio.TimerHandle] = {}

    def apply(self, changes: Iterable[tuple[Key, int | None]]) -> None:
        """(key, delay in ms) pairs: a new delay replaces the earlier one, None cancels."""
        loop = asyncio.get_running_loop()
        for key, delay_ms in changes:
            earlier = self._handles.pop(key, None)
            if earlier is not None:
                earlier.cancel()
            if delay_ms is not None:
                self._handles[key] = loop.call_later(delay_ms / 1000, self._fire, key)

    def _fire(self, key: Key) -> None:
        self._handles.pop(key, None)
        self._on_timer(key)

    def cancel_all(self) -> None:
        for handle in self._handles.values():
            handle.cancel()
        self._handles.clear()
