"""SIGTERM while clients are in the middle of everything a client can be in the middle of."""

from __future__ import annotations

import signal
import struct
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from penstock.client.connection import BlockingConnection, ConnectionClosedError
from penstock.client.connection.core import ConnectionCore
from penstock.core.loops import new_event_loop
from penstock.embedded import AsyncBroker, Broker
from penstock.log.formats import names
from penstock.protocol.message import Message
from penstock.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from penstock.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from penstock.protocol.messages.find_coordinator import FindCoordinatorRequest
from penstock.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from penstock.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from penstock.protocol.records import Record, build_batch
from penstock.testing.processes import BrokerProcess
from proof.hostile.clients import HostileSocket
from tests.integration.conftest import StartBroker

FOREVER_MS = 2**31 - 1
PROMPT_S = 2.0
# What an asyncio program says when something was forgotten on the way out.
UNTIDY = ("Traceback", "was destroyed", "never retrieved", "never awaited", "ResourceWarning", "ERROR")


class Clients:
    def __init__(self, broker: BrokerProcess, stack: ExitStack) -> None:
        self.broker = broker
        self._stack = stack

    def connect(self) -> BlockingConnection:
        return self._stack.enter_context(BlockingConnection(self.broker.host, self.broker.port))

    def hostile(self) -> HostileSocket:
        return self._stack.enter_context(HostileSocket(self.broker.bootstrap_servers, receive_buffer_size=4_096))

    def create_topic(self, name: str, partitions: int = 1) -> None:
        topic = CreatableTopic(name=name, num_partitions=partitions, replication_factor=1)
        (result,) = self.connect().request(CreateTopicsRequest(topics=[topic], timeout_ms=10_000), 5).topics
        assert result.error_code == 0

    def poll(self, topic: str, max_wait_ms: int = FOREVER_MS) -> tuple[BlockingConnection, int]:
        connection = self.connect()
        return connection, connection.send(fetch(topic, max_wait_ms), 12)

    def join(self, group: str) -> tuple[BlockingConnection, int]:
        """Parked until every member has joined again, which one never does."""
        first, second = self.connect(), self.connect()
        assert first.request(FindCoordinatorRequest(key=group), 1).error_code == 0
        while (answer := first.request(join_request(group), 3)).error_code == 14:
            time.sleep(0.01)  # the coordinator loads
        assert isinstance(answer, JoinGroupResponse)
        assert answer.error_code == 0
        return second, second.send(join_request(group), 3)


def fetch(topic: str, max_wait_ms: int) -> FetchRequest:
    partition = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=50_000_000)
    topics = [FetchTopic(topic=topic, partitions=[partition])]
    return FetchRequest(max_wait_ms=max_wait_ms, min_bytes=1, max_bytes=50_000_000, session_epoch=-1, topics=topics)


def join_request(group: str) -> JoinGroupRequest:
    return JoinGroupRequest(
        group_id=group,
        session_timeout_ms=60_000,
        rebalance_timeout_ms=600_000,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=b"")],
    )


def produce(topic: str, size: int) -> ProduceRequest:
    batch = build_batch([Record(b"k", bytes(size), (), time.time_ns() // 1_000_000)])
    data = [PartitionProduceData(index=0, records=batch)]
    return ProduceRequest(acks=1, timeout_ms=1_000, topic_data=[TopicProduceData(name=topic, partition_data=data)])


def frame_of(message: Message, version: int) -> bytes:
    return ConnectionCore("test").encode_request(message, version)[1]


@pytest.fixture
def clients(start_broker: StartBroker) -> Iterator[Clients]:
    environment = {"PYTHONASYNCIODEBUG": "0", "PYTHONWARNINGS": "default::ResourceWarning"}
    with ExitStack() as stack:
        yield Clients(start_broker(environment=environment), stack)


def stop(broker: BrokerProcess, number: signal.Signals = signal.SIGTERM) -> None:
    started = time.monotonic()
    broker.process.send_signal(number)
    assert broker.process.wait(20) == 0
    assert time.monotonic() - started < PROMPT_S
    log = broker.read_log()
    assert [word for word in UNTIDY if word in log] == [], log[-3_000:]
    assert "shut down cleanly" in log
    assert (broker.data_dir / names.CLEAN_SHUTDOWN).exists()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_end_is_prompt_and_tidy_when_nobody_is_connected(clients: Clients, number: signal.Signals) -> None:
    stop(clients.broker, number)


def test_end_is_prompt_and_tidy_when_clients_wait_for_records_and_members(clients: Clients) -> None:
    clients.create_topic("quiet", 3)
    waiting = [clients.poll("quiet") for _ in range(50)] + [clients.join(f"group-{index}") for index in range(10)]
    time.sleep(0.1)
    stop(clients.broker)
    for connection, correlation_id in waiting:
        with pytest.raises(ConnectionClosedError):
            connection.receive(correlation_id, timeout_s=5)


def test_end_is_prompt_and_tidy_when_clients_are_in_the_middle_of_sending_and_receiving(clients: Clients) -> None:
    clients.create_topic("bulk")
    writer = clients.connect()
    for _ in range(20):
        assert writer.request(produce("bulk", 900_000), 9).responses[0].partition_responses[0].error_code == 0
    for _ in range(10):
        reader, writer_in_the_middle, idle = clients.hostile(), clients.hostile(), clients.hostile()
        reader.send(frame_of(fetch("bulk", 0), 12) * 5)
        assert len(reader.receive(100)) == 100
        writer_in_the_middle.send(frame_of(produce("bulk", 900_000), 9)[:500_000])
        idle.send(struct.pack(">i", 50)[:3])
    stop(clients.broker)


def test_end_is_prompt_and_tidy_when_topics_are_being_created(clients: Clients) -> None:
    for number in range(30):
        topic = CreatableTopic(name=f"t{number}", num_partitions=20, replication_factor=1)
        clients.connect().send(CreateTopicsRequest(topics=[topic], timeout_ms=10_000), 5)
    stop(clients.broker)
    clients.broker.start()
    stop(clients.broker)


def test_end_is_prompt_and_tidy_when_every_record_is_synced(start_broker: StartBroker) -> None:
    broker = start_broker(config={"log.flush.interval.messages": "1"})
    with ExitStack() as stack:
        clients = Clients(broker, stack)
        clients.create_topic("durable", 1)
        for _ in range(20):
            connection = clients.connect()
            for _ in range(20):
                connection.send(produce("durable", 10_000), 9)
        stop(broker)


def test_end_is_clean_when_the_signal_comes_during_the_start(tmp_path: Path) -> None:
    broker = BrokerProcess(tmp_path / "data")
    for delay_s in (0.15, 0.25, 0.35):
        broker.spawn()
        time.sleep(delay_s)
        broker.process.send_signal(signal.SIGTERM)
        # Before Python has set the handler up, the signal ends the process as it ends any other.
        assert broker.process.wait(20) in (0, -signal.SIGTERM)
        assert "Traceback" not in broker.read_log()


def test_second_signal_changes_nothing_when_the_first_is_being_obeyed(clients: Clients) -> None:
    clients.create_topic("many", 100)
    for _ in range(5):
        clients.broker.process.send_signal(signal.SIGTERM)
    stop(clients.broker)


def test_embedded_broker_ends_promptly_when_clients_wait() -> None:
    with Broker() as broker, ExitStack() as stack:
        broker.create_topic("quiet")
        host, _, port = broker.bootstrap_servers.rpartition(":")
        connections = [stack.enter_context(BlockingConnection(host, int(port))) for _ in range(20)]
        for connection in connections:
            connection.send(fetch("quiet", FOREVER_MS), 12)
        assert connections[0].is_open
        started = time.monotonic()
        broker.stop()
        assert time.monotonic() - started < PROMPT_S


def test_no_task_is_left_on_the_callers_loop_when_an_async_broker_ends() -> None:
    import asyncio

    async def scenario() -> None:
        async with AsyncBroker() as broker:
            await broker.create_topic("quiet")
            reader, writer = await asyncio.open_connection("127.0.0.1", broker.port)
            writer.write(frame_of(fetch("quiet", FOREVER_MS), 12))
            writer.write(frame_of(FindCoordinatorRequest(key="g"), 1))
            await asyncio.sleep(0.05)
        assert asyncio.all_tasks() == {asyncio.current_task()}
        assert await reader.read() == b""
        writer.close()

    for factory in (new_event_loop, asyncio.new_event_loop):
        with asyncio.Runner(loop_factory=factory) as runner:
            runner.run(scenario())
