"""Connections on which nobody has logged in yet: for how long they may stay so. No sockets.

A client that connects to a listener with SASL and never ends its login holds a connection and some kilobytes, and
nobody knows who it is. Kafka leaves such connections to `connections.max.idle.ms`, and a byte now and then keeps them
for ever. Here a login has a time limit, which begins when the connection is accepted and includes the TLS handshake.

An encrypted connection holds five times as much memory as a plain one. So those whose handshake is over are bounded in
number: beyond it the oldest are closed, unless they are so new that a real client may still be at it. Whoever floods a
listener pushes out the connections of the flood.

A client that waits for the broker itself, as for an issuer of tokens that is slow or for a refusal, is not late: its
time begins anew.

One look a second at the oldest connections is all that it costs: connections come in the order of their deadlines, and
one whose client has logged in is forgotten when its deadline comes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from penstock.broker.session import Session
from penstock.server.net import limits
from penstock.server.net.pending_replies import PendingReplies

_LOOK_S = 1.0


class Unproved(Protocol):
    """A connection. While `unmuting` is set the broker itself does not read it; `pending` are answers that the client
    waits for.
    """

    @property
    def session(self) -> Session: ...

    @property
    def unmuting(self) -> object | None: ...

    @property
    def pending(self) -> PendingReplies: ...

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
        self._encrypted: dict[Unproved, int] = {}  # since when, the oldest first; among them some that have logged in
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
        self._encrypted.pop(connection, None)

    def encrypted(self, connection: Unproved) -> None:
        """The TLS handshake is over, and the login begins."""
        self._encrypted[connection] = self._now_ms()
        if len(self._encrypted) > limits.ENCRYPTED_STRANGERS:
            self._make_room()

    def _make_room(self) -> None:
        """For a quarter of the places at once: all of them are looked at, which takes some 0.1 ms. While the oldest is
        so new that it stays, nothing is: else each handshake of a flood would take that.
        """
        now_ms = self._now_ms()
        if now_ms - next(iter(self._encrypted.values())) < limits.PRESSED_LOGIN_TIMEOUT_MS:
            return
        strangers = {each: since for each, since in self._encrypted.items() if not _has_logged_in(each)}
        waiting = [each for each in strangers if _waits_for_us(each)]
        for connection in waiting:
            del strangers[connection]
        self._encrypted = strangers | dict.fromkeys(waiting, now_ms)
        excess = len(self._encrypted) - limits.ENCRYPTED_STRANGERS * 3 // 4
        for connection, since_ms in list(self._encrypted.items())[: max(excess, 0)]:
            if now_ms - since_ms < limits.PRESSED_LOGIN_TIMEOUT_MS:
                break
            self._close(connection)

    def _close(self, connection: Unproved) -> None:
        self.remove(connection)
        self._expired(connection.session)
        connection.abort()

    def look(self) -> None:
        now_ms = self._now_ms()
        while self._deadlines:
            connection = next(iter(self._deadlines))
            if self._deadlines[connection] > now_ms:
                break
            del self._deadlines[connection]
            if _has_logged_in(connection):
                self._encrypted.pop(connection, None)
            elif _waits_for_us(connection):
                self._deadlines[connection] = now_ms + self.timeout_ms
            else:
                self._close(connection)
        self._is_looking = bool(self._deadlines)
        if self._is_looking:
            self._call_later(_LOOK_S, self.look)


def _has_logged_in(connection: Unproved) -> bool:
    login = connection.session.login
    return login is not None and login.login is not None


def _waits_for_us(connection: Unproved) -> bool:
    return connection.unmuting is not None or bool(connection.pending.futures())
