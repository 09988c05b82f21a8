"""Promises that no recorded history has: offsets committed one after the other, and topics.

Pure, and the same for all rounds. `penstock.testing.history_check` judges records, keys and what transactions commit.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable

from penstock.testing.history import Anomaly, Commit, Operation, Outcome, Where
from penstock.testing.history_commits import check_commits

_COMMITTER = 1


def check_last_commit(
    group: str, topic_partition: Where, acknowledged: int, attempted: int, offset: int
) -> list[Anomaly]:
    """Judges a client that commits 1, 2, 3 and so on: no acknowledged offset is forgotten, none comes from nowhere.
    `offset` is what the group finds.
    """
    history = [
        Operation(
            _COMMITTER,
            Outcome.OK if number == acknowledged else Outcome.UNKNOWN,
            (Commit(group, *topic_partition, number),),
            invoked=number,
            completed=number,
        )
        for number in range(max(acknowledged, 1), attempted + 1)
    ]
    return check_commits(history, {(group, topic_partition): offset}, _known_outcome, ordered=(_COMMITTER,))


def _known_outcome(operation: Operation) -> bool | None:
    return None if operation.outcome is Outcome.UNKNOWN else operation.outcome is Outcome.OK


def check_topics(made: Iterable[str], deleted: Iterable[str], known: Collection[Hashable]) -> list[str]:
    """Topics whose creation was acknowledged are there, and those whose deletion was are not."""
    gone = [f"topic {name} was made and is gone" for name in made if name not in known]
    return gone + [f"topic {name} was deleted and is back" for name in deleted if name in known]
