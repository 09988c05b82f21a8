"""Queries of the stores that are followed: each waits until its store is far enough, then reads the file.

Pages are read in threads. A few keys are read on the loop: that takes 25 us each, less than the way to a thread and
back (half the time of a request), and on a busy machine waits for fewer turns of its scheduler. A disk that lets the
loop wait is read by threads for a while.
"""

from __future__ import annotations

import asyncio
import sqlite3
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar

from penstock.streams.stores.changelog_follower import ChangelogFollower
from penstock.streams.stores.errors import StoreError
from penstock.streams.stores.followed_store import Followed
from penstock.streams.stores.keys import Cursor, StoredKey
from penstock.streams.stores.positions import is_reached, missing
from penstock.streams.stores.store_reader import (
    Found,
    KeyRange,
    Moment,
    Page,
    StoreReader,
    TimeRange,
    UnknownStoreError,
)

T = TypeVar("T")
# Pages of megabytes must not hold up all others.
_THREADS: Final = 4
# Keys that are read on the loop.
_FEW: Final = 4
# A read on the loop that takes longer holds up other requests: 100 times what a row in memory takes.
_SLOW_S: Final = 0.005
# So long threads read after that.
_AVOIDED_S: Final = 10.0
WAIT_S: Final = 5.0
LONGEST_WAIT_S: Final = 60.0


class Patience(NamedTuple):
    """`position`: everything before these offsets has to be in the store. A store that is not ready is waited for as
    well, where `wait_s` is given."""

    position: Mapping[int, int]
    wait_s: float | None = None


AS_IT_IS: Final = Patience({})


class ReadsAtOnce:
    """Reads on the loop, as long as they are quick."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._not_before = float("-inf")

    def read(self, question: Callable[..., T], *arguments: Any) -> T | None:
        """None: ask a thread, because the disk is slow, the file is locked, or the store is just made anew."""
        begin = self._clock()
        if begin < self._not_before:
            return None
        try:
            return question(*arguments)
        except (sqlite3.OperationalError, UnknownStoreError):
            return None
        finally:
            end = self._clock()
            if end - begin > _SLOW_S:
                self._not_before = end + _AVOIDED_S


class StoreQueries:
    def __init__(self, follower: ChangelogFollower, path: Path) -> None:
        self.follower = follower
        self._reading = StoreReader(path)
        self._on_loop = StoreReader(path, busy_ms=0)
        self._at_once = ReadsAtOnce()
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="questions")

    def close(self) -> None:
        self._threads.shutdown()
        self._reading.close()
        self._on_loop.close()

    async def get(self, store: str, text: str, patience: Patience = AS_IT_IS) -> tuple[Moment, Found | None]:
        await self.wait(store, patience)
        if found := self._at_once.read(self._on_loop.get, store, text):
            return found
        return await self._ask(store, patience, self._reading.get, text)

    async def get_all(
        self, store: str, keys: Sequence[StoredKey], patience: Patience = AS_IT_IS
    ) -> tuple[Moment, list[Found | None]]:
        await self.wait(store, patience)
        if len(keys) <= _FEW and (found := self._at_once.read(self._on_loop.get_all, store, keys)):
            return found
        return await self._ask(store, patience, self._reading.get_all, keys)

    async def keys(
        self, store: str, wanted: KeyRange, limit: int, after: Cursor | None, patience: Patience = AS_IT_IS
    ) -> Page:
        return await self._ask(store, patience, self._reading.keys, wanted, limit, after)

    async def windows(
        self, store: str, text: str | None, times: TimeRange, limit: int, after: Cursor | None, patience: Patience
    ) -> Page:
        """Of all keys, where `text` is None."""
        if text is None:
            return await self._ask(store, patience, self._reading.all_windows, times, limit, after)
        return await self._ask(store, patience, self._reading.windows, text, times, limit, after)

    def find(self, store: str) -> Followed:
        """Raises StoreError."""
        followed = self.follower.stores.get(store)
        if followed is None and not self.follower.was_listed.is_set():
            raise StoreError(503, "the brokers have not told yet which stores there are", "Try again in a moment.")
        if followed is None:
            hint = "GET /stores lists those that there are; a store is there once the application has run."
            raise StoreError(404, f"the application {self.follower.application} has no store {store}", hint)
        return followed

    async def _ask(self, store: str, patience: Patience, question: Callable[..., T], *arguments: Any) -> T:
        await self.wait(store, patience)
        loop = asyncio.get_running_loop()
        try:
            return await loop.run_in_executor(self._threads, question, store, *arguments)
        except UnknownStoreError:  # gone in this moment
            raise StoreError(503, f"the store {store} is read anew", "Try again in a moment.") from None

    async def wait(self, store: str, patience: Patience) -> Followed:
        """Raises StoreError."""
        followed = self.find(store)
        if not followed.is_ready or not is_reached(followed.position, patience.position):
            default_s = WAIT_S if patience.position else 0.0
            wait_s = min(LONGEST_WAIT_S, default_s if patience.wait_s is None else patience.wait_s)
            try:
                async with asyncio.timeout(wait_s):
                    await followed.wait_for(patience.position)
            except TimeoutError:
                raise _late(followed, patience, wait_s) from None
        return followed


def _late(followed: Followed, patience: Patience, wait_s: float) -> StoreError:
    if not followed.is_ready:
        lag = "" if followed.lag is None else f", {followed.lag} records are left"
        hint = "Try again later, or wait for it with wait=SECONDS."
        return StoreError(503, f"the store {followed.name} is being read for the first time{lag}", hint)
    behind = missing(followed.position, patience.position)
    hint = "Does the application run, and was the offset written by a transaction that is committed?"
    return StoreError(504, f"the store {followed.name} is not that far after {wait_s:g} s: {behind}", hint)
