"""Members that a coordinator waits for and has not heard of again: how many there may be, and which of them goes first.

Whoever may read a group can join it under as many ids as it likes, and never come back. Such a member is remembered
until its session ends, for half an hour if its client says so. So newcomers are bounded in number and in bytes: those
of one client, those of one group, and all of them.

Rules:
- A newcomer is told of by the timer that waits for it (`TimerChange`). The same timer without a newcomer means that the
  member was heard of. A timer that is cancelled, or is due, means that the member is gone.
- Where there are too many, the one that is waited for longest goes: of the client first, then of the group, then of
  all. Its session ends early. A client that comes back after all is told that it is unknown, and joins anew.
- The bound of a client is below that of a group, and that of a group is below that of all: no single client can
  displace the newcomers of another.
- A member that was heard of is no newcomer, and never goes for the sake of one.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Generic, NamedTuple, TypeVar

Key = TypeVar("Key", bound=Hashable)

# What a newcomer takes beside its names and what it has said: the member, its timer and its place here. Measured.
OWN_SIZE = 1_500
# The bytes that newcomers may take, for each that there may be. A client id can have 8,000 characters in a member id.
BYTES_EACH = 8 * 1024


class Newcomer(NamedTuple):
    client: str  # who joined: the user and the address
    group_id: str
    size: int  # in bytes, roughly


class NewcomerBounds(NamedTuple):
    """How many there may be."""

    of_client: int
    of_group: int
    of_all: int


NOBODY = NewcomerBounds(0, 0, 0)


class _Crowd(Generic[Key]):
    """Newcomers that have something in common, the oldest first."""

    __slots__ = ("most", "size", "sizes")

    def __init__(self, most: int) -> None:
        self.most = most
        self.sizes: dict[Key, int] = {}
        self.size = 0

    def add(self, key: Key, size: int) -> None:
        self.sizes[key] = size
        self.size += size

    def remove(self, key: Key) -> None:
        self.size -= self.sizes.pop(key)

    @property
    def is_too_large(self) -> bool:
        """One alone is never too large: there is nobody whom it could make room for."""
        count = len(self.sizes)
        return count > self.most or (count > 1 and self.size > self.most * BYTES_EACH)


class Newcomers(Generic[Key]):
    """By the keys of the timers that wait for them."""

    def __init__(self, bounds: NewcomerBounds) -> None:
        self._bounds = bounds
        self._newcomers: dict[Key, Newcomer] = {}
        self._all: _Crowd[Key] = _Crowd(bounds.of_all)
        self._clients: dict[str, _Crowd[Key]] = {}
        self._groups: dict[str, _Crowd[Key]] = {}
        self._too_large: list[_Crowd[Key]] = []  # perhaps; the last one is looked at first

    def __len__(self) -> int:
        return len(self._newcomers)

    @property
    def size(self) -> int:
        return self._all.size

    @property
    def are_too_many(self) -> bool:
        return bool(self._too_large)

    def add(self, key: Key, newcomer: Newcomer) -> None:
        client, group_id, size = newcomer
        self._newcomers[key] = newcomer
        if client not in self._clients:
            self._clients[client] = _Crowd(self._bounds.of_client)
        if group_id not in self._groups:
            self._groups[group_id] = _Crowd(self._bounds.of_group)
        for crowd in (self._all, self._groups[group_id], self._clients[client]):
            crowd.add(key, size)
            if crowd.is_too_large:
                self._too_large.append(crowd)

    def remove(self, key: Key) -> None:
        """It was heard of, or is gone. Harmless for one that is no newcomer."""
        newcomer = self._newcomers.pop(key, None)
        if newcomer is None:
            return
        self._all.remove(key)
        for crowds, name in ((self._groups, newcomer.group_id), (self._clients, newcomer.client)):
            crowds[name].remove(key)
            if not crowds[name].sizes:
                del crowds[name]

    def find_dispensable(self) -> tuple[Key, Newcomer] | None:
        """The one that has to go now; None where there is room for all."""
        while self._too_large:
            crowd = self._too_large[-1]
            if crowd.is_too_large:
                key = next(iter(crowd.sizes))
                return key, self._newcomers[key]
            self._too_large.pop()
        return None
