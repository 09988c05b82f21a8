"""All consumer instances of this proxy: bounded in number, and removed after a while without requests.

The instances stand in the order of their last use, so one timer, for the first of them, is enough.
"""

from __future__ import annotations

import asyncio
from collections import Counter, OrderedDict
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager

from penstock.rest.consumers.instance import Instance
from penstock.rest.consumers.settings import InstanceKey, InstanceLimits
from penstock.rest.errors import INSTANCE_EXISTS, INSTANCE_NOT_FOUND, TOO_MANY_REQUESTS, RestError


class _Entry:
    __slots__ = ("client", "instance", "release", "used_at", "users")

    def __init__(self, instance: Instance, client: str, release: Callable[[], None], used_at: float) -> None:
        self.instance = instance
        self.client = client
        self.release = release
        self.users = 0
        self.used_at = used_at


class Instances:
    """`now` is a clock in seconds; timers are the loop's."""

    def __init__(self, limits: InstanceLimits, now: Callable[[], float]) -> None:
        self._limits = limits
        self._now = now
        self._entries: OrderedDict[InstanceKey, _Entry] = OrderedDict()
        self._clients: Counter[str] = Counter()
        self._timer: asyncio.TimerHandle | None = None
        self._closing: set[asyncio.Task[None]] = set()
        self._is_closed = False

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, key: InstanceKey) -> bool:
        return key in self._entries

    def check_room(self, key: InstanceKey, client: str) -> None:
        """Raises RestError: the name is taken, there are too many, or the proxy ends."""
        if self._is_closed:
            raise RestError(503, "the proxy ends")
        if key in self._entries:
            raise RestError(INSTANCE_EXISTS, "a consumer instance of this name exists already")
        if len(self._entries) >= self._limits.most or self._clients[client] >= self._limits.most_per_client:
            raise RestError(TOO_MANY_REQUESTS, "too many consumer instances: delete those that are not needed")

    def add(self, key: InstanceKey, client: str, instance: Instance, release: Callable[[], None]) -> None:
        """`client` is the client whose limit counts; `release` is called at the end. Call `check_room` before."""
        assert key not in self._entries, "check_room has been asked"
        self._entries[key] = _Entry(instance, client, release, self._now())
        self._clients[client] += 1
        self._plan()

    @asynccontextmanager
    async def use(self, key: InstanceKey) -> AsyncGenerator[Instance]:
        """Raises RestError 40403. An instance in use does not expire."""
        entry = self._entries.get(key)
        if entry is None:
            raise RestError(INSTANCE_NOT_FOUND, "there is no such consumer instance")
        entry.users += 1
        try:
            yield entry.instance
        finally:
            entry.users -= 1
            if self._entries.get(key) is entry:
                entry.used_at = self._now()
                self._entries.move_to_end(key)

    async def remove(self, key: InstanceKey) -> None:
        """Leaves the group at once. Raises RestError 40403."""
        if key not in self._entries:
            raise RestError(INSTANCE_NOT_FOUND, "there is no such consumer instance")
        await asyncio.shield(self._drop(key))

    async def close(self) -> None:
        """No instance is made afterwards: requests may still come, and their instances would never end."""
        self._is_closed = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for key in [*self._entries]:
            self._drop(key)
        await asyncio.gather(*self._closing)

    # ------------------------------------------------------------------------------------ the end of instances

    def _drop(self, key: InstanceKey) -> asyncio.Task[None]:
        entry = self._entries.pop(key)
        self._clients[entry.client] -= 1
        if not self._clients[entry.client]:
            del self._clients[entry.client]
        task = asyncio.get_running_loop().create_task(_end(entry), name="end of a consumer instance")
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)
        return task

    def _plan(self) -> None:
        if self._timer is None and self._entries:
            first = next(iter(self._entries.values()))
            wait_s = max(0.0, first.used_at + self._limits.idle_s - self._now())
            self._timer = asyncio.get_running_loop().call_later(wait_s, self._expire)

    def _expire(self) -> None:
        self._timer = None
        now = self._now()
        while self._entries:
            key, entry = next(iter(self._entries.items()))
            if entry.used_at + self._limits.idle_s > now:
                break
            if entry.users:
                entry.used_at = now
                self._entries.move_to_end(key)
            else:
                self._drop(key)
        self._plan()


async def _end(entry: _Entry) -> None:
    try:
        await entry.instance.close()
    finally:
        entry.release()
