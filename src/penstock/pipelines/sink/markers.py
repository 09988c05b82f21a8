"""Reads markers from the group coordinator.

By way of a consumer, though an admin client could keep its connection: asked of an Apache Kafka broker whose offsets
topic did not exist yet, that of librdkafka 2.16 ended the process with a segmentation fault.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from concurrent.futures import TimeoutError as FutureTimeoutError

from confluent_kafka import Consumer, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient

from penstock.pipelines.sink.errors import WriteError
from penstock.pipelines.sink.marker import MARKER_PARTITION, Marker, groups_of_sink, newest
from penstock.pipelines.waiting import ask_patiently

# Of one request; one that fails at once, as when a broker goes away in its middle, is repeated: see `waiting`.
_TIMEOUT_S = 60.0
_log = logging.getLogger("penstock.pipelines.librdkafka")


def read_marker(settings: Mapping[str, str], group: str, topic: str | None) -> Marker | None:
    """What is committed for good, a transaction that is still open being waited for. Where rows say their topic
    themselves, the marker may be beside any."""
    own = {"group.id": group, "isolation.level": "read_committed", "enable.auto.commit": False, "logger": _log}
    consumer = Consumer({**settings, **own})
    try:
        found = ask_patiently(f"reading the marker of group {group}", lambda: _committed(consumer, topic))
        return _newest_of(found)
    finally:
        consumer.close()


def read_markers_of_sink(
    admin: AdminClient, settings: Mapping[str, str], query_id: str, sink_name: str, topic: str
) -> list[Marker]:
    """Of all tasks that any run of this query had."""
    doing = f"listing the groups of sink {sink_name}"
    try:
        listed = ask_patiently(doing, lambda: _list_groups(admin))
    except (KafkaException, FutureTimeoutError) as error:
        raise WriteError(f"{doing} failed: {error}") from error
    groups = groups_of_sink(listed, query_id, sink_name)
    markers = (read_marker(settings, group, topic) for group in groups)
    return [marker for marker in markers if marker is not None]


def _committed(consumer: Consumer, topic: str | None) -> list[TopicPartition]:
    topics = [topic] if topic is not None else list(consumer.list_topics(timeout=_TIMEOUT_S).topics)
    found = consumer.committed([TopicPartition(each, MARKER_PARTITION) for each in topics], timeout=_TIMEOUT_S)
    for each in found:
        if each.error is not None:
            raise KafkaException(each.error)
    return found


def _list_groups(admin: AdminClient) -> list[str]:
    listed = admin.list_consumer_groups(request_timeout=_TIMEOUT_S).result(_TIMEOUT_S + 1)
    for error in listed.errors:
        raise error if isinstance(error, KafkaException) else KafkaException(error)
    return [group.group_id for group in listed.valid]


def _newest_of(committed: Iterable[TopicPartition]) -> Marker | None:
    found: dict[str, Marker] = {}
    for each in committed:
        if each.offset >= 0:
            found[each.topic] = Marker.from_offset(each.offset, each.metadata)
    return newest(found)
