"""How soon a connection between machines is seen to be gone."""

from __future__ import annotations

import socket

# A cut network sends no reset. Data that is not acknowledged for this long ends the connection. Where nothing is sent,
# probes that get no answer do. Six seconds are less than the usual session timeout of a store, and more than a pause
# that a busy machine makes.
_SILENCE_MS = 6_000
_PROBE_AFTER_S = 3
_PROBE_INTERVAL_S = 1
_PROBES = 3


def set_options(sock: socket.socket) -> None:
    """Requests leave at once, and silence is noticed. Not every system has every option."""
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in (
        ("TCP_KEEPIDLE", _PROBE_AFTER_S),
        ("TCP_KEEPINTVL", _PROBE_INTERVAL_S),
        ("TCP_KEEPCNT", _PROBES),
        ("TCP_USER_TIMEOUT", _SILENCE_MS),
    ):
        option = getattr(socket, name, None)
        if option is not None:
            sock.setsockopt(socket.IPPROTO_TCP, option, value)
