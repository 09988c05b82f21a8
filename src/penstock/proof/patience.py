"""Settings of client libraries in rounds that kill brokers."""

from __future__ import annotations

from typing import Any

# A client must not give up while the broker is down: what is checked is what happens when it comes back.
PATIENT: dict[str, Any] = {
    "log_level": 0,
    "reconnect.backoff.ms": 10,
    "reconnect.backoff.max.ms": 50,
    "retry.backoff.ms": 10,
    "topic.metadata.refresh.interval.ms": 1_000,
    "socket.timeout.ms": 10_000,
}
