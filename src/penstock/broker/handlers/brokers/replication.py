"""Requests from brokers to the controller: AlterPartition, AssignReplicasToDirs, BrokerHeartbeat. Clients send none."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Protocol

from penstock.broker.handlers.brokers.forwarding import CallerPort, check_broker
from penstock.broker.session import RequestContext
from penstock.cluster.decisions.lost_replicas import judge_replica
from penstock.cluster.metadata import Metadata
from penstock.core.types import TopicId
from penstock.protocol.errors import ApiError, ErrorCode
from penstock.protocol.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionRequestPartitionData,
    AlterPartitionResponse,
    PartitionData,
    TopicData,
)
from penstock.protocol.messages.assign_replicas_to_dirs import (
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsRequestTopicData,
    AssignReplicasToDirsResponse,
    DirectoryData,
)
from penstock.protocol.messages.assign_replicas_to_dirs import PartitionData as AssignedPartition
from penstock.protocol.messages.assign_replicas_to_dirs import TopicData as AssignedTopic
from penstock.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from penstock.replication.changes import LOST_DIRECTORY, AlterPartitionResult, InSyncChange, LostReplica

if TYPE_CHECKING:  # a standalone broker does not load these
    from penstock.broker.peers.controller_port import ControllerPort
    from penstock.broker.peers.shutdowns import Shutdowns

_FIRST_WITH_BROKER_EPOCHS = 3
_UNKNOWN_EPOCH = -1


class ReplicationPort(CallerPort, Protocol):
    """The parts of the broker that the requests of other brokers use."""

    controller_api: ControllerPort | None
    metadata: Metadata
    shutdowns: Shutdowns | None


async def alter_partition(
    broker: ReplicationPort, context: RequestContext, request: AlterPartitionRequest
) -> AlterPartitionResponse:
    """Changes in-sync sets for the leaders of the partitions (KIP-497). Each partition succeeds or fails by itself.

    Version 3 names the epoch of each member, so that a member that has restarted since does not count (KIP-903).
    """
    check_broker(broker, context)
    if broker.controller_api is None or not broker.metadata.is_controller:
        raise ApiError(ErrorCode.NOT_CONTROLLER)
    changes = [
        InSyncChange(
            topic.topic_id, each.partition_index, each.leader_epoch, each.partition_epoch, _members(context, each)
        )
        for topic in request.topics
        for each in topic.partitions
    ]
    results = await broker.controller_api.alter_partition(request.broker_id, request.broker_epoch, changes)
    topics: dict[TopicId, TopicData] = {}
    for result in results:
        topic = topics.setdefault(result.topic_id, TopicData(topic_id=result.topic_id))
        topic.partitions.append(_altered(result))
    return AlterPartitionResponse(topics=list(topics.values()))


def _members(context: RequestContext, partition: AlterPartitionRequestPartitionData) -> tuple[tuple[int, int], ...]:
    if context.api_version < _FIRST_WITH_BROKER_EPOCHS:
        return tuple((node_id, _UNKNOWN_EPOCH) for node_id in partition.new_isr)
    return tuple((each.broker_id, each.broker_epoch) for each in partition.new_isr_with_epochs)


def _altered(result: AlterPartitionResult) -> PartitionData:
    state = result.state
    if state is None:
        return PartitionData(partition_index=result.partition, error_code=result.code)
    return PartitionData(
        partition_index=result.partition,
        error_code=result.code,
        leader_id=state.leader,
        leader_epoch=state.leader_epoch,
        isr=list(state.isr),
        partition_epoch=state.partition_epoch,
    )


async def assign_replicas_to_dirs(
    broker: ReplicationPort, context: RequestContext, request: AssignReplicasToDirsRequest
) -> AssignReplicasToDirsResponse:
    """Counts the replicas in a failed directory of a broker as dead (KIP-112, KIP-858).

    The controller does not store the directories of the other replicas, because only their broker has to know them:
    such replicas are checked for existence alone. There is one version.
    """
    check_broker(broker, context)
    if broker.controller_api is None or not broker.metadata.is_controller:
        raise ApiError(ErrorCode.NOT_CONTROLLER)
    lost = [
        LostReplica(topic.topic_id, each.partition_index)
        for directory in request.directories
        if directory.id == LOST_DIRECTORY
        for topic in directory.topics
        for each in topic.partitions
    ]
    results = await broker.controller_api.lose_replicas(request.broker_id, request.broker_epoch, lost)
    codes = {(result.topic_id, result.partition): result.code for result in results}

    def code_of(directory: TopicId, topic_id: TopicId, partition: int) -> ErrorCode:
        if directory == LOST_DIRECTORY:
            return codes[topic_id, partition]
        return judge_replica(broker.metadata.image, request.broker_id, topic_id, partition)

    directories = [
        DirectoryData(
            id=directory.id,
            topics=[_assigned(topic, partial(code_of, directory.id)) for topic in directory.topics],
        )
        for directory in request.directories
    ]
    return AssignReplicasToDirsResponse(directories=directories)


def _assigned(
    topic: AssignReplicasToDirsRequestTopicData, code_of: Callable[[TopicId, int], ErrorCode]
) -> AssignedTopic:
    return AssignedTopic(
        topic_id=topic.topic_id,
        partitions=[
            AssignedPartition(partition_index=index, error_code=code_of(topic.topic_id, index))
            for index in (each.partition_index for each in topic.partitions)
        ],
    )


async def broker_heartbeat(
    broker: ReplicationPort, context: RequestContext, request: BrokerHeartbeatRequest
) -> BrokerHeartbeatResponse:
    """Lets a broker stop once other brokers lead its partitions and every live broker knows the new leaders.

    In Kafka this request keeps a broker in the cluster. Here the broker's session in the store does, and a heartbeat
    without a wish to stop changes nothing. Versions 1 and 2 add failed and cordoned log directories, which this handler
    ignores.
    """
    check_broker(broker, context)
    if broker.shutdowns is None or not broker.metadata.is_controller:
        raise ApiError(ErrorCode.NOT_CONTROLLER)
    image = broker.metadata.image
    registration = image.brokers.get(request.broker_id)
    if registration is None or registration.epoch != request.broker_epoch:
        raise ApiError(ErrorCode.STALE_BROKER_EPOCH)
    applied = request.current_metadata_offset
    may_stop = False
    if request.want_shut_down:
        may_stop = await broker.shutdowns.advance(request.broker_id, request.broker_epoch, applied)
    return BrokerHeartbeatResponse(is_caught_up=applied >= image.number, is_fenced=False, should_shut_down=may_stop)
