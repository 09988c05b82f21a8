"""Members that joined and have sent nothing since: their maximum number, and the choice of the member to drop.

A client that may read a group can join it under any number of ids, and never come back. The coordinator remembers such
a member until its session ends, for half an hour if its client asks for that. So newcomers are bounded in number and in
bytes: those of one client, those of one group, and all of them.

Rules:
- The timer that waits for a newcomer carries it (`TimerChange`). The same timer without a newcomer means that the
  member has sent a request. A timer that is cancelled, or is due, means that the member is gone.
- Where there are too many, the newcomer with the longest wait is dropped: of the client first, then of the group, then
  of all. Its session ends early. A client that comes back after all gets UNKNOWN_MEMBER_ID, and joins again.
- The bound of a client is below that of a group, and that of a group is below that of all: no single client can
  displace the newcomers of another.
- A member that has sent a request is no newcomer, and is never dropped for the sake of one.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Generic, NamedTuple, TypeVar

Key = TypeVar("Key", bound=Hashable)

# The size of a newcomer without its names and its metadata: the member and its timer, 1,101 bytes measured, and about
# 400 for its place here.
OWN_SIZE = 1_500
# The bytes that newcomers may take, per allowed newcomer. A client id can have 8,000 characters in a member id.
BYTES_EACH = 8 * 1024


class Newcomer(NamedTuple):
    client: str  # the client that joined: the user and the address
    group_id: str
    size: int  # in bytes, roughly


class NewcomerBounds(NamedTuple):
    """The maximum number of newcomers."""

    of_client: int
    of_group: int
    of_all: int


NOBODY = NewcomerBounds(0, 0, 0)


class Arrival(Generic[Key]):
    """An awaited newcomer, by the key of its timer. Equal to nothing but itself, which makes it cheap to find: a
    generation of a large group has as many as the group has members.
    """

    __slots__ = ("key", "newcomer")

    def __init__(self, key: Key, newcomer: Newcomer) -> None:
        self.key = key
        self.newcomer = newcomer


class _Crowd(Generic[Key]):
    """Newcomers of one client, of one group, or all, the oldest first."""

    __slots__ = ("arrivals", "most", "most_bytes", "size")

    def __init__(self, most: int) -> None:
        self.most = most
        self.most_bytes = most * BYTES_EACH
        self.arrivals: dict[Arrival[Key], None] = {}
        self.size = 0

    @property
    def is_too_large(self) -> bool:
        """A single newcomer is never too large: there is no other for which it could make room."""
        count = len(self.arrivals)
        return count > self.most or (self.size > self.most_bytes and count > 1)


class Newcomers(Generic[Key]):
    def __init__(self, bounds: NewcomerBounds) -> None:
        self._bounds = bounds
        self._all: _Crowd[Key] = _Crowd(bounds.of_all)
        self._clients: dict[str, _Crowd[Key]] = {}
        self._groups: dict[str, _Crowd[Key]] = {}
        self._too_large: list[_Crowd[Key]] = []  # candidates; the last is checked first

    def __len__(self) -> int:
        return len(self._all.arrivals)

    @property
    def size(self) -> int:
        return self._all.size

    @property
    def are_too_many(self) -> bool:
        return bool(self._too_large)

    def add(self, key: Key, newcomer: Newcomer) -> Arrival[Key]:
        """Costs 2 us. Tried: the keys themselves in the crowds; the hash of one takes 0.4 us. Bench: rebalance."""
        client, group_id, size = newcomer
        arrival = Arrival(key, newcomer)
        of_client = self._clients.get(client)
        if of_client is None:
            of_client = self._clients[client] = _Crowd(self._bounds.of_client)
        of_group = self._groups.get(group_id)
        if of_group is None:
            of_group = self._groups[group_id] = _Crowd(self._bounds.of_group)
        for crowd in (self._all, of_group, of_client):
            crowd.arrivals[arrival] = None
            crowd.size += size
            if len(crowd.arrivals) > crowd.most or crowd.size > crowd.most_bytes:
                self._too_large.append(crowd)
        return arrival

    def remove(self, arrival: Arrival[Key]) -> None:
        """The newcomer has sent a request, or is gone."""
        client, group_id, size = arrival.newcomer
        for crowd in (self._all, self._groups[group_id], self._clients[client]):
            del crowd.arrivals[arrival]
            crowd.size -= size
        if not self._groups[group_id].arrivals:
            del self._groups[group_id]
        if not self._clients[client].arrivals:
            del self._clients[client]

    def find_dispensable(self) -> Arrival[Key] | None:
        """The newcomer to drop now; None where there is room for all."""
        while self._too_large:
            crowd = self._too_large[-1]
            if crowd.is_too_large:
                return next(iter(crowd.arrivals))
            self._too_large.pop()
        return None
