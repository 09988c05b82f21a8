"""Batches of one partition, and what a producer's rules say about them.

Rules are plain decisions: they are told of new batches, of rooms in connections and of answers, and say what is to be
sent under which number, and what became of each batch.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from penstock.protocol.errors import ErrorCode
from penstock.protocol.records import Record
from penstock.testing.history import Outcome
from proof.simulation.notebook import Attempt, Partition

# Producers with sequences have no more requests in flight: brokers remember so many batches.
MOST_IN_FLIGHT = 5
# Before a batch is sent again: `retry.backoff.ms` of both clients.
BACKOFF_MS = 100.0
# No answer came: the connection is gone, or the client's patience.
NO_ANSWER = -1


@dataclass(slots=True, eq=False)
class Batch:
    """Its records are always sent together. `first` numbers the records of a partition from 0 on."""

    partition: Partition
    first: int
    records: Sequence[Record]
    attempt: Attempt
    made_ms: float
    not_before_ms: float = 0.0  # it waits for so long before it is sent again
    tries: int = 0

    @property
    def count(self) -> int:
        return len(self.records)

    @property
    def end(self) -> int:
        return self.first + self.count


class Sending(NamedTuple):
    """A batch on its way, with the number that it has this time."""

    batch: Batch
    epoch: int
    sequence: int

    def __str__(self) -> str:
        topic, index = self.batch.partition
        return f"{topic}-{index} epoch {self.epoch} sequence {self.sequence}"


class Answer(NamedTuple):
    code: int
    offset: int = -1

    @property
    def name(self) -> str:
        return "no answer" if self.code == NO_ANSWER else ErrorCode(self.code).name


class Listener(NamedTuple):
    """Who hears of what the rules decide."""

    done: Callable[[Batch, Outcome, int], None]  # with the offset, or -1
    note: Callable[[str], None]
    fail: Callable[[str], None]  # what no broker may do to a client; the producer ends with it


class Rules(Protocol):
    def add(self, batch: Batch) -> None: ...

    def take(self, node: int, led: Collection[Partition], room: int, now_ms: float) -> list[list[Sending]]:
        """What is sent to a broker that leads these partitions, on a connection with room for so many requests."""

    def settle(self, sending: Sending, answer: Answer, now_ms: float) -> None: ...

    @property
    def is_idle(self) -> bool: ...
