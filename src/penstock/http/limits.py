"""The limits of one HTTP listener for clients that it does not know yet."""

from __future__ import annotations

from typing import NamedTuple


class HttpLimits(NamedTuple):
    # Beyond them a connection is closed before anything is read from it. Each holds some 20 KB, 300 KB with TLS.
    max_connections: int = 256
    max_connections_per_address: int = 128
    # A change goes on when its client has left, and its connection is free for another. The connections and this limit
    # together bound the requests in progress: beyond them the answer is 503, so that no queue behind grows without end.
    max_requests_left: int = 256
    max_requests_left_per_address: int = 128
    # Names and values together; browsers and proxies stay below 8 KB.
    max_header_bytes: int = 16 * 1024
    max_headers: int = 100
    max_target_bytes: int = 8 * 1024
    max_body_bytes: int = 1024 * 1024
    handshake_s: float = 10.0
    # From the first byte, or from the connection, to the end of the headers: a slow network needs a second.
    headers_s: float = 10.0
    body_s: float = 30.0
    # A client that reads nothing of its answer for this time is gone.
    stalled_s: float = 30.0
    keep_alive_s: float = 30.0
    # An answer in progress may finish when the listener stops; no stop waits longer for a slow reader.
    stop_s: float = 2.0
    # With this delay a refused login reveals nothing by its time, and slows an attacker down.
    refusal_delay_s: float = 0.1
