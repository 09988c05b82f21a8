"""Transactional writers for the crash rounds, and the reader that follows them.

A writer commits and aborts by chance, writes to several partitions and, in some transactions, commits offsets of a
group. Now and then it walks out on one: another client with the same id takes over at once, or nobody does and the
broker has to end the transaction by its timeout.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from penstock.client.bounded_call import StuckCallError, call_within
from penstock.proof.crash.clients import CrashClient, Follower
from penstock.proof.patience import PATIENT
from penstock.proof.recorder import Recorder, group_polls
from penstock.testing.history import Action, Commit, Outcome, Send, Where

_CALL_TIMEOUT_S = 20.0
# A client that is stuck in a call for longer is left behind; see bounded_call.
_STUCK_AFTER_S = 5.0
_TIMEOUT_MS = 60_000
_VANISHING_TIMEOUT_MS = 1_500
_SIZES = (2, 12)
_ABORT, _TAKE_OVER, _VANISH, _OFFSETS = 0.2, 0.04, 0.02, 0.3
_PAUSE_S = 0.01
_PADDING = b"." * 100


def encode_record(writer: int, number: int, index: int) -> bytes:
    return b"t %d %d %d %b" % (writer, number, index, _PADDING)


def decode_record(value: bytes | None) -> tuple[int, int, int]:
    parts = (value or b"").split(b" ")
    if len(parts) != 5 or parts[0] != b"t" or parts[4] != _PADDING:
        raise ValueError(f"not a record of a transaction of this run: {value!r}")
    return int(parts[1]), int(parts[2]), int(parts[3])


def read_record(message: Message) -> str:
    """The name of a record, or what is wrong with it."""
    try:
        return name_record(*decode_record(message.value()))
    except ValueError as error:
        return str(error)


def name_record(writer: int, number: int, index: int) -> str:
    return f"record {index} of transaction {number} of {name_writer(writer)}"


def name_writer(writer: int) -> str:
    return f"transactional-{writer}"


@dataclass
class Transaction:
    """One that is under way: what was asked for so far, and what became of it."""

    number: int
    invoked: int
    actions: list[Action] = field(default_factory=list)
    outcome: Outcome = Outcome.UNKNOWN
    committing: int | None = None


class TransactionalWriter(CrashClient):
    """Record `i` of transaction `n` goes to partition `(n + i) % partitions`; some commit offset `n + 1` of a group."""

    def __init__(self, index: int, servers: str, targets: Sequence[Where], recorder: Recorder, seed: int) -> None:
        super().__init__(name_writer(index))
        self.index = index
        self.process = recorder.take_process()
        self.group = f"crash-transactional-{index}"
        self._recorder = recorder
        self._transactional_id = name_writer(index)
        self._servers = servers
        self._targets = targets
        self._random = random.Random(seed)
        self._producer: Producer | None = None
        self._begun = 0
        self._vanished = 0
        # Only its identity is needed, for the group's metadata.
        self._consumer = Consumer({"bootstrap.servers": servers, **PATIENT, "group.id": self.group})

    def run(self) -> None:
        # The last one, too, ends what its predecessor left open: else it would be open until its timeout.
        while not self._ending.is_set() or self._producer is None:
            try:
                if self._producer is None:
                    self._producer = self._start(self._transactional_id, _TIMEOUT_MS)
                else:
                    self._run_one(self._producer)
            except (KafkaException, StuckCallError):
                self._producer = None
            time.sleep(_PAUSE_S)
        self._producer = None
        self._consumer.close()

    def _start(self, transactional_id: str, timeout_ms: int) -> Producer:
        producer = Producer(
            {
                "bootstrap.servers": self._servers,
                **PATIENT,
                "transactional.id": transactional_id,
                "transaction.timeout.ms": timeout_ms,
                "linger.ms": 1,
            }
        )
        producer.init_transactions(_CALL_TIMEOUT_S)
        return producer

    @contextmanager
    def _transaction(self) -> Iterator[Transaction]:
        """Recorded when it is over, whatever ended it."""
        begun = Transaction(self._begun, self._recorder.take_position())
        self._begun += 1
        try:
            yield begun
        finally:
            self._recorder.record(
                self.process,
                begun.outcome,
                begun.actions,
                begun.invoked,
                transaction=True,
                committing=begun.committing,
            )

    def _run_one(self, producer: Producer) -> None:
        chance = self._random.random()
        if chance < _VANISH:
            self._vanish()
            return
        size, with_offset = self._random.randint(*_SIZES), self._random.random() < _OFFSETS
        is_abort = self._random.random() < _ABORT
        with self._transaction() as begun:
            producer.begin_transaction()
            self._write(producer, begun, size)
            if with_offset:
                self._send_offset(producer, begun)
            if chance < _VANISH + _TAKE_OVER:
                producer.flush(0.05)
                self._producer = self._start(self._transactional_id, _TIMEOUT_MS)
                begun.outcome = Outcome.FAILED  # nobody asked for a commit, and its producer is fenced
                return
            begun.committing = self._recorder.take_position()
            begun.outcome = _end(producer, is_abort)

    def _write(self, producer: Producer, begun: Transaction, size: int) -> None:
        for index in range(size):
            topic, partition = self._targets[(begun.number + index) % len(self._targets)]
            begun.actions.append(Send(topic, partition, name_record(self.index, begun.number, index)))
            producer.produce(topic, encode_record(self.index, begun.number, index), partition=partition)
        producer.poll(0)

    def _send_offset(self, producer: Producer, begun: Transaction) -> None:
        offset = TopicPartition(*self._targets[0], begun.number + 1)
        begun.actions.append(Commit(self.group, *self._targets[0], begun.number + 1))
        group = self._consumer.consumer_group_metadata()
        call_within(lambda: producer.send_offsets_to_transaction([offset], group, _CALL_TIMEOUT_S), _STUCK_AFTER_S)

    def _vanish(self) -> None:
        self._vanished += 1
        producer = self._start(f"{self._transactional_id}-vanished-{self._vanished}", _VANISHING_TIMEOUT_MS)
        with self._transaction() as begun:
            begun.outcome = Outcome.FAILED
            producer.begin_transaction()
            self._write(producer, begun, self._random.randint(*_SIZES))
            producer.flush(0.2)


def _end(producer: Producer, is_abort: bool) -> Outcome:
    """A call that timed out is made again: the client goes on with what it began."""
    deadline = time.monotonic() + 3 * _CALL_TIMEOUT_S
    while True:
        try:
            if is_abort:
                producer.abort_transaction(_CALL_TIMEOUT_S)
                return Outcome.FAILED
            producer.commit_transaction(_CALL_TIMEOUT_S)
            return Outcome.OK
        except KafkaException as error:
            problem: KafkaError = error.args[0]
            if problem.txn_requires_abort() and not is_abort:
                is_abort = True
            elif not problem.retriable() or time.monotonic() > deadline:
                raise


class CommittedReader(Follower):
    """Follows the transactions as they are committed and records what it was served."""

    def __init__(self, servers: str, targets: Sequence[Where], recorder: Recorder) -> None:
        super().__init__("committed-reader", servers, targets)
        self.process = recorder.take_process()
        self._recorder = recorder

    def poll(self, consumer: Consumer) -> None:
        invoked = self._recorder.take_position()
        polls = group_polls(self.take_good(consumer.consume(1_000, timeout=0.1)), read_record)
        if polls:
            self._recorder.record(self.process, Outcome.OK, polls, invoked)


class KeyedWriter(CrashClient):
    """Writes ever larger numbers under a few keys to a compacted partition."""

    KEYS = 20

    def __init__(self, servers: str, target: Where, deadline_s: float) -> None:
        super().__init__("keyed")
        self.attempted: dict[bytes, int] = {}
        self.acknowledged: dict[bytes, int] = {}
        self.written = 0
        self._target = target
        self._deadline_s = deadline_s
        self._room = threading.Semaphore(100)
        self._producer = Producer(
            {
                "bootstrap.servers": servers,
                **PATIENT,
                "enable.idempotence": True,
                "linger.ms": 5,
                "message.timeout.ms": 300_000,
            }
        )

    def run(self) -> None:
        while not self._ending.is_set():
            self._producer.poll(0.005)
            if self._room.acquire(blocking=False):
                self._send()
        if left := self._producer.flush(self._deadline_s):
            self.failures.append(f"keyed: {left} records were not acknowledged {self._deadline_s} s later")

    def _send(self) -> None:
        number, key = self.written, b"key-%d" % (self.written * 7 % self.KEYS)
        self.written += 1
        self.attempted[key] = number

        def report(error: KafkaError | None, _: Message) -> None:
            self._room.release()
            if error is None:
                self.acknowledged[key] = max(self.acknowledged.get(key, -1), number)
            else:
                self.failures.append(f"keyed: record {number} failed: {error}")

        topic, partition = self._target
        self._producer.produce(topic, b"%d" % number, key, partition=partition, on_delivery=report)
