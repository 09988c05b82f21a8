"""Transactional writers for the crash rounds, the reader that follows them, and what must be true of both.

A writer commits and aborts by chance, writes to several partitions and, in some transactions, commits offsets of a
group. Now and then it walks out on one: another client with the same id takes over at once, or nobody does and the
broker has to end the transaction by its timeout.
"""

from __future__ import annotations

import itertools
import random
import threading
import time
from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from penstock.client.bounded_call import StuckCallError, call_within
from penstock.proof.crash.clients import PATIENT, CrashClient, Follower

COMMITTED, ABORTED, UNKNOWN = 1, 2, 0
_CALL_TIMEOUT_S = 20.0
# A client that is stuck in a call for longer is left behind; see bounded_call.
_STUCK_AFTER_S = 5.0
_TIMEOUT_MS = 60_000
_VANISHING_TIMEOUT_MS = 1_500
_SIZES = (2, 12)
_ABORT, _TAKE_OVER, _VANISH, _OFFSETS = 0.2, 0.04, 0.02, 0.3
_PAUSE_S = 0.01
_PADDING = b"." * 100
_MOST_SEEN = 255


@dataclass
class TransactionLog:
    """What one writer asked for and was told, by number of transaction. Record `i` of number `n` goes to partition
    `(n + i) % partitions`.
    """

    name: str
    outcomes: bytearray = field(default_factory=bytearray)
    sizes: bytearray = field(default_factory=bytearray)
    offsets: bytearray = field(default_factory=bytearray)  # 1: offset `n + 1` was sent with it

    def add(self, size: int, with_offset: bool) -> int:
        self.outcomes.append(UNKNOWN)
        self.sizes.append(size)
        self.offsets.append(with_offset)
        return len(self.outcomes) - 1

    def count(self, outcome: int) -> int:
        return self.outcomes.count(outcome)


def encode_record(writer: int, number: int, index: int) -> bytes:
    return b"t %d %d %d %b" % (writer, number, index, _PADDING)


def decode_record(value: bytes | None) -> tuple[int, int, int]:
    parts = (value or b"").split(b" ")
    if len(parts) != 5 or parts[0] != b"t" or parts[4] != _PADDING:
        raise ValueError(f"not a record of a transaction of this run: {value!r}")
    return int(parts[1]), int(parts[2]), int(parts[3])


class TransactionalWriter(CrashClient):
    def __init__(self, index: int, servers: str, targets: Sequence[tuple[str, int]], seed: int) -> None:
        super().__init__(f"transactional-{index}")
        self.index = index
        self.log = TransactionLog(f"transactional-{index}")
        self.group = f"crash-transactional-{index}"
        self._servers = servers
        self._targets = targets
        self._random = random.Random(seed)
        self._producer: Producer | None = None
        self._vanished = 0
        # Only its identity is needed, for the group's metadata.
        self._consumer = Consumer({"bootstrap.servers": servers, **PATIENT, "group.id": self.group})

    def run(self) -> None:
        # The last one, too, ends what its predecessor left open: else it would be open until its timeout.
        while not self._ending.is_set() or self._producer is None:
            try:
                if self._producer is None:
                    self._producer = self._start(self.log.name, _TIMEOUT_MS)
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

    def _run_one(self, producer: Producer) -> None:
        chance = self._random.random()
        if chance < _VANISH:
            self._vanish()
            return
        size, with_offset = self._random.randint(*_SIZES), self._random.random() < _OFFSETS
        is_abort, number = self._random.random() < _ABORT, self.log.add(size, with_offset)
        producer.begin_transaction()
        self._write(producer, number, size)
        if with_offset:
            offset = TopicPartition(*self._targets[0], number + 1)
            group = self._consumer.consumer_group_metadata()
            call_within(lambda: producer.send_offsets_to_transaction([offset], group, _CALL_TIMEOUT_S), _STUCK_AFTER_S)
        if chance < _VANISH + _TAKE_OVER:
            producer.flush(0.05)
            self._producer = self._start(self.log.name, _TIMEOUT_MS)
            self.log.outcomes[number] = ABORTED  # nobody asked for a commit, and its producer is fenced
            return
        self.log.outcomes[number] = _end(producer, is_abort)

    def _write(self, producer: Producer, number: int, size: int) -> None:
        for index in range(size):
            topic, partition = self._targets[(number + index) % len(self._targets)]
            producer.produce(topic, encode_record(self.index, number, index), partition=partition)
        producer.poll(0)

    def _vanish(self) -> None:
        self._vanished += 1
        producer = self._start(f"{self.log.name}-vanished-{self._vanished}", _VANISHING_TIMEOUT_MS)
        size = self._random.randint(*_SIZES)
        number = self.log.add(size, False)
        self.log.outcomes[number] = ABORTED
        producer.begin_transaction()
        self._write(producer, number, size)
        producer.flush(0.2)


def _end(producer: Producer, is_abort: bool) -> int:
    """The outcome. A call that timed out is made again: the client goes on with what it began."""
    deadline = time.monotonic() + 3 * _CALL_TIMEOUT_S
    while True:
        try:
            if is_abort:
                producer.abort_transaction(_CALL_TIMEOUT_S)
                return ABORTED
            producer.commit_transaction(_CALL_TIMEOUT_S)
            return COMMITTED
        except KafkaException as error:
            problem: KafkaError = error.args[0]
            if problem.txn_requires_abort() and not is_abort:
                is_abort = True
            elif not problem.retriable() or time.monotonic() > deadline:
                raise


class CommittedReader(Follower):
    """Follows the transactions as they are committed and keeps what it was served."""

    def __init__(self, servers: str, targets: Sequence[tuple[str, int]]) -> None:
        super().__init__("committed-reader", servers, targets)
        self.offsets: dict[tuple[str, int], array[int]] = {target: array("q") for target in targets}
        self.values: dict[tuple[str, int], list[bytes]] = {target: [] for target in targets}

    def keep(self, where: tuple[str, int], message: Message) -> None:
        self.offsets[where].append(message.offset() or 0)
        self.values[where].append((message.value() or b"").removesuffix(_PADDING))


class TransactionCheck:
    """Given every record that a reader of committed records gets, in the order of offsets; says what is wrong. Pure."""

    def __init__(self, logs: Sequence[TransactionLog]) -> None:
        self.lost: list[str] = []
        self.duplicated: list[str] = []
        self.reordered: list[str] = []
        self.other: list[str] = []
        self._logs = logs
        self._seen = [[bytearray(size) for size in log.sizes] for log in logs]
        self._newest: dict[tuple[tuple[str, int], int], tuple[int, int]] = {}

    def add(self, where: tuple[str, int], offset: int, value: bytes | None) -> None:
        try:
            writer, number, index = decode_record(value)
            seen = self._seen[writer][number]
            seen[index] = min(seen[index] + 1, _MOST_SEEN)
        except (ValueError, IndexError) as error:
            self.other.append(f"{where}: offset {offset}: {error}")
            return
        name = self._logs[writer].name
        if seen[index] > 1:
            self.duplicated.append(f"{where}: offset {offset} holds record {index} of {name} {number} again")
        elif (number, index) < self._newest.get((where, writer), (-1, -1)):
            self.reordered.append(f"{where}: record {index} of {name} {number} comes late, at offset {offset}")
        self._newest[where, writer] = (number, index)

    def add_earlier(self, served: CommittedReader, stored: dict[tuple[str, int], dict[int, bytes]]) -> None:
        """What was served as committed is so for ever, at the same offset."""
        for where, offsets in served.offsets.items():
            if any(late <= early for early, late in itertools.pairwise(offsets)):
                self.other.append(f"{where}: offsets went back for a reader of committed records")
            for offset, value in zip(offsets, served.values[where], strict=True):
                if stored[where].get(offset, b"").removesuffix(_PADDING) != value:
                    self.other.append(
                        f"{where}: offset {offset} was served to a reader of committed records and is not"
                    )

    def finish(self, committed_offsets: Sequence[int]) -> None:
        """`committed_offsets`: of each writer's group, -1 for none."""
        for log, seen, committed in zip(self._logs, self._seen, committed_offsets, strict=True):
            for number, flags in enumerate(seen):
                self._judge(log, number, sum(map(bool, flags)))
            expected = [number + 1 for number, flags in enumerate(seen) if log.offsets[number] and all(flags)]
            if committed != max(expected, default=-1):
                self.other.append(f"{log.name} has offset {committed}, its transactions {max(expected, default=-1)}")

    def _judge(self, log: TransactionLog, number: int, visible: int) -> None:
        outcome, size = log.outcomes[number], log.sizes[number]
        if outcome == COMMITTED and visible < size:
            self.lost.append(f"{size - visible} of {size} records of the committed transaction {number} of {log.name}")
        elif outcome == ABORTED and visible:
            self.other.append(f"{visible} records of the aborted transaction {number} of {log.name} are visible")
        elif visible not in (0, size):
            self.other.append(f"{visible} of {size} records of transaction {number} of {log.name} are visible")


class KeyedWriter(CrashClient):
    """Writes ever larger numbers under a few keys to a compacted partition."""

    KEYS = 20

    def __init__(self, servers: str, target: tuple[str, int], deadline_s: float) -> None:
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


def check_keys(
    writer_acknowledged: dict[bytes, int], attempted: dict[bytes, int], records: Iterable[tuple[bytes, int]]
) -> list[str]:
    """`records`: key and number in the order of their offsets. The last of each key counts, and none may go back."""
    latest: dict[bytes, int] = {}
    problems = []
    for key, number in records:
        if number <= latest.get(key, -1):
            problems.append(f"compacted: {key!r} goes from {latest[key]} to {number}")
        latest[key] = number
    for key, least in writer_acknowledged.items():
        if not least <= latest.get(key, -1) <= attempted[key]:
            problems.append(f"compacted: {key!r} is {latest.get(key)}, and {least} was acknowledged")
    return problems
