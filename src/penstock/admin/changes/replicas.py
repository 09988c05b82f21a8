"""Who leads a partition, which brokers have replicas of it, and in which of their directories."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from penstock.admin.changes.outcomes import TIMEOUT_MS, ask_each_node
from penstock.admin.queries.moves import (
    directory_moves,
    read_refused_directories,
    read_refused_moves,
    reassignments,
)
from penstock.admin.queries.refusals import PartitionRefusals, check, refusals
from penstock.admin.queries.slices import by_topic, cut
from penstock.admin.state.partitions import ReplicaKey
from penstock.client.brokers import Brokers
from penstock.core.types import TopicPartition
from penstock.protocol.errors import ApiError
from penstock.protocol.messages.alter_partition_reassignments import AlterPartitionReassignmentsResponse
from penstock.protocol.messages.alter_replica_log_dirs import AlterReplicaLogDirsRequest, AlterReplicaLogDirsResponse
from penstock.protocol.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse, TopicPartitions
from penstock.protocol.messages.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse

# Partitions in one request for their leaders.
ELECTED_AT_ONCE = 2_000
_PREFERRED, _UNCLEAN = 0, 1


async def elect_leaders(
    brokers: Brokers, places: Iterable[TopicPartition], *, unclean: bool = False
) -> PartitionRefusals:
    """`unclean` elects replicas that are not in sync where no other is there: that loses records."""
    kind = _UNCLEAN if unclean else _PREFERRED
    refused: PartitionRefusals = {}
    for some in cut(sorted(places), ELECTED_AT_ONCE):
        rows = [TopicPartitions(topic=topic, partitions=indexes) for topic, indexes in by_topic(some).items()]
        request = ElectLeadersRequest(election_type=kind, topic_partitions=rows, timeout_ms=TIMEOUT_MS)
        answer: ElectLeadersResponse = await brokers.ask_controller(request)
        check(answer.error_code)
        refused |= refusals(
            (TopicPartition(topic.topic, row.partition_id), row)
            for topic in answer.replica_election_results
            for row in topic.partition_result
        )
    return refused


async def move_replicas(brokers: Brokers, targets: Mapping[TopicPartition, Sequence[int] | None]) -> PartitionRefusals:
    """The replicas to be of each partition, the preferred leader first; None cancels what is under way. The moves go on
    when this returns.
    """
    refused: PartitionRefusals = {}
    for request in reassignments(targets, TIMEOUT_MS):
        answer: AlterPartitionReassignmentsResponse = await brokers.ask_controller(request, retry=True)
        check(answer.error_code, answer.error_message)
        refused |= read_refused_moves(answer)
    return refused


async def move_directories(brokers: Brokers, targets: Mapping[ReplicaKey, str]) -> dict[ReplicaKey, ApiError]:
    """The directory to be of each replica. The moves go on when this returns. A broker that has no such replica yet
    refuses, and remembers the directory for the day when the replica comes.
    """
    refused: dict[ReplicaKey, ApiError] = {}
    for node_id, request, answer in await ask_each_node(brokers, directory_moves(targets)):
        refused |= _refused_directories(node_id, request, answer)
    return refused


def _refused_directories(
    node_id: int, request: AlterReplicaLogDirsRequest, answer: AlterReplicaLogDirsResponse | ApiError
) -> dict[ReplicaKey, ApiError]:
    if isinstance(answer, ApiError):
        return {
            ReplicaKey(topic.name, index, node_id): answer
            for directory in request.dirs
            for topic in directory.topics
            for index in topic.partitions
        }
    return read_refused_directories(node_id, answer)


async def unregister_broker(brokers: Brokers, node_id: int) -> None:
    """Takes a broker off the list of the cluster. Raises ApiError, also where the broker is still there."""
    request = UnregisterBrokerRequest(broker_id=node_id)
    answer: UnregisterBrokerResponse = await brokers.ask_controller(request, retry=True)
    check(answer.error_code, answer.error_message)
