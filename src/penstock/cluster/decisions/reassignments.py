"""The controller's decisions about moving replicas: AlterPartitionReassignments.

Replicas do not move yet. A reassignment is accepted when the partition is already as the client asks; otherwise the
answer says why not. So no reassignment is ever under way, and there is never one to cancel or to list.
"""

from __future__ import annotations

from penstock.cluster.decisions.placement import check_assignment
from penstock.cluster.image import MetadataImage
from penstock.protocol.errors import ApiError, ErrorCode


def check_reassignment(
    image: MetadataImage,
    topic: str,
    index: int,
    replicas: tuple[int, ...] | None,
    *,
    may_change_replication_factor: bool = True,
) -> None:
    """Raises ApiError unless the partition can have these replicas; None cancels a reassignment."""
    if topic not in image.topics:
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "Unable to find a topic of this name.")
    partition = image.partition(topic, index)
    if partition is None:
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Unable to find partition {topic}:{index}.")
    if replicas is None:
        raise ApiError(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS)
    check_assignment(image, replicas)
    if len(replicas) != len(partition.replicas) and not may_change_replication_factor:
        change = f"from {len(partition.replicas)} to {len(replicas)}"
        raise ApiError(ErrorCode.INVALID_REPLICATION_FACTOR, f"The replication factor is changed {change}")
    if replicas != partition.replicas:
        raise ApiError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, "This broker does not move replicas to other brokers yet.")
