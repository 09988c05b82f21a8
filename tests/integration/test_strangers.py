"""Strangers who leave something behind with each request: what the broker remembers of them is bounded.

The strangers come from another address than the good client, who goes on without an error and is not delayed.
"""

from __future__ import annotations

import re
import socket
import struct
import time
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any, Self

import pytest

from penstock.client.connection import BlockingConnection
from penstock.protocol.codec import decode, encode
from penstock.protocol.errors import ErrorCode
from penstock.protocol.framing import decode_response_header, encode_request_header
from penstock.protocol.message import Message
from penstock.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from penstock.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from penstock.protocol.messages.describe_groups import DescribeGroupsRequest
from penstock.protocol.messages.init_producer_id import InitProducerIdRequest
from penstock.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from penstock.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from penstock.testing.processes import BrokerProcess, find_free_port
from proof.hostile.clients import PATIENCE_S, GoodClient
from tests.clients.raw.wire import build_batch
from tests.clients.support import eventually

GOOD, IDS = "good", "ids"
READERS = f"{GOOD}-readers"
OF_CLIENT, OF_GROUP, OF_ALL = 40, 80, 120
# 100 ids at once, then four a second. Whoever owes half a minute of that is refused.
RATE, AT_ONCE, OWED = 4, 100, 120
CONFIG = {
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "3",
    "penstock.group.pending.joins.max": str(OF_ALL),
    "penstock.group.pending.joins.max.per.group": str(OF_GROUP),
    "penstock.group.pending.joins.max.per.client": str(OF_CLIENT),
    "penstock.producer.ids.rate": str(RATE),
    "penstock.producer.id.quota.window.num": "1",
    "penstock.producer.id.quota.window.size.seconds": str(AT_ONCE // RATE),
}
HALF_AN_HOUR_MS = 1_800_000


class Stranger:
    """A connection from another address than everybody else's. `ask` sends all requests before it reads an answer."""

    def __init__(self, port: int, address: str = "127.0.0.2", client_id: str = "stranger") -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), PATIENCE_S, source_address=(address, 0))
        self._client_id = client_id

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def send(self, requests: list[Message], version: int) -> None:
        frames = bytearray()
        for number, request in enumerate(requests):
            flexible = version >= request.FLEXIBLE_FROM
            frame = encode_request_header(request.API_KEY, version, number, self._client_id, flexible)
            frame += encode(request, version)
            frames += struct.pack(">i", len(frame)) + frame
        self._socket.sendall(frames)

    def ask(self, requests: list[Message], version: int) -> list[Any]:
        self.send(requests, version)
        with self._socket.makefile("rb") as answers:
            return [self._read(answers, request.RESPONSE, version) for request in requests]

    @staticmethod
    def _read(answers: Any, response: type[Message], version: int) -> Any:
        (size,) = struct.unpack(">i", answers.read(4))
        frame = answers.read(size)
        _, position = decode_response_header(frame, version >= response.FLEXIBLE_FROM)
        return decode(response, frame, version, position)


class Target:
    def __init__(self, process: BrokerProcess, metrics_port: int) -> None:
        self.process = process
        self._metrics_url = f"http://127.0.0.1:{metrics_port}/metrics"

    def stranger(self, **options: Any) -> Stranger:
        return Stranger(self.process.port, **options)

    def ask(self, message: Message, version: int) -> Any:
        with BlockingConnection(self.process.host, self.process.port) as connection:
            return connection.request(message, version)

    def metric(self, name: str) -> float:
        with urllib.request.urlopen(self._metrics_url, timeout=20) as answer:
            text = answer.read().decode()
        return sum(float(value) for value in re.findall(rf"^{name}(?:\{{.*\}})? (\S+)$", text, re.MULTILINE))

    def members(self, group: str) -> set[str]:
        return {each.member_id for each in self.ask(DescribeGroupsRequest(groups=[group]), 5).groups[0].members}


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    metrics_port = find_free_port()
    process = BrokerProcess(
        tmp_path_factory.mktemp("strangers") / "data",
        config=CONFIG,
        arguments=("--metrics", f"127.0.0.1:{metrics_port}"),
    )
    with process:
        target = Target(process, metrics_port)
        topics = [CreatableTopic(name=name, num_partitions=1, replication_factor=1) for name in (GOOD, IDS)]
        target.ask(CreateTopicsRequest(topics=topics, timeout_ms=10_000), 5)
        yield target
    assert "Traceback" not in process.read_log()


@pytest.fixture
def target(running: Target) -> Iterator[Target]:
    """The good client is a member of its group all the while, and writes idempotently."""
    client = GoodClient(running.process.bootstrap_servers, GOOD).start()
    client.wait_for_progress()
    members = running.members(READERS)
    assert len(members) == 1
    yield running
    client.wait_for_progress()
    assert running.members(READERS) == members
    client.stop()
    client.raise_if_failed()


def join(group: str, timeout_ms: int = HALF_AN_HOUR_MS) -> JoinGroupRequest:
    return JoinGroupRequest(
        group_id=group,
        session_timeout_ms=timeout_ms,
        rebalance_timeout_ms=timeout_ms,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=b"\0\1\0\0\0\0\xff\xff\xff\xff\0\0\0\0")],
    )


def produce(producer_id: int, sequence: int = 0) -> ProduceRequest:
    batch = build_batch([b"v"], producer_id=producer_id, producer_epoch=0, sequence=sequence)
    data = [PartitionProduceData(index=0, records=batch)]
    return ProduceRequest(acks=-1, timeout_ms=1_000, topic_data=[TopicProduceData(name=IDS, partition_data=data)])


# ------------------------------------------------------------------------------------------------------------- joins


@pytest.mark.parametrize("groups", [(READERS,), tuple(f"invented-{number}" for number in range(600))])
def test_joins_are_bounded_when_none_of_them_comes_back_on_one_connection(
    target: Target, groups: tuple[str, ...]
) -> None:
    before, dropped = (
        target.metric(f"penstock_group_{name}") for name in ("pending_joins", "pending_joins_dropped_total")
    )
    with target.stranger(client_id="x" * 8_000) as stranger:
        answers = stranger.ask([join(groups[number % len(groups)]) for number in range(600)], 5)
    assert {each.error_code for each in answers} == {ErrorCode.MEMBER_ID_REQUIRED}
    eventually(lambda: target.metric("penstock_group_pending_joins") <= OF_CLIENT, "a bounded number of joins")
    assert target.metric("penstock_group_pending_join_bytes") <= OF_CLIENT * 8_192
    assert target.metric("penstock_group_pending_joins_dropped_total") - dropped >= 600 + before - OF_CLIENT
    assert target.metric("kafka_coordinator_group_groupmetadatamanager_numgroups") <= 1 + OF_CLIENT
    # The newest is the one that may come back.
    with target.stranger() as stranger:
        again = join(groups[-1])
        again.member_id = answers[-1].member_id
        if groups != (READERS,):
            assert [each.error_code for each in stranger.ask([again], 5)] == [ErrorCode.NONE]
        again.member_id = answers[0].member_id
        again.group_id = groups[0]
        assert [each.error_code for each in stranger.ask([again], 5)] == [ErrorCode.UNKNOWN_MEMBER_ID]


def test_members_are_gone_when_their_clients_left_before_they_saw_a_generation(target: Target) -> None:
    with target.stranger() as first:
        assert first.ask([join("hung")], 3)[0].error_code == ErrorCode.NONE
        with ExitStack() as stack:
            for number in range(100):
                stack.enter_context(target.stranger(address=f"127.0.0.{number % 5 + 2}")).send([join("hung")], 3)
            eventually(lambda: len(target.members("hung")) == 101, "100 joins that wait")
        eventually(lambda: len(target.members("hung")) == 1, "nobody but the first member")


def test_members_are_bounded_when_they_see_a_generation_and_are_never_heard_of_again(target: Target) -> None:
    with ExitStack() as stack:
        for number in range(OF_ALL):
            stranger = stack.enter_context(target.stranger(address=f"127.0.0.{number % 4 + 2}"))
            assert stranger.ask([join(f"silent-{number}")], 3)[0].error_code == ErrorCode.NONE
    with target.stranger() as stranger:
        stranger.ask([join(f"more-{number}") for number in range(3 * OF_CLIENT)], 3)
    eventually(lambda: target.metric("penstock_group_pending_joins") <= OF_ALL, "a bounded number of members")
    assert target.metric("kafka_coordinator_group_groupmetadatamanager_numgroups") <= OF_ALL + 2


def test_members_of_the_consumer_protocol_are_bounded_when_their_ids_are_invented(target: Target) -> None:
    beats: list[Message] = [
        ConsumerGroupHeartbeatRequest(
            group_id="848",
            member_id=f"invented-{number}",
            member_epoch=0,
            rebalance_timeout_ms=60_000,
            subscribed_topic_names=[GOOD],
            topic_partitions=[],
        )
        for number in range(4 * OF_CLIENT)
    ]
    with target.stranger() as stranger:
        assert {each.error_code for each in stranger.ask(beats, 0)} == {ErrorCode.NONE}
    eventually(lambda: target.metric("penstock_group_pending_joins") <= OF_ALL, "a bounded number of members")


def test_member_is_refused_when_the_members_of_its_group_would_say_too_much(target: Target) -> None:
    def joining(size: int) -> list[Message]:
        request = join("fat", 10_000)
        request.protocols = [JoinGroupRequestProtocol(name="range", metadata=bytes(size))]
        return [request]

    names = [f"{number}".rjust(30_000, "x") for number in range(600)]
    beat = ConsumerGroupHeartbeatRequest(
        group_id="fat-848",
        member_id="m",
        member_epoch=0,
        rebalance_timeout_ms=60_000,
        subscribed_topic_names=names,
        topic_partitions=[],
    )
    with target.stranger() as first, target.stranger() as second:
        assert first.ask(joining(10_000_000), 3)[0].error_code == ErrorCode.NONE
        assert second.ask(joining(7_000_000), 3)[0].error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
        assert second.ask([beat], 0)[0].error_code == ErrorCode.GROUP_MAX_SIZE_REACHED


# ------------------------------------------------------------------------------------------------------ producer ids


def test_new_producer_ids_of_one_client_are_delayed_then_refused_and_nobody_else_is(target: Target) -> None:
    known = target.metric("kafka_server_replicamanager_produceridcount")
    with BlockingConnection(target.process.host, target.process.port) as honest:
        own_id = honest.request(InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=0), 4).producer_id
        offset = first_answer(honest.request(produce(own_id), 9)).base_offset
        began = time.monotonic()
        with target.stranger() as stranger:
            answers = stranger.ask([produce(1_000_000 + number) for number in range(AT_ONCE + 2)], 9)
            answers += stranger.ask([produce(2_000_000)], 9)
        assert {first_answer(each).error_code for each in answers} == {ErrorCode.NONE}
        assert answers[AT_ONCE - 1].throttle_time_ms == 0
        assert answers[-1].throttle_time_ms > 0
        refused, seconds = 0, 0.0
        for number in range(OWED + 50):  # a connection that is held back is left for another one
            with target.stranger() as stranger:
                (answer,) = stranger.ask([produce(3_000_000 + number)], 9)
                refused += first_answer(answer).error_code == ErrorCode.NOT_ENOUGH_REPLICAS
                assert 0 < answer.throttle_time_ms <= 30_000
        seconds = time.monotonic() - began
        assert refused >= 50 - 2 - RATE * seconds
        count = target.metric("kafka_server_replicamanager_produceridcount") - known
        assert count <= AT_ONCE + OWED + 2 + RATE * seconds
        assert target.metric("penstock_throttled_requests_total") > 0
        again = honest.request(produce(own_id), 9)
        assert (first_answer(again).base_offset, again.throttle_time_ms) == (offset, 0)
        following = honest.request(produce(own_id, 1), 9)
        assert (first_answer(following).error_code, following.throttle_time_ms) == (ErrorCode.NONE, 0)
        assert first_answer(honest.request(produce(4_000_000), 9)).error_code == ErrorCode.NONE  # its first, too
    with target.stranger() as stranger:  # what is known of the stranger is not forgotten, either
        (known_one,) = stranger.ask([produce(1_000_000)], 9)
        assert first_answer(known_one).base_offset == first_answer(answers[0]).base_offset


def first_answer(response: Any) -> Any:
    return response.responses[0].partition_responses[0]
