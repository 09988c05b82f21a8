"""Clients with a transactional id: senders, and transformers that poll and send in one transaction.

A producer that cannot go on is replaced by one with the same id, which ends what its predecessor left open. The process
number stays, since the broker refuses all later requests of the predecessor.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, auto
from functools import partial

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from penstock.client.bounded_call import StuckCallError, call_within
from penstock.testing.fleet.client import Client, Setting
from penstock.testing.fleet.pollers import FleetConsumer, next_offsets
from penstock.testing.fleet.senders import SentBatch
from penstock.testing.history import Action, Assign, Commit, Isolation, Outcome

_CALL_TIMEOUT_S = 5.0
# A call that lasts longer is given up, and its producer with it; see bounded_call.
_STUCK_AFTER_S = 8.0
# Short, because a transaction that a dead client leaves open blocks readers of committed records for this long.
_TIMEOUT_MS = 4_000
_VANISHING_TIMEOUT_MS = 1_500
_FLUSH_S = 0.2
_RETRY_S = 0.05


class _Verdict(Enum):
    DONE = auto()
    MUST_ABORT = auto()
    LOST = auto()  # fenced, fatal, stuck, or no answer until the end


@dataclass(frozen=True, slots=True)
class Habits:
    """How often a sender commits, aborts, leaves its transaction to the next producer with its id, goes on as a zombie
    beside that producer, or vanishes, so that the broker has to end the transaction by its timeout. `offsets`: the
    share of transactions that commit an offset of a group; `records`: least and most of a transaction.
    """

    commit: int = 70
    abort: int = 22
    leave: int = 4
    zombie: int = 4
    vanish: int = 0
    offsets: float = 0.0
    records: tuple[int, int] = (1, 6)
    timeout_ms: int = _TIMEOUT_MS


class TransactionalClient(Client):
    """A producer with a transactional id, which finds out the outcome of each transaction."""

    timeout_ms = _TIMEOUT_MS
    _producer: Producer | None = None

    def new_producer(self, transactional_id: str | None = None, timeout_ms: int | None = None) -> Producer | None:
        producer = Producer(
            {
                **self.base_config,
                "transactional.id": transactional_id or self.name,
                "transaction.timeout.ms": timeout_ms or self.timeout_ms,
                "socket.timeout.ms": _TIMEOUT_MS if timeout_ms is None else timeout_ms,
                "linger.ms": 1,
            }
        )
        return producer if self.attempt(producer.init_transactions) is _Verdict.DONE else None

    def use_producer(self) -> Producer | None:
        if self._producer is None:
            self._producer = self.new_producer()
        return self._producer

    def attempt(self, call: Callable[[float], None], patience_s: float = math.inf) -> _Verdict:
        gives_up_at = time.monotonic() + patience_s
        while True:
            try:
                call(_CALL_TIMEOUT_S)
                return _Verdict.DONE
            except KafkaException as exception:
                error = exception.args[0]
                if error.txn_requires_abort():
                    return _Verdict.MUST_ABORT
                if self.has_given_up or time.monotonic() > gives_up_at or not error.retriable():
                    return _Verdict.LOST
                time.sleep(_RETRY_S)  # some errors come back at once

    def add_offsets(self, producer: Producer, consumer: Consumer, offsets: list[TopicPartition]) -> _Verdict:
        """LOST also if the call does not return: the producer is then left to the thread that waits for it."""
        group = consumer.consumer_group_metadata()
        call = partial(producer.send_offsets_to_transaction, offsets, group)
        try:
            # An abandoned attempt must end by itself, and let go of its producer.
            return call_within(lambda: self.attempt(call, _STUCK_AFTER_S), _STUCK_AFTER_S)
        except StuckCallError:
            return _Verdict.LOST

    def finish(self, producer: Producer, batch: SentBatch, wants_commit: bool) -> tuple[Outcome, int | None]:
        """Commit or abort; the outcome, and the position of the commit request. Afterwards the producer may be gone."""
        if not wants_commit:
            if self.attempt(producer.abort_transaction) is not _Verdict.DONE:
                self._producer = None
            producer.poll(0)
            return Outcome.FAILED, None  # there was no commit request
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

    def close(self) -> None:
        """The last producer, too, ends what its predecessor left open: else it would be open until its timeout."""
        self.use_producer()
        self._producer = None


class TransactionalSender(TransactionalClient):
    """Ends its transactions as its habits say; some commit offset `n` of a group, `n` being their number."""

    def __init__(self, name: str, setting: Setting, habits: Habits | None = None) -> None:
        super().__init__(name, setting)
        self.habits = habits or Habits()
        self.timeout_ms = self.habits.timeout_ms
        self.group = f"{name}-offsets"
        self._begun = 0
        # Only its identity is needed, for the group's metadata.
        self._consumer = Consumer({**self.base_config, "group.id": self.group}) if self.habits.offsets else None

    def step(self) -> None:
        fate = self._choose_fate()
        self._begun += 1
        producer = self._vanishing_producer() if fate == "vanish" else self.use_producer()
        if producer is None:
            return
        invoked = self.recorder.take_position()
        batch = SentBatch(self, producer)
        commits: list[Commit] = []
        outcome, committing = Outcome.FAILED, None
        try:
            producer.begin_transaction()
            self._send(producer, batch)
            may_commit = self._commit_offset(producer, commits)
            if fate == "vanish":
                producer.flush(_FLUSH_S)
            elif fate == "leave" or may_commit is _Verdict.LOST:
                self._producer = None  # the next one has the same transactional id, and ends what this one began
            else:
                is_replaced = fate == "zombie" and self._replace(producer, batch)
                wants_commit = fate != "abort" and may_commit is _Verdict.DONE
                outcome, committing = self.finish(producer, batch, wants_commit)
                if is_replaced and outcome is Outcome.UNKNOWN:
                    outcome = Outcome.FAILED  # its successor had ended the transaction before the commit request
        except KafkaException:
            self._producer = None  # before any commit request
        actions: list[Action] = [*batch.sends, *commits]
        self.recorder.record(self.process, outcome, actions, invoked, transaction=True, committing=committing)

    def _choose_fate(self) -> str:
        habits = self.habits
        chances = {name: getattr(habits, name) for name in ("commit", "abort", "leave", "zombie", "vanish")}
        return self.random.choices(list(chances), list(chances.values()))[0]

    def _vanishing_producer(self) -> Producer | None:
        """With another id, which no producer takes over."""
        return self.new_producer(f"{self.name}-vanished-{self._begun}", _VANISHING_TIMEOUT_MS)

    def _replace(self, producer: Producer, batch: SentBatch) -> bool:
        self._producer = self.new_producer()
        self._send(producer, batch)
        return self._producer is not None

    def _send(self, producer: Producer, batch: SentBatch) -> None:
        for _ in range(self.random.randint(*self.habits.records)):
            batch.send(self.random.choice(self.targets))
            producer.poll(0)
            self.dawdle()

    def _commit_offset(self, producer: Producer, commits: list[Commit]) -> _Verdict:
        if self._consumer is None or self.random.random() >= self.habits.offsets:
            return _Verdict.DONE
        commits.append(Commit(self.group, *self.targets[0], self._begun))
        return self.add_offsets(producer, self._consumer, [TopicPartition(*self.targets[0], self._begun)])

    def close(self) -> None:
        super().close()
        if self._consumer is not None:
            self._consumer.close()


class Transformer(TransactionalClient):
    """Polls and sends in one transaction, together with the offsets of the polled records."""

    def __init__(self, name: str, setting: Setting, *, group: str) -> None:
        super().__init__(name, setting)
        self._member: FleetConsumer | None = None
        isolation = Isolation.READ_COMMITTED.value
        self._member_config = {**self.base_config, "group.id": group, "isolation.level": isolation}

    def step(self) -> None:
        producer = self.use_producer()
        if producer is None:
            return
        if self._member is None:
            self.process = self.recorder.take_process()
            self._member = FleetConsumer(self._member_config, self.setting.topics)
        invoked = self.recorder.take_position()
        polled = self._member.poll(self.random.choice((1, 5, 20)))
        offsets = next_offsets(polled)
        if not offsets:
            if polled:
                self.recorder.record(self.process, Outcome.OK, polled, invoked)
            return
        batch = SentBatch(self, producer)
        outcome, committing = Outcome.FAILED, None
        try:
            producer.begin_transaction()
            for _ in range(self.random.randint(1, 4)):
                batch.send(self.random.choice(self.targets))
                self.dawdle()
            added = self.add_offsets(producer, self._member.consumer, offsets)
            if added is _Verdict.LOST:
                self._producer = None
            else:
                wants_commit = added is _Verdict.DONE and self.random.random() < 0.8
                outcome, committing = self.finish(producer, batch, wants_commit)
        except KafkaException:
            self._producer = None  # before any commit request
        actions = [*polled, *batch.sends]
        self.recorder.record(self.process, outcome, actions, invoked, transaction=True, committing=committing)
        if outcome is not Outcome.OK:
            self._rewind(self._member)

    def _rewind(self, member: FleetConsumer) -> None:
        """Go back to what is committed, as after a crash."""
        invoked = self.recorder.take_position()
        consumer = member.consumer
        try:
            places = consumer.committed(consumer.assignment(), _CALL_TIMEOUT_S)
            for place in places:
                place.offset = max(place.offset, 0)
                consumer.seek(place)
        except KafkaException:
            self._leave_group()
            return
        moved = Assign(frozenset((place.topic, place.partition) for place in places))
        self.recorder.record(self.process, Outcome.OK, [moved], invoked)

    def _leave_group(self) -> None:
        if self._member is not None:
            self._member.consumer.close()
            self._member = None

    def close(self) -> None:
        self._leave_group()
        super().close()
