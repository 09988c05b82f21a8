"""Strangers cannot take the descriptors that the logs need, and a broker that runs out of them recovers."""

from __future__ import annotations

import contextlib
import socket
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer

from penstock.testing.processes import BrokerProcess, find_free_port
from tests.clients.support import PATIENCE_S, eventually
from tests.integration.test_connection_limits import read_metric

LIMIT = 256  # of the process; connections get half of it
FLOOD = 400
FAILURE = "cannot write the checkpoints"


@contextlib.contextmanager
def limited_broker(data: Path, monitoring: int, settings: Mapping[str, str]) -> Iterator[BrokerProcess]:
    broker = BrokerProcess(data, config=settings, arguments=("--metrics", f"127.0.0.1:{monitoring}"))
    # The hard limit as well, which a broker would raise its own to.
    broker.command = ["sh", "-c", f'ulimit -n {LIMIT} && exec "$@"', "sh", *broker.command]
    with broker:
        yield broker


def flood(port: int, count: int = FLOOD) -> list[socket.socket]:
    """From four addresses, and never a byte."""
    clients = []
    for number in range(count):
        with contextlib.suppress(OSError):  # refused
            clients.append(socket.create_connection(("127.0.0.1", port), 2, (f"127.0.2.{1 + number % 4}", 0)))
    return clients


def produce(producer: Producer, value: bytes) -> None:
    failures = []
    producer.produce("orders", value, on_delivery=lambda error, _: failures.append(error) if error else None)
    assert producer.flush(PATIENCE_S) == 0
    assert failures == []


def consume(servers: str, count: int) -> list[bytes | None]:
    consumer = Consumer({"bootstrap.servers": servers, "group.id": "readers", "auto.offset.reset": "earliest"})
    consumer.subscribe(["orders"])
    values: list[bytes | None] = []
    deadline = time.monotonic() + PATIENCE_S
    while len(values) < count and time.monotonic() < deadline:
        message = consumer.poll(0.1)
        if message is not None and message.error() is None:
            values.append(message.value())
    consumer.close()
    return values


def read_high_watermark(data: Path) -> int:
    """Of the topic's one partition, as the last checkpoint has it."""
    path = data / "replication-offset-checkpoint"
    lines = path.read_text().splitlines() if path.exists() else []  # the first one comes with the first record
    return next((int(line.split()[-1]) for line in lines if line.startswith("orders ")), 0)


def read_connections(monitoring: int) -> tuple[float, float]:
    """Those that the broker holds, and those that it has refused."""
    held = read_metric(monitoring, "kafka_server_socket_server_metrics_connection_count")
    return held, read_metric(monitoring, "penstock_connections_refused_total")


def is_ready(monitoring: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{monitoring}/readyz", timeout=5) as answer:
            return bool(answer.status == 200)
    except (urllib.error.URLError, OSError):
        return False


def await_readiness(monitoring: int) -> None:
    eventually(lambda: is_ready(monitoring), "readiness")


@pytest.mark.parametrize(
    "bound", [{}, {"max.connections": "100000", "max.connections.per.ip": "100000"}], ids=["own bound", "none"]
)
def test_broker_serves_after_the_flood_when_strangers_of_many_addresses_connect(
    tmp_path: Path, bound: Mapping[str, str]
) -> None:
    """With the broker's own bound no descriptor is missing. With a bound that is too high the broker runs out of them,
    and takes nothing offline for it.
    """
    monitoring = find_free_port()
    settings = {
        **bound,
        "group.initial.rebalance.delay.ms": "0",
        "replica.high.watermark.checkpoint.interval.ms": "200",
    }
    with limited_broker(tmp_path / "data", monitoring, settings) as broker:
        await_readiness(monitoring)  # which comes after the port
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
        produce(producer, b"before")
        clients = flood(broker.port)
        count = 1

        def checkpoint_fails() -> bool:
            """Each look brings a record, since a checkpoint is written only if there is something new. The broker takes
            the flood's connections later than the kernel does, and may write some checkpoints before it is full.
            Where it has no descriptor, the event loop closes the connections that wait. One more stranger comes with
            each look, so that a descriptor which is given back later does not stay free.
            """
            nonlocal count
            if bound:
                clients.extend(flood(broker.port, 1))
            produce(producer, b"meanwhile")
            count += 1
            return FAILURE in broker.read_log()

        if bound:
            eventually(checkpoint_fails, "a checkpoint without a descriptor")
        else:
            eventually(lambda: sum(read_connections(monitoring)) >= len(clients), "the end of the flood")
            assert not checkpoint_fails()
            eventually(lambda: read_high_watermark(tmp_path / "data") == count, "a checkpoint")
            assert is_ready(monitoring)
            held, refused = read_connections(monitoring)
            assert held <= LIMIT // 2
            assert refused > 0
        for client in clients:
            client.close()
        await_readiness(monitoring)
        produce(Producer({"bootstrap.servers": broker.bootstrap_servers}), b"after")
        assert consume(broker.bootstrap_servers, count + 1) == [b"before", *[b"meanwhile"] * (count - 1), b"after"]
        lines = broker.read_log()
        assert "offline" not in lines
        assert (FAILURE in lines) == bool(bound)
        assert ("refusing connections" in lines) == (not bound)
