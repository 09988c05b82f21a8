"""The store that all machines share, and each machine's way to it.

The server keeps a session for as long as it hears of it. So a killed process leaves its session behind, a stopped one
loses it, and a process that comes back quickly finds that of its former self. Time at the server is the world's: it
goes on while a machine stands still.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Sequence

from penstock.cluster.store.interface import Node, Operation, Result, Watcher
from penstock.cluster.store.memory import LostAnswer, MemoryStore, MemoryTree
from proof.simulation.store_link import SlowStore
from proof.simulation.world import World

SESSION_TIMEOUT_MS = 2_000
# The server notices a silence at its next tick.
_TICK_MS = 500
_WATCH_MS = (0.0, 0.0, 0.3, 6.0)
# A client that is reached again after a stop needs a moment to notice.
_NOTICING_MS = (0.1, 3.0, 40.0)
# How long a process waits at a point where it is about to be stopped or killed.
_HELD_MS = 1.0


class SharedStore(SlowStore):
    """One session. What it is told of, and what it reads, comes a little late."""

    def __init__(
        self, tree: MemoryTree, chance: random.Random, is_gone: Callable[[], bool], told_of_write: Callable[[], bool]
    ) -> None:
        """`told_of_write` says whether the process has to wait where it is."""
        super().__init__(tree, chance, is_gone, SESSION_TIMEOUT_MS)
        self._told_of_write = told_of_write
        self.before_write: Callable[[], None] | None = None
        self.after_write: Callable[[], None] | None = None

    async def read_many(self, paths: Sequence[str]) -> list[Node | None]:
        await self.pause()
        return await super().read_many(paths)

    async def children(self, path: str) -> list[str]:
        await self.pause()
        return await super().children(path)

    async def transaction(self, operations: Sequence[Operation]) -> Sequence[Result]:
        before, self.before_write = self.before_write, None
        if before is not None:
            before()
            await asyncio.sleep(_HELD_MS / 1000)
        results = await super().transaction(operations)
        after, self.after_write = self.after_write, None
        if after is not None:
            after()
            await asyncio.sleep(_HELD_MS / 1000)
        return results

    async def written(self) -> None:
        if self._told_of_write():
            await asyncio.sleep(_HELD_MS / 1000)

    def watch(self, path: str, watcher: Watcher, *, children: bool = True) -> Callable[[], None]:
        is_wanted = True

        def tell(changed: str) -> None:
            if is_wanted:
                watcher(changed)

        def hear(changed: str) -> None:
            self.session.loop().call_later(self._chance.choice(_WATCH_MS) / 1000, tell, changed)

        end = super().watch(path, hear, children=children)

        def remove() -> None:
            nonlocal is_wanted
            is_wanted = False
            end()

        return remove


class SharedStoreLink:
    """One machine's way to the store. `enter` does something in the machine's loop, if its process lives."""

    def __init__(self, world: World, tree: MemoryTree, owner: int, enter: Callable[[Callable[[], None]], None]) -> None:
        self._world = world
        self._tree = tree
        self._owner = owner
        self._enter = enter
        self._store: SharedStore | None = None
        self._is_cut = False
        self._is_paused = False
        self._silence = 0  # one more with each change between silence and none
        self._chance = random.Random(0)
        self.told_of_write: Callable[[], bool] = lambda: False  # of each change, when it is made

    # ---- lives

    def open(self, chance: random.Random, is_gone: Callable[[], bool]) -> MemoryStore:
        self._chance = random.Random(chance.getrandbits(64))
        store = self._store = SharedStore(self._tree, chance, is_gone, lambda: self.told_of_write())
        self._is_paused = False
        if self._is_cut:
            self._silence_begins(is_noticed=True)
        return store

    def abandon(self) -> None:
        store, self._store = self._store, None
        if store is not None and self._tree.has_session(store.session_id):
            self._expire_later(store.session_id, lambda: True)

    # ---- what goes wrong

    def cut(self) -> None:
        """No word comes or goes."""
        self._is_cut = True
        self._silence_begins(is_noticed=False)

    def reset(self) -> None:
        """The connection breaks, and the next one comes when the store is reached again."""
        self._is_cut = True
        self._silence_begins(is_noticed=True)

    def pause(self) -> None:
        """The process stands still."""
        self._is_paused = True
        self._silence_begins(is_noticed=False)

    def go_on(self) -> None:
        self._is_paused = False
        self._world.after(self._chance.choice(_NOTICING_MS), self._owner, self._silence_ends)

    def heal(self) -> None:
        self._is_cut = False
        self._silence_ends()

    def expire(self) -> None:
        if self._store is not None:
            self._enter(self._store.session.expire)

    def lose_answer(self, when: LostAnswer) -> None:
        if self._store is not None:
            self._store.session.lose_answer(when)

    def at_next_write(self, action: Callable[[], None], *, is_before: bool) -> None:
        """Something happens to the process just before or just after its next change of the store."""
        if self._store is None:
            return
        if is_before:
            self._store.before_write = action
        else:
            self._store.after_write = action

    # ---- silence

    def _silence_begins(self, *, is_noticed: bool) -> None:
        store = self._store
        if store is None:
            return
        self._silence += 1
        silence = self._silence
        self._enter(store.session.suspend if is_noticed else store.session.cut)
        self._expire_later(store.session_id, lambda: self._silence == silence)

    def _silence_ends(self) -> None:
        if not self._is_cut and not self._is_paused:
            self._silence += 1
            if self._store is not None:
                self._enter(self._store.session.heal)

    def _expire_later(self, session_id: str, is_silent: Callable[[], bool]) -> None:
        def expire() -> None:
            if is_silent():
                self._tree.end_session(session_id)

        delay_ms = SESSION_TIMEOUT_MS + self._chance.random() * _TICK_MS
        self._world.after(delay_ms, self._owner, expire)
