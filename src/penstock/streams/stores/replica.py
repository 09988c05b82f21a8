"""A copy of an application's stores in this process: its file, the task that follows changelogs, and the queries."""

from __future__ import annotations

import asyncio
import re
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from penstock.client.brokers import Brokers
from penstock.streams.stores.changelog_follower import ChangelogFollower, OtherClusterError
from penstock.streams.stores.followed_store import APPLICATION
from penstock.streams.stores.storage import Storage, StorageLockedError
from penstock.streams.stores.store_queries import StoreQueries

_UNSAFE = re.compile(r"[^A-Za-z0-9._-]")


class ReplicaError(Exception):
    """The copy cannot go on, and waiting would not help. The text is for the operator."""


class Subject(NamedTuple):
    """The subject of a copy: an application of a cluster, all of its stores or `only` these."""

    application: str
    cluster: str
    only: frozenset[str] = frozenset()

    @property
    def file_name(self) -> str:
        assert APPLICATION.fullmatch(self.application), "checked before"
        return f"{self.application}@{_UNSAFE.sub('_', self.cluster)}.sqlite"


class Replica:
    def __init__(self, subject: Subject, storage: Storage, follower: ChangelogFollower) -> None:
        self.subject = subject
        self.follower = follower
        self.queries = StoreQueries(follower, storage.path)
        self._storage = storage
        self._running = asyncio.create_task(follower.run(), name="changelogs")

    @classmethod
    async def open(
        cls, brokers: Brokers, subject: Subject, directory: Path, now_ms: Callable[[], int], interval_s: float
    ) -> Replica:
        """Begins to follow. Raises ReplicaError."""
        path = directory / subject.file_name
        try:
            storage = await asyncio.to_thread(Storage, path, subject.application, subject.cluster)
        except StorageLockedError as error:
            raise ReplicaError(f"{error}: give each server a directory of its own (--data)") from None
        except (OSError, sqlite3.Error) as error:
            raise ReplicaError(f"{path} cannot be opened: {error}") from None
        follower = ChangelogFollower(
            brokers, storage, subject.application, now_ms, only=subject.only, interval_s=interval_s
        )
        return cls(subject, storage, follower)

    @property
    def is_ready(self) -> bool:
        follower = self.follower
        return follower.was_listed.is_set() and all(each.is_ready for each in follower.stores.values())

    async def wait_ready(self) -> None:
        """Until every store that there was at first was read to its end once."""
        await self.follower.was_listed.wait()
        for store in list(self.follower.stores.values()):
            await store.wait_for({})

    async def wait_ready_or_failed(self) -> None:
        """Raises ReplicaError."""
        ready, failed = asyncio.create_task(self.wait_ready()), asyncio.create_task(self.wait_failed())
        try:
            await asyncio.wait([ready, failed], return_when=asyncio.FIRST_COMPLETED)
            if failed.done():
                failed.result()
        finally:
            ready.cancel()
            failed.cancel()
            await asyncio.gather(ready, failed, return_exceptions=True)

    async def wait_failed(self) -> None:
        """Ends with ReplicaError, or never."""
        try:
            await asyncio.shield(self._running)
        except OtherClusterError as error:
            raise ReplicaError(str(error)) from None
        except sqlite3.Error as error:
            hint = "delete the file, so that it is begun anew"
            raise ReplicaError(f"{self._storage.path} is broken ({error}): {hint}") from None

    async def close(self) -> None:
        self._running.cancel()
        await asyncio.gather(self._running, return_exceptions=True)
        await asyncio.to_thread(self.queries.close)
        await asyncio.to_thread(self._storage.close)
