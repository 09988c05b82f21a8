"""Replays the records of a KIP-848 group. Used alike for live records and for a load."""

from __future__ import annotations

from penstock.groups.consumer.group import ConsumerGroup
from penstock.groups.records.consumer_groups import (
    AssignmentChange,
    ConsumerChange,
    ConsumerGroupChange,
    ExpressionChange,
    PartitionMetadataChange,
    SubscriptionChange,
    TargetChange,
    TargetEpochChange,
)


def replay_change(group: ConsumerGroup, change: ConsumerChange) -> bool:
    """Returns whether the group still exists."""
    if isinstance(change, SubscriptionChange):
        group.replay_subscription(change.member_id, change.subscription)
    elif isinstance(change, AssignmentChange):
        group.replay_assignment(change.member_id, change.assignment)
    elif isinstance(change, TargetChange):
        group.replay_target(change.member_id, change.partitions)
    elif isinstance(change, TargetEpochChange):
        group.replay_target_epoch(change.epoch, change.timestamp_ms)
    elif isinstance(change, ExpressionChange):
        group.replay_expression(change.expression, change.resolved)
    elif isinstance(change, ConsumerGroupChange):
        if change.epoch is None:
            return False
        group.replay_group(change.epoch, change.metadata_digest)
    else:
        group.has_partition_metadata = change.is_there
        group.revision += 1
    return True


def is_tombstone(change: ConsumerChange) -> bool:
    if isinstance(change, ConsumerGroupChange | TargetEpochChange):
        return change.epoch is None
    if isinstance(change, PartitionMetadataChange):
        return not change.is_there
    return change[-1] is None
