"""Leaders and replicas of partitions: ElectLeaders and the partition reassignments.

The controller decides. A broker that is not the controller answers NOT_CONTROLLER.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Protocol, cast

from penstock.broker.authorizer import CLUSTER_NAME, Authorizer, Operation, ResourceType
from penstock.broker.forwarding.refusals import refuse, refuse_elections
from penstock.broker.partitions.partitions import Partitions
from penstock.broker.session import RequestContext, shorten
from penstock.broker.slices import Slices, Work, collect
from penstock.cluster.decisions.elections import ElectionResult, ElectionType
from penstock.cluster.decisions.reassignments import ReassignmentRequest, ReassignmentResult, is_reassigning
from penstock.cluster.image import MetadataImage
from penstock.cluster.metadata import Metadata
from penstock.core.types import TopicPartition
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

_REFUSED = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
_UNSURE = "This broker may not be the controller any more: it is not sure of its session with ZooKeeper."

# ---------------------------------------------------------------------------------------------------- ElectLeaders


class LeaderPort(Protocol):
    """The parts of the broker that the handlers of leaders and reassignments use."""

    authorizer: Authorizer
    metadata: Metadata
    partitions: Partitions
    slices: Slices


async def elect_leaders(
    broker: LeaderPort, context: RequestContext, request: ElectLeadersRequest
) -> ElectLeadersResponse:
    """Elects leaders of the named partitions, or of all partitions where the request has null.

    Each named partition gets a result. A request for all partitions gets results only for the partitions that need an
    election, but lists each topic, as in Kafka. Version 0 knows only the election of the preferred leader and has no
    error for the whole response, so each partition carries an error of the request. Version 2 is flexible.
    """
    if not broker.authorizer.is_allowed(context, Operation.ALTER, ResourceType.CLUSTER, CLUSTER_NAME):
        code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        return refuse_elections(request, code, describe(code))
    try:
        election_type = ElectionType(request.election_type)
    except ValueError:
        message = f"Unknown election type {request.election_type}"
        return refuse_elections(request, ErrorCode.INVALID_REQUEST, message)
    named: list[TopicPartition] | None = None
    if request.topic_partitions is not None:
        named = [TopicPartition(topic.topic, index) for topic in request.topic_partitions for index in topic.partitions]
    try:
        results = await broker.metadata.controller_api.elect_leaders(named, election_type)
    except ApiError as error:
        return refuse_elections(request, error.code, error.message or describe(error.code))
    # The results have the order of the request, so each topic takes as many results as it named partitions.
    wanted = [(topic.topic, len(topic.partitions)) for topic in request.topic_partitions or ()]
    if named is None:
        wanted = list(Counter(result.topic for result in results).items())
    return await broker.slices.run(_elected(broker.metadata.image, wanted, results, is_brief=named is None))


def _elected(
    image: MetadataImage, wanted: list[tuple[str, int]], results: Sequence[ElectionResult], *, is_brief: bool
) -> Work[ElectLeadersResponse]:
    response = ElectLeadersResponse()
    remaining = iter(results)
    for topic, count in wanted:
        answers = []
        for result in islice(remaining, count):
            if not is_brief or result.code is not ErrorCode.ELECTION_NOT_NEEDED:
                message = _election_message(image, result)
                answers.append(
                    PartitionResult(partition_id=result.partition, error_code=result.code, error_message=message)
                )
            yield
        response.replica_election_results.append(ReplicaElectionResult(topic=topic, partition_result=answers))
        yield
    return response


def _election_message(image: MetadataImage, result: ElectionResult) -> str | None:
    if result.code is ErrorCode.NONE:
        return None
    if result.code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        return describe(result.code)
    if result.topic in image.topics:
        return f"No such partition as {result.topic}-{result.partition}"
    return f"No such topic as {shorten(result.topic)}"


# ---------------------------------------------------------------------------------------------------- reassignments


async def alter_partition_reassignments(
    broker: LeaderPort, context: RequestContext, request: AlterPartitionReassignmentsRequest
) -> AlterPartitionReassignmentsResponse:
    """Moves partitions to other brokers, or cancels such a move where a partition's replicas are null.

    A request for a partition's current replicas succeeds and changes nothing. Version 1 adds
    `allow_replication_factor_change` to the request, and the response repeats the flag; version 0 allows the change.
    """
    if not broker.authorizer.is_allowed(context, Operation.ALTER, ResourceType.CLUSTER, CLUSTER_NAME):
        return cast("AlterPartitionReassignmentsResponse", refuse(request, _REFUSED, describe(_REFUSED)))
    may_change = request.allow_replication_factor_change
    wanted = [
        ReassignmentRequest(
            topic.name, partition.partition_index, None if partition.replicas is None else tuple(partition.replicas)
        )
        for topic in request.topics
        for partition in topic.partitions
    ]
    results = await broker.metadata.controller_api.reassign_partitions(wanted, may_change_replication_factor=may_change)
    return await broker.slices.run(_reassigned(request, results))


def _reassigned(
    request: AlterPartitionReassignmentsRequest, results: Sequence[ReassignmentResult]
) -> Work[AlterPartitionReassignmentsResponse]:
    response = AlterPartitionReassignmentsResponse(
        allow_replication_factor_change=request.allow_replication_factor_change, error_message=None
    )
    remaining = iter(results)
    for topic in request.topics:
        partitions = yield from collect(
            ReassignablePartitionResponse(
                partition_index=result.partition, error_code=result.code, error_message=result.message
            )
            for result in islice(remaining, len(topic.partitions))
        )
        response.responses.append(ReassignableTopicResponse(name=topic.name, partitions=partitions))
        yield
    return response


def list_partition_reassignments(
    broker: LeaderPort, context: RequestContext, request: ListPartitionReassignmentsRequest
) -> Work[ListPartitionReassignmentsResponse]:
    """Lists the reassignments in progress, of the named partitions or of all. The response leaves out partitions
    without a reassignment and partitions that do not exist. A broker that may have lost the controller's role does not
    answer.

    Version 0 is the only version.
    """
    if not broker.authorizer.is_allowed(context, Operation.DESCRIBE, ResourceType.CLUSTER, CLUSTER_NAME):
        return cast("ListPartitionReassignmentsResponse", refuse(request, _REFUSED, describe(_REFUSED)))
    if not broker.partitions.context.is_session_sure():
        return cast("ListPartitionReassignmentsResponse", refuse(request, ErrorCode.NOT_CONTROLLER, _UNSURE))
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
