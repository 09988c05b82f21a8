"""What hostile clients do, one habit each: a generator that does a little at every step, so that hundreds take turns.

A habit never waits. It may end its connection, or leave it open for its owner to drop.
"""

from __future__ import annotations

import random
import struct
from collections.abc import Callable, Iterator

from penstock.client.connection.core import ConnectionCore
from penstock.protocol.message import Message
from penstock.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
)
from penstock.protocol.messages.api_versions import ApiVersionsRequest
from penstock.protocol.messages.end_txn import EndTxnRequest
from penstock.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from penstock.protocol.messages.heartbeat import HeartbeatRequest
from penstock.protocol.messages.init_producer_id import InitProducerIdRequest
from penstock.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from penstock.protocol.messages.leave_group import LeaveGroupRequest
from penstock.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from penstock.protocol.messages.metadata import MetadataRequest
from penstock.protocol.messages.offset_commit import OffsetCommitRequest
from penstock.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from penstock.protocol.messages.sync_group import SyncGroupRequest
from penstock.protocol.records import Record, build_batch
from proof.hostile.clients import HTTP_REQUEST, TLS_CLIENT_HELLO, HostileSocket, request_frame

TOPIC = "hostile"
_FOREVER_MS = 2**31 - 1
_BROKER_LIMIT = 100 * 1024 * 1024

Habit = Callable[[HostileSocket, random.Random], Iterator[None]]


def frame_of(message: Message, version: int) -> bytes:
    return ConnectionCore("hostile").encode_request(message, version)[1]


def produce_frame(acks: int, records: bytes, topic: str = TOPIC) -> bytes:
    data = TopicProduceData(name=topic, partition_data=[PartitionProduceData(index=0, records=records)])
    return frame_of(ProduceRequest(acks=acks, timeout_ms=1_000, topic_data=[data]), 9)


def fetch_frame(offset: int, max_wait_ms: int, max_bytes: int = 50 << 20, topic: str = TOPIC) -> bytes:
    partition = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=max_bytes)
    request = FetchRequest(
        max_wait_ms=max_wait_ms,
        min_bytes=1,
        max_bytes=max_bytes,
        session_epoch=-1,
        topics=[FetchTopic(topic=topic, partitions=[partition])],
    )
    return frame_of(request, 12)


BATCH = build_batch([Record(b"k", b"v" * 1_000, (), 1_700_000_000_000)] * 20)
API_VERSIONS = frame_of(ApiVersionsRequest(), 0)
FETCH_ALL = fetch_frame(0, 0)
LATEST_OFFSET = frame_of(
    ListOffsetsRequest(
        replica_id=-1,
        topics=[ListOffsetsTopic(name=TOPIC, partitions=[ListOffsetsPartition(partition_index=0, timestamp=-1)])],
    ),
    1,
)
_JOIN = JoinGroupRequest(
    group_id="hostile-group",
    session_timeout_ms=6_000,
    rebalance_timeout_ms=6_000,
    protocol_type="consumer",
    protocols=[JoinGroupRequestProtocol(name="range", metadata=b"")],
)

# Bytes that no broker can make sense of.
NONSENSE: dict[str, bytes] = {
    "zero length": struct.pack(">i", 0),
    "negative length": struct.pack(">i", -1),
    "most negative length": struct.pack(">i", -(2**31)),
    "two gigabytes": struct.pack(">i", 2**31 - 1) + bytes(100),
    "one byte above the limit": struct.pack(">i", _BROKER_LIMIT + 1),
    "http": HTTP_REQUEST,
    "tls": TLS_CLIENT_HELLO,
    "too short for a header": struct.pack(">i", 7) + bytes(7),
    "unknown api": request_frame(999, 0),
    "a request of brokers among themselves": request_frame(4, 0),
    "a version of tomorrow": request_frame(3, 99),
    "two billion topics": request_frame(3, 1, struct.pack(">i", 2**31 - 1)),
}

# Whole requests that come at the wrong time: each is answered, most with an error.
WRONG_ORDER: dict[str, bytes] = {
    "sasl handshake where none is": request_frame(17, 1, struct.pack(">h", 5) + b"PLAIN"),
    "sasl authentication where none is": request_frame(36, 0, struct.pack(">i", 4) + b"\0a\0b"),
    "produce before anything else": produce_frame(1, BATCH),
    "end of no transaction": frame_of(EndTxnRequest(transactional_id="nobody", producer_id=1, committed=True), 4),
    "partitions for no transaction": frame_of(
        AddPartitionsToTxnRequest(
            v3_and_below_transactional_id="nobody",
            v3_and_below_producer_id=5,
            v3_and_below_topics=[AddPartitionsToTxnTopic(name=TOPIC, partitions=[0])],
        ),
        3,
    ),
    "sync without a join": frame_of(SyncGroupRequest(group_id="hostile-group", member_id="x", generation_id=4), 3),
    "heartbeat of a stranger": frame_of(HeartbeatRequest(group_id="nobody", member_id="x", generation_id=4), 3),
    "leave of a stranger": frame_of(LeaveGroupRequest(group_id="nobody", member_id="x"), 2),
    "commit of a stranger": frame_of(
        OffsetCommitRequest(group_id="nobody", member_id="x", generation_id_or_member_epoch=9), 7
    ),
    "session of nobody": frame_of(FetchRequest(session_id=77, session_epoch=5), 12),
    "records of an unknown producer": produce_frame(
        -1, build_batch([Record(b"k", b"v")], producer_id=99_999, producer_epoch=3, base_sequence=7)
    ),
    "a transaction nobody began": produce_frame(
        -1,
        build_batch([Record(b"k", b"v")], producer_id=9, producer_epoch=0, base_sequence=0, is_transactional=True),
    ),
    "another's transactional id": frame_of(
        InitProducerIdRequest(transactional_id="contested", transaction_timeout_ms=60_000), 4
    ),
}


def _say(data: bytes) -> Habit:
    """Says it, says it again, and listens."""

    def habit(connection: HostileSocket, dice: random.Random) -> Iterator[None]:
        connection.try_send(data)
        yield
        connection.try_send(data)
        yield
        connection.try_receive()

    return habit


def half_open(connection: HostileSocket, dice: random.Random) -> Iterator[None]:
    """Connects, or says half a request, and nothing ever after."""
    connection.try_send(API_VERSIONS[: dice.randrange(len(API_VERSIONS))])
    yield


def half_closed(connection: HostileSocket, dice: random.Random) -> Iterator[None]:
    connection.try_send(API_VERSIONS * 2 + API_VERSIONS[: dice.randrange(len(API_VERSIONS))])
    yield
    connection.end_of_requests()
    yield


def byte_by_byte(connection: HostileSocket, dice: random.Random) -> Iterator[None]:
    for byte in dice.choice((API_VERSIONS, FETCH_ALL[:60])):
        connection.try_send(bytes([byte]))
        yield


def announces_much(connection: HostileSocket, dice: random.Random) -> Iterator[None]:
    connection.try_send(struct.pack(">i", _BROKER_LIMIT) + bytes(dice.choice((10, 5_000, 300_000))))
    yield


def never_reads(connection: HostileSocket, dice: random.Random) -> Iterator[None]:
    for _ in range(20):
        connection.try_send(FETCH_ALL * 5)
        yield


def pipelines(connection: HostileSocket, dice: random.Random) -> Iterator[None]:
    data = dice.choice((API_VERSIONS, frame_of(MetadataRequest(topics=None), 1), LATEST_OFFSET)) * 2_000
    position = 0
    for _ in range(60):
        position += connection.try_send(data[position : position + 65_536])
        if dice.random() < 0.5:
            connection.try_receive()
        yield


def polls_for_ever(connection: HostileSocket, dice: random.Random) -> Iterator[None]:
    connection.try_send(fetch_frame(dice.choice((0, 1 << 40)), _FOREVER_MS) + API_VERSIONS * 30)
    yield


def joins_and_is_silent(connection: HostileSocket, dice: random.Random) -> Iterator[None]:
    connection.try_send(frame_of(_JOIN, 3))
    yield


def leaves_in_the_middle(connection: HostileSocket, dice: random.Random) -> Iterator[None]:
    frame = dice.choice((produce_frame(1, BATCH), API_VERSIONS, FETCH_ALL))
    connection.try_send(frame[: dice.randrange(len(frame))])
    yield
    connection.close()


def resets(connection: HostileSocket, dice: random.Random) -> Iterator[None]:
    connection.try_send(FETCH_ALL * 3 + API_VERSIONS)
    if dice.random() < 0.5:
        yield
        connection.try_receive(1_000)
    connection.reset()
    yield


def random_bytes(connection: HostileSocket, dice: random.Random) -> Iterator[None]:
    for _ in range(5):
        connection.try_send(dice.randbytes(dice.choice((1, 5, 100, 5_000))))
        yield


def damaged_records(connection: HostileSocket, dice: random.Random) -> Iterator[None]:
    batch = bytearray(BATCH)
    batch[dice.randrange(len(batch))] ^= 1 << dice.randrange(8)
    connection.try_send(produce_frame(dice.choice((0, 1, -1)), bytes(batch)))
    yield
    connection.try_receive()


HABITS: dict[str, Habit] = {
    **{name: _say(data) for name, data in NONSENSE.items()},
    **{name: _say(data) for name, data in WRONG_ORDER.items()},
    "half open": half_open,
    "half closed": half_closed,
    "byte by byte": byte_by_byte,
    "announces much": announces_much,
    "never reads": never_reads,
    "pipelines": pipelines,
    "polls for ever": polls_for_ever,
    "joins and is silent": joins_and_is_silent,
    "leaves in the middle": leaves_in_the_middle,
    "resets": resets,
    "random bytes": random_bytes,
    "damaged records": damaged_records,
}
