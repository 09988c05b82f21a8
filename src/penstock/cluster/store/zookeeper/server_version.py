"""The version of the ZooKeeper server, and whether it has known security holes. Knows nothing of kazoo.

ZooKeeper sends its version to every client that sends `srvr`, unless its settings forbid that; then the version is
unknown, and no warning appears.
"""

from __future__ import annotations

import re
import socket
import ssl
from typing import NamedTuple

from penstock.core.sockets.socket_deadline import SocketDeadline

# CVE-2023-44981 (a server joins without a login) and CVE-2024-23944 (any client learns the names of nodes) are fixed
# from these versions on: the second in the line before.
_MENDED = ((3, 8, 4), (3, 9, 2))
_NEXT_LINE = (3, 9, 0)
_PATIENCE_S = 2.0
_MOST_BYTES = 4096
_VERSION = re.compile(rb"Zookeeper version: (\d+)\.(\d+)\.(\d+)")

Version = tuple[int, int, int]


class Server(NamedTuple):
    """The server of a connection; the name is the name that the certificate must have."""

    address: tuple[str, int]
    host_name: str | None


def ask_version(server: Server, tls: ssl.SSLContext | None, patience_s: float = _PATIENCE_S) -> Version | None:
    """For a thread. None where the server does not answer, or not in time."""
    try:
        deadline = SocketDeadline(patience_s)
        with deadline.connect(*server.address) as plain:
            if tls is None:
                return parse_version(_ask(plain, deadline))
            with tls.wrap_socket(plain, server_hostname=server.host_name, do_handshake_on_connect=False) as encrypted:
                return parse_version(_ask(encrypted, deadline))
    except (OSError, ValueError):  # the second where a certificate has to have a name, and the server has none
        return None


def _ask(connection: socket.socket, deadline: SocketDeadline) -> bytes:
    answer = b""
    with deadline.guarding(connection):
        if isinstance(connection, ssl.SSLSocket):
            connection.do_handshake()
        connection.sendall(b"srvr")
        while len(answer) < _MOST_BYTES and (chunk := connection.recv(_MOST_BYTES)):
            answer += chunk
    return answer


def parse_version(answer: bytes) -> Version | None:
    found = _VERSION.search(answer)
    return None if found is None else (int(found[1]), int(found[2]), int(found[3]))


def is_too_old(version: Version) -> bool:
    older, newer = _MENDED
    return version < older or _NEXT_LINE <= version < newer
