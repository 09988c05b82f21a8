"""How a machine reaches the metadata store: a session for each life of its process."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Sequence
from typing import Protocol

from penstock.cluster.store.interface import Operation, Result
from penstock.cluster.store.memory import MemoryStore, MemoryTree

_STORE_MS = (0.0, 0.0, 0.3, 4.0)


class ProcessGone(BaseException):
    """The process ended in the middle of an operation. No exception that anybody may handle: nothing runs on."""


class StoreLink(Protocol):
    def open(self, chance: random.Random, is_gone: Callable[[], bool]) -> MemoryStore:
        """A new life's store. `is_gone` tells whether the life has ended meanwhile."""

    def abandon(self) -> None:
        """The process is gone."""


class SlowStore(MemoryStore):
    """Takes its time before and after a change, so that a crash may come between it and everything else."""

    def __init__(
        self,
        tree: MemoryTree,
        chance: random.Random,
        is_gone: Callable[[], bool],
        session_timeout_ms: int = 6_000,
    ) -> None:
        super().__init__(tree, session_timeout_ms=session_timeout_ms)
        self._chance = chance
        self._is_gone = is_gone

    async def transaction(self, operations: Sequence[Operation]) -> Sequence[Result]:
        await self.pause()
        if self._is_gone():
            raise ProcessGone
        results = await super().transaction(operations)
        await self.written()
        await self.pause()
        return results

    async def written(self) -> None:
        """The change is made, and nobody has heard of it."""

    async def pause(self) -> None:
        delay_ms = self._chance.choice(_STORE_MS)
        if delay_ms:
            await asyncio.sleep(delay_ms / 1000)


class OwnStore:
    """The store of a broker that is alone: a session ends with its process."""

    def __init__(self) -> None:
        self._tree = MemoryTree()
        self._store: SlowStore | None = None

    def open(self, chance: random.Random, is_gone: Callable[[], bool]) -> MemoryStore:
        self._store = SlowStore(self._tree, chance, is_gone)
        return self._store

    def abandon(self) -> None:
        if self._store is not None:
            self._tree.end_session(self._store.session_id)
