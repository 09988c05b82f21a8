"""Clients write while their logins end every two seconds (KIP-368): nothing is lost, and nothing fails."""

from __future__ import annotations

import asyncio
import re
import ssl
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple
from urllib.request import urlopen

import pytest
from confluent_kafka import KafkaError, Producer

from penstock.client.versioned_client import VersionedClient
from penstock.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from penstock.testing.processes import find_free_port
from tests.clients.sasl_broker import MECHANISMS, PASSWORD, USER, SaslBroker, run_sasl_broker
from tests.interop.security.test_java_logins import properties, tool

LIFETIME_MS = 2_000
# Three logins or more on each connection.
DURATION_S = 7.0
LATEST = -1
AGAIN = "kafka_server_socket_server_metrics_successful_reauthentication_total"
EXPIRED = "penstock_expired_logins_total"


class Short(NamedTuple):
    broker: SaslBroker
    metrics_port: int

    def count(self, metric: str) -> int:
        return read_metric(self.metrics_port, metric)


def read_metric(port: int, metric: str) -> int:
    with urlopen(f"http://127.0.0.1:{port}/metrics", timeout=30) as answer:
        found = re.search(rf"^{metric}\S* (\S+)$", answer.read().decode(), re.MULTILINE)
    assert found is not None, metric
    return int(float(found[1]))


@pytest.fixture(scope="module")
def short(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Short]:
    port = find_free_port()
    config = {"connections.max.reauth.ms": str(LIFETIME_MS), "penstock.metrics.listen": f"127.0.0.1:{port}"}
    with run_sasl_broker(tmp_path_factory.mktemp("short"), config) as running:
        yield Short(running, port)


@pytest.fixture
def broker(short: Short) -> Iterator[SaslBroker]:
    """Whose clients log in again. A busy machine may be late with it: then the connection ends with its login, the
    client comes back, and writes on."""
    again, expired = short.count(AGAIN), short.count(EXPIRED)
    yield short.broker
    again, expired = short.count(AGAIN) - again, short.count(EXPIRED) - expired
    assert again >= 1
    assert again + expired >= 2


def count_records(broker: SaslBroker, topic: str) -> int:
    partition = ListOffsetsPartition(partition_index=0, timestamp=LATEST)
    request = ListOffsetsRequest(topics=[ListOffsetsTopic(name=topic, partitions=[partition])])
    with VersionedClient.open(broker.plain_address, client_id="tests", software="tests") as client:
        return int(client.request(request, ListOffsetsResponse).topics[0].partitions[0].offset)


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_every_record_arrives_when_a_java_producer_logs_in_again_and_again(
    broker: SaslBroker, mechanism: str, tmp_path: Path
) -> None:
    config, topic = properties(broker, mechanism, tmp_path), f"java-{mechanism}"
    written = tool(
        broker,
        "kafka-producer-perf-test",
        config,
        *("--topic", topic, "--num-records", "2400", "--throughput", "200", "--record-size", "100"),
    )
    assert re.search(r"^2400 records sent", written.stdout, re.MULTILINE), written.output
    assert count_records(broker, topic) == 2400


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_every_record_arrives_when_confluent_kafka_logs_in_again_and_again(broker: SaslBroker, mechanism: str) -> None:
    topic = f"confluent-{mechanism}"
    failures: list[KafkaError] = []

    def delivered(error: KafkaError | None, _: object) -> None:
        if error is not None:
            failures.append(error)

    settings: dict[str, Any] = {
        "bootstrap.servers": broker.servers("SASL_SSL"),
        "security.protocol": "SASL_SSL",
        "ssl.ca.location": str(broker.authority),
        "sasl.mechanism": mechanism,
        "enable.idempotence": True,
        "linger.ms": 0,
    }
    if mechanism == "OAUTHBEARER":
        settings["oauth_cb"] = lambda _: (broker.token(), time.time() + 3600)
    else:
        settings |= {"sasl.username": USER, "sasl.password": PASSWORD}
    producer, count = Producer(settings), 0
    deadline = time.monotonic() + DURATION_S
    while time.monotonic() < deadline:
        producer.produce(topic, b"x" * 100, on_delivery=delivered)
        producer.poll(0.002)
        count += 1
    assert producer.flush(60) == 0
    assert failures == []
    assert count_records(broker, topic) == count


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256"])
def test_every_record_arrives_when_kafka_python_logs_in_again_and_again(broker: SaslBroker, mechanism: str) -> None:
    from kafka import KafkaProducer

    topic = f"kafka-python-{mechanism}"
    producer = KafkaProducer(
        bootstrap_servers=broker.servers("SASL_SSL"),
        security_protocol="SASL_SSL",
        ssl_cafile=str(broker.authority),
        sasl_mechanism=mechanism,
        sasl_plain_username=USER,
        sasl_plain_password=PASSWORD,
        enable_idempotence=True,
    )
    sent = []
    deadline = time.monotonic() + DURATION_S
    while time.monotonic() < deadline:
        sent.append(producer.send(topic, b"x" * 100))
        time.sleep(0.005)
    for future in sent:
        future.get(60)
    producer.close()
    assert count_records(broker, topic) == len(sent)


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256"])
def test_every_record_arrives_when_aiokafka_is_cut_off_and_comes_back(short: Short, mechanism: str) -> None:
    """aiokafka does not log in again: each connection ends with its login, and the client opens another."""
    expired = short.count(EXPIRED)
    written = asyncio.run(_use_aiokafka(short.broker, mechanism))
    assert written == count_records(short.broker, f"aiokafka-{mechanism}")
    assert short.count(EXPIRED) > expired


async def _use_aiokafka(broker: SaslBroker, mechanism: str) -> int:
    from aiokafka import AIOKafkaProducer

    count = 0
    async with AIOKafkaProducer(
        bootstrap_servers=broker.servers("SASL_SSL"),
        security_protocol="SASL_SSL",
        ssl_context=ssl.create_default_context(cafile=str(broker.authority)),
        sasl_mechanism=mechanism,
        sasl_plain_username=USER,
        sasl_plain_password=PASSWORD,
        enable_idempotence=True,
    ) as producer:
        deadline = time.monotonic() + DURATION_S
        while time.monotonic() < deadline:
            await producer.send_and_wait(f"aiokafka-{mechanism}", b"x" * 100)
            count += 1
            await asyncio.sleep(0.005)
    return count
