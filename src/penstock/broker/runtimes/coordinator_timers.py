"""The timers a coordinator asks for, on the event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Generic, TypeVar

from penstock.coordinators.outcome import TimerKey

Key = TypeVar("Key", bound=TimerKey)


class CoordinatorTimers(Generic[Key]):
    def __init__(self, on_timer: Callable[[Key], None]) -> None:
        self._on_timer = on_timer
        self._handles: dict[int, dict[Key, asyncio.TimerHandle]] = {}  # by partition

    def apply(self, changes: Iterable[tuple[Key, int | None]]) -> None:
        """(key, delay in ms) pairs: a new delay replaces the earlier one, None cancels."""
        loop = asyncio.get_running_loop()
        for key, delay_ms in changes:
            handles = self._handles.get(key.partition)
            if handles is None:
                handles = self._handles[key.partition] = {}
            earlier = handles.pop(key, None)
            if earlier is not None:
                earlier.cancel()
            if delay_ms is not None:
                handles[key] = loop.call_later(delay_ms / 1000, self._fire, handles, key)

    def _fire(self, handles: dict[Key, asyncio.TimerHandle], key: Key) -> None:
        if handles.pop(key, None) is not None:  # else forgotten
            self._on_timer(key)

    def forget(self, partition: int) -> list[asyncio.TimerHandle]:
        """No timer of the partition fires any more. Their handles, to be cancelled at leisure: new timers of the same
        keys are others.
        """
        handles = self._handles.pop(partition, {})
        forgotten = list(handles.values())
        handles.clear()
        return forgotten

    def cancel_all(self) -> None:
        for partition in list(self._handles):
            for handle in self.forget(partition):
                handle.cancel()
