"""The requests of a log's clients and the answers: the history that `history_check` judges.

An operation is one step of one process (one client, doing one thing at a time): it sent, polled, moved to other
partitions, committed offsets, or did several of these in one transaction. Its outcome is the client's knowledge of
its sends and commits:

- OK: a transaction was committed; a plain send or commit was acknowledged
- FAILED: certainly without effect; a transaction was aborted
- UNKNOWN: it may or may not have happened; a plain send with an offset was acknowledged nevertheless

Polled records count as polled, whatever the outcome of the operation.
"""

from __future__ import annotations

import json
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any

Where = tuple[str, int]  # topic and partition
GroupPartition = tuple[str, Where]
Final = Mapping[Where, Sequence[tuple[int, Hashable]]]  # offsets and values


class Outcome(Enum):
    OK = "ok"
    FAILED = "failed"
    UNKNOWN = "unknown"


class Isolation(Enum):
    READ_UNCOMMITTED = "read_uncommitted"
    READ_COMMITTED = "read_committed"


@dataclass(frozen=True, slots=True)
class Send:
    """One record sent. The value is unique in its partition; a send that was not acknowledged has no offset.

    A record of a compacted topic has a key. A tombstone has no value of its own in Kafka: here its value is a name that
    its readers can tell, for example from a header.
    """

    topic: str
    partition: int
    value: Hashable
    offset: int | None = None
    key: Hashable = None
    is_tombstone: bool = False


@dataclass(frozen=True, slots=True)
class Poll:
    """The records of one partition that one poll returned, as (offset, value)."""

    topic: str
    partition: int
    records: tuple[tuple[int, Hashable], ...]


@dataclass(frozen=True, slots=True)
class Assign:
    """The process now reads these partitions, from anywhere: an assignment, a rebalance or a seek."""

    partitions: frozenset[Where]


@dataclass(frozen=True, slots=True)
class Commit:
    """An offset of a partition, committed for a group."""

    group: str
    topic: str
    partition: int
    offset: int

    @property
    def place(self) -> GroupPartition:
        return self.group, (self.topic, self.partition)


Action = Send | Poll | Assign | Commit


@dataclass(frozen=True, slots=True)
class Operation:
    """`invoked` and `completed` are positions in one global order of events; `committing` is the position of a
    transaction's commit request, if known: before it, no reader of committed records may see the transaction's sends.
    """

    process: int
    outcome: Outcome
    actions: tuple[Action, ...]
    transaction: bool = False
    isolation: Isolation = Isolation.READ_COMMITTED
    invoked: int = 0
    completed: int = 0
    committing: int | None = None


@dataclass(frozen=True, slots=True)
class Anomaly:
    """A broken promise: its kind, a description, the operations that show it, and the value, if it is about one."""

    kind: str
    text: str
    operations: tuple[Operation, ...] = ()
    value: Hashable = None

    def __str__(self) -> str:
        return f"{self.kind}: {self.text}"


@dataclass(frozen=True, slots=True)
class HistoryReport:
    operations: int
    sent: int
    polled: int
    anomalies: tuple[Anomaly, ...] = ()
    repeated: int = 0  # second copies of what producers without idempotence sent, which promise no better

    @property
    def is_sound(self) -> bool:
        return not self.anomalies

    def count_kinds(self) -> dict[str, int]:
        counts: dict[str, int] = {}
        for anomaly in self.anomalies:
            counts[anomaly.kind] = counts.get(anomaly.kind, 0) + 1
        return counts

    def __str__(self) -> str:
        seen = f"{self.operations} operations, {self.sent} records sent, {self.polled} polled"
        if self.is_sound:
            return f"{seen}: no anomaly"
        counts = ", ".join(f"{count} {kind}" for kind, count in self.count_kinds().items())
        return f"{seen}: {counts}; first: {self.anomalies[0]}"


# ---------------------------------------------------------------------------------------------------- files


def write_history(path: Path, history: Iterable[Operation], final: Final | None = None) -> None:
    """One JSON object a line; values have to be something that JSON gives back as it was: numbers or strings."""
    with path.open("w") as lines:
        for operation in history:
            lines.write(json.dumps(_encode_operation(operation), separators=(",", ":")) + "\n")
        for topic_partition, records in (final or {}).items():
            lines.write(json.dumps({"final": [*topic_partition, list(records)]}, separators=(",", ":")) + "\n")


def read_history(path: Path) -> tuple[list[Operation], dict[Where, list[tuple[int, Hashable]]]]:
    """The operations and the final reads; ValueError names the line that is not part of a history."""
    history: list[Operation] = []
    final: dict[Where, list[tuple[int, Hashable]]] = {}
    with path.open() as lines:
        for number, line in enumerate(lines, 1):
            try:
                row = json.loads(line)
                if "final" in row:
                    topic, partition, records = row["final"]
                    final[topic, partition] = [(offset, value) for offset, value in records]
                else:
                    history.append(_decode_operation(row))
            except (KeyError, TypeError, ValueError) as error:
                raise ValueError(f"{path}, line {number}: not an operation of a history: {error!r}") from error
    return history, final


def _encode_operation(operation: Operation) -> dict[str, Any]:
    return {
        "process": operation.process,
        "outcome": operation.outcome.value,
        "transaction": operation.transaction,
        "isolation": operation.isolation.value,
        "invoked": operation.invoked,
        "committing": operation.committing,
        "completed": operation.completed,
        "actions": [_encode_action(action) for action in operation.actions],
    }


def _encode_action(action: Action) -> list[Any]:
    match action:
        case Send(topic, partition, value, offset, None):
            return ["send", topic, partition, value, offset]
        case Send(topic, partition, value, offset, key, is_tombstone):
            return ["send", topic, partition, value, offset, key, is_tombstone]
        case Poll(topic, partition, records):
            return ["poll", topic, partition, records]
        case Assign(partitions):
            return ["assign", sorted(partitions)]
        case Commit(group, topic, partition, offset):
            return ["commit", group, topic, partition, offset]


def _decode_operation(row: dict[str, Any]) -> Operation:
    return Operation(
        process=row["process"],
        outcome=Outcome(row["outcome"]),
        actions=tuple(_decode_action(*action) for action in row["actions"]),
        transaction=row["transaction"],
        isolation=Isolation(row["isolation"]),
        invoked=row["invoked"],
        completed=row["completed"],
        committing=row["committing"],
    )


def _decode_action(kind: str, *fields: Any) -> Action:
    match kind, fields:
        case "send", (topic, partition, value, offset):
            return Send(topic, partition, value, offset)
        case "send", (topic, partition, value, offset, key, is_tombstone):
            return Send(topic, partition, value, offset, key, is_tombstone)
        case "poll", (topic, partition, records):
            return Poll(topic, partition, tuple((offset, value) for offset, value in records))
        case "assign", (partitions,):
            return Assign(frozenset((topic, partition) for topic, partition in partitions))
        case "commit", (group, topic, partition, offset):
            return Commit(group, topic, partition, offset)
        case _:
            raise ValueError(f"no action: {kind} {fields}")
