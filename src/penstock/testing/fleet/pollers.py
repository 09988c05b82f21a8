"""Pollers: readers of partitions of their own choice, and members of groups."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterable, Sequence
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from penstock.testing.fleet.client import Client, Setting
from penstock.testing.fleet.recorder import group_polls
from penstock.testing.fleet.values import read_value
from penstock.testing.history import Action, Assign, Isolation, Outcome, Poll, Where

_MOVE_CHANCE = 0.02
_SIZES = (1, 20, 500)


class AssignedPoller(Client):
    """Reads partitions of its own choice and moves now and then; or follows all of them from the beginning."""

    def __init__(self, name: str, setting: Setting, *, isolation: Isolation, moves: bool = True) -> None:
        super().__init__(name, setting)
        self.isolation = isolation
        self._moves = moves
        self._highest: dict[Where, int] = {}
        self._is_assigned = False
        self._consumer = Consumer(
            {
                **self.base_config,
                "group.id": name,
                "enable.auto.commit": False,
                "isolation.level": isolation.value,
                "auto.offset.reset": "error",
                "check.crcs": True,
                "fetch.wait.max.ms": 50,
            }
        )

    def step(self) -> None:
        invoked = self.recorder.take_position()
        if not self._is_assigned or (self._moves and self.random.random() < _MOVE_CHANCE):
            self._is_assigned = True
            self.record([self._assign()], invoked)
            return
        messages = self._poll()
        if messages:
            self.keep(messages, invoked)

    def keep(self, messages: Sequence[Message], invoked: int) -> None:
        self.record(group_polls(messages, read_value), invoked)

    def record(self, actions: Sequence[Action], invoked: int) -> None:
        self.recorder.record(self.process, Outcome.OK, actions, invoked, isolation=self.isolation)

    def _assign(self) -> Assign:
        chosen: Sequence[Where] = self.targets
        starts = [0] * len(chosen)
        if self._moves:
            chosen = self.random.sample(self.targets, self.random.randint(1, len(self.targets)))
            starts = [self.random.choice((0, self.random.randint(0, self._highest.get(each, 0)))) for each in chosen]
        self._consumer.assign([TopicPartition(*each, start) for each, start in zip(chosen, starts, strict=True)])
        return Assign(frozenset(chosen))

    def _poll(self) -> list[Message]:
        good = []
        for message in self._consumer.consume(self.random.choice(_SIZES), 0.1):
            error = message.error()
            if error is None:
                target = target_of(message)
                self._highest[target] = max(self._highest.get(target, 0), message.offset() or 0)
                good.append(message)
            elif error.code() in (KafkaError._AUTO_OFFSET_RESET, KafkaError._BAD_MSG):
                self.note_problem(f"{message.topic()}-{message.partition()}: {error.str()}")
        return good

    def close(self) -> None:
        self._consumer.close()


def target_of(message: Message) -> Where:
    return str(message.topic()), message.partition() or 0


# ---------------------------------------------------------------------------------------------------- groups


class FleetConsumer:
    """One consumer of a group. A rebalance is noted between the records that came before it and those after it, which
    is known only because they are polled one at a time.
    """

    def __init__(self, config: dict[str, Any], topics: Sequence[str]) -> None:
        self._notes: list[Message | Assign] = []
        own = {"enable.auto.commit": False, "auto.offset.reset": "earliest", "fetch.wait.max.ms": 50}
        self.consumer = Consumer({**own, **config})
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


def next_offsets(actions: Iterable[Action]) -> list[TopicPartition]:
    ends = {(poll.topic, poll.partition): poll.records[-1][0] + 1 for poll in actions if isinstance(poll, Poll)}
    return [TopicPartition(*target, end) for target, end in ends.items()]


class SubscribedPoller(Client):
    """A member of a group, which it leaves and joins again from time to time."""

    def __init__(self, name: str, setting: Setting, *, group: str, protocol: str, isolation: Isolation) -> None:
        super().__init__(name, setting)
        self.isolation = isolation
        self._member: FleetConsumer | None = None
        self._member_config = {
            **self.base_config,
            "group.id": group,
            "group.protocol": protocol,
            "isolation.level": isolation.value,
        }

    def step(self) -> None:
        if self._member is None:
            self.process = self.recorder.take_process()
            self._member = FleetConsumer(self._member_config, self.setting.topics)
        invoked = self.recorder.take_position()
        actions = self._member.poll(self.random.choice((1, 10, 100)))
        if actions:
            self.recorder.record(self.process, Outcome.OK, actions, invoked, isolation=self.isolation)
        offsets = next_offsets(actions)
        if offsets:
            with contextlib.suppress(KafkaException):  # a rebalance came first: the next owner reads them again
                self._member.consumer.commit(offsets=offsets, asynchronous=True)
        if self.random.random() < 0.01:
            self.close()

    def close(self) -> None:
        if self._member is not None:
            self._member.consumer.close()
            self._member = None
