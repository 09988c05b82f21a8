"""The reads and writes of a request, topic by topic, for audit trails that record them. Never looks at records."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from penstock.broker.auditing.changes import AuditedChange
from penstock.protocol.batch import HEADER_SIZE, read_header
from penstock.protocol.message import ZERO_UUID

# Gives the name of a topic that a request names by its id.
NameTopic = Callable[[bytes], str | None]


def describe_writes(name_topic: NameTopic, request: Any, response: Any) -> Iterator[AuditedChange]:
    """Describes the writes of a produce request. `response` is None for acks=0: the broker made the writes, or closes
    the connection.
    """
    codes = {
        (topic.name, topic.topic_id, partition.index): partition.error_code
        for topic in (() if response is None else response.responses)
        for partition in topic.partition_responses
    }
    for topic in request.topic_data:
        size = count = 0
        for partition in topic.partition_data:
            records = partition.records
            code = codes.get((topic.name, topic.topic_id, partition.index))
            if code or records is None or len(records) < HEADER_SIZE:
                continue
            size += len(records)
            count += read_header(records).last_offset_delta + 1
        if size:
            yield AuditedChange(_resource(name_topic, topic.name, topic), "Write", 0, {"bytes": size, "records": count})


def describe_reads(name_topic: NameTopic, request: Any, response: Any) -> Iterator[AuditedChange]:
    """Describes the reads of a fetch. A follower's fetch is no read: only a broker sees its records."""
    if request.replica_id >= 0 or request.replica_state is not None:
        return
    for topic in response.responses:
        size = sum(len(partition.records or b"") for partition in topic.partitions if not partition.error_code)
        if size:
            yield AuditedChange(_resource(name_topic, topic.topic, topic), "Read", 0, {"bytes": size})


def _resource(name_topic: NameTopic, name: str, topic: Any) -> str:
    if topic.topic_id != ZERO_UUID:
        name = name_topic(topic.topic_id) or f"id {topic.topic_id.hex()}"
    return f"Topic:{name}"
