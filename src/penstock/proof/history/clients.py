"""Clients that write a history: senders, with and without transactions, and pollers; each in a thread of its own.

Each records what it knows and no more. A client object that cannot go on is replaced under a new process number, since
nothing is promised about the order of what two clients do.
"""

from __future__ import annotations

import contextlib
import itertools
import logging
import random
import sys
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from enum import Enum, auto
from functools import partial
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from penstock.client.bounded_call import StuckCallError, call_within
from penstock.proof.patience import PATIENT
from penstock.proof.recorder import Recorder, group_polls
from penstock.testing.history import Action, Assign, Isolation, Outcome, Poll, Send, Where

_CALL_TIMEOUT_S = 5.0
_STUCK_AFTER_S = 8.0
# A client may go on for this long after the end was asked for, to learn what became of its last operation.
_GRACE_S = 30.0
# Short, for what a dead client leaves open blocks readers of committed records so long.
_TRANSACTION_TIMEOUT_MS = 4_000
# Being fenced is what some of these clients are after; the library would report it as fatal on the console.
_UNHEARD = logging.getLogger("penstock.testing.history")
_UNHEARD.propagate = False
_UNHEARD.addHandler(logging.NullHandler())
_PADDING = b" " + b"." * 100


class HistoryClient(threading.Thread):
    """Takes one step after the other until it is asked to end."""

    pause_s = 0.01

    def __init__(self, name: str, servers: str, targets: Sequence[Where], recorder: Recorder, seed: int) -> None:
        super().__init__(name=f"history-{name}", daemon=True)
        self.recorder = recorder
        self.process = recorder.take_process()
        self.targets = targets
        self.base_config: dict[str, Any] = {"bootstrap.servers": servers, **PATIENT, "logger": _UNHEARD}
        self.random = random.Random(f"{seed} {name}")
        self._ending = threading.Event()
        self._ends_at = float("inf")

    def end(self) -> None:
        self._ends_at = time.monotonic() + _GRACE_S
        self._ending.set()

    @property
    def has_given_up(self) -> bool:
        return time.monotonic() > self._ends_at

    def run(self) -> None:
        is_whole = False
        try:
            while not self._ending.is_set():
                self.step()
                self._ending.wait(self.random.uniform(0, 2 * self.pause_s))
            is_whole = True
        finally:
            if not is_whole:  # a run must not take a dead thread for a good one
                self.recorder.problems.append(f"{self.name} died: {sys.exception()!r}")
            self.close()

    def step(self) -> None:
        raise NotImplementedError

    def close(self) -> None:
        """Let go of the client object."""

    def dawdle(self) -> None:
        """Now and then, let time pass in the middle of things: for the others, for a kill, for a timeout."""
        if self.random.random() < 0.1:
            self._ending.wait(self.random.choice((0.01, 0.01, 0.02, 0.05, 0.1, 0.1, 0.3, 1.5)))


# ---------------------------------------------------------------------------------------------------- senders


class _Batch:
    """Records sent together, and what became of each."""

    def __init__(self, client: HistoryClient, producer: Producer) -> None:
        self._client = client
        self._producer = producer
        self.sends: list[Send] = []
        self.waiting = 0
        self.failed = 0

    def send(self, where: Where) -> None:
        number = self._client.recorder.take_value()
        report = partial(self._report, len(self.sends))
        self._producer.produce(where[0], b"%d%b" % (number, _PADDING), partition=where[1], on_delivery=report)
        self.sends.append(Send(*where, number))
        self.waiting += 1

    def _report(self, index: int, error: KafkaError | None, message: Message) -> None:
        self.waiting -= 1
        offset = message.offset()
        if error is not None:
            self.failed += 1
        elif offset is not None and offset >= 0:
            self.sends[index] = replace(self.sends[index], offset=offset)

    def wait(self) -> None:
        while self.waiting and not self._client.has_given_up:
            self._producer.poll(0.1)


class PlainSender(HistoryClient):
    """Idempotent, without transactions."""

    _producer: Producer | None = None

    def step(self) -> None:
        if self._producer is None:
            self._producer = Producer({**self.base_config, "enable.idempotence": True, "linger.ms": 1})
        invoked = self.recorder.take_position()
        batch = _Batch(self, self._producer)
        for _ in range(self.random.randint(1, 8)):
            batch.send(self.random.choice(self.targets))
        batch.wait()
        is_known = all(send.offset is not None for send in batch.sends)
        self.recorder.record(self.process, Outcome.OK if is_known else Outcome.UNKNOWN, batch.sends, invoked)
        if not is_known:
            self._producer, self.process = None, self.recorder.take_process()


class _Verdict(Enum):
    DONE = auto()
    MUST_ABORT = auto()
    LOST = auto()  # fenced, fatal, or no answer until the end


class TransactionalClient(HistoryClient):
    """A producer with a transactional id, and the care it takes to say what became of a transaction."""

    _producer: Producer | None = None

    def new_producer(self) -> Producer | None:
        producer = Producer(
            {
                **self.base_config,
                "transactional.id": self.name,
                "transaction.timeout.ms": _TRANSACTION_TIMEOUT_MS,
                "socket.timeout.ms": _TRANSACTION_TIMEOUT_MS,
                "linger.ms": 1,
            }
        )
        return producer if self.attempt(producer.init_transactions) is _Verdict.DONE else None

    def use_producer(self) -> Producer | None:
        if self._producer is None:
            self._producer, self.process = self.new_producer(), self.recorder.take_process()
        return self._producer

    def attempt(self, call: Callable[[float], None]) -> _Verdict:
        while True:
            try:
                call(_CALL_TIMEOUT_S)
                return _Verdict.DONE
            except KafkaException as exception:
                error = exception.args[0]
                if error.txn_requires_abort():
                    return _Verdict.MUST_ABORT
                if self.has_given_up or not error.retriable():
                    return _Verdict.LOST

    def finish(self, producer: Producer, batch: _Batch, wants_commit: bool) -> tuple[Outcome, int | None]:
        """Commit or abort; the outcome, and where the commit was asked for. Afterwards the producer may be gone."""
        if not wants_commit:
            if self.attempt(producer.abort_transaction) is not _Verdict.DONE:
                self._producer = None
            producer.poll(0)
            return Outcome.FAILED, None  # nobody ever asked for its commit
        batch.wait()
        committing = self.recorder.take_position()
        verdict = self.attempt(producer.commit_transaction)
        if verdict is _Verdict.DONE:
            return Outcome.OK, committing
        if verdict is _Verdict.LOST or self.attempt(producer.abort_transaction) is not _Verdict.DONE:
            self._producer = None
            return Outcome.UNKNOWN, committing
        producer.poll(0)
        # With a record that could not be written, the client gives up before it asks the broker.
        return (Outcome.FAILED if batch.failed else Outcome.UNKNOWN), committing


class TransactionalSender(TransactionalClient):
    """Commits most of its transactions, aborts some, walks away from some, and is at times a zombie."""

    def step(self) -> None:
        producer = self.use_producer()
        if producer is None:
            return
        invoked = self.recorder.take_position()
        batch = _Batch(self, producer)
        fate = self.random.choices(("commit", "abort", "leave", "zombie"), (70, 22, 4, 4))[0]
        outcome, committing = Outcome.FAILED, None
        try:
            producer.begin_transaction()
            self._send(producer, batch)
            if fate == "leave":
                self._producer = None  # the next one has the same transactional id, and ends what this one began
            else:
                is_replaced = False
                if fate == "zombie":
                    self._producer = self.new_producer()
                    is_replaced = self._producer is not None
                    self._send(producer, batch)
                outcome, committing = self.finish(producer, batch, wants_commit=fate != "abort")
                if is_replaced and outcome is Outcome.UNKNOWN:
                    outcome = Outcome.FAILED  # its successor had ended the transaction before the commit was asked for
        except KafkaException:
            self._producer = None  # before any commit was asked for
        self.recorder.record(self.process, outcome, batch.sends, invoked, transaction=True, committing=committing)
        if fate == "zombie" and self._producer is not None:
            self.process = self.recorder.take_process()

    def _send(self, producer: Producer, batch: _Batch) -> None:
        for _ in range(self.random.randint(1, 6)):
            batch.send(self.random.choice(self.targets))
            producer.poll(0)
            self.dawdle()


# ---------------------------------------------------------------------------------------------------- pollers


def read_value(message: Message) -> int | str:
    content = message.value() or b""
    number, _, padding = content.partition(b" ")
    is_whole = number.isdigit() and b" " + padding == _PADDING
    return int(number) if is_whole else f"not a value of this run: {content!r}"


class AssignedPoller(HistoryClient):
    """Reads partitions of its own choice, and moves now and then."""

    def __init__(self, *arguments: Any, isolation: Isolation) -> None:
        super().__init__(*arguments)
        self.isolation = isolation
        self._highest: dict[Where, int] = {}
        self._has_moved = False
        self._consumer = Consumer(
            {
                **self.base_config,
                "group.id": self.name,
                "enable.auto.commit": False,
                "isolation.level": isolation.value,
                "auto.offset.reset": "error",
                "fetch.wait.max.ms": 50,
            }
        )

    def step(self) -> None:
        invoked = self.recorder.take_position()
        if not self._has_moved or self.random.random() < 0.02:
            self._has_moved = True
            actions: list[Action] = [self._move()]
        else:
            actions = list(group_polls(self._poll(), read_value))
        if actions:
            self.recorder.record(self.process, Outcome.OK, actions, invoked, isolation=self.isolation)

    def _move(self) -> Assign:
        chosen = self.random.sample(self.targets, self.random.randint(1, len(self.targets)))
        starts = [self.random.choice((0, self.random.randint(0, self._highest.get(where, 0)))) for where in chosen]
        self._consumer.assign([TopicPartition(*where, start) for where, start in zip(chosen, starts, strict=True)])
        return Assign(frozenset(chosen))

    def _poll(self) -> list[Message]:
        good = []
        for message in self._consumer.consume(self.random.choice((1, 20, 500)), 0.1):
            error = message.error()
            if error is None:
                where = (str(message.topic()), message.partition() or 0)
                self._highest[where] = max(self._highest.get(where, 0), message.offset() or 0)
                good.append(message)
            elif error.code() == KafkaError._AUTO_OFFSET_RESET:
                self.recorder.problems.append(f"{self.name}: {message.topic()}-{message.partition()}: {error.str()}")
        return good

    def close(self) -> None:
        self._consumer.close()


class _Member:
    """One consumer of a group. A rebalance is noted between the records that came before it and those after it, which
    is known only because they are polled one at a time.
    """

    def __init__(self, config: dict[str, Any], topics: Sequence[str]) -> None:
        self._notes: list[Message | Assign] = []
        self.consumer = Consumer({"enable.auto.commit": False, "auto.offset.reset": "earliest", **config})
        note = self._note_rebalance
        self.consumer.subscribe(list(topics), on_assign=note, on_revoke=note, on_lost=note)

    def _note_rebalance(self, _: Consumer, partitions: list[TopicPartition]) -> None:
        self._notes.append(Assign(frozenset((each.topic, each.partition) for each in partitions)))

    def poll(self, most: int) -> list[Action]:
        timeout_s = 0.2
        for _ in range(most):
            message = self.consumer.poll(timeout_s)
            if message is None:
                break
            if message.error() is None:
                self._notes.append(message)
            timeout_s = 0.0
        actions: list[Action] = []
        for is_message, notes in itertools.groupby(self._notes, key=lambda note: not isinstance(note, Assign)):
            listed = list(notes)
            actions += group_polls(listed, read_value) if is_message else listed  # type: ignore[arg-type]
        self._notes.clear()
        return actions


def _next_offsets(actions: Iterable[Action]) -> list[TopicPartition]:
    ends = {(poll.topic, poll.partition): poll.records[-1][0] + 1 for poll in actions if isinstance(poll, Poll)}
    return [TopicPartition(*where, end) for where, end in ends.items()]


class SubscribedPoller(HistoryClient):
    """A member of a group, which it leaves and joins again from time to time."""

    def __init__(self, *arguments: Any, group: str, protocol: str, isolation: Isolation) -> None:
        super().__init__(*arguments)
        self.isolation = isolation
        self._member: _Member | None = None
        self._member_config = {
            **self.base_config,
            "group.id": group,
            "group.protocol": protocol,
            "isolation.level": isolation.value,
            "fetch.wait.max.ms": 50,
        }

    def step(self) -> None:
        if self._member is None:
            self.process = self.recorder.take_process()
            self._member = _Member(self._member_config, sorted({topic for topic, _ in self.targets}))
        invoked = self.recorder.take_position()
        actions = self._member.poll(self.random.choice((1, 10, 100)))
        if actions:
            self.recorder.record(self.process, Outcome.OK, actions, invoked, isolation=self.isolation)
        offsets = _next_offsets(actions)
        if offsets:
            with contextlib.suppress(KafkaException):  # a rebalance came first: the next owner reads them again
                self._member.consumer.commit(offsets=offsets, asynchronous=True)
        if self.random.random() < 0.01:
            self.close()

    def close(self) -> None:
        if self._member is not None:
            self._member.consumer.close()
            self._member = None


class Transformer(TransactionalClient):
    """Polls and sends in one transaction, together with the offsets of what it polled."""

    def __init__(self, *arguments: Any, group: str) -> None:
        super().__init__(*arguments)
        self._member: _Member | None = None
        self._member_config = {
            **self.base_config,
            "group.id": group,
            "isolation.level": Isolation.READ_COMMITTED.value,
            "fetch.wait.max.ms": 50,
        }

    def step(self) -> None:
        producer = self.use_producer()
        if producer is None:
            return
        if self._member is None:
            self.process = self.recorder.take_process()
            self._member = _Member(self._member_config, sorted({topic for topic, _ in self.targets}))
        invoked = self.recorder.take_position()
        polled = self._member.poll(self.random.choice((1, 5, 20)))
        offsets = _next_offsets(polled)
        if not offsets:
            if polled:
                self.recorder.record(self.process, Outcome.OK, polled, invoked)
            return
        batch = _Batch(self, producer)
        outcome, committing = Outcome.FAILED, None
        try:
            producer.begin_transaction()
            for _ in range(self.random.randint(1, 4)):
                batch.send(self.random.choice(self.targets))
                self.dawdle()
            group = self._member.consumer.consumer_group_metadata()
            added = self._attempt_or_leave(partial(producer.send_offsets_to_transaction, offsets, group))
            if added is not None:
                wants_commit = added is _Verdict.DONE and self.random.random() < 0.8
                outcome, committing = self.finish(producer, batch, wants_commit)
            else:
                self._producer = None
        except KafkaException:
            self._producer = None  # before any commit was asked for
        actions = [*polled, *batch.sends]
        self.recorder.record(self.process, outcome, actions, invoked, transaction=True, committing=committing)
        if outcome is not Outcome.OK:
            self._rewind(self._member)

    def _attempt_or_leave(self, call: Callable[[float], None]) -> _Verdict | None:
        """None if the call does not return: the producer is then left to the thread that waits for it."""
        try:
            return call_within(lambda: self.attempt(call), _STUCK_AFTER_S)
        except StuckCallError:
            return None

    def _rewind(self, member: _Member) -> None:
        """Go back to what is committed, as after a crash."""
        invoked = self.recorder.take_position()
        consumer = member.consumer
        try:
            places = consumer.committed(consumer.assignment(), _CALL_TIMEOUT_S)
            for place in places:
                place.offset = max(place.offset, 0)
                consumer.seek(place)
        except KafkaException:
            self.close()
            return
        moved = Assign(frozenset((place.topic, place.partition) for place in places))
        self.recorder.record(self.process, Outcome.OK, [moved], invoked)

    def close(self) -> None:
        if self._member is not None:
            self._member.consumer.close()
            self._member = None
