"""kafka-python and aiokafka ride through the death and the restart of brokers. librdkafka does so in
test_cluster_failover.py, Java's client in tests/interop/cluster.

Each of them writes numbers and reads them in a group, and aiokafka writes others in transactions. No error may reach
the program, and everything is in the topic once. kafka-python's transactions are left out: when the connection to the
coordinator is refused, its sender (3.0.12) loops without asking anybody for another one, and the commit never ends.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from kafka import KafkaConsumer, KafkaProducer

import penstock
from tests.clients.confluent import admin_of, consumer_of, read, values
from tests.clients.support import PATIENCE_S, eventually

PARTITIONS = 3
IN_A_TRANSACTION = 5
PAUSE_S = 0.01


@pytest.fixture(scope="module")
def cluster() -> Iterator[penstock.Cluster]:
    settings = {"offsets.topic.num.partitions": 3, "transaction.state.log.num.partitions": 3}
    with penstock.Cluster(3, config=settings) as started:
        yield started


class Rider:
    """What one library's writer, reader and transactions have done, each in a thread of its own."""

    def __init__(self, servers: str, topic: str) -> None:
        self.servers, self.topic, self.paid = servers, topic, f"{topic}-paid"
        self.is_stopping = threading.Event()
        self.is_written = threading.Event()
        self.sent = self.acknowledged = self.committed = 0
        self.seen: list[int] = []
        self.errors: list[str] = []
        # Daemons: a client whose brokers are gone at the end of a failed test must not keep the run from ending.
        self._threads = [threading.Thread(target=self._guarded, args=(work,), daemon=True) for work in self.works()]

    def works(self) -> tuple[Callable[[], None], ...]:
        """The writer is the first."""
        return self.write, self.read

    def write(self) -> None:
        raise NotImplementedError

    def read(self) -> None:
        raise NotImplementedError

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def go_on(self) -> None:
        """Returns when everybody has made some progress from here."""
        acknowledged, seen, committed = self.acknowledged, len(self.seen), self.committed

        def has_gone_on() -> bool:
            assert not self.errors, self.errors
            has_paid = self.committed > committed + 2 or len(self._threads) == 2
            return has_paid and min(self.acknowledged - acknowledged, len(self.seen) - seen) > 2

        eventually(has_gone_on, f"{type(self).__name__} goes on")

    def stop(self) -> None:
        self.is_stopping.set()
        self._threads[0].join(PATIENCE_S)
        self.is_written.set()
        for thread in self._threads:
            thread.join(PATIENCE_S)
        assert not [thread for thread in self._threads if thread.is_alive()]

    def _guarded(self, work: Callable[[], None]) -> None:
        try:
            work()
        except Exception as error:  # noqa: BLE001 - whatever reaches the program is an error, and the test tells it
            self.errors.append(f"{work.__name__}: {error!r}")

    @property
    def has_read_all(self) -> bool:
        return self.is_written.is_set() and len(set(self.seen)) >= self.sent

    def delivered(self, _: Any) -> None:
        self.acknowledged += 1

    def failed(self, error: object) -> None:
        self.errors.append(f"record: {error!r}")


class KafkaPython(Rider):
    def write(self) -> None:
        producer = KafkaProducer(bootstrap_servers=self.servers)
        while not self.is_stopping.wait(PAUSE_S):
            producer.send(self.topic, b"%d" % self.sent).add_callback(self.delivered).add_errback(self.failed)
            self.sent += 1
        producer.close(timeout=PATIENCE_S)

    def read(self) -> None:
        options = {"group_id": f"{self.topic}-group", "auto_offset_reset": "earliest"}
        consumer = KafkaConsumer(self.topic, bootstrap_servers=self.servers, **options)
        deadline: float | None = None
        while not self.has_read_all and (deadline is None or time.monotonic() < deadline):
            for records in consumer.poll(timeout_ms=200).values():
                self.seen += [int(record.value) for record in records]
            if self.is_written.is_set() and deadline is None:
                deadline = time.monotonic() + PATIENCE_S
        consumer.close(timeout_ms=5_000)


class Aiokafka(Rider):
    def works(self) -> tuple[Callable[[], None], ...]:
        return self.write, self.read, self.pay

    def write(self) -> None:
        asyncio.run(self._write())

    def read(self) -> None:
        asyncio.run(self._read())

    def pay(self) -> None:
        asyncio.run(self._pay())

    async def _write(self) -> None:
        # Its default, one acknowledgement, is lost with the leader by contract.
        async with AIOKafkaProducer(bootstrap_servers=self.servers, enable_idempotence=True) as producer:
            while not self.is_stopping.is_set():
                sent = await producer.send(self.topic, b"%d" % self.sent)
                sent.add_done_callback(self._done)
                self.sent += 1
                await asyncio.sleep(PAUSE_S)

    def _done(self, sent: asyncio.Future[Any]) -> None:
        error = sent.exception()
        if error is None:
            self.delivered(None)
        else:
            self.failed(error)

    async def _read(self) -> None:
        options = {"group_id": f"{self.topic}-group", "auto_offset_reset": "earliest"}
        deadline: float | None = None
        consumer = AIOKafkaConsumer(self.topic, bootstrap_servers=self.servers, **options)
        await consumer.start()
        while not self.has_read_all and (deadline is None or time.monotonic() < deadline):
            for records in (await consumer.getmany(timeout_ms=200)).values():
                self.seen += [int(record.value) for record in records]
            if self.is_written.is_set() and deadline is None:
                deadline = time.monotonic() + PATIENCE_S
        # Its heartbeats (0.14.0) never end when the coordinator moves while it stops: it looks for no other one then.
        with suppress(TimeoutError):
            async with asyncio.timeout(5):
                await consumer.stop()

    async def _pay(self) -> None:
        async with AIOKafkaProducer(bootstrap_servers=self.servers, transactional_id=self.paid) as producer:
            while not self.is_stopping.is_set():
                async with producer.transaction():
                    first = self.committed * IN_A_TRANSACTION
                    for number in range(first, first + IN_A_TRANSACTION):
                        await producer.send(self.paid, b"%d" % number)
                self.committed += 1
                await asyncio.sleep(PAUSE_S)


def leader_of(cluster: penstock.Cluster, topic: str) -> int:
    metadata = admin_of(cluster.bootstrap_servers).list_topics(topic, timeout=PATIENCE_S)
    leader: int = metadata.topics[topic].partitions[0].leader
    return leader


def numbers_in(servers: str, topic: str, count: int) -> list[int]:
    with consumer_of(servers, isolation_level="read_committed") as consumer:
        consumer.subscribe([topic])
        found = read(consumer, count)
        found += consumer.consume(100, timeout=1)  # nothing more
    return sorted(int(value or b"") for value in values(found))


def test_no_error_is_seen_and_nothing_is_lost_or_doubled_when_brokers_die_and_restart(
    cluster: penstock.Cluster,
) -> None:
    riders = [kind(cluster.bootstrap_servers, kind.__name__.lower()) for kind in (KafkaPython, Aiokafka)]
    for rider in riders:
        for topic in (rider.topic, rider.paid):
            cluster.create_topic(topic, PARTITIONS, 3)
        rider.start()

    def go_on() -> None:
        for rider in riders:
            rider.go_on()

    def down_and_up(victim: int, end: Callable[[int], None]) -> None:
        end(victim)
        go_on()
        cluster.start_broker(victim)
        cluster.wait_until_in_sync(PATIENCE_S)

    go_on()
    down_and_up(leader_of(cluster, riders[0].topic), cluster.kill)
    down_and_up(cluster.controller_id(), cluster.kill)
    down_and_up(leader_of(cluster, "__transaction_state"), cluster.stop_broker)
    go_on()
    for rider in riders:
        rider.stop()
    for rider in riders:
        assert rider.errors == []
        assert rider.acknowledged == rider.sent
        assert sorted(set(rider.seen)) == list(range(rider.sent))
        assert numbers_in(cluster.bootstrap_servers, rider.topic, rider.sent) == list(range(rider.sent))
        paid = rider.committed * IN_A_TRANSACTION
        if paid:
            assert numbers_in(cluster.bootstrap_servers, rider.paid, paid) == list(range(paid))
