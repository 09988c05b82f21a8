"""A consumer that never joins its group: it reads and writes what the group has committed.

An admin client could do the same, but it can end the process. A broker that goes away in the middle of a request to a
group's coordinator makes librdkafka use freed memory (its issue 4605, pull request 5397; up to 2.16 at least). One
broker whose offsets topic did not exist yet has been seen to be enough.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import Any

from confluent_kafka import Consumer, KafkaException, TopicPartition

# librdkafka's own log lines, silent unless a handler is added; failures also come back as exceptions.
LIBRDKAFKA_LOG = logging.getLogger("penstock.pipelines.librdkafka")
LIBRDKAFKA_LOG.addHandler(logging.NullHandler())


def open_group_consumer(settings: Mapping[str, Any], group_id: str) -> Consumer:
    return Consumer({**settings, "group.id": group_id, "enable.auto.commit": False, "logger": LIBRDKAFKA_LOG})


def raise_errors(answered: Iterable[TopicPartition] | None) -> None:
    """A request may succeed and be refused for a partition."""
    for partition in answered or ():
        if partition.error is not None:
            raise KafkaException(partition.error)
