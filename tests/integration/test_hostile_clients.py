"""Clients that do everything wrong, against a broker process that one good client uses all the while.

After every test the broker still runs, its memory is bounded, and the good client went on without a single error.
"""

from __future__ import annotations

import random
import re
import struct
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import psutil
import pytest

from penstock.client.connection import BlockingConnection
from penstock.client.connection.core import ConnectionCore
from penstock.protocol.codec import encode
from penstock.protocol.errors import ErrorCode
from penstock.protocol.message import Message
from penstock.protocol.messages.api_versions import ApiVersionsRequest
from penstock.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from penstock.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from penstock.protocol.messages.heartbeat import HeartbeatRequest
from penstock.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from penstock.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from penstock.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from penstock.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from penstock.protocol.messages.sync_group import SyncGroupRequest
from penstock.protocol.records import Record, build_batch
from penstock.testing.processes import BrokerProcess, find_free_port
from proof.hostile.clients import HTTP_REQUEST, TLS_CLIENT_HELLO, GoodClient, HostileSocket, request_frame

MAX_FRAME = 100 * 1024 * 1024
MEGABYTE = 1 << 20
# What the broker may hold more than at the start, whatever clients do: caches of every API's codec in every version,
# the topics and groups that hostile requests may well create, and buffers of some hundred connections.
MAX_GROWTH = 120 * MEGABYTE
FOREVER_MS = 2**31 - 1
FETCH_VERSION = 12  # the last that names topics
BULK, FUZZ = "bulk", "fuzz"
BULK_SIZE = 50 * 900_000


class Target:
    """The broker under attack, and what can be seen of it from outside."""

    def __init__(self, process: BrokerProcess, metrics_port: int) -> None:
        self.process = process
        self.bootstrap_servers = process.bootstrap_servers
        self._metrics_url = f"http://127.0.0.1:{metrics_port}/metrics"
        self._stack = ExitStack()

    def connect(self, **options: Any) -> HostileSocket:
        return self._stack.enter_context(HostileSocket(self.bootstrap_servers, **options))

    def ask(self, message: Message, version: int) -> Any:
        with BlockingConnection(self.process.host, self.process.port) as connection:
            return connection.request(message, version)

    def release(self) -> None:
        self._stack.close()

    @property
    def resident_size(self) -> int:
        return int(psutil.Process(self.process.pid).memory_info().rss)

    def metric(self, name: str) -> dict[str, float]:
        with urllib.request.urlopen(self._metrics_url, timeout=20) as answer:
            text = answer.read().decode()
        return {labels: float(value) for labels, value in re.findall(rf"^{name}(\{{.*\}})? (\S+)$", text, re.MULTILINE)}

    @property
    def malformed_count(self) -> int:
        return int(sum(self.metric("penstock_malformed_requests_total").values()))

    @property
    def connection_count(self) -> int:
        return int(sum(self.metric("kafka_server_socket_server_metrics_connection_count").values()))

    @property
    def poll_count(self) -> int:
        return int(sum(self.metric("kafka_server_delayedoperationpurgatory_purgatorysize").values()))

    @property
    def warning_count(self) -> int:
        return self.process.read_log().count("closing a connection")


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    metrics_port = find_free_port()
    process = BrokerProcess(
        tmp_path_factory.mktemp("hostile") / "data",
        config={"group.initial.rebalance.delay.ms": "0", "offsets.topic.num.partitions": "5"},
        arguments=("--metrics", f"127.0.0.1:{metrics_port}"),
    )
    with process:
        target = Target(process, metrics_port)
        fill_bulk_topic(target)
        yield target
    log = process.read_log()
    assert "Traceback" not in log
    assert "never retrieved" not in log
    assert "was destroyed" not in log
    assert "never awaited" not in log
    assert "socket.send() raised" not in log


@pytest.fixture(scope="module")
def good_client(running: Target) -> Iterator[GoodClient]:
    client = GoodClient(running.bootstrap_servers, "good").start()
    client.wait_for_progress()
    yield client
    client.stop()
    client.raise_if_failed()


@pytest.fixture
def target(running: Target, good_client: GoodClient) -> Iterator[Target]:
    before = running.resident_size
    yield running
    running.release()
    assert running.process.is_running
    good_client.wait_for_progress()
    assert running.resident_size < before + MAX_GROWTH


def fill_bulk_topic(target: Target) -> None:
    topics = [CreatableTopic(name=name, num_partitions=1, replication_factor=1) for name in (BULK, FUZZ, "good")]
    target.ask(CreateTopicsRequest(topics=topics, timeout_ms=10_000), 5)
    record = Record(b"k", random.Random(1).randbytes(900_000), (), time.time_ns() // 1_000_000)
    with BlockingConnection(target.process.host, target.process.port) as connection:
        for _ in range(BULK_SIZE // 900_000):
            answer = connection.request(produce(BULK, build_batch([record])), 9)
            assert answer.responses[0].partition_responses[0].error_code == 0


def produce(topic: str, records: bytes, acks: int = 1) -> ProduceRequest:
    data = [PartitionProduceData(index=0, records=records)]
    return ProduceRequest(acks=acks, timeout_ms=1_000, topic_data=[TopicProduceData(name=topic, partition_data=data)])


def fetch(topic: str = BULK, max_bytes: int = 50 * MEGABYTE, offset: int = 0, max_wait_ms: int = 0) -> FetchRequest:
    partition = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=max_bytes)
    return FetchRequest(
        max_wait_ms=max_wait_ms,
        min_bytes=1,
        max_bytes=max_bytes,
        session_epoch=-1,
        topics=[FetchTopic(topic=topic, partitions=[partition])],
    )


def frame_of(message: Message, version: int) -> bytes:
    return ConnectionCore("hostile").encode_request(message, version)[1]


def eventually(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


FETCH_BULK = frame_of(fetch(), FETCH_VERSION)
POLL_FOR_EVER = frame_of(fetch(FUZZ, offset=0, max_wait_ms=FOREVER_MS), FETCH_VERSION)
API_VERSIONS = request_frame(18, 0)
HEARTBEAT = encode(HeartbeatRequest(group_id="g", member_id="m"), 4)

NONSENSE: dict[str, bytes] = {
    "zero length": struct.pack(">i", 0),
    "negative length": struct.pack(">i", -1),
    "most negative length": struct.pack(">i", -(2**31)),
    "two gigabytes": struct.pack(">i", 2**31 - 1) + bytes(100),
    "one byte above the limit": struct.pack(">i", MAX_FRAME + 1),
    "http": HTTP_REQUEST,
    "tls": TLS_CLIENT_HELLO,
    "too short for a header": struct.pack(">i", 7) + bytes(7),
    "unknown api key": request_frame(999, 0),
    "negative api key": request_frame(-1, 0),
    "an api of brokers among themselves": request_frame(4, 0),
    "unsupported version": request_frame(3, 99),
    "negative version": request_frame(3, -1),
    "cut body": request_frame(3, 1, b"\0\0"),
    "two billion topics": request_frame(3, 1, struct.pack(">i", 2**31 - 1)),
    "negative count": request_frame(3, 1, struct.pack(">i", -5)),
    "four billion tagged fields": request_frame(12, 4, HEARTBEAT[:-1] + b"\xff\xff\xff\xff\x0f", flexible=True),
    "tagged field past the end": request_frame(12, 4, HEARTBEAT[:-1] + b"\x01\x00\x7f", flexible=True),
    "endless varint": request_frame(12, 4, b"\xff" * 30, flexible=True),
    "not utf-8": request_frame(3, 1, struct.pack(">ih", 1, 4) + b"\xff\xfe\xfd\xfc"),
    "client id past the end": struct.pack(">ihhih", 10, 3, 1, 1, 32767),
    "client id not utf-8": struct.pack(">ihhih", 12, 3, 1, 1, 2) + b"\xc3\x28",
    "acks=0 to a topic that does not exist": frame_of(produce("nowhere", build_batch([Record(b"", b"", (), 1)]), 0), 9),
}


class TestNonsense:
    @pytest.mark.parametrize("data", NONSENSE.values(), ids=NONSENSE)
    def test_connection_is_closed_logged_once_and_counted_once_when_it_makes_no_sense(
        self, target: Target, data: bytes
    ) -> None:
        counted, logged = target.malformed_count, target.warning_count
        connection = target.connect()
        connection.send(data)
        connection.send_what_fits(data)  # more of the same must not be heard
        assert connection.is_closed_by_broker()
        assert target.malformed_count == counted + 1
        assert target.warning_count == logged + 1

    def test_connection_is_closed_or_waits_when_it_gets_random_bytes(self, target: Target) -> None:
        dice = random.Random(11)
        for _ in range(100):
            target.connect().send_what_fits(dice.randbytes(dice.choice((1, 5, 100, 5_000))))

    def test_answers_come_first_when_nonsense_follows_good_requests(self, target: Target) -> None:
        connection = target.connect()
        connection.send(API_VERSIONS * 3 + request_frame(999, 0) + API_VERSIONS)
        answers = [connection.receive_frame() for _ in range(4)]
        assert [answer is None for answer in answers] == [False, False, False, True]

    def test_request_is_served_when_bytes_follow_it_in_its_frame(self, target: Target) -> None:
        connection = target.connect()
        connection.send(request_frame(12, 4, HEARTBEAT + b"rest", flexible=True))
        assert connection.receive_frame() is not None

    def test_request_is_refused_quickly_when_it_holds_millions_of_tagged_fields(self, target: Target) -> None:
        fields = b"\x05\x00" * 20_000_000
        body = HEARTBEAT[:-1] + b"\x80\xda\xc4\x09" + fields
        connection = target.connect()
        connection.send(request_frame(12, 4, body, flexible=True))
        started = time.monotonic()
        assert connection.is_closed_by_broker()
        assert time.monotonic() - started < 3

    def test_errors_are_answered_when_requests_come_in_a_senseless_order(self, target: Target) -> None:
        answers = [
            target.ask(HeartbeatRequest(group_id="nobody", member_id="ghost", generation_id=3), 4).error_code,
            target.ask(SyncGroupRequest(group_id="nobody", member_id="ghost", generation_id=3), 3).error_code,
            target.ask(fetch(offset=10**9), FETCH_VERSION).responses[0].partitions[0].error_code,
            target.ask(FetchRequest(session_id=77, session_epoch=5), FETCH_VERSION).error_code,
            target.ask(MetadataRequest(topics=[MetadataRequestTopic(name=None)]), 11).topics[0].error_code,
        ]
        assert answers == [
            ErrorCode.UNKNOWN_MEMBER_ID,
            ErrorCode.UNKNOWN_MEMBER_ID,
            ErrorCode.OFFSET_OUT_OF_RANGE,
            ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
            ErrorCode.INVALID_REQUEST,
        ]

    def test_poll_ends_when_it_waits_for_more_than_it_would_take(self, target: Target) -> None:
        request = fetch(max_bytes=MEGABYTE, max_wait_ms=FOREVER_MS)
        request.min_bytes = 2**31 - 1
        answer = target.ask(request, FETCH_VERSION)
        assert len(answer.responses[0].partitions[0].records) > 900_000


class TestSlowness:
    def test_memory_follows_what_arrived_when_many_announce_much_and_send_nothing(self, target: Target) -> None:
        before = target.resident_size
        for _ in range(300):
            target.connect().send(struct.pack(">i", MAX_FRAME) + bytes(10))
        target.connect().send(struct.pack(">i", MAX_FRAME) + bytes(5 * MEGABYTE))
        eventually(lambda: target.connection_count > 300)
        assert target.resident_size < before + 60 * MEGABYTE

    def test_everybody_is_answered_when_requests_come_in_byte_by_byte(self, target: Target) -> None:
        connections = [target.connect() for _ in range(30)]
        for byte in API_VERSIONS:
            for connection in connections:
                connection.send(bytes([byte]))
        assert all(connection.receive_frame() for connection in connections)

    def test_nobody_is_disturbed_when_connections_stay_silent_or_end_in_the_middle(self, target: Target) -> None:
        before = target.connection_count
        silent = [target.connect() for _ in range(100)]
        cut = [target.connect() for _ in range(100)]
        for number, connection in enumerate(cut):
            connection.send(API_VERSIONS[: number % len(API_VERSIONS)])
        for number, connection in enumerate(cut):
            (connection.reset, connection.close, connection.end_of_requests)[number % 3]()
        eventually(lambda: target.connection_count <= before + len(silent) + 1)

    def test_two_pieces_are_held_when_many_never_take_their_answers(self, target: Target) -> None:
        """Each asked for ten answers of 45 MB."""
        before = target.resident_size
        readers = [target.connect(receive_buffer_size=4_096) for _ in range(20)]
        for reader in readers:
            reader.send(FETCH_BULK * 10)
        assert all(len(reader.receive(8)) == 8 for reader in readers)
        assert target.resident_size < before + len(readers) * 2 * MEGABYTE + 20 * MEGABYTE

    def test_every_byte_arrives_when_many_read_slowly(self, target: Target) -> None:
        expected = target.ask(fetch(), FETCH_VERSION).responses[0].partitions[0].records
        before = target.resident_size
        readers = [target.connect(receive_buffer_size=65_536) for _ in range(8)]
        for reader in readers:
            reader.send(FETCH_BULK)
        sizes = [struct.unpack(">i", reader.receive(4))[0] for reader in readers]
        received = [bytearray() for _ in readers]
        while len(received[0]) < sizes[0]:
            for reader, data, size in zip(readers, received, sizes, strict=True):
                data += reader.receive(min(300_000, size - len(data)))
            assert target.resident_size < before + len(readers) * 2 * MEGABYTE + 20 * MEGABYTE
        assert all(bytes(expected) in data for data in received)

    def test_reading_stops_when_answers_are_not_taken(self, target: Target) -> None:
        before = target.resident_size
        connection = target.connect(receive_buffer_size=4_096)
        taken = connection.send_what_fits(API_VERSIONS * 2_000_000)
        assert taken < 20 * MEGABYTE
        assert target.resident_size < before + 20 * MEGABYTE

    def test_reading_stops_when_large_requests_queue_behind_one_that_waits(self, target: Target) -> None:
        before = target.resident_size
        connections = [target.connect() for _ in range(5)]
        large = struct.pack(">i", 60 * MEGABYTE) + bytes(60 * MEGABYTE)
        offset = target.ask(latest(FUZZ), 1).topics[0].partitions[0].offset
        for connection in connections:
            connection.send(frame_of(fetch(FUZZ, offset=offset, max_wait_ms=FOREVER_MS), FETCH_VERSION))
            assert connection.send_what_fits(large) < len(large)
        assert target.resident_size < before + 40 * MEGABYTE


def latest(topic: str) -> ListOffsetsRequest:
    wanted = [ListOffsetsPartition(partition_index=0, timestamp=-1)]
    return ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name=topic, partitions=wanted)])


class TestDepartures:
    def test_nothing_is_left_behind_when_clients_go_in_the_middle_of_an_answer(self, target: Target) -> None:
        before = target.connection_count
        for number in range(60):
            connection = target.connect()
            connection.send(FETCH_BULK * 3)
            connection.receive(number * 50_000)
            (connection.reset if number % 2 else connection.close)()
        eventually(lambda: target.connection_count <= before + 1)

    def test_nothing_is_left_behind_when_clients_go_while_their_requests_wait(self, target: Target) -> None:
        before, polls_before = target.connection_count, target.poll_count
        member = JoinGroupRequest(
            group_id="ghosts",
            session_timeout_ms=6_000,
            rebalance_timeout_ms=6_000,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name="range", metadata=b"")],
        )
        for number in range(60):
            connection = target.connect()
            connection.send(frame_of(member, 3) if number % 3 else POLL_FOR_EVER)
            (connection.reset if number % 2 else connection.close)()
        eventually(lambda: target.connection_count <= before + 1)
        eventually(lambda: target.poll_count <= polls_before + 1)

    def test_records_are_stored_when_the_client_leaves_right_after_sending_them(self, target: Target) -> None:
        batch = build_batch([Record(b"k", b"v", (), time.time_ns() // 1_000_000)])
        before = target.ask(latest(FUZZ), 1).topics[0].partitions[0].offset
        connection = target.connect()
        connection.send(frame_of(produce(FUZZ, batch, acks=0), 9) * 500)
        connection.close()
        eventually(lambda: target.ask(latest(FUZZ), 1).topics[0].partitions[0].offset == before + 500)

    def test_others_are_served_when_one_pipelines_thousands_of_requests(self, target: Target) -> None:
        connection = target.connect()
        connection.send_what_fits(frame_of(MetadataRequest(topics=None), 1) * 10_000)
        started = time.monotonic()
        target.ask(ApiVersionsRequest(), 0)
        assert time.monotonic() - started < 1
        connection.reset()
