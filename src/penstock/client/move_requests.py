"""The requests that move replicas, between brokers (KIP-455) and between the directories of one (KIP-113), and the list
of the moves that are under way."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from penstock.protocol.errors import ErrorCode, error_of
from penstock.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from penstock.protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from penstock.protocol.messages.list_partition_reassignments import ListPartitionReassignmentsResponse

# What Kafka's definition has as its default.
_TIMEOUT_MS = 60_000

# Topic and index.
Partition = tuple[str, int]


class Moving(NamedTuple):
    """A partition whose replicas change: all of them, those that come, and those that will leave."""

    replicas: tuple[int, ...]
    adding: tuple[int, ...]
    removing: tuple[int, ...]


def read_moves(answer: ListPartitionReassignmentsResponse) -> dict[Partition, Moving]:
    """Raises ApiError."""
    if answer.error_code != ErrorCode.NONE:
        raise error_of(answer.error_code, answer.error_message)
    return {
        (topic.name, row.partition_index): Moving(
            tuple(row.replicas), tuple(row.adding_replicas), tuple(row.removing_replicas)
        )
        for topic in answer.topics
        for row in topic.partitions
    }


def build_reassignment(
    moves: Iterable[tuple[Partition, Sequence[int] | None]], timeout_ms: int = _TIMEOUT_MS
) -> AlterPartitionReassignmentsRequest:
    """The replicas to be of each partition, the preferred leader first; None cancels what is under way."""
    topics: dict[str, list[ReassignablePartition]] = {}
    for (topic, index), replicas in moves:
        row = ReassignablePartition(partition_index=index, replicas=None if replicas is None else list(replicas))
        topics.setdefault(topic, []).append(row)
    return AlterPartitionReassignmentsRequest(
        timeout_ms=timeout_ms,
        topics=[ReassignableTopic(name=name, partitions=rows) for name, rows in topics.items()],
    )


def build_directory_moves(targets: Iterable[tuple[Partition, str]]) -> AlterReplicaLogDirsRequest:
    """The directory to be of each partition, at the broker that is asked."""
    paths: dict[str, dict[str, list[int]]] = {}
    for (topic, index), path in targets:
        paths.setdefault(path, {}).setdefault(topic, []).append(index)
    return AlterReplicaLogDirsRequest(
        dirs=[
            AlterReplicaLogDir(
                path=path,
                topics=[AlterReplicaLogDirTopic(name=name, partitions=rows) for name, rows in topics.items()],
            )
            for path, topics in paths.items()
        ]
    )
