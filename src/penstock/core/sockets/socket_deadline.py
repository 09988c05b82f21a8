"""One request over a blocking socket, with a time limit for the whole of it. For a thread.

The timeout of a socket bounds a single wait: a server that sends a byte now and then, or a name with many addresses,
makes a request last many times as long. Here the request ends when its time is over, whatever it waits for. Only the
look-up of a name cannot be bounded: it takes as long as the system's resolver does, and counts.
"""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Iterator

from penstock.core.sockets.host_names import failing_as_unknown


class SocketDeadline:
    def __init__(self, seconds: float) -> None:
        self._end = time.monotonic() + seconds

    def left_s(self) -> float:
        """Raises TimeoutError when no time is left."""
        left = self._end - time.monotonic()
        if left <= 0:
            raise TimeoutError("the time is over")
        return left

    @property
    def is_over(self) -> bool:
        return time.monotonic() >= self._end

    def connect(self, host: str, port: int) -> socket.socket:
        """Connects to the first address of the host that can be reached. Raises OSError."""
        failure = OSError("the host has no address")
        with failing_as_unknown():
            found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        for family, kind, protocol, _, address in found:
            left_s = self.left_s()
            try:
                sock = socket.socket(family, kind, protocol)
            except OSError as error:  # a family that this machine does not have
                failure = error
                continue
            try:
                sock.settimeout(left_s)
                sock.connect(address)
            except OSError as error:
                sock.close()
                failure = error
            except BaseException:
                sock.close()
                raise
            else:
                return sock
        raise failure

    @contextlib.contextmanager
    def guarding(self, sock: socket.socket) -> Iterator[None]:
        """Shuts the socket down when the time is over."""
        end = threading.Timer(self.left_s(), _shut_down, (sock,))
        end.daemon = True
        end.start()
        try:
            yield
        finally:
            end.cancel()
            end.join()  # it must not shut down a later socket with the same number


def _shut_down(sock: socket.socket) -> None:
    with contextlib.suppress(OSError):  # the peer was quicker
        # Not the method of an SSLSocket, which would have the rest read in plain text.
        socket.socket.shutdown(sock, socket.SHUT_RDWR)
