"""Quotas measured with real clients on a real broker: the rate over half a minute is the bound, for several at once."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from penstock.testing.processes import BrokerProcess
from tests.clients import confluent
from tests.clients.quotas import set_quotas

SECONDS = 30.0
VALUE = bytes(2_000)
PRODUCERS = {"writer-1": 100_000, "writer-2": 400_000, "writer-3": 1_000_000}
CONSUMERS = {"reader-1": 200_000, "reader-2": 400_000, "reader-3": 1_000_000}
# Small batches and few of them under way: what a client has sent is what the broker has let in.
STEADY = {"batch.size": 20_000, "linger.ms": 5, "max.in.flight.requests.per.connection": 1}


class _Rates:
    """Bytes of values by client, counted by the clients themselves."""

    def __init__(self, servers: str, topic: str) -> None:
        self.servers = servers
        self.topic = topic
        self.sizes: dict[str, int] = dict.fromkeys([*PRODUCERS, *CONSUMERS], 0)
        self.ends_at = time.monotonic() + SECONDS

    def write(self, client_id: str) -> None:
        producer = Producer({"bootstrap.servers": self.servers, "client.id": client_id, **STEADY})

        def report(error: object, message: object) -> None:
            if error is None and time.monotonic() < self.ends_at:
                self.sizes[client_id] += len(VALUE)

        while time.monotonic() < self.ends_at:
            if len(producer) < 200:
                producer.produce(self.topic, VALUE, on_delivery=report)
            producer.poll(0 if len(producer) < 200 else 0.01)
        producer.purge()

    def read(self, client_id: str) -> None:
        settings = {"group.id": client_id, "fetch.wait.max.ms": 50, "enable.auto.commit": False}
        consumer = Consumer({"bootstrap.servers": self.servers, "client.id": client_id, **settings})
        consumer.assign([TopicPartition(self.topic, 0, 0)])
        while time.monotonic() < self.ends_at:
            messages = consumer.consume(100, 0.05)
            self.sizes[client_id] += sum(len(each.value() or b"") for each in messages if each.error() is None)
        consumer.close()


@pytest.mark.soak
def test_rates_are_within_a_tenth_of_their_quotas_over_half_a_minute(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path) as broker:
        servers = broker.bootstrap_servers
        filled, written = confluent.create_topic(servers), confluent.create_topic(servers)
        producer = Producer({"bootstrap.servers": servers, "batch.size": 20_000})
        for _ in range(25_000):
            producer.produce(filled, VALUE)
            producer.poll(0)
        assert producer.flush(60) == 0
        for client_id, bound in PRODUCERS.items():
            set_quotas(servers, {"client-id": client_id}, {"producer_byte_rate": float(bound)})
        for client_id, bound in CONSUMERS.items():
            set_quotas(servers, {"client-id": client_id}, {"consumer_byte_rate": float(bound)})
        writing, reading = _Rates(servers, written), _Rates(servers, filled)
        threads = [threading.Thread(target=writing.write, args=(client_id,)) for client_id in PRODUCERS]
        threads += [threading.Thread(target=reading.read, args=(client_id,)) for client_id in CONSUMERS]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    rates = {client_id: writing.sizes[client_id] / SECONDS for client_id in PRODUCERS}
    rates |= {client_id: reading.sizes[client_id] / SECONDS for client_id in CONSUMERS}
    print({client_id: round(rate) for client_id, rate in rates.items()})
    for client_id, bound in {**PRODUCERS, **CONSUMERS}.items():
        assert rates[client_id] == pytest.approx(bound, rel=0.1), client_id
