"""How a broker is set up that many tests share."""

from __future__ import annotations

# Groups form at once instead of after Kafka's three seconds. Many tests write records of times long ago, and retention
# would delete those as soon as the broker is five minutes old.
SHARED_BROKER = {"group.initial.rebalance.delay.ms": "0", "log.retention.check.interval.ms": "86400000"}
