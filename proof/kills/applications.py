"""What applications do first, with librdkafka at its defaults: make a topic, read in a new group, write in a
transaction. Each does it again and again, as if it were started anew, and tries again after an error.
"""

from __future__ import annotations

import contextlib
import itertools
import math
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from confluent_kafka import Consumer, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from penstock.client.retries import Outlook, Retrying, RetryPolicy
from penstock.testing.fleet.patience import UNHEARD
from proof.kills.journal import Journal

REPLICAS = 3
TOPIC_CONFIG = {"min.insync.replicas": "2"}
# Has records before the first kill.
READ_TOPIC = "read"
COPY_TOPIC = "copied"
# Until the end is asked for.
_TRYING = RetryPolicy(math.inf, 0.1, 0.1)
# Twelve applications without a rest keep two cores busy: a broker of Kafka that comes back then needs minutes.
_PAUSE_S = 0.5
_TIMEOUT_S = 60.0
# After the end was asked for: whoever is in the middle of something may end it.
GRACE_S = 30.0

_numbers = itertools.count(1)


class Application(threading.Thread):
    """`begin` makes one whole attempt, which raises KafkaException."""

    def __init__(self, name: str, journal: Journal, begin: Callable[[], None]) -> None:
        super().__init__(name=name, daemon=True)
        self._journal = journal
        self._begin = begin
        self._ending = threading.Event()

    def get_ready(self) -> None:
        """Nothing is left to do: the library was loaded and used when `prepare` made the topics."""

    def end(self) -> None:
        self._ending.set()

    def finish(self) -> None:
        """Waits for the attempt that is under way, and takes note where it does not end."""
        self.join(GRACE_S)
        if self.is_alive():
            self._journal.unfinished.append(self.name)

    def run(self) -> None:
        while not self._ending.wait(_PAUSE_S):
            began = time.monotonic()
            try:
                Retrying(_TRYING).run(self._begin, (KafkaException, TimeoutError), self._judge)
            except (KafkaException, TimeoutError):
                return  # the end was asked for
            self._journal.note_wait(self.name, time.monotonic() - began)

    def _judge(self, error: Exception) -> Outlook:
        is_of_library = isinstance(error, KafkaException)
        # A future of the library that does not come in time says nothing.
        words = str(error) or f"no end within {_TIMEOUT_S:g} s"
        self._journal.note_error(self.name, error.args[0].name() if is_of_library else words)
        return Outlook.FINAL if self._ending.is_set() else Outlook.PASSING


def librdkafka_applications(servers: str, journal: Journal) -> Sequence[Application]:
    base = _settings(servers)
    attempts: dict[str, Callable[[], None]] = {
        "makes a topic": lambda: _make_topic(base),
        "reads in a new group": lambda: _read(base),
        "writes in a first transaction": lambda: _write(base),
        "copies in transactions": _Copier(base),
    }
    return [Application(f"librdkafka {name}", journal, attempt) for name, attempt in attempts.items()]


def _settings(servers: str) -> dict[str, Any]:
    return {"bootstrap.servers": servers, "logger": UNHEARD}


def prepare(servers: str, records: int = 10) -> None:
    """Makes the topics that are there before the first kill. No group and no transaction has been there."""
    admin = AdminClient(_settings(servers))
    topics = [NewTopic(name, 3, REPLICAS, config=TOPIC_CONFIG) for name in (READ_TOPIC, COPY_TOPIC)]
    for made in admin.create_topics(topics, request_timeout=_TIMEOUT_S).values():
        made.result(_TIMEOUT_S)
    producer = Producer(_settings(servers))
    for number in range(records):
        producer.produce(READ_TOPIC, str(number).encode())
    left = producer.flush(_TIMEOUT_S)
    assert left == 0, f"{left} records of the preparation were not written"


def find_internal_topics(servers: str) -> list[str]:
    topics = AdminClient(_settings(servers)).list_topics(timeout=_TIMEOUT_S).topics
    return sorted(name for name in topics if name.startswith("__"))


def _make_topic(base: dict[str, Any]) -> None:
    admin = AdminClient(base)
    name = f"made-{next(_numbers)}"
    for each in admin.create_topics([NewTopic(name, 1, REPLICAS, config=TOPIC_CONFIG)]).values():
        each.result(_TIMEOUT_S)
    for each in admin.delete_topics([name]).values():
        each.result(_TIMEOUT_S)


def _read(base: dict[str, Any]) -> None:
    consumer = Consumer({**base, "group.id": f"reads-{next(_numbers)}", "auto.offset.reset": "earliest"})
    try:
        consumer.subscribe([READ_TOPIC])
        consumer.commit(message=_poll(consumer), asynchronous=False)
    finally:
        consumer.close()


def _poll(consumer: Consumer) -> Message:
    deadline = time.monotonic() + _TIMEOUT_S
    while True:
        message = consumer.poll(0.1)
        if message is not None:
            error = message.error()
            if error is None:
                return message
            raise KafkaException(error)
        if time.monotonic() > deadline:
            raise TimeoutError(f"no record came within {_TIMEOUT_S:g} s")


def _write(base: dict[str, Any]) -> None:
    producer = _begun(base, f"writes-{next(_numbers)}")
    producer.begin_transaction()
    producer.produce(COPY_TOPIC, b"first")
    producer.commit_transaction(_TIMEOUT_S)


class _Copier:
    """One transaction for each call, of a producer that stays until an error says that it cannot go on."""

    def __init__(self, base: dict[str, Any]) -> None:
        self._base = base
        self._copied = 0
        self._group = Consumer({**base, "group.id": "copies"}).consumer_group_metadata()
        self._producer: Producer | None = None

    def __call__(self) -> None:
        if self._producer is None:
            self._producer = _begun(self._base, "copies")
        try:
            self._copy(self._producer)
        except KafkaException as error:
            self._recover(self._producer, error)
            raise
        self._copied += 1

    def _copy(self, producer: Producer) -> None:
        producer.begin_transaction()
        producer.produce(COPY_TOPIC, str(self._copied).encode())
        producer.send_offsets_to_transaction([TopicPartition(READ_TOPIC, 0, self._copied)], self._group, _TIMEOUT_S)
        producer.commit_transaction(_TIMEOUT_S)

    def _recover(self, producer: Producer, error: KafkaException) -> None:
        """As the library's own example does it. Whoever begins anew under the same id fences the one before."""
        self._producer = None
        if error.args[0].txn_requires_abort():
            with contextlib.suppress(KafkaException):
                producer.abort_transaction(_TIMEOUT_S)
                self._producer = producer


def _begun(base: dict[str, Any], transactional_id: str) -> Producer:
    producer = Producer({**base, "transactional.id": transactional_id})
    producer.init_transactions(_TIMEOUT_S)
    return producer
