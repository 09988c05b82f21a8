"""Who leads a partition, and on which brokers its replicas are: ElectLeaders and the partition reassignments.

The answers are those of a cluster of one broker: each partition has its one replica here, and the leader is that one.
"""

from __future__ import annotations

from collections.abc import Iterable

from penstock.broker.authorizer import CLUSTER_NAME, Operation, ResourceType
from penstock.broker.broker import Broker
from penstock.broker.forwarding.refusals import refuse_elections
from penstock.broker.session import RequestContext, shorten
from penstock.broker.slices import Work, collect
from penstock.cluster.decisions.elections import ElectionType, decide_election
from penstock.cluster.decisions.reassignments import check_reassignment, is_reassigning
from penstock.cluster.image import MetadataImage
from penstock.protocol.errors import ApiError, ErrorCode, describe
from penstock.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)
from penstock.protocol.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)
from penstock.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)

# ---------------------------------------------------------------------------------------------------- ElectLeaders


def elect_leaders(broker: Broker, context: RequestContext, request: ElectLeadersRequest) -> Work[ElectLeadersResponse]:
    """Elects leaders of the named partitions, or of all of them where the request has null.

    Each named partition gets an answer, ELECTION_NOT_NEEDED as a rule. Of all partitions only those get one that need
    an election; each topic is listed even so, as in Kafka. Version 0 knows the election of the preferred leader alone
    and has no error for the whole response, so an error of the request is told for each partition as well. Version 2
    is flexible.
    """
    if not broker.authorizer.is_allowed(context, Operation.ALTER, ResourceType.CLUSTER, CLUSTER_NAME):
        code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        return refuse_elections(request, code, describe(code))
    try:
        election_type = ElectionType(request.election_type)
    except ValueError:
        message = f"Unknown election type {request.election_type}"
        return refuse_elections(request, ErrorCode.INVALID_REQUEST, message)
    image = broker.metadata.image
    if request.topic_partitions is None:
        wanted = yield from _elections_needed(image, election_type)
    else:
        wanted = [(topic.topic, topic.partitions) for topic in request.topic_partitions]
    results = []
    for topic, indexes in wanted:
        answer = yield from _elect(image, topic, indexes, election_type)
        results.append(answer)
        yield
    return ElectLeadersResponse(replica_election_results=results)


def _elect(
    image: MetadataImage, topic: str, partitions: list[int], election_type: ElectionType
) -> Work[ReplicaElectionResult]:
    is_topic_known = topic in image.topics
    answers = []
    for index in partitions:
        code = decide_election(image, topic, index, election_type)
        if code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            message = describe(code)
        elif is_topic_known:
            message = f"No such partition as {topic}-{index}"
        else:
            message = f"No such topic as {shorten(topic)}"
        answers.append(PartitionResult(partition_id=index, error_code=code, error_message=message))
        yield
    return ReplicaElectionResult(topic=topic, partition_result=answers)


def _elections_needed(image: MetadataImage, election_type: ElectionType) -> Work[list[tuple[str, list[int]]]]:
    """Each topic, with the partitions that need an election."""
    needed: list[tuple[str, list[int]]] = []
    for topic in image.topics.values():
        indexes: list[int] = []
        for index in range(len(topic.partitions)):
            if decide_election(image, topic.name, index, election_type) is not ErrorCode.ELECTION_NOT_NEEDED:
                indexes.append(index)
            yield
        needed.append((topic.name, indexes))
    return needed


# ---------------------------------------------------------------------------------------------------- reassignments


def alter_partition_reassignments(
    broker: Broker, context: RequestContext, request: AlterPartitionReassignmentsRequest
) -> Work[AlterPartitionReassignmentsResponse]:
    """Moves partitions to other brokers, or cancels such a move where a partition's replicas are null.

    The replicas that a partition has already are accepted, and nothing happens. Version 1 adds
    `allow_replication_factor_change` to the request, and the response repeats the flag; version 0 allows the change.
    """
    if not broker.authorizer.is_allowed(context, Operation.ALTER, ResourceType.CLUSTER, CLUSTER_NAME):
        raise ApiError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    image = broker.metadata.image
    may_change = request.allow_replication_factor_change
    responses = []
    for topic in request.topics:
        partitions = yield from collect(
            _reassign(image, topic.name, partition.partition_index, partition.replicas, may_change)
            for partition in topic.partitions
        )
        responses.append(ReassignableTopicResponse(name=topic.name, partitions=partitions))
        yield
    return AlterPartitionReassignmentsResponse(
        allow_replication_factor_change=may_change, error_message=None, responses=responses
    )


def _reassign(
    image: MetadataImage, topic: str, index: int, replicas: list[int] | None, may_change: bool
) -> ReassignablePartitionResponse:
    wanted = None if replicas is None else tuple(replicas)
    try:
        check_reassignment(image, topic, index, wanted, may_change_replication_factor=may_change)
    except ApiError as error:
        return ReassignablePartitionResponse(partition_index=index, error_code=error.code, error_message=error.message)
    return ReassignablePartitionResponse(partition_index=index, error_message=None)


def list_partition_reassignments(
    broker: Broker, context: RequestContext, request: ListPartitionReassignmentsRequest
) -> Work[ListPartitionReassignmentsResponse]:
    """Which reassignments are under way, of the named partitions or of all. Partitions without one are left out, and so
    are partitions that do not exist.

    Version 0 is the only one.
    """
    if not broker.authorizer.is_allowed(context, Operation.DESCRIBE, ResourceType.CLUSTER, CLUSTER_NAME):
        raise ApiError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    image = broker.metadata.image
    if request.topics is None:
        wanted: list[tuple[str, Iterable[int]]] = [
            (topic.name, range(len(topic.partitions))) for topic in image.topics.values()
        ]
    else:
        wanted = [(topic.name, topic.partition_indexes) for topic in request.topics]
    topics = []
    for name, indexes in wanted:
        partitions = yield from _ongoing(image, name, indexes)
        if partitions:
            topics.append(OngoingTopicReassignment(name=name, partitions=partitions))
        yield
    return ListPartitionReassignmentsResponse(error_message=None, topics=topics)


def _ongoing(image: MetadataImage, topic: str, indexes: Iterable[int]) -> Work[list[OngoingPartitionReassignment]]:
    partitions = []
    for index in indexes:
        state = image.partition(topic, index)
        if state is not None and is_reassigning(state):
            ongoing = OngoingPartitionReassignment(
                partition_index=index,
                replicas=list(state.replicas),
                adding_replicas=list(state.adding),
                removing_replicas=list(state.removing),
            )
            partitions.append(ongoing)
        yield
    return partitions
