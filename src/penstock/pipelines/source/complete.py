"""Offsets of all partitions or none: an answer that leaves a partition out is no answer to a batch read.

A broker that has just started, or that a partition just moved to, does not know the partition for a moment, and
`SourceCluster` leaves it out as if it did not exist. A reader that reads a topic once must not miss it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import TypeVar

from penstock.client.retries import Outlook, Retrying
from penstock.core.types import TopicPartition
from penstock.pipelines.source.cluster import ClusterError
from penstock.pipelines.source.offsets import name_partitions

_Answers = TypeVar("_Answers", bound=Mapping[TopicPartition, object])


class UnansweredError(ClusterError):
    """No broker gives offsets of partitions that the topic's description has."""


def ask_for_all(partitions: Collection[TopicPartition], ask: Callable[[], _Answers], retrying: Retrying) -> _Answers:
    """Tries again while an answer lacks one of `partitions`. Raises UnansweredError, and what `ask` raises."""

    def answer() -> _Answers:
        found = ask()
        missing = set(partitions) - found.keys()
        if missing:
            raise UnansweredError(
                f"no broker tells the offsets of {name_partitions(missing)}, which the topic's description has; a"
                " partition that just moved, or whose broker starts, is known in a while"
            )
        return found

    return retrying.run(answer, UnansweredError, lambda _: Outlook.PASSING)
