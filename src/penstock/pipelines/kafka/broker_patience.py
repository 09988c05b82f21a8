"""How long a client waits for a broker that is away: long enough for a restart, short enough to report a real loss."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from concurrent.futures import TimeoutError as FutureTimeoutError
from typing import TypeVar

from confluent_kafka import KafkaException

from penstock.client.retries import Outlook, Retrying, RetryPolicy

logger = logging.getLogger(__name__)
_Result = TypeVar("_Result")

PATIENCE_S = 60.0
# Most requests wait inside the client library; this is for those that it gives up at once.
PAUSE_S = 0.25
# By librdkafka's names: its knowledge of a partition's leader is out of date (_NOENT: it knows no leader). It goes on
# sending requests there, or none at all, until another call makes it look: describing the topic does.
STALE_LEADER = frozenset(
    {"_NOENT", "NOT_LEADER_FOR_PARTITION", "LEADER_NOT_AVAILABLE", "FENCED_LEADER_EPOCH", "UNKNOWN_LEADER_EPOCH"}
)
# No broker answers, or none that may answer yet: narrower than the table of retriable codes, which has topics that are
# not there and transactions that are still ending, too. BROKER_NOT_AVAILABLE is not in the table, and passes when the
# broker is back.
_AWAY = STALE_LEADER | frozenset(
    {
        "_TRANSPORT", "_ALL_BROKERS_DOWN", "_TIMED_OUT", "_TIMED_OUT_QUEUE", "_WAIT_COORD", "_NODE_UPDATE",
        "REQUEST_TIMED_OUT", "BROKER_NOT_AVAILABLE", "COORDINATOR_NOT_AVAILABLE", "COORDINATOR_LOAD_IN_PROGRESS",
        "NOT_COORDINATOR", "NETWORK_EXCEPTION", "KAFKA_STORAGE_ERROR", "UNSTABLE_OFFSET_COMMIT",
    }
)  # fmt: skip


def is_away(error: Exception) -> bool:
    """Whether the same request may be answered once a broker is back."""
    return not isinstance(error, KafkaException) or error.args[0].name() in _AWAY


def _judge(error: Exception) -> Outlook:
    return Outlook.PASSING if is_away(error) else Outlook.FINAL


def ask_patiently(
    doing: str,
    ask: Callable[[], _Result],
    *,
    patience_s: float = PATIENCE_S,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> _Result:
    """Tries again while brokers are away. A failure of another kind, or one that lasts too long, is raised as it is."""
    retrying = Retrying(RetryPolicy(patience_s, PAUSE_S, PAUSE_S), clock, sleep)
    return retrying.run(
        ask,
        (KafkaException, FutureTimeoutError),
        _judge,
        lambda error: logger.warning("%s failed, trying again: %s", doing, error),
    )
