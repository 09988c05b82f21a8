"""Promises that no history has: the latest value of a key, offsets committed one after the other, topics.

Pure, and the same for all rounds. `penstock.testing.history_check` judges records and what transactions commit.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Mapping

from penstock.testing.history import Anomaly, Commit, Operation, Outcome, Where
from penstock.testing.history_commits import check_commits

_COMMITTER = 1


def check_keys(
    acknowledged: Mapping[bytes, int], attempted: Mapping[bytes, int], records: Iterable[tuple[bytes, int]]
) -> list[str]:
    """`records`: key and number in the order of their offsets; numbers are in the order in which they were sent. The
    last of each key counts, and none may go back.
    """
    latest: dict[bytes, int] = {}
    problems = []
    for key, number in records:
        if number <= latest.get(key, -1):
            problems.append(f"compacted: {key!r} goes from {latest.get(key)} to {number}")
        latest[key] = number
    for key, least in acknowledged.items():
        if not least <= latest.get(key, -1) <= attempted[key]:
            problems.append(f"compacted: {key!r} is {latest.get(key)}, and {least} was acknowledged")
    return problems


def check_last_commit(group: str, where: Where, acknowledged: int, attempted: int, offset: int) -> list[Anomaly]:
    """Of a client that commits 1, 2, 3 and so on: nothing acknowledged is forgotten, nothing comes from nowhere.
    `offset` is what the group finds.
    """
    history = [
        Operation(
            _COMMITTER,
            Outcome.OK if number == acknowledged else Outcome.UNKNOWN,
            (Commit(group, *where, number),),
            invoked=number,
            completed=number,
        )
        for number in range(max(acknowledged, 1), attempted + 1)
    ]
    return check_commits(history, {(group, where): offset}, _known_outcome, ordered=(_COMMITTER,))


def _known_outcome(operation: Operation) -> bool | None:
    return None if operation.outcome is Outcome.UNKNOWN else operation.outcome is Outcome.OK


def check_topics(made: Iterable[str], deleted: Iterable[str], known: Collection[Hashable]) -> list[str]:
    """Topics whose creation was acknowledged are there, and those whose deletion was are not."""
    gone = [f"topic {name} was made and is gone" for name in made if name not in known]
    return gone + [f"topic {name} was deleted and is back" for name in deleted if name in known]
