"""Replicas on their way, to other brokers and to other directories of their broker: listed, asked for, refused.

The controller alone knows the moves between brokers, and each broker those between its directories.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from penstock.admin.queries.refusals import PartitionRefusals, refusals
from penstock.admin.queries.slices import by_topic, cut
from penstock.admin.state.partitions import ReplicaKey
from penstock.client.connection.versions import UnservedApiError
from penstock.client.move_requests import (
    Moving,
    Partition,
    build_directory_moves,
    build_reassignment,
    read_moves,
)
from penstock.core.types import TopicPartition
from penstock.protocol.errors import ApiError
from penstock.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
)
from penstock.protocol.messages.alter_replica_log_dirs import AlterReplicaLogDirsRequest, AlterReplicaLogDirsResponse
from penstock.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    ListPartitionReassignmentsTopics,
)

if TYPE_CHECKING:
    from penstock.admin.look import Look, Node

# One request is one decision of the controller. This many states fit well into a transaction of ZooKeeper, and the
# brokers have something to do while the next ones are being asked for.
MOVES_AT_ONCE = 500
# What Kafka's definition has as its default.
_LISTING_TIMEOUT_MS = 60_000


# ------------------------------------------------------------------------------------ listed


async def list_moves(look: Look, controller: Node) -> dict[Partition, Moving]:
    """Raises ApiError and OSError. A broker that is not the controller passes the question on. It looks for one as long
    as the request says, and then tells that there is none: so half of the time for the answer is for that.
    """
    try:
        answer: ListPartitionReassignmentsResponse = await look.ask(controller, moves_request(look.timeout_s / 2))
    except UnservedApiError:  # Kafka before 2.4 moves by ZooKeeper, and nothing of that is seen from here
        return {}
    return read_moves(answer)


def moves_request(
    timeout_s: float = _LISTING_TIMEOUT_MS / 1000, places: Iterable[Partition] | None = None
) -> ListPartitionReassignmentsRequest:
    """Of these partitions, or of all."""
    topics = None
    if places is not None:
        topics = [
            ListPartitionReassignmentsTopics(name=name, partition_indexes=rows)
            for name, rows in by_topic(TopicPartition(*place) for place in places).items()
        ]
    return ListPartitionReassignmentsRequest(timeout_ms=int(timeout_s * 1000), topics=topics)


# ------------------------------------------------------------------------------------ asked for, refused


def reassignments(
    targets: Mapping[TopicPartition, Sequence[int] | None], timeout_ms: int
) -> Iterator[AlterPartitionReassignmentsRequest]:
    """The replicas to be of each partition, the preferred leader first; None cancels what is under way."""
    for some in cut(sorted(targets), MOVES_AT_ONCE):
        yield build_reassignment(((place, targets[place]) for place in some), timeout_ms)


def read_refused_moves(answer: AlterPartitionReassignmentsResponse) -> PartitionRefusals:
    """Beside what is refused as a whole."""
    return refusals(
        (TopicPartition(topic.name, row.partition_index), row) for topic in answer.responses for row in topic.partitions
    )


def directory_moves(targets: Mapping[ReplicaKey, str]) -> dict[int, list[AlterReplicaLogDirsRequest]]:
    """For each broker, in the order of their numbers, the directory to be of each of its replicas."""
    by_node: dict[int, list[ReplicaKey]] = {}
    for replica in sorted(targets):
        by_node.setdefault(replica.node_id, []).append(replica)
    return {
        node_id: [
            build_directory_moves(((each.topic, each.partition), targets[each]) for each in some)
            for some in cut(by_node[node_id], MOVES_AT_ONCE)
        ]
        for node_id in sorted(by_node)
    }


def read_refused_directories(node_id: int, answer: AlterReplicaLogDirsResponse) -> dict[ReplicaKey, ApiError]:
    return refusals(
        (ReplicaKey(topic.topic_name, row.partition_index, node_id), row)
        for topic in answer.results
        for row in topic.partitions
    )
