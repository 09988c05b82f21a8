"""The outcome of a group operation besides records and replies (`coordinators.outcome`): the timers of groups, and the
changes of memory to undo when records cannot be written.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import NamedTuple

from penstock.coordinators.newcomers import Newcomer
from penstock.coordinators.outcome import Outcome, TimerChange


class TransactionalProducer(NamedTuple):
    """The producer of the transaction that has the records; they count only once its marker commits."""

    producer_id: int
    producer_epoch: int


class TimerKind(enum.Enum):
    SESSION = "session"  # a member must send a request
    JOIN = "join"  # a rebalance must end: members rejoin until then
    SYNC = "sync"  # every member must have asked for its assignment
    REVOCATION = "revocation"  # a member must have given up its partitions


# The operator's message about a member that missed the deadline of a timer.
EXPULSIONS = {
    TimerKind.SESSION: "a member is out of its group: no heartbeat came within the session timeout",
    TimerKind.JOIN: "a member is out of its group: it did not rejoin within the rebalance timeout",
    TimerKind.SYNC: "a member is out of its group: it did not ask for its assignment within the rebalance timeout",
    TimerKind.REVOCATION: "a member is out of its group: it did not give up partitions within the rebalance timeout",
}


class TimerKey(NamedTuple):
    kind: TimerKind
    partition: int  # of `__consumer_offsets`
    group_id: str
    member_id: str = ""


class AppendPurpose(enum.Enum):
    """The purpose of a record, where a failed append has to be undone in memory."""

    CREATE_GROUP = "create group"
    STORE_ASSIGNMENT = "store assignment"
    REPLACE_STATIC_MEMBER = "replace static member"
    CHANGE_CONSUMER_GROUP = "change consumer group"


class PendingAppend(NamedTuple):
    purpose: AppendPurpose
    group_id: str
    generation_id: int = -1
    undo: object = None


@dataclass(slots=True)
class GroupOutcome(Outcome[TimerKey]):
    pending: PendingAppend | None = None
    producer: TransactionalProducer | None = None  # None: outside of any transaction

    def set_timer(
        self, kind: TimerKind, group_id: str, delay_ms: int, member_id: str = "", newcomer: Newcomer | None = None
    ) -> None:
        self.timers.append(TimerChange(TimerKey(kind, self.partition, group_id, member_id), delay_ms, newcomer))

    def cancel_timer(self, kind: TimerKind, group_id: str, member_id: str = "") -> None:
        self.timers.append(TimerChange(TimerKey(kind, self.partition, group_id, member_id), None))
