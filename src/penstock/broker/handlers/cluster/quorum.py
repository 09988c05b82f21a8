"""DescribeQuorum: the controller and the newest change of the metadata, in the form of Kafka's quorum.

In Kafka a quorum of controllers keeps the metadata in the topic `__cluster_metadata`. Here ZooKeeper, or the broker's
own store, keeps a numbered log of changes, and one broker writes the log: the controller. The response shows the
controller as the only voter. The offsets are those of the log of changes, as in ApiVersions.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from penstock.broker.authorizer import CLUSTER_NAME, Authorizer, Operation, ResourceType
from penstock.broker.session import RequestContext
from penstock.broker.slices import Work, collect
from penstock.cluster.image import NO_CONTROLLER, MetadataImage
from penstock.cluster.metadata import Metadata
from penstock.core.clock import Clock
from penstock.protocol.errors import ErrorCode, describe
from penstock.protocol.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    Listener,
    Node,
    PartitionData,
    ReplicaState,
    TopicData,
)

METADATA_TOPIC = "__cluster_metadata"


class QuorumPort(Protocol):
    """The parts of the broker that the handler uses."""

    authorizer: Authorizer
    clock: Clock
    metadata: Metadata

    def endpoints(self, listener: str) -> Iterator[tuple[int, str, int, str | None]]: ...


def describe_quorum(
    broker: QuorumPort, context: RequestContext, request: DescribeQuorumRequest
) -> Work[DescribeQuorumResponse]:
    """Names the controller, its epoch and the newest change. Every topic but `__cluster_metadata` is unknown. Version 1
    adds times, version 2 the controller's address and error messages.
    """
    if not broker.authorizer.is_allowed(context, Operation.DESCRIBE, ResourceType.CLUSTER, CLUSTER_NAME):
        return _refuse(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    image = broker.metadata.image
    if image.controller_id == NO_CONTROLLER:
        return _refuse(ErrorCode.NOT_CONTROLLER)
    now_ms = broker.clock.now_ms()
    topics = []
    for topic in request.topics:
        indexes = (each.partition_index for each in topic.partitions)
        rows = yield from collect(_describe_partition(image, now_ms, topic.topic_name, index) for index in indexes)
        topics.append(TopicData(topic_name=topic.topic_name, partitions=rows))
        yield
    nodes = [
        Node(node_id=node_id, listeners=[Listener(name=context.listener, host=host, port=port)])
        for node_id, host, port, _ in broker.endpoints(context.listener)
        if node_id == image.controller_id
    ]
    return DescribeQuorumResponse(error_message=None, topics=topics, nodes=nodes)


def _refuse(code: ErrorCode) -> DescribeQuorumResponse:
    return DescribeQuorumResponse(error_code=code, error_message=describe(code))


def _describe_partition(image: MetadataImage, now_ms: int, topic: str, index: int) -> PartitionData:
    if (topic, index) != (METADATA_TOPIC, 0):
        code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return PartitionData(partition_index=index, error_code=code, error_message=describe(code), leader_id=-1)
    end_offset = image.number + 1
    voter = ReplicaState(
        replica_id=image.controller_id,
        log_end_offset=end_offset,
        last_fetch_timestamp=now_ms,
        last_caught_up_timestamp=now_ms,
    )
    return PartitionData(
        partition_index=index,
        error_message=None,
        leader_id=image.controller_id,
        leader_epoch=image.controller_epoch,
        high_watermark=end_offset,
        current_voters=[voter],
    )
