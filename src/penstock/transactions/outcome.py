"""The outcome of a transaction operation besides records and replies (`coordinators.outcome`): markers to write, timers
to set, and operations to repeat.

A requested marker is written sooner or later, once the decision is durable: the runtime retries until every partition
has it, or is deleted, and reports with `TransactionCoordinator.on_markers_written`, for all partitions at once or some
at a time. When the coordinator moves elsewhere (`unload`) the runtime forgets the markers of that partition; the next
coordinator asks again.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from typing import NamedTuple

from penstock.coordinators.outcome import Outcome, TimerChange
from penstock.core.types import TopicPartition


class Markers(NamedTuple):
    """The end of one transaction, to be written to every partition of the transaction (WriteTxnMarkers)."""

    state_partition: int  # of `__transaction_state`
    transactional_id: str
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    is_commit: bool
    partitions: tuple[TopicPartition, ...]  # sorted; in a report: any part of the requested ones
    transaction_version: int  # of the client: with 2 the marker's epoch must be above that of the records (KIP-890)


class TimerKind(enum.Enum):
    TRANSACTION_TIMEOUT = "transaction timeout"  # a transaction must have ended
    COMPLETION_RETRY = "completion retry"  # all markers are written, but recording that failed


class TimerKey(NamedTuple):
    kind: TimerKind
    partition: int  # of `__transaction_state`
    transactional_id: str


class AppendPurpose(enum.Enum):
    """The purpose of a record, where a failed append has to be tried again."""

    COMPLETE = "complete"
    ABORT_TIMED_OUT = "abort timed out"


class PendingAppend(NamedTuple):
    purpose: AppendPurpose
    transactional_id: str


@dataclass(slots=True)
class TransactionOutcome(Outcome[TimerKey]):
    markers: list[Markers] = field(default_factory=list)
    pending: PendingAppend | None = None

    @property
    def has_consequences(self) -> bool:
        return bool(self.replies or self.markers)

    def set_timer(self, kind: TimerKind, transactional_id: str, delay_ms: int) -> None:
        self.timers.append(TimerChange(TimerKey(kind, self.partition, transactional_id), delay_ms))

    def cancel_timer(self, kind: TimerKind, transactional_id: str) -> None:
        self.timers.append(TimerChange(TimerKey(kind, self.partition, transactional_id), None))
