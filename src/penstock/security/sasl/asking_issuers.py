"""One request to an issuer over HTTP or HTTPS. Blocks: it is for a thread.

Rules:
- The answer is bounded in size, and the whole request in time: the broker cuts off an issuer that sends a byte now and
  then like one that sends none, and all addresses of its name share the time. The system's resolver alone may take
  longer.
- No redirect is followed, and no proxy is used: only the allowed address gets the request.
- The certificate of the issuer is verified before anything is sent.
- A broker sends no request to a link-local address, also where a name stands for it: a cloud hands a machine its
  credentials there (CVE-2025-27817).
"""

from __future__ import annotations

import http.client
import ipaddress
import socket
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import SplitResult, urlsplit

from penstock.core.sockets.socket_deadline import SocketDeadline

# A key set has a few keys of some 500 bytes each.
MAX_BYTES = 512 * 1024
_TIMEOUT_S = 10.0
_HTTPS = "https"


class StatusError(OSError):
    """The issuer answers, but not with what it was asked for."""

    def __init__(self, status: int) -> None:
        super().__init__(f"the answer has status {status}")
        self.status = status


def read_url(
    url: str,
    body: bytes | None = None,
    headers: dict[str, str] | None = None,
    *,
    refuses_link_local: bool = False,
    timeout_s: float = _TIMEOUT_S,
) -> bytes:
    """Raises OSError or ValueError, without a part of the answer in it."""
    parts = urlsplit(url)
    try:
        with _connected(parts, timeout_s) as sock:
            if refuses_link_local and is_unasked(sock.getpeername()[0]):
                raise OSError("a link-local address is not asked")
            return _ask(sock, parts, body, headers or {"Accept": "application/json"})
    except http.client.HTTPException as error:
        raise OSError(f"the answer is no HTTP ({type(error).__name__})") from None


def is_unasked(host: str) -> bool:
    """Whether the host is an address that a broker must not ask. False for a name."""
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return False
    mapped = getattr(address, "ipv4_mapped", None)
    address = address if mapped is None else mapped
    return address.is_link_local or address.is_multicast or address.is_unspecified


@contextmanager
def _connected(parts: SplitResult, timeout_s: float) -> Iterator[socket.socket]:
    """Shuts the connection down when the time is over, in whatever step; the handshake of TLS is still to come."""
    deadline = SocketDeadline(timeout_s)
    port = parts.port or (443 if parts.scheme == _HTTPS else 80)
    context = ssl.create_default_context() if parts.scheme == _HTTPS else None
    with deadline.connect(parts.hostname or "", port) as sock:
        if context is not None:
            sock = context.wrap_socket(sock, server_hostname=parts.hostname, do_handshake_on_connect=False)
        with sock, deadline.guarding(sock):
            yield sock


def _ask(sock: socket.socket, parts: SplitResult, body: bytes | None, headers: dict[str, str]) -> bytes:
    if isinstance(sock, ssl.SSLSocket):
        sock.do_handshake()
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port)
    connection.sock = sock
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    connection.request("GET" if body is None else "POST", path, body, headers)
    answer = connection.getresponse()
    if answer.status != http.HTTPStatus.OK:
        raise StatusError(answer.status)
    return bounded(answer.read(MAX_BYTES + 1))


def bounded(data: bytes) -> bytes:
    if len(data) > MAX_BYTES:
        raise ValueError(f"more than {MAX_BYTES} bytes")
    return data
