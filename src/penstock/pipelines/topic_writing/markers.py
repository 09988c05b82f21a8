"""Reads markers from the group coordinator, by way of a consumer: see `group_consumer`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from concurrent.futures import TimeoutError as FutureTimeoutError

from confluent_kafka import Consumer, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient

from penstock.pipelines.kafka.broker_patience import ask_patiently, is_away
from penstock.pipelines.kafka.group_consumer import open_group_consumer, raise_errors
from penstock.pipelines.topic_writing.errors import WriteError
from penstock.pipelines.topic_writing.librdkafka import RawProducer
from penstock.pipelines.topic_writing.marker import (
    GROUP_PREFIX,
    MARKER_PARTITION,
    OPEN_TRANSACTION_S,
    Marker,
    groups_of_sink,
    newest,
)

# Of one request; one that fails at once, as when a broker goes away in its middle, is repeated: see `broker_patience`.
_TIMEOUT_S = 60.0


def read_marker(
    settings: Mapping[str, str], group: str, topic: str | None, patience_s: float = _TIMEOUT_S
) -> Marker | None:
    """The marker that is committed for good. The call waits for a transaction that is still open. Where rows name
    their topic themselves (`topic` is None), the marker may be beside any topic."""
    consumer = open_group_consumer({**settings, "isolation.level": "read_committed"}, group)
    try:
        doing = f"reading the marker of group {group}"
        committed = ask_patiently(doing, lambda: _committed(consumer, topic, patience_s), patience_s=patience_s)
        return _newest_of(committed)
    finally:
        consumer.close()


def read_markers_of_sink(
    admin: AdminClient,
    settings: Mapping[str, str],
    query_id: str,
    sink_name: str,
    topic: str,
    patience_s: float = OPEN_TRANSACTION_S,
) -> dict[int, Marker | None]:
    """The markers of all tasks that any run of this query had, by task; None where a task has committed nothing. A
    transaction that is open for so long as `patience_s` is ended."""
    doing = f"listing the groups of sink {sink_name}"
    try:
        listed = ask_patiently(doing, lambda: _list_groups(admin))
    except (KafkaException, FutureTimeoutError) as error:
        raise WriteError(f"{doing} failed: {error}") from error
    groups = groups_of_sink(listed, query_id, sink_name)
    return {task: _read_after_crash(settings, group, topic, patience_s) for task, group in groups.items()}


def _read_after_crash(settings: Mapping[str, str], group: str, topic: str, patience_s: float) -> Marker | None:
    """No task is at work yet, so what is open was left by one that was killed, and would stay so for minutes: as the
    task that follows it does, the driver takes its id, which ends it."""
    try:
        return read_marker(settings, group, topic, patience_s)
    except KafkaException as error:
        if not is_away(error):
            raise
    transactional_id = group.removeprefix(GROUP_PREFIX)
    producer = RawProducer({**settings, "transactional.id": transactional_id}, lambda _: None)
    try:
        doing = f"ending what {transactional_id} left open"
        ask_patiently(doing, lambda: producer.init_transactions(_TIMEOUT_S))
    finally:
        producer.close()
    return read_marker(settings, group, topic)


def _committed(consumer: Consumer, topic: str | None, timeout_s: float) -> list[TopicPartition]:
    topics = [topic] if topic is not None else list(consumer.list_topics(timeout=timeout_s).topics)
    committed = consumer.committed([TopicPartition(each, MARKER_PARTITION) for each in topics], timeout=timeout_s)
    raise_errors(committed)
    return committed


def _list_groups(admin: AdminClient) -> list[str]:
    listed = admin.list_consumer_groups(request_timeout=_TIMEOUT_S).result(_TIMEOUT_S + 1)
    for error in listed.errors:
        raise error if isinstance(error, KafkaException) else KafkaException(error)
    return [group.group_id for group in listed.valid]


def _newest_of(committed: Iterable[TopicPartition]) -> Marker | None:
    by_topic: dict[str, Marker] = {}
    for each in committed:
        if each.offset >= 0:
            by_topic[each.topic] = Marker.from_offset(each.offset, each.metadata)
    return newest(by_topic)
