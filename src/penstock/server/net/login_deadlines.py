"""Connections on which nobody has logged in yet: for how long they may stay so. No sockets.

A client that connects to a listener with SASL and never ends its login holds a connection and some kilobytes, and
nobody knows who it is. Kafka leaves such connections to `connections.max.idle.ms`, and a byte now and then keeps them
for ever. Here a login has a time limit, which begins when the connection is accepted and includes the TLS handshake.

One look a second at the oldest connections is all that it costs: connections come in the order of their deadlines, and
one whose client has logged in is forgotten when its deadline comes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from penstock.broker.session import Session

_LOOK_S = 1.0


class Unproved(Protocol):
    """A connection. While `unmuting` is set the broker itself does not read it."""

    @property
    def session(self) -> Session: ...

    @property
    def unmuting(self) -> object | None: ...

    def abort(self) -> None: ...


class LoginDeadlines:
    """`call_later(seconds, call)` is the loop's. `expired` is told of each connection that is closed."""

    def __init__(
        self,
        timeout_ms: int,
        expired: Callable[[Session], None],
        now_ms: Callable[[], int],
        call_later: Callable[[float, Callable[[], None]], object],
    ) -> None:
        self.timeout_ms = timeout_ms
        self._expired = expired
        self._now_ms = now_ms
        self._call_later = call_later
        self._deadlines: dict[Unproved, int] = {}  # the earliest first
        self._is_looking = False

    def __len__(self) -> int:
        return len(self._deadlines)

    def add(self, connection: Unproved) -> None:
        self._deadlines[connection] = self._now_ms() + self.timeout_ms
        if not self._is_looking:
            self._is_looking = True
            self._call_later(_LOOK_S, self.look)

    def remove(self, connection: Unproved) -> None:
        """The connection is gone. May be called for one that is not here."""
        self._deadlines.pop(connection, None)

    def look(self) -> None:
        now_ms = self._now_ms()
        while self._deadlines:
            connection = next(iter(self._deadlines))
            if self._deadlines[connection] > now_ms:
                break
            del self._deadlines[connection]
            login = connection.session.login
            if login is not None and login.login is not None:
                continue
            if connection.unmuting is not None:  # the silence is ours
                self._deadlines[connection] = now_ms + self.timeout_ms
                continue
            self._expired(connection.session)
            connection.abort()
        self._is_looking = bool(self._deadlines)
        if self._is_looking:
            self._call_later(_LOOK_S, self.look)
