"""Makes a batch's second writing recognisable: names, the marker, and what follows from it. Pure.

Each task writes its rows in one Kafka transaction, and in the same transaction commits a group offset: the number of
the batch after this one, with the number of tasks in its metadata. Rows and marker become visible together or not at
all, so a task that holds the transactional id and finds the marker knows that the rows are there.

Every task has a group of its own, because brokers take offsets only for partitions that exist, and a batch may well
have more tasks than the topic has partitions.

A marker may also be a claim: all batches before `next_batch` are there, and only the tasks of one cut write
`next_batch`. `claims` makes them.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from penstock.pipelines.topic_writing.errors import RefusedError

GROUP_PREFIX = "__eos-"
# The offset is committed for this partition of a topic that the task writes to: every topic has it.
MARKER_PARTITION = 0
# How long the driver waits for a transaction that another one left open to end by itself, before it sees to that.
OPEN_TRANSACTION_S = 10.0
# In place of a task's number: the group of this name has the claim of the driver that started tasks last.
DRIVER: Literal["driver"] = "driver"
# Ignores further text, see `RawProducer.send_offset_to_transaction`; older markers have no end.
_METADATA = re.compile(r"(tasks|cut)=(\d+)")


def transactional_id_of(query_id: str, sink_name: str, task: int | Literal["driver"]) -> str:
    return f"{query_id}-{sink_name}-{task}"


def group_of(transactional_id: str) -> str:
    return GROUP_PREFIX + transactional_id


@dataclass(frozen=True, slots=True)
class TaskOfBatch:
    """One task of one batch of one sink. What it is to write is the same whenever it comes again."""

    query_id: str
    sink_name: str
    batch_id: int
    task: int
    tasks: int | None = None  # None where it was not known

    @property
    def transactional_id(self) -> str:
        return transactional_id_of(self.query_id, self.sink_name, self.task)

    @property
    def group(self) -> str:
        return group_of(self.transactional_id)

    @property
    def marker(self) -> Marker:
        """The marker that is committed with the task's rows."""
        return Marker(self.batch_id + 1, self.tasks)

    def __str__(self) -> str:
        return f"task {self.task} of batch {self.batch_id} of sink {self.sink_name} (query {self.query_id})"


@dataclass(frozen=True, slots=True)
class Marker:
    """The text in a task's group. Versions without claims take a claim for a marker without a number of tasks."""

    next_batch: int
    tasks: int | None = None  # into which the batch before `next_batch` was cut
    cut: int | None = None  # a claim: into which `next_batch` is cut; 1 also where the driver writes

    def to_metadata(self) -> str:
        if self.cut is not None:
            return f"cut={self.cut}"
        return "" if self.tasks is None else f"tasks={self.tasks}"

    @classmethod
    def from_offset(cls, offset: int, metadata: str | None) -> Marker:
        match = _METADATA.match(metadata or "")
        return cls(offset, **{match[1]: int(match[2])}) if match else cls(offset)

    def is_claim_on(self, batch_id: int) -> bool:
        return self.cut is not None and self.next_batch == batch_id


class MarkerDecision(enum.Enum):
    WRITE = "write"
    SKIP = "skip"  # the rows are there already


def decide(marker: Marker | None, work: TaskOfBatch) -> MarkerDecision:
    """RefusedError where neither would leave every row exactly once."""
    if marker is None or marker.next_batch <= work.batch_id:
        if marker is not None and marker.is_claim_on(work.batch_id) and marker.cut != work.tasks:
            raise RefusedError(
                f"{work}: the batch came again and is cut into {marker.cut} tasks now; those of the cut before, into"
                f" {work.tasks}, may no longer write it"
            )
        return MarkerDecision.WRITE
    if marker.next_batch > work.batch_id + 1:
        raise _older_checkpoint(str(work), marker)
    check_task_count([marker], work.sink_name, work.batch_id, work.tasks)
    return MarkerDecision.SKIP


def check_checkpoint(markers: Iterable[Marker], sink_name: str, batch_id: int) -> None:
    """A task sees its own marker alone, and had perhaps no rows in the newer batches."""
    last = max(markers, key=lambda marker: marker.next_batch, default=None)
    if last is not None and last.next_batch > batch_id + 1:
        raise _older_checkpoint(f"batch {batch_id} of sink {sink_name}", last)


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
    """Cut into another number of tasks, a batch has other rows in each, and no marker shows which are written."""
    counts = task_counts(markers, batch_id) - {tasks}
    if counts and tasks is not None:
        before = min(counts)
        raise RefusedError(
            f"batch {batch_id} of sink {sink_name} has been written in part by {before} tasks and comes again with"
            f" {tasks}; only {before} tasks can finish it. Set parallelism (minPartitions, maxRecordsPerPartition,"
            f" minRecordsPerTask, spark.sql.shuffle.partitions) back to what gave {before} tasks; once the batch is"
            " done it may change."
        )


@dataclass(frozen=True, slots=True)
class Begun:
    """The traces that the attempts of other drivers, or of this one before it failed, have left of a batch."""

    batch_id: int
    claim: Marker | None  # the driver's
    by_task: Mapping[int, Marker | None]  # None where a task has committed nothing

    @property
    def markers(self) -> list[Marker]:
        return [marker for marker in self.by_task.values() if marker is not None]

    @property
    def needs_tasks(self) -> bool:
        """Whether tasks were at work on the batch, perhaps are still. Versions without claims did not say so: where
        several tasks have been at work on any batch, they are taken to be at work on this one."""
        if task_counts(self.markers, self.batch_id):
            return True
        return self._begun_by > 1 if self.claim is not None else any(task > 0 for task in self.by_task)

    def tasks_to_shut_out(self, tasks: int) -> list[int]:
        """The tasks of earlier attempts that may be at work still, or begin late, and are not of the present cut; and
        those of the present cut that an earlier attempt has shut out."""
        others = range(self._begun_by) if self._begun_by != tasks else ()
        claimed = (
            task
            for task, marker in self.by_task.items()
            if marker is not None and marker.is_claim_on(self.batch_id) and marker.cut != tasks
        )
        return sorted({*others, *claimed})

    @property
    def _begun_by(self) -> int:
        """Without a claim on the batch it is 1: a driver that writes a batch itself makes no claim."""
        claim = self.claim
        return claim.cut if claim is not None and claim.cut and claim.next_batch == self.batch_id else 1


def groups_of_sink(groups: Iterable[str], query_id: str, sink_name: str) -> dict[int, str]:
    """By task."""
    prefix = f"{GROUP_PREFIX}{query_id}-{sink_name}-"
    numbers = ((group.removeprefix(prefix), group) for group in groups if group.startswith(prefix))
    return {int(number): group for number, group in numbers if number.isdecimal()}


def all_groups_of_sink(groups: Collection[str], query_id: str, sink_name: str) -> list[str]:
    driver = group_of(transactional_id_of(query_id, sink_name, DRIVER))
    return [*groups_of_sink(groups, query_id, sink_name).values(), *(driver,) * (driver in groups)]


def newest(committed: Mapping[str, Marker]) -> Marker | None:
    """The newest of the markers by topic: a task that writes to several topics puts it beside the first one it
    meets.
    """
    return max(committed.values(), key=lambda marker: marker.next_batch, default=None)
