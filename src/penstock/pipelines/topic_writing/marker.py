"""What makes a batch's second writing recognisable: names, the marker, and what follows from it. Pure.

Each task writes its rows in one Kafka transaction, and in the same transaction commits a group offset: the number of
the batch after this one, with the number of tasks in its metadata. Rows and marker become visible together or not at
all, so a task that holds the transactional id and finds the marker knows that the rows are there.

Every task has a group of its own, because brokers take offsets only for partitions that exist, and a batch may well
have more tasks than the topic has partitions.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from penstock.pipelines.topic_writing.errors import RefusedError

GROUP_PREFIX = "__eos-"
# The offset is committed for this partition of a topic that the task writes to: every topic has it.
MARKER_PARTITION = 0
# How long the driver waits for a transaction that another one left open to end by itself, before it sees to that.
OPEN_TRANSACTION_S = 10.0
_METADATA = re.compile(r"tasks=(\d+)")


@dataclass(frozen=True, slots=True)
class TaskOfBatch:
    """One task of one batch of one sink. What it is to write is the same whenever it comes again."""

    query_id: str
    sink_name: str
    batch_id: int
    task: int
    tasks: int | None = None  # None where nobody could say

    @property
    def transactional_id(self) -> str:
        return f"{self.query_id}-{self.sink_name}-{self.task}"

    @property
    def group(self) -> str:
        return GROUP_PREFIX + self.transactional_id

    @property
    def marker(self) -> Marker:
        """The marker that is committed with the task's rows."""
        return Marker(self.batch_id + 1, self.tasks)

    def __str__(self) -> str:
        return f"task {self.task} of batch {self.batch_id} of sink {self.sink_name} (query {self.query_id})"


@dataclass(frozen=True, slots=True)
class Marker:
    next_batch: int
    tasks: int | None = None

    def to_metadata(self) -> str:
        return "" if self.tasks is None else f"tasks={self.tasks}"

    @classmethod
    def from_offset(cls, offset: int, metadata: str | None) -> Marker:
        match = _METADATA.fullmatch(metadata or "")
        return cls(offset, int(match[1]) if match else None)


class Decision(enum.Enum):
    WRITE = "write"
    SKIP = "skip"  # the rows are there already


def decide(marker: Marker | None, work: TaskOfBatch) -> Decision:
    """RefusedError where neither would leave every row exactly once."""
    if marker is None or marker.next_batch <= work.batch_id:
        return Decision.WRITE
    if marker.next_batch > work.batch_id + 1:
        raise _older_checkpoint(str(work), marker)
    check_task_count([marker], work.sink_name, work.batch_id, work.tasks)
    return Decision.SKIP


def check_checkpoint(markers: Iterable[Marker], sink_name: str, batch_id: int) -> None:
    """A task sees its own marker alone, and had perhaps no rows in the newer batches."""
    for marker in markers:
        if marker.next_batch > batch_id + 1:
            raise _older_checkpoint(f"batch {batch_id} of sink {sink_name}", marker)


def _older_checkpoint(what: str, marker: Marker) -> RefusedError:
    return RefusedError(
        f"{what}: the topic has batches up to {marker.next_batch - 1} already, so the checkpoint is older than what"
        " was written. Bring the newer checkpoint back, or start with a new one and see to duplicates."
    )


def task_counts(markers: Iterable[Marker], batch_id: int) -> frozenset[int]:
    """Into how many tasks the batch was cut when parts of it were written; where it was one, all of it is there."""
    counts = (marker.tasks for marker in markers if marker.next_batch == batch_id + 1)
    return frozenset(count for count in counts if count is not None)


def check_task_count(markers: Iterable[Marker], sink_name: str, batch_id: int, tasks: int | None) -> None:
    """Cut into another number of tasks a batch has other rows in each, and nobody can tell which are written."""
    counts = task_counts(markers, batch_id) - {tasks}
    if counts and tasks is not None:
        before = min(counts)
        raise RefusedError(
            f"batch {batch_id} of sink {sink_name} has been written in part by {before} tasks and comes again with"
            f" {tasks}; only {before} tasks can finish it. Set parallelism (minPartitions, maxRecordsPerPartition,"
            f" minRecordsPerTask, spark.sql.shuffle.partitions) back to what gave {before} tasks; once the batch is"
            " done it may change."
        )


def groups_of_sink(groups: Iterable[str], query_id: str, sink_name: str) -> dict[int, str]:
    """By task."""
    prefix = f"{GROUP_PREFIX}{query_id}-{sink_name}-"
    numbers = ((group.removeprefix(prefix), group) for group in groups if group.startswith(prefix))
    return {int(number): group for number, group in numbers if number.isdecimal()}


def newest(committed: Mapping[str, Marker]) -> Marker | None:
    """Of the markers by topic: a task that writes to several topics puts it beside the first one it meets."""
    return max(committed.values(), key=lambda marker: marker.next_batch, default=None)
