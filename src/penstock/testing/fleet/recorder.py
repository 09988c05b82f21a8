"""Records the history of the clients of all rounds: their requests and the answers, in one order."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Hashable, Iterable
from typing import Any

from confluent_kafka import Message

from penstock.testing.history import Action, Operation, Outcome, Poll, Where


class Recorder:
    """The history under way: shared by all threads; a position is the place of a request in the common order."""

    def __init__(self) -> None:
        self.operations: list[Operation] = []
        self.problems: list[str] = []
        # Taking the next number is one step for the interpreter, and so is appending to a list: no lock is needed.
        self.take_position = itertools.count(1).__next__
        self.take_process = itertools.count(1).__next__
        self.take_value = itertools.count(1).__next__

    def record(self, process: int, outcome: Outcome, actions: Iterable[Action], invoked: int, **details: Any) -> None:
        completed = self.take_position()
        self.operations.append(
            Operation(process, outcome, tuple(actions), invoked=invoked, completed=completed, **details)
        )


def group_polls(messages: Iterable[Message], read_value: Callable[[Message], Hashable]) -> list[Poll]:
    """One poll for each partition, in its order."""
    records: dict[Where, list[tuple[int, Hashable]]] = {}
    for message in messages:
        topic_partition = (str(message.topic()), message.partition() or 0)
        records.setdefault(topic_partition, []).append((message.offset() or 0, read_value(message)))
    return [Poll(*topic_partition, tuple(rows)) for topic_partition, rows in records.items()]
