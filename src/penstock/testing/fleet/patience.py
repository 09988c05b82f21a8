"""Settings of client libraries in rounds that kill brokers."""

from __future__ import annotations

import logging
from typing import Any

# As the library's `logger`: a broker that is killed, or a producer that is fenced, is what the rounds are after, and
# the library would complain of it on the console.
UNHEARD = logging.getLogger("penstock.testing.unheard")
UNHEARD.propagate = False
UNHEARD.addHandler(logging.NullHandler())

# A client must not give up while the broker is down: the check is about the time after the broker's return.
PATIENT: dict[str, Any] = {
    "log_level": 0,
    "reconnect.backoff.ms": 10,
    "reconnect.backoff.max.ms": 50,
    "retry.backoff.ms": 10,
    "topic.metadata.refresh.interval.ms": 1_000,
    "socket.timeout.ms": 10_000,
}
