"""Clients that keep a broker busy while it is killed, and remember what it promised them.

Each runs in a thread of its own for the whole run, with one client object, so that what is tested is how a client goes
on after a crash and not how it starts. Nothing here judges: `crash.check` does.
"""

from __future__ import annotations

import contextlib
import threading
import time
from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from penstock.proof.patience import PATIENT
from penstock.testing.history import Operation, Outcome, Send, Where

# Enough in flight that every crash meets unacknowledged batches; few enough that a thousand rounds fit in memory.
_MOST_IN_FLIGHT = 200
_PAUSE_S = 0.002
_BURST = 40
_PADDING = b"." * 200
_WRITER_SHIFT = 40


@dataclass(frozen=True, slots=True)
class WriterKind:
    """How a producer is configured, and what follows from that for the check."""

    name: str
    acks: str
    is_idempotent: bool

    def config(self) -> dict[str, Any]:
        # Several requests in flight may overtake each other when they are sent again, unless the broker sorts them out
        # by sequence number: a plain producer promises order with one only.
        in_flight = 5 if self.is_idempotent else 1
        return {
            "acks": self.acks,
            "enable.idempotence": self.is_idempotent,
            "max.in.flight.requests.per.connection": in_flight,
            "linger.ms": 1,
            "batch.num.messages": 20,
            "message.timeout.ms": 300_000,
        }


WRITER_KINDS = (
    WriterKind("idempotent", "all", True),
    WriterKind("idempotent-too", "all", True),
    WriterKind("plain-all", "all", False),
    WriterKind("plain-leader", "1", False),
)


def encode_value(writer: int, number: int) -> bytes:
    return b"%d %d %b" % (writer, number, _PADDING)


def decode_value(value: bytes | None) -> tuple[int, int]:
    """(writer, number); ValueError for anything that no writer wrote."""
    parts = (value or b"").split(b" ")
    if len(parts) != 3 or parts[2] != _PADDING:
        raise ValueError(f"not a record of this run: {value!r}")
    return int(parts[0]), int(parts[1])


class CrashClient(threading.Thread):
    def __init__(self, name: str) -> None:
        super().__init__(name=f"crash-{name}", daemon=True)
        self._ending = threading.Event()
        self.failures: list[str] = []

    def end(self) -> None:
        self._ending.set()


class WriterLog:
    """What one writer sent and was told, by number: the offset of its acknowledgement, or why there is none. Eight
    bytes a record, since a thousand rounds send a million.
    """

    UNACKNOWLEDGED, ACKNOWLEDGED = -2, -1  # the latter without an offset: recognised as a copy of what was written

    def __init__(self, process: int, kind: WriterKind) -> None:
        self.process = process
        self.kind = kind
        self.offsets = array("q")

    @property
    def acknowledged(self) -> int:
        return sum(offset != self.UNACKNOWLEDGED for offset in self.offsets)

    def operations(self, targets: Sequence[Where], where: Where) -> Iterator[Operation]:
        """Its part of the history of one partition. Number `n` was sent to target `n % len(targets)`."""
        numbers = range(targets.index(where), len(self.offsets), len(targets))
        for is_known, run in groupby(numbers, lambda number: self.offsets[number] != self.UNACKNOWLEDGED):
            sends = [
                Send(
                    *where,
                    name_record(self.kind.name, number),
                    offset if (offset := self.offsets[number]) >= 0 else None,
                )
                for number in run
            ]
            yield Operation(self.process, Outcome.OK if is_known else Outcome.UNKNOWN, tuple(sends))


class Writer(CrashClient):
    """Numbers its records from 0 and writes number `n` to target `n % len(targets)`."""

    def __init__(self, index: int, kind: WriterKind, servers: str, targets: Sequence[Where], deadline_s: float) -> None:
        super().__init__(kind.name)
        self.log = WriterLog(index, kind)
        self._targets = targets
        self._in_flight = 0
        self._deadline_s = deadline_s
        self._producer = Producer({"bootstrap.servers": servers, **PATIENT, **kind.config()})

    def run(self) -> None:
        while not self._ending.is_set():
            for _ in range(_BURST):
                self._send()
            self._producer.poll(0)
            while self._in_flight >= _MOST_IN_FLIGHT and not self._ending.is_set():
                self._producer.poll(0.01)
            time.sleep(_PAUSE_S)
        left = self._producer.flush(self._deadline_s)
        if left:
            text = f"{self.log.kind.name}: {left} records were not acknowledged {self._deadline_s} s later"
            self.failures.append(text)

    def _send(self) -> None:
        log, number = self.log, len(self.log.offsets)
        topic, partition = self._targets[number % len(self._targets)]
        log.offsets.append(log.UNACKNOWLEDGED)
        self._in_flight += 1

        def report(error: KafkaError | None, message: Message) -> None:
            self._in_flight -= 1
            if error is None:
                offset = message.offset()
                log.offsets[number] = log.ACKNOWLEDGED if offset is None or offset < 0 else offset
            else:
                self.failures.append(f"{log.kind.name}: record {number} failed: {error}")

        self._producer.produce(topic, encode_value(log.process, number), partition=partition, on_delivery=report)


class Follower(CrashClient):
    """Reads every target from the beginning, whatever happens to the broker; `keep` keeps what it is served."""

    def __init__(self, name: str, servers: str, targets: Sequence[Where]) -> None:
        super().__init__(name)
        self._targets = targets
        self._config: dict[str, Any] = {
            "bootstrap.servers": servers,
            **PATIENT,
            "group.id": f"crash-{name}",
            "enable.auto.commit": False,
            "auto.offset.reset": "error",
            "isolation.level": "read_committed",
            "check.crcs": True,
            "fetch.wait.max.ms": 50,
        }

    def run(self) -> None:
        consumer = Consumer(self._config)
        consumer.assign([TopicPartition(topic, partition, 0) for topic, partition in self._targets])
        try:
            while not self._ending.is_set():
                self.poll(consumer)
        finally:
            consumer.close()

    def poll(self, consumer: Consumer) -> None:
        self.keep(self.take_good(consumer.consume(1_000, timeout=0.1)))

    def take_good(self, messages: Iterable[Message]) -> list[Message]:
        good = []
        for message in messages:
            error = message.error()
            if error is None:
                good.append(message)
            elif error.code() in (KafkaError._AUTO_OFFSET_RESET, KafkaError._BAD_MSG):
                self.failures.append(f"{self.name}: {error}")
        return good

    def keep(self, messages: Sequence[Message]) -> None:
        raise NotImplementedError


class Reader(Follower):
    """Keeps what it was served at which offset: that may never change."""

    PROCESS = 1_000

    def __init__(self, servers: str, targets: Sequence[Where]) -> None:
        super().__init__("reader", servers, targets)
        self.served: dict[Where, array[int]] = {target: array("q") for target in targets}

    def keep(self, messages: Sequence[Message]) -> None:
        for message in messages:
            where = (str(message.topic()), message.partition() or 0)
            try:
                writer, number = decode_value(message.value())
            except ValueError as failure:
                self.failures.append(f"reader: {where} at {message.offset()}: {failure}")
                return
            served = self.served[where]
            if message.offset() != len(served):
                self.failures.append(f"reader: {where} went from {len(served) - 1} to {message.offset()}")
            served.append(identify(writer, number))


def identify(writer: int, number: int) -> int:
    return (writer << _WRITER_SHIFT) | number


def name_record(writer: str, number: int) -> str:
    return f"record {number} of {writer}"


def name_identified(identity: int, kinds: Sequence[WriterKind]) -> str:
    return name_record(kinds[identity >> _WRITER_SHIFT].name, identity & ((1 << _WRITER_SHIFT) - 1))


class Committer(CrashClient):
    """Commits ever larger offsets of one partition; remembers the last attempt and the last acknowledgement."""

    def __init__(self, servers: str, group: str, target: Where) -> None:
        super().__init__("committer")
        self.attempted = 0
        self.acknowledged = 0
        self._target = target
        self._consumer = Consumer({"bootstrap.servers": servers, **PATIENT, "group.id": group})
        self._lock = threading.Lock()

    def run(self) -> None:
        while not self._ending.is_set():
            self.attempted += 1
            offset = TopicPartition(*self._target, self.attempted, f"commit {self.attempted}")
            with self._lock:
                try:
                    self._consumer.commit(offsets=[offset], asynchronous=False)
                except KafkaException:
                    continue  # the broker is down, or loads its groups: the next attempt is a larger offset
            self.acknowledged = offset.offset
            time.sleep(_PAUSE_S)

    def close(self) -> None:
        self.join()
        self._consumer.close()


def read_committed(servers: str, group: str, target: Where, deadline_s: float) -> TopicPartition:
    """What a client that knows nothing of the past finds; the offset is -1 where nothing is committed."""
    consumer = Consumer({"bootstrap.servers": servers, **PATIENT, "group.id": group})
    try:
        deadline = time.monotonic() + deadline_s
        while True:
            with contextlib.suppress(KafkaException):
                (committed,) = consumer.committed([TopicPartition(*target)], timeout=2.0)
                if committed.error is not None:
                    raise KafkaException(committed.error)
                committed.offset = max(committed.offset, -1)  # librdkafka has a number of its own for none
                return committed
            if time.monotonic() > deadline:
                raise TimeoutError(f"no committed offset could be read within {deadline_s} s")
    finally:
        consumer.close()
