"""Accepts the clients of a TLS port at a pace, so that those who come do not hold up those who are served.

Rules:
- One client is accepted in a turn of the loop. When requests were served since the one before, the loop has a
  millisecond for others first. A client costs the loop 0.2 ms until its handshake is over, apart from the signing. So a
  flood of clients gets a fifth of a loop that serves others, and waits in the kernel's queue.
- A client that has hung up while it waited is closed at once. That costs a tenth of serving the client, so two of them
  are closed in one go.

The loops' own servers accept all that wait, at once, and have no way to pause.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import sys
from collections.abc import Callable

_PAUSE_S = 0.001
# The pause in accepting when the process has no descriptor left. asyncio's servers do the same.
_EXHAUSTED_PAUSE_S = 1.0
_HUNG_UP_AT_ONCE = 2
# The first byte of Linux's `tcp_info`, when the other side has closed and this one has not.
_CLOSE_WAIT = 8


class Gate:
    def __init__(
        self,
        descriptor: int,
        new_protocol: Callable[[], asyncio.BaseProtocol],
        backlog: int,
        served: Callable[[], int],
        exhausted: Callable[[OSError], None],
    ) -> None:
        """Of a socket that is bound. The socket stays its owner's; the gate has a descriptor of its own. `served`
        returns how many requests have been served so far, of all clients. `exhausted` is called once a second with the
        reason while no client can be accepted.
        """
        self._socket = socket.socket(fileno=os.dup(descriptor))
        self._socket.setblocking(False)
        self._new_protocol = new_protocol
        self._backlog = backlog
        self._served = served
        self._exhausted = exhausted
        self._served_before = served()
        self._loop = asyncio.get_running_loop()
        self._next: asyncio.Handle | None = None  # None while the gate waits for clients
        self._opening: set[asyncio.Task[None]] = set()
        self._is_closed = False

    def open(self) -> None:
        self._socket.listen(self._backlog)
        self._loop.add_reader(self._socket, self._on_clients)

    def close(self) -> None:
        """May be called again."""
        if self._is_closed:
            return
        self._is_closed = True
        if self._next is not None:
            self._next.cancel()
        else:
            self._loop.remove_reader(self._socket)
        self._socket.close()

    def _on_clients(self) -> None:
        """A client came while the queue was empty."""
        self._loop.remove_reader(self._socket)
        self._accept()

    def _accept(self) -> None:
        loop = self._loop
        try:
            client = self._next_client()
        except BlockingIOError:
            self._next = None
            loop.add_reader(self._socket, self._on_clients)
            return
        except OSError as error:
            self._exhausted(error)
            self._next = loop.call_later(_EXHAUSTED_PAUSE_S, self._accept)
            return
        served = self._served()
        if served == self._served_before:
            self._next = loop.call_soon(self._accept)
        else:
            self._next = loop.call_later(_PAUSE_S, self._accept)
            self._served_before = served
        if client is not None:
            opening = loop.create_task(self._serve(client))
            self._opening.add(opening)
            opening.add_done_callback(self._opening.discard)

    def _next_client(self) -> socket.socket | None:
        """None where the next clients have hung up. Raises OSError: BlockingIOError where no client waits."""
        for _ in range(_HUNG_UP_AT_ONCE):
            try:
                client, _ = self._socket.accept()
            except ConnectionAbortedError:
                continue
            if not _has_hung_up(client):
                client.setblocking(False)
                return client
            client.close()
        return None

    async def _serve(self, client: socket.socket) -> None:
        with contextlib.suppress(OSError):  # gone again
            await self._loop.connect_accepted_socket(self._new_protocol, client)


def _has_hung_up(client: socket.socket) -> bool:
    """As the kernel says; False where it does not say. Takes 2 us."""
    if sys.platform != "linux":
        return False
    try:
        return client.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)[0] == _CLOSE_WAIT
    except OSError:
        return True
