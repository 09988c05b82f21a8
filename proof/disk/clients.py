"""Clients for the disk rounds: one request after the other over a bare connection, and a memory of every answer.

Client libraries try again for as long as an error may pass, which hides the answers that matter here. These say what
they want once (an idempotent producer again and again, as it may) and note what they were told.
"""

from __future__ import annotations

import random
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from penstock.client.connection import BlockingConnection, ConnectionClosedError
from penstock.protocol.errors import ErrorCode
from penstock.protocol.message import Message
from penstock.protocol.messages.end_txn import EndTxnRequest
from penstock.protocol.messages.find_coordinator import FindCoordinatorRequest
from penstock.protocol.messages.init_producer_id import InitProducerIdRequest
from penstock.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from penstock.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from penstock.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from penstock.protocol.records import Record, build_batch
from penstock.testing.history import Action, Commit, Operation, Outcome, Send, Where

_REQUEST_TIMEOUT_S = 15.0
_ATTEMPTS = 12
_ATTEMPT_PAUSE_S = 0.005
_PASSING = (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.CONCURRENT_TRANSACTIONS)
_BY_NAME = 12  # the newest versions of Produce and Fetch that name their topics
_LARGE = 20_000  # more than is gathered into one piece with the rest of a reply: goes out by sendfile
_GROUP, _TRANSACTION = 0, 1
PLAIN_GROUP = "disk-plain"


class Wire:
    """Answers, or None when none came: the connection is made anew for the next request."""

    def __init__(self, servers: str, note: Callable[[str], None]) -> None:
        host, _, port = servers.rpartition(":")
        self._address = host, int(port)
        self._note = note
        self._connection: BlockingConnection | None = None

    def ask(self, message: Message, version: int | None = None) -> Any:
        try:
            if self._connection is None:
                self._connection = BlockingConnection(*self._address, client_id="disk-rounds")
            return self._connection.request(
                message, message.MAX_VERSION if version is None else version, timeout_s=_REQUEST_TIMEOUT_S
            )
        except TimeoutError:
            self._note(f"no answer to {type(message).__name__} within {_REQUEST_TIMEOUT_S} s")
            self.close()
        except (ConnectionClosedError, OSError):
            self.close()
        return None

    def judge(self, answer: Any, what: str) -> ErrorCode | None:
        """The error code of (a part of) an answer; one that nobody foresaw is a finding."""
        if answer is None:
            return None
        code = ErrorCode(answer.error_code)
        if code is ErrorCode.UNKNOWN_SERVER_ERROR:
            self._note(f"{what} was answered with UNKNOWN_SERVER_ERROR")
        return code

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


@dataclass
class Sent:
    """One record: its sender, its partition, and its outcome as far as the client knows."""

    producer: str
    topic_partition: Where
    value: bytes
    key: bytes | None = None
    outcome: Outcome = Outcome.UNKNOWN
    offset: int | None = None  # of the acknowledgement; one of a copy has none

    def action(self) -> Send:
        return Send(*self.topic_partition, name_value(self.key, self.value), self.offset, self.key)


def name_value(key: bytes | None, value: bytes | None) -> bytes:
    """How a record is known in the history: one with another key is another one."""
    return value or b"" if key is None else b"%b=%b" % (key, value or b"")


@dataclass
class Transaction:
    producer: str
    records: list[Sent]
    outcome: Outcome = Outcome.UNKNOWN
    commit: Commit | None = None  # of an offset, with the transaction


@dataclass
class History:
    """Everything that was asked of the broker in one round, and what it answered."""

    sent: list[Sent] = field(default_factory=list)
    transactions: list[Transaction] = field(default_factory=list)
    polls: list[Operation] = field(default_factory=list)
    committed: int = 0  # offset of the plain group: acknowledged
    commit_attempted: int = 0
    topics_made: set[str] = field(default_factory=set)
    topics_deleted: set[str] = field(default_factory=set)
    low_watermarks: dict[Where, int] = field(default_factory=dict)
    refused: int = 0
    findings: list[str] = field(default_factory=list)

    def processes(self) -> dict[str, int]:
        """A number for each producer."""
        names = {each.producer for each in self.sent} | {each.producer for each in self.transactions}
        return {name: number for number, name in enumerate(sorted(names), 1)}

    def operations(self) -> list[Operation]:
        """The history as `penstock.testing.history_check` takes it."""
        process_of = self.processes()
        operations = [Operation(process_of[each.producer], each.outcome, (each.action(),)) for each in self.sent]
        for position, each in enumerate(self.transactions):
            actions: list[Action] = [sent.action() for sent in each.records]
            actions += [] if each.commit is None else [each.commit]
            operations.append(
                Operation(
                    process_of[each.producer],
                    each.outcome,
                    tuple(actions),
                    transaction=True,
                    invoked=position,
                    completed=position,
                )
            )
        return operations + self.polls

    @property
    def acknowledged(self) -> int:
        ended = [each for each in self.transactions if each.outcome is Outcome.OK]
        return sum(each.outcome is Outcome.OK for each in self.sent) + sum(len(each.records) for each in ended)


class Clock:
    """Timestamps that go on by themselves, so that segments age as fast as batches come."""

    def __init__(self) -> None:
        self._now_ms = time.time_ns() // 1_000_000 - 3_600_000

    def tick(self) -> int:
        self._now_ms += 10
        return self._now_ms


@dataclass
class Producer:
    """What the three kinds share: a name, a history, numbered values."""

    name: str
    history: History
    clock: Clock
    is_online: Callable[[Where], bool]
    numbers: int = 0
    producer_id: int = -1
    epoch: int = -1

    def next_value(self, random_numbers: random.Random) -> bytes:
        self.numbers += 1
        size = _LARGE if random_numbers.randrange(8) == 0 else random_numbers.randrange(200)
        return b"%b/%d/%b" % (self.name.encode(), self.numbers, b"." * size)

    def produce(
        self, wire: Wire, topic_partition: Where, batch: bytes, *, acks: int = -1, transactional_id: str | None = None
    ) -> tuple[ErrorCode | None, int]:
        topic, partition = topic_partition
        data = TopicProduceData(name=topic, partition_data=[PartitionProduceData(index=partition, records=batch)])
        request = ProduceRequest(transactional_id=transactional_id, acks=acks, timeout_ms=10_000, topic_data=[data])
        answer = wire.ask(request, _BY_NAME)
        if answer is None:
            return None, -1
        answer = answer.responses[0].partition_responses[0]
        code = wire.judge(answer, f"a batch for {topic_partition}")
        if code is not ErrorCode.NONE:
            self.history.refused += 1
        if code is ErrorCode.KAFKA_STORAGE_ERROR and self.is_online(topic_partition):
            self.history.findings.append(f"{topic_partition} is online and refused a batch of {self.name}")
        return code, answer.base_offset


class PlainProducer(Producer):
    def send(self, wire: Wire, topic_partition: Where, random_numbers: random.Random, keys: int = 0) -> None:
        sent = []
        for _ in range(random_numbers.randint(1, 3)):
            value = self.next_value(random_numbers)
            key = b"key-%d" % random_numbers.randrange(keys) if keys else None
            sent.append(Sent(self.name, topic_partition, value, key))
        self.history.sent += sent
        now_ms = self.clock.tick()
        batch = build_batch([Record(each.key, each.value, (), now_ms) for each in sent])
        code, offset = self.produce(wire, topic_partition, batch, acks=random_numbers.choice((1, -1)))
        if code is ErrorCode.NONE:
            _acknowledge(sent, offset)


@dataclass
class IdempotentProducer(Producer):
    """Sends what was not acknowledged again, with the same sequence number, before anything newer."""

    _sequences: dict[Where, int] = field(default_factory=lambda: defaultdict(int))
    _pending: dict[Where, tuple[bytes, list[Sent]]] = field(default_factory=dict)

    @property
    def pending(self) -> list[Where]:
        return list(self._pending)

    def send(self, wire: Wire, topic_partition: Where, random_numbers: random.Random) -> None:
        if self.producer_id < 0 and not self._start(wire):
            return
        if topic_partition in self._pending and not self.resend(wire, topic_partition):
            return
        records = [Sent(self.name, topic_partition, self.next_value(random_numbers)) for _ in range(2)]
        self.history.sent += records
        now_ms = self.clock.tick()
        batch = build_batch(
            [Record(None, each.value, (), now_ms) for each in records],
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            base_sequence=self._sequences[topic_partition],
        )
        self._pending[topic_partition] = (batch, records)
        self.resend(wire, topic_partition)

    def resend(self, wire: Wire, topic_partition: Where) -> bool:
        batch, records = self._pending[topic_partition]
        code, offset = self.produce(wire, topic_partition, batch)
        if code in (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.UNKNOWN_PRODUCER_ID):
            self.history.findings.append(f"{topic_partition} has forgotten what {self.name} wrote: {code.name}")
        if code not in (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER):
            return False
        _acknowledge(records, offset)
        self._sequences[topic_partition] += len(records)
        del self._pending[topic_partition]
        return True

    def _start(self, wire: Wire) -> bool:
        answer = wire.ask(InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000))
        if wire.judge(answer, "a producer id") is not ErrorCode.NONE:
            return False
        self.producer_id, self.epoch = answer.producer_id, answer.producer_epoch
        return True


class TransactionalProducer(Producer):
    """Every transaction takes several partitions, some the offsets of a group; it is committed or aborted by chance."""

    @property
    def group(self) -> str:
        return f"{self.name}-group"

    def start(self, wire: Wire) -> bool:
        """Takes a producer id, which ends a transaction that is open from before."""
        request = InitProducerIdRequest(transactional_id=self.name, transaction_timeout_ms=60_000)
        answer = _insist(lambda: wire.ask(request))
        if wire.judge(answer, f"the start of {self.name}") is not ErrorCode.NONE:
            return False
        self.producer_id, self.epoch = answer.producer_id, answer.producer_epoch
        return True

    def run(self, wire: Wire, targets: Sequence[Where], random_numbers: random.Random) -> None:
        if self.producer_id < 0 and not self.start(wire):
            return
        transaction = Transaction(self.name, [])
        self.history.transactions.append(transaction)
        is_whole = True
        for topic_partition in random_numbers.sample(list(targets), min(3, len(targets))):
            is_whole = is_whole and self._write(wire, topic_partition, transaction, random_numbers)
        if is_whole and random_numbers.random() < 0.5:
            is_whole = self._send_offset(wire, transaction, targets[0])
        is_commit = is_whole and random_numbers.random() < 0.7
        self._end(wire, transaction, is_commit)

    def _write(
        self, wire: Wire, topic_partition: Where, transaction: Transaction, random_numbers: random.Random
    ) -> bool:
        sent = [Sent(self.name, topic_partition, self.next_value(random_numbers)) for _ in range(2)]
        transaction.records += sent
        now_ms = self.clock.tick()
        batch = build_batch(
            [Record(None, each.value, (), now_ms) for each in sent],
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            base_sequence=0,  # every transaction has an epoch of its own, and each partition is written once in it
            is_transactional=True,
        )
        for _ in range(_ATTEMPTS):
            code, _ = self.produce(wire, topic_partition, batch, transactional_id=self.name)
            if code not in _PASSING:
                break
            time.sleep(_ATTEMPT_PAUSE_S)
        return code is ErrorCode.NONE

    def _send_offset(self, wire: Wire, transaction: Transaction, topic_partition: Where) -> bool:
        transaction.commit = Commit(self.group, *topic_partition, self.numbers)
        partition = TxnOffsetCommitRequestPartition(partition_index=topic_partition[1], committed_offset=self.numbers)
        request = TxnOffsetCommitRequest(
            transactional_id=self.name,
            group_id=self.group,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            topics=[TxnOffsetCommitRequestTopic(name=topic_partition[0], partitions=[partition])],
        )
        answer = _insist(lambda: _first_partition(wire.ask(request)))
        return wire.judge(answer, "offsets in a transaction") is ErrorCode.NONE

    def _end(self, wire: Wire, transaction: Transaction, is_commit: bool) -> None:
        request = EndTxnRequest(
            transactional_id=self.name,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            committed=is_commit,
        )
        answer = _insist(lambda: wire.ask(request))
        if wire.judge(answer, "the end of a transaction") is ErrorCode.NONE:
            transaction.outcome = Outcome.OK if is_commit else Outcome.FAILED
            self.producer_id, self.epoch = answer.producer_id, answer.producer_epoch
        else:
            self.producer_id = -1  # to be started anew, which ends what is open
            if not is_commit:
                transaction.outcome = Outcome.FAILED  # nobody ever asked for anything else


def find_coordinators(wire: Wire) -> None:
    """The first client that looks for a coordinator makes the broker create the coordinator's topic."""
    for key_type in (_GROUP, _TRANSACTION):
        wire.ask(FindCoordinatorRequest(key_type=key_type, coordinator_keys=["disk-rounds"]), 4)


def commit_offset(wire: Wire, history: History, topic_partition: Where) -> None:
    history.commit_attempted += 1
    partition = OffsetCommitRequestPartition(
        partition_index=topic_partition[1], committed_offset=history.commit_attempted
    )
    request = OffsetCommitRequest(
        group_id=PLAIN_GROUP, topics=[OffsetCommitRequestTopic(name=topic_partition[0], partitions=[partition])]
    )
    answer = _insist(lambda: _first_partition(wire.ask(request, 9)))
    if wire.judge(answer, "a commit of offsets") is ErrorCode.NONE:
        history.committed = history.commit_attempted


def _first_partition(answer: Any) -> Any:
    return None if answer is None else answer.topics[0].partitions[0]


def _insist(ask: Callable[[], Any]) -> Any:
    """Asks again while the answer is an error that passes by itself. Returns the last answer."""
    answer = None
    for _ in range(_ATTEMPTS):
        answer = ask()
        if answer is None or answer.error_code not in _PASSING:
            break
        time.sleep(_ATTEMPT_PAUSE_S)
    return answer


def _acknowledge(sent: Sequence[Sent], offset: int) -> None:
    for delta, each in enumerate(sent):
        each.outcome = Outcome.OK
        each.offset = offset + delta if offset >= 0 else None
