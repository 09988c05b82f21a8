"""The words of the raw tests: a connection that picks the newest version, topics, batches built byte by byte."""

from __future__ import annotations

import struct
import time
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import google_crc32c

from penstock.client.connection import BlockingConnection
from penstock.protocol.errors import ErrorCode
from penstock.protocol.message import Message
from penstock.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from penstock.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from penstock.protocol.messages.init_producer_id import InitProducerIdRequest
from penstock.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from penstock.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from penstock.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

ZERO_ID = bytes(16)
# A broker in another process, on a busy machine, after a crash test: far above anything seen.
SETTLE_TIMEOUT_S = 30.0


class Wire:
    """`wire(message)` sends at the newest version, `wire(message, 3)` at version 3, and answers the response."""

    def __init__(self, connection: BlockingConnection) -> None:
        self.connection = connection

    def __call__(self, message: Message, version: int | None = None) -> Any:
        return self.connection.request(message, message.MAX_VERSION if version is None else version)


class Topic(NamedTuple):
    name: str
    id: bytes


def new_name(stem: str = "raw") -> str:
    return f"{stem}-{uuid.uuid4().hex[:12]}"


def create_topic(wire: Wire, partitions: int = 1, configs: Mapping[str, str] | None = None) -> Topic:
    """A topic of its own for a test, with a leader for every partition."""
    name = new_name()
    wanted = CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=1,
        configs=[CreatableTopicConfig(name=key, value=value) for key, value in (configs or {}).items()],
    )
    (result,) = wire(CreateTopicsRequest(topics=[wanted], timeout_ms=30_000)).topics
    assert result.error_code == 0, (ErrorCode(result.error_code), result.error_message)
    wait_for_leaders(wire, name, partitions)
    return Topic(name, result.topic_id)


def wait_for_leaders(wire: Wire, name: str, partitions: int) -> None:
    """Creation is acknowledged before every broker has heard of it: true of Kafka, and of a cluster of ours."""
    request = MetadataRequest(topics=[MetadataRequestTopic(name=name)], allow_auto_topic_creation=False)
    deadline = time.monotonic() + SETTLE_TIMEOUT_S
    while True:
        (described,) = wire(request).topics
        led = [one for one in described.partitions if one.error_code == 0 and one.leader_id >= 0]
        if described.error_code == 0 and len(led) == partitions and _is_served(wire, name, partitions):
            return
        assert time.monotonic() < deadline, described
        time.sleep(0.01)


def _is_served(wire: Wire, name: str, partitions: int) -> bool:
    """The metadata may name a leader that has not opened the partition yet."""
    wanted = [ListOffsetsPartition(partition_index=index, timestamp=-1) for index in range(partitions)]
    request = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name=name, partitions=wanted)])
    return all(one.error_code == 0 for one in wire(request, 7).topics[0].partitions)


# ------------------------------------------------------------------------------------------------ record batches


@dataclass(frozen=True)
class Record:
    value: bytes | None = b"value"
    key: bytes | None = None
    timestamp: int | None = None  # the batch's own by default


def varint(value: int) -> bytes:
    """Zigzag, as in records."""
    rest = (value << 1) ^ (value >> 63)
    out = bytearray()
    while rest > 127:
        out.append(rest & 127 | 128)
        rest >>= 7
    out.append(rest)
    return bytes(out)


def encode_record(record: Record, index: int, base_timestamp: int) -> bytes:
    body = b"\0" + varint((record.timestamp or base_timestamp) - base_timestamp) + varint(index)
    for part in (record.key, record.value):
        body += varint(-1) if part is None else varint(len(part)) + part
    body += varint(0)
    return varint(len(body)) + body


def build_batch(
    records: Sequence[Record | bytes] = (b"value",),
    *,
    base_offset: int = 0,
    leader_epoch: int = -1,
    magic: int = 2,
    attributes: int = 0,
    last_offset_delta: int | None = None,
    timestamp: int | None = None,
    producer_id: int = -1,
    producer_epoch: int = -1,
    sequence: int = -1,
    record_count: int | None = None,
    payload: bytes | None = None,
    crc_error: int = 0,
) -> bytes:
    """A batch as a producer would send it; every field of the header can be bent."""
    rows = [Record(value=one) if isinstance(one, bytes) else one for one in records]
    base_timestamp = now_ms() if timestamp is None else timestamp
    max_timestamp = max((row.timestamp or base_timestamp for row in rows), default=base_timestamp)
    covered = struct.pack(
        ">hiqqqhii",
        attributes,
        len(rows) - 1 if last_offset_delta is None else last_offset_delta,
        base_timestamp,
        max_timestamp,
        producer_id,
        producer_epoch,
        sequence,
        len(rows) if record_count is None else record_count,
    )
    if payload is None:
        payload = b"".join(encode_record(row, index, base_timestamp) for index, row in enumerate(rows))
    covered += payload
    crc = google_crc32c.value(covered) ^ crc_error
    return struct.pack(">qiibI", base_offset, len(covered) + 9, leader_epoch, magic, crc) + covered


def now_ms() -> int:
    return time.time_ns() // 1_000_000


class BatchView(NamedTuple):
    base_offset: int
    leader_epoch: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    sequence: int
    record_count: int
    size: int


def view_batches(data: bytes | memoryview | None) -> list[BatchView]:
    """Headers of the whole batches in `data`, checksums checked; a torn batch at the end is left out, as clients do."""
    found, position, rest = [], 0, bytes(data or b"")
    while len(rest) - position >= 61:
        base_offset, length, leader_epoch, magic, crc = struct.unpack_from(">qiibI", rest, position)
        end = position + 12 + length
        if end > len(rest):
            break
        assert magic == 2
        assert google_crc32c.value(rest[position + 21 : end]) == crc
        fields = struct.unpack_from(">hiqqqhii", rest, position + 21)
        found.append(BatchView._make((base_offset, leader_epoch, *fields, length + 12)))
        position = end
    return found


# ----------------------------------------------------------------------------------------------- common requests


def produce_request(topic: Topic, data: Mapping[int, bytes | None], acks: int = -1) -> ProduceRequest:
    partitions = [PartitionProduceData(index=index, records=records) for index, records in data.items()]
    topic_data = TopicProduceData(name=topic.name, topic_id=topic.id, partition_data=partitions)
    return ProduceRequest(acks=acks, timeout_ms=30_000, topic_data=[topic_data])


def produce(wire: Wire, topic: Topic, batch: bytes | None, *, acks: int = -1, version: int | None = None) -> Any:
    """The answer for partition 0."""
    return wire(produce_request(topic, {0: batch}, acks), version).responses[0].partition_responses[0]


def produce_ok(wire: Wire, topic: Topic, batch: bytes) -> int:
    answer = produce(wire, topic, batch)
    assert answer.error_code == 0, (ErrorCode(answer.error_code), answer.error_message)
    return int(answer.base_offset)


def new_producer_id(wire: Wire) -> int:
    return int(init_producer_id(wire).producer_id)


def init_producer_id(wire: Wire, version: int | None = None) -> Any:
    """A fresh Kafka has to fetch a block of ids first and says so with COORDINATOR_LOAD_IN_PROGRESS."""
    request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000)
    return until_settled(lambda: wire(request, version), ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)


def eventually(read: Callable[[], Any], expected: Any) -> None:
    """Changes of configuration reach Kafka's broker a moment after they are acknowledged; ours are there at once."""
    deadline = time.monotonic() + SETTLE_TIMEOUT_S
    while (value := read()) != expected:
        assert time.monotonic() < deadline, value
        time.sleep(0.02)


def until_settled(ask: Callable[[], Any], *passing: ErrorCode) -> Any:
    """The first answer whose error is not one of those that pass by themselves."""
    deadline = time.monotonic() + SETTLE_TIMEOUT_S
    while True:
        answer = ask()
        if answer.error_code not in passing:
            return answer
        assert time.monotonic() < deadline, answer
        time.sleep(0.02)


def fetch_request(topic: Topic, offset: int = 0, **bent: Any) -> FetchRequest:
    """Partition 0 from `offset`; keywords go to the request or, if it has no such field, to the partition."""
    own = {name: bent.pop(name) for name in tuple(bent) if name in FetchRequest.__slots__}
    partition = FetchPartition(partition=0, fetch_offset=offset, **{"partition_max_bytes": 1 << 20, **bent})
    topics = [FetchTopic(topic=topic.name, topic_id=topic.id, partitions=[partition])]
    return FetchRequest(
        **{"max_wait_ms": 0, "min_bytes": 0, "max_bytes": 1 << 20, "session_epoch": -1, "topics": topics, **own}
    )


def fetch(wire: Wire, topic: Topic, offset: int = 0, version: int | None = None, **bent: Any) -> Any:
    """The answer for partition 0."""
    return wire(fetch_request(topic, offset, **bent), version).responses[0].partitions[0]


def error_of(answer: Any) -> ErrorCode:
    return ErrorCode(answer.error_code)


def errors_of(answers: Iterable[Any]) -> list[ErrorCode]:
    return [ErrorCode(answer.error_code) for answer in answers]
