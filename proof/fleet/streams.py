"""A sender that keeps a stream of records in flight, and a reader that follows such streams.

A long run sends a million records: its history is an array, and becomes operations for one partition at a time.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from confluent_kafka import KafkaError, Message, Producer

from penstock.testing.fleet.client import Client, Setting
from penstock.testing.fleet.pollers import AssignedPoller, target_of
from penstock.testing.history import Isolation, Operation, Outcome, Send, Where

# Enough in flight that every crash meets unacknowledged batches; few enough that a thousand rounds fit in memory.
_MOST_IN_FLIGHT = 200
_PADDING = b"." * 200
_SENDER_SHIFT = 40


@dataclass(frozen=True, slots=True)
class StreamKind:
    """How a stream of records is sent, and what follows from that for the check. `burst`: records a step; `keys`: how
    many keys the records have, for a compacted topic; `batch`: the most records of a batch. librdkafka has five
    requests of a partition in flight only where each has one record: it counts records.
    """

    name: str
    acks: str
    is_idempotent: bool
    burst: int = 40
    keys: int = 0
    batch: int = 20

    def config(self) -> dict[str, Any]:
        # Several requests in flight may overtake each other when they are sent again, unless the broker sorts them out
        # by sequence number: a plain producer promises order with one only.
        in_flight = 5 if self.is_idempotent else 1
        return {
            "acks": self.acks,
            "enable.idempotence": self.is_idempotent,
            "max.in.flight.requests.per.connection": in_flight,
            "linger.ms": 1,
            "batch.num.messages": self.batch,
            "message.timeout.ms": 300_000,
        }

    def key_of(self, number: int) -> bytes | None:
        return b"key-%d" % (number * 7 % self.keys) if self.keys else None


STREAM_KINDS = (
    StreamKind("idempotent", "all", True),
    StreamKind("idempotent-too", "all", True),
    StreamKind("plain-all", "all", False),
    StreamKind("plain-leader", "1", False),
    StreamKind("keyed", "all", True, burst=2, keys=20),
    StreamKind("pipelined", "all", True, burst=12, batch=1),
)


def encode_streamed(sender: int, number: int) -> bytes:
    return b"%d %d %b" % (sender, number, _PADDING)


def decode_streamed(value: bytes | None) -> tuple[int, int]:
    """The sender, a place in `STREAM_KINDS`, and the number; ValueError for anything that no sender wrote."""
    parts = (value or b"").split(b" ")
    if len(parts) != 3 or parts[2] != _PADDING:
        raise ValueError(f"not a record of this run: {value!r}")
    return int(parts[0]), int(parts[1])


def name_streamed(kind: StreamKind, number: int, key: bytes | None = None) -> str:
    name = f"record {number} of {kind.name}"
    return name if key is None else f"{key.decode()}: {name}"


def name_stored(value: bytes | None, key: bytes | None) -> str:
    """The name of a record, or what is wrong with it."""
    try:
        sender, number = decode_streamed(value)
        return name_streamed(STREAM_KINDS[sender], number, key)
    except (ValueError, IndexError) as error:
        return str(error)


def read_streamed(message: Message) -> str:
    return name_stored(message.value(), message.key())


def identify(sender: int, number: int) -> int:
    """One number for both."""
    return (sender << _SENDER_SHIFT) | number


def name_identified(identity: int) -> str:
    kind, number = STREAM_KINDS[identity >> _SENDER_SHIFT], identity & ((1 << _SENDER_SHIFT) - 1)
    return name_streamed(kind, number, kind.key_of(number))


class StreamLog:
    """What one sender sent and was told, by number: the offset of its acknowledgement, or why there is none. Eight
    bytes a record, since a thousand rounds send a million.
    """

    UNACKNOWLEDGED, ACKNOWLEDGED = -2, -1  # the latter without an offset: recognised as a copy of what was written

    def __init__(self, sender: int) -> None:
        self.sender = sender
        self.kind = STREAM_KINDS[sender]
        self.offsets = array("q")

    @property
    def acknowledged(self) -> int:
        return sum(offset != self.UNACKNOWLEDGED for offset in self.offsets)

    def operations(self, targets: Sequence[Where], target: Where) -> Iterator[Operation]:
        """Its part of the history of one partition. Number `n` was sent to target `n % len(targets)`. The process is
        the sender's place in `STREAM_KINDS`.
        """
        numbers = range(targets.index(target), len(self.offsets), len(targets))
        for is_known, run in groupby(numbers, lambda number: self.offsets[number] != self.UNACKNOWLEDGED):
            sends = [self._send(number, target) for number in run]
            yield Operation(self.sender, Outcome.OK if is_known else Outcome.UNKNOWN, tuple(sends))

    def _send(self, number: int, target: Where) -> Send:
        key, offset = self.kind.key_of(number), self.offsets[number]
        return Send(*target, name_streamed(self.kind, number, key), offset if offset >= 0 else None, key)


class StreamSender(Client):
    """Numbers its records from 0 and sends number `n` to target `n % len(targets)`."""

    pause_s = 0.002

    def __init__(self, sender: int, setting: Setting, deadline_s: float) -> None:
        self.log = StreamLog(sender)
        super().__init__(self.log.kind.name, setting)
        self._in_flight = 0
        self._deadline_s = deadline_s
        self._producer = Producer(self.library_config())

    def library_config(self) -> dict[str, Any]:
        return {**self.base_config, **self.log.kind.config()}

    def step(self) -> None:
        for _ in range(self.log.kind.burst):
            self.send()
        self._producer.poll(0)
        while self._in_flight >= _MOST_IN_FLIGHT and not self.ending.is_set():
            self._producer.poll(0.01)

    def close(self) -> None:
        left = self._producer.flush(self._deadline_s)
        if left:
            self.note_problem(f"{left} records were not acknowledged {self._deadline_s} s later")

    def send(self) -> None:
        log, number = self.log, len(self.log.offsets)
        topic, partition = self.targets[number % len(self.targets)]
        log.offsets.append(log.UNACKNOWLEDGED)
        self._in_flight += 1

        def report(error: KafkaError | None, message: Message) -> None:
            self._in_flight -= 1
            if error is None:
                offset = message.offset()
                log.offsets[number] = log.ACKNOWLEDGED if offset is None or offset < 0 else offset
            else:
                self.note_problem(f"record {number} failed: {error}")

        value, key = encode_streamed(log.sender, number), log.kind.key_of(number)
        self._producer.produce(topic, value, key, partition=partition, on_delivery=report)


class StreamReader(AssignedPoller):
    """Follows the streams and keeps what it was served at which offset: that may never change. Eight bytes a record,
    like a `StreamLog`.
    """

    PROCESS = 1_000  # in the history of a partition, where the senders have the first numbers

    def __init__(self, name: str, setting: Setting) -> None:
        super().__init__(name, setting, isolation=Isolation.READ_COMMITTED, moves=False)
        self.served: dict[Where, array[int]] = {target: array("q") for target in setting.targets}

    def keep(self, messages: Sequence[Message], invoked: int) -> None:
        for message in messages:
            target = target_of(message)
            try:
                sender, number = decode_streamed(message.value())
            except ValueError as error:
                self.note_problem(f"{target} at {message.offset()}: {error}")
                return
            served = self.served[target]
            if message.offset() != len(served):
                self.note_problem(f"{target} went from {len(served) - 1} to {message.offset()}")
            served.append(identify(sender, number))
