"""The offsets that a group may find, after everything that was committed for it.

The last commit that is known to be in force replaces those that were over before it began. A group may also find a
commit that ran at the same time, and one of unknown outcome: it may have come late. A process that commits one offset
after the other over one connection is `ordered`: a commit replaces its earlier ones, whatever their outcomes.

- lost-commit: the group finds nothing although something was committed, or finds a replaced offset
- garbage-commit: no process committed the offset that the group finds
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import NamedTuple

from penstock.testing.history import Anomaly, Commit, GroupPartition, Operation

NOTHING = -1


class _Attempt(NamedTuple):
    commit: Commit
    operation: Operation
    is_in_force: bool | None


def check_commits(
    history: Iterable[Operation],
    offsets: Mapping[GroupPartition, int],
    is_in_force: Callable[[Operation], bool | None],
    ordered: Collection[int] = (),
) -> list[Anomaly]:
    """`offsets` has the offset that each group finds for a partition, NOTHING for none. Only these are judged."""
    attempts: dict[GroupPartition, list[_Attempt]] = {}
    for operation in history:
        for action in operation.actions:
            if isinstance(action, Commit) and action.place in offsets:
                attempts.setdefault(action.place, []).append(_Attempt(action, operation, is_in_force(operation)))
    anomalies = (_judge(place, offset, attempts.get(place, []), ordered) for place, offset in offsets.items())
    return [anomaly for anomaly in anomalies if anomaly is not None]


def _judge(place: GroupPartition, offset: int, attempts: list[_Attempt], ordered: Collection[int]) -> Anomaly | None:
    group, (topic, partition) = place
    known = [each for each in attempts if each.is_in_force]
    last = max(known, key=lambda each: each.operation.invoked, default=None)
    possible = [each.commit.offset for each in attempts if _may_be_found(each, last, ordered)]
    if offset in possible or (offset == NOTHING and last is None):
        return None
    was_committed = offset == NOTHING or any(each.commit.offset == offset for each in attempts)
    kind = "lost-commit" if was_committed and last is not None else "garbage-commit"
    text = f"{group} finds offset {offset} of {topic}-{partition}, which may be one of {possible[:5]}"
    return Anomaly(kind, text, (last.operation,) if last is not None else (), offset)


def _may_be_found(attempt: _Attempt, last: _Attempt | None, ordered: Collection[int]) -> bool:
    if attempt.is_in_force is False:
        return False
    if last is None or attempt is last:
        return True
    is_of_the_same = attempt.operation.process == last.operation.process
    if is_of_the_same and attempt.operation.process in ordered:
        return attempt.operation.invoked > last.operation.invoked
    return attempt.is_in_force is None or attempt.operation.completed >= last.operation.invoked
