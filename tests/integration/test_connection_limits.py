"""What the configuration says about connections, seen from outside."""

from __future__ import annotations

import re
import time
import urllib.request

from penstock.client.connection import BlockingConnection
from penstock.client.connection.core import ConnectionCore
from penstock.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from penstock.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from penstock.testing.processes import find_free_port
from proof.hostile.clients import HostileSocket, request_frame
from tests.integration.conftest import StartBroker

API_VERSIONS = request_frame(18, 0)
POLL_FOR_EVER = ConnectionCore("test").encode_request(
    FetchRequest(
        max_wait_ms=2**31 - 1,
        min_bytes=1,
        max_bytes=1 << 20,
        session_epoch=-1,
        topics=[FetchTopic(topic="quiet", partitions=[FetchPartition(partition=0, partition_max_bytes=1 << 20)])],
    ),
    12,
)[1]


def read_metric(port: int, name: str) -> float:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=20) as answer:
        text = answer.read().decode()
    return sum(float(value) for value in re.findall(rf"^{name}(?:\{{.*\}})? (\S+)$", text, re.MULTILINE))


def test_idle_connections_are_closed_when_their_time_is_up_and_waiting_ones_stay(start_broker: StartBroker) -> None:
    port = find_free_port()
    broker = start_broker(config={"connections.max.idle.ms": "1000"}, arguments=("--metrics", f"127.0.0.1:{port}"))
    with BlockingConnection(broker.host, broker.port) as connection:
        topic = CreatableTopic(name="quiet", num_partitions=1, replication_factor=1)
        connection.request(CreateTopicsRequest(topics=[topic], timeout_ms=10_000), 5)
    silent, waiting, gone = (HostileSocket(broker.bootstrap_servers) for _ in range(3))
    waiting.send(POLL_FOR_EVER)
    # So much waits behind the poll that nobody reads on, and so nobody notices the end.
    gone.send(POLL_FOR_EVER + API_VERSIONS * 1_000)
    gone.close()
    started = time.monotonic()
    assert silent.is_closed_by_broker()
    assert 0.9 < time.monotonic() - started < 5
    assert not waiting.is_closed_by_broker(timeout_s=1.5)
    assert read_metric(port, "kafka_server_socket_server_metrics_connection_count") == 1
    assert read_metric(port, "kafka_network_socketserver_expiredconnectionskilledcount_total") == 2
    assert read_metric(port, "kafka_server_delayedoperationpurgatory_purgatorysize") == 1
    silent.close()
    waiting.close()


def test_connection_is_closed_at_once_when_there_are_enough(start_broker: StartBroker) -> None:
    port = find_free_port()
    broker = start_broker(config={"max.connections": "3"}, arguments=("--metrics", f"127.0.0.1:{port}"))
    served = [HostileSocket(broker.bootstrap_servers) for _ in range(3)]
    for connection in served:
        connection.send(API_VERSIONS)
        assert connection.receive_frame() is not None
    with HostileSocket(broker.bootstrap_servers) as refused:
        assert refused.is_closed_by_broker()
    assert read_metric(port, "penstock_connections_refused_total") == 1
    served.pop().close()
    deadline = time.monotonic() + 10
    while True:
        with HostileSocket(broker.bootstrap_servers) as next_one:
            next_one.send(API_VERSIONS)
            if next_one.receive_frame() is not None:
                break
        assert time.monotonic() < deadline
    for connection in served:
        connection.close()
