"""The records of KIP-848 groups, byte for byte Kafka's: keys 3 to 8 and 16.

 3  the group: its epoch, and a digest of the topics it is subscribed to
 4  Kafka's record before 4.1, instead of the digest; only its tombstone is written
 5  a member: its metadata and subscription
 6  the epoch of the target assignment
 7  a member's part of the target assignment
 8  a member's present assignment, and how far it has come towards the target
16  the topics a regular expression stands for
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from penstock.coordinators.outcome import CoordinatorRecord
from penstock.coordinators.record_framing import (
    decode_body,
    encode_key,
    encode_value,
    encode_value_in_steps,
    leading_int16,
)
from penstock.core.steps import finish
from penstock.groups.requests import Protocol
from penstock.groups.topics import Steps, TopicIdPartition, by_topic_in_steps, runs
from penstock.protocol.codec import is_small
from penstock.protocol.message import Message
from penstock.protocol.messages.consumer_group_current_member_assignment_key import (
    ConsumerGroupCurrentMemberAssignmentKey,
)
from penstock.protocol.messages.consumer_group_current_member_assignment_value import (
    ConsumerGroupCurrentMemberAssignmentValue,
    TopicPartitions,
)
from penstock.protocol.messages.consumer_group_member_metadata_key import ConsumerGroupMemberMetadataKey
from penstock.protocol.messages.consumer_group_member_metadata_value import (
    ClassicMemberMetadata,
    ClassicProtocol,
    ConsumerGroupMemberMetadataValue,
)
from penstock.protocol.messages.consumer_group_metadata_key import ConsumerGroupMetadataKey
from penstock.protocol.messages.consumer_group_metadata_value import ConsumerGroupMetadataValue
from penstock.protocol.messages.consumer_group_regular_expression_key import ConsumerGroupRegularExpressionKey
from penstock.protocol.messages.consumer_group_regular_expression_value import ConsumerGroupRegularExpressionValue
from penstock.protocol.messages.consumer_group_target_assignment_member_key import (
    ConsumerGroupTargetAssignmentMemberKey,
)
from penstock.protocol.messages.consumer_group_target_assignment_member_value import (
    ConsumerGroupTargetAssignmentMemberValue,
    TopicPartition,
)
from penstock.protocol.messages.consumer_group_target_assignment_metadata_key import (
    ConsumerGroupTargetAssignmentMetadataKey,
)
from penstock.protocol.messages.consumer_group_target_assignment_metadata_value import (
    ConsumerGroupTargetAssignmentMetadataValue,
)

_GROUP = 3
_PARTITION_METADATA = 4
_MEMBER = 5
_TARGET_METADATA = 6
_TARGET_MEMBER = 7
_CURRENT = 8
_REGULAR_EXPRESSION = 16
_VALUE_VERSION = 0

# A partition and the epoch it was assigned in: an offset committed with an older epoch is refused (KIP-1251).
AssignedPartitions = Mapping[TopicIdPartition, int]


class MemberState(enum.IntEnum):
    STABLE = 0
    UNREVOKED_PARTITIONS = 1  # was asked to give partitions up and has not done so
    UNRELEASED_PARTITIONS = 2  # waits for partitions that others have not given up yet
    UNKNOWN = 127  # written by newer software


class ClassicMembership(NamedTuple):
    """Additional data of a member that speaks the classic protocol (online migration)."""

    session_timeout_ms: int
    protocols: tuple[Protocol, ...]


class RecordedSubscription(NamedTuple):
    instance_id: str | None
    rack_id: str | None
    client_id: str
    client_host: str
    topic_names: frozenset[str]
    topic_regex: str
    rebalance_timeout_ms: int
    server_assignor: str | None
    classic: ClassicMembership | None


class RecordedAssignment(NamedTuple):
    member_epoch: int
    previous_epoch: int
    state: MemberState
    assigned: AssignedPartitions
    pending_revocation: AssignedPartitions


class ResolvedExpression(NamedTuple):
    topics: frozenset[str]
    version: int
    timestamp_ms: int


class ConsumerGroupChange(NamedTuple):
    group_id: str
    epoch: int | None  # None: the group is deleted
    metadata_digest: int = 0


class PartitionMetadataChange(NamedTuple):
    group_id: str
    is_there: bool


class SubscriptionChange(NamedTuple):
    group_id: str
    member_id: str
    subscription: RecordedSubscription | None


class TargetEpochChange(NamedTuple):
    group_id: str
    epoch: int | None
    timestamp_ms: int = 0


class TargetChange(NamedTuple):
    group_id: str
    member_id: str
    partitions: frozenset[TopicIdPartition] | None


class AssignmentChange(NamedTuple):
    group_id: str
    member_id: str
    assignment: RecordedAssignment | None


class ExpressionChange(NamedTuple):
    group_id: str
    expression: str
    resolved: ResolvedExpression | None


ConsumerChange = (
    ConsumerGroupChange
    | PartitionMetadataChange
    | SubscriptionChange
    | TargetEpochChange
    | TargetChange
    | AssignmentChange
    | ExpressionChange
)

# Records that may have thousands of partitions or topics.
LargeChange = SubscriptionChange | TargetChange | AssignmentChange | ExpressionChange

# ---------------------------------------------------------------------------------------------------- encode


def encode_consumer_group(group_id: str, epoch: int | None, metadata_digest: int = 0) -> CoordinatorRecord:
    value = None if epoch is None else ConsumerGroupMetadataValue(epoch=epoch, metadata_hash=metadata_digest)
    return _record(_GROUP, ConsumerGroupMetadataKey(group_id=group_id), value)


def encode_partition_metadata_tombstone(group_id: str) -> CoordinatorRecord:
    # Its key has the same one field as the group's.
    return _record(_PARTITION_METADATA, ConsumerGroupMetadataKey(group_id=group_id), None)


def encode_subscription(group_id: str, member_id: str, subscription: RecordedSubscription | None) -> CoordinatorRecord:
    return finish(_write_subscription(group_id, member_id, subscription))


def _write_subscription(
    group_id: str, member_id: str, subscription: RecordedSubscription | None
) -> Steps[CoordinatorRecord]:
    key = ConsumerGroupMemberMetadataKey(group_id=group_id, member_id=member_id)
    if subscription is None:
        return _record(_MEMBER, key, None)
    classic = None
    if subscription.classic is not None:
        classic = ClassicMemberMetadata(
            session_timeout_ms=subscription.classic.session_timeout_ms,
            supported_protocols=[
                ClassicProtocol(name=protocol.name, metadata=protocol.metadata)
                for protocol in subscription.classic.protocols
            ],
        )
    value = ConsumerGroupMemberMetadataValue(
        instance_id=subscription.instance_id,
        rack_id=subscription.rack_id,
        client_id=subscription.client_id,
        client_host=subscription.client_host,
        subscribed_topic_names=sorted(subscription.topic_names),
        subscribed_topic_regex=subscription.topic_regex,
        rebalance_timeout_ms=subscription.rebalance_timeout_ms,
        server_assignor=subscription.server_assignor,
        classic_member_metadata=classic,
    )
    return (yield from _record_in_steps(_MEMBER, key, value))


def encode_target_epoch(group_id: str, epoch: int | None, timestamp_ms: int = 0) -> CoordinatorRecord:
    value = None
    if epoch is not None:
        value = ConsumerGroupTargetAssignmentMetadataValue(assignment_epoch=epoch, assignment_timestamp=timestamp_ms)
    return _record(_TARGET_METADATA, ConsumerGroupTargetAssignmentMetadataKey(group_id=group_id), value)


def encode_target(group_id: str, member_id: str, partitions: Iterable[TopicIdPartition] | None) -> CoordinatorRecord:
    return finish(_write_target(group_id, member_id, partitions))


def _write_target(
    group_id: str, member_id: str, partitions: Iterable[TopicIdPartition] | None
) -> Steps[CoordinatorRecord]:
    key = ConsumerGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id)
    if partitions is None:
        return _record(_TARGET_MEMBER, key, None)
    topics = []
    for run in runs((yield from by_topic_in_steps(partitions)).items()):
        topics += [TopicPartition(topic_id=topic_id, partitions=indexes) for topic_id, indexes in run]
        yield
    value = ConsumerGroupTargetAssignmentMemberValue(topic_partitions=topics)
    return (yield from _record_in_steps(_TARGET_MEMBER, key, value))


def encode_assignment(group_id: str, member_id: str, assignment: RecordedAssignment | None) -> CoordinatorRecord:
    return finish(_write_assignment(group_id, member_id, assignment))


def _write_assignment(group_id: str, member_id: str, assignment: RecordedAssignment | None) -> Steps[CoordinatorRecord]:
    key = ConsumerGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member_id)
    if assignment is None:
        return _record(_CURRENT, key, None)
    value = ConsumerGroupCurrentMemberAssignmentValue(
        member_epoch=assignment.member_epoch,
        previous_member_epoch=assignment.previous_epoch,
        state=assignment.state,
        assigned_partitions=(yield from _write_partitions(assignment.assigned)),
        partitions_pending_revocation=(yield from _write_partitions(assignment.pending_revocation)),
    )
    return (yield from _record_in_steps(_CURRENT, key, value))


def encode_expression(group_id: str, expression: str, resolved: ResolvedExpression | None) -> CoordinatorRecord:
    return finish(_write_expression(group_id, expression, resolved))


def _write_expression(group_id: str, expression: str, resolved: ResolvedExpression | None) -> Steps[CoordinatorRecord]:
    key = ConsumerGroupRegularExpressionKey(group_id=group_id, regular_expression=expression)
    if resolved is None:
        return _record(_REGULAR_EXPRESSION, key, None)
    value = ConsumerGroupRegularExpressionValue(
        topics=sorted(resolved.topics), version=resolved.version, timestamp=resolved.timestamp_ms
    )
    return (yield from _record_in_steps(_REGULAR_EXPRESSION, key, value))


def encode_in_steps(change: LargeChange) -> Steps[CoordinatorRecord]:
    """The record of a change that may have thousands of partitions or topics."""
    if isinstance(change, SubscriptionChange):
        return (yield from _write_subscription(*change))
    if isinstance(change, TargetChange):
        return (yield from _write_target(*change))
    if isinstance(change, AssignmentChange):
        return (yield from _write_assignment(*change))
    return (yield from _write_expression(*change))


def _record(kind: int, key: Message, value: Message | None) -> CoordinatorRecord:
    return CoordinatorRecord(encode_key(kind, key), None if value is None else encode_value(value, _VALUE_VERSION))


def _record_in_steps(kind: int, key: Message, value: Message) -> Steps[CoordinatorRecord]:
    if is_small(value):
        return _record(kind, key, value)
    encoded = yield from encode_value_in_steps(value, _VALUE_VERSION)
    return CoordinatorRecord(encode_key(kind, key), encoded)


def _write_partitions(assigned: AssignedPartitions) -> Steps[list[TopicPartitions]]:
    topics = []
    for topic_id, indexes in (yield from by_topic_in_steps(assigned)).items():
        epochs: list[int] = []
        for run in runs(indexes):
            epochs += [assigned[TopicIdPartition(topic_id, index)] for index in run]
            yield
        topics.append(TopicPartitions(topic_id=topic_id, partitions=indexes, assignment_epochs=epochs))
    return topics


# ---------------------------------------------------------------------------------------------------- decode


def decode_consumer_record(kind: int, key: bytes, value: bytes | None) -> ConsumerChange | None:
    """None: not a record of these groups, or of a later version. ApiError(CORRUPT_MESSAGE) if it is unreadable."""
    reader = _READERS.get(kind)
    if reader is None or (value is not None and leading_int16(value) > _VALUE_VERSION):
        return None
    return reader(key, value)


def _read_group(key: bytes, value: bytes | None) -> ConsumerChange:
    group_id = decode_body(ConsumerGroupMetadataKey, key).group_id
    if value is None:
        return ConsumerGroupChange(group_id, None)
    body = decode_body(ConsumerGroupMetadataValue, value)
    return ConsumerGroupChange(group_id, body.epoch, body.metadata_hash)


def _read_partition_metadata(key: bytes, value: bytes | None) -> ConsumerChange:
    return PartitionMetadataChange(decode_body(ConsumerGroupMetadataKey, key).group_id, value is not None)


def _read_subscription(key: bytes, value: bytes | None) -> ConsumerChange:
    named = decode_body(ConsumerGroupMemberMetadataKey, key)
    if value is None:
        return SubscriptionChange(named.group_id, named.member_id, None)
    body = decode_body(ConsumerGroupMemberMetadataValue, value)
    classic = None
    if body.classic_member_metadata is not None:
        classic = ClassicMembership(
            body.classic_member_metadata.session_timeout_ms,
            tuple(
                Protocol(protocol.name, bytes(protocol.metadata))
                for protocol in body.classic_member_metadata.supported_protocols
            ),
        )
    subscription = RecordedSubscription(
        instance_id=body.instance_id,
        rack_id=body.rack_id,
        client_id=body.client_id,
        client_host=body.client_host,
        topic_names=frozenset(body.subscribed_topic_names),
        topic_regex=body.subscribed_topic_regex or "",
        rebalance_timeout_ms=body.rebalance_timeout_ms,
        server_assignor=body.server_assignor,
        classic=classic,
    )
    return SubscriptionChange(named.group_id, named.member_id, subscription)


def _read_target_epoch(key: bytes, value: bytes | None) -> ConsumerChange:
    group_id = decode_body(ConsumerGroupTargetAssignmentMetadataKey, key).group_id
    if value is None:
        return TargetEpochChange(group_id, None)
    body = decode_body(ConsumerGroupTargetAssignmentMetadataValue, value)
    return TargetEpochChange(group_id, body.assignment_epoch, body.assignment_timestamp)


def _read_target(key: bytes, value: bytes | None) -> ConsumerChange:
    named = decode_body(ConsumerGroupTargetAssignmentMemberKey, key)
    if value is None:
        return TargetChange(named.group_id, named.member_id, None)
    body = decode_body(ConsumerGroupTargetAssignmentMemberValue, value)
    partitions = frozenset(
        TopicIdPartition(topic.topic_id, index) for topic in body.topic_partitions for index in topic.partitions
    )
    return TargetChange(named.group_id, named.member_id, partitions)


def _read_assignment(key: bytes, value: bytes | None) -> ConsumerChange:
    named = decode_body(ConsumerGroupCurrentMemberAssignmentKey, key)
    if value is None:
        return AssignmentChange(named.group_id, named.member_id, None)
    body = decode_body(ConsumerGroupCurrentMemberAssignmentValue, value)
    known = body.state in (MemberState.STABLE, MemberState.UNREVOKED_PARTITIONS, MemberState.UNRELEASED_PARTITIONS)
    assignment = RecordedAssignment(
        member_epoch=body.member_epoch,
        previous_epoch=body.previous_member_epoch,
        state=MemberState(body.state) if known else MemberState.UNKNOWN,
        assigned=_read_partitions(body.assigned_partitions, body.member_epoch),
        pending_revocation=_read_partitions(body.partitions_pending_revocation, body.member_epoch),
    )
    return AssignmentChange(named.group_id, named.member_id, assignment)


def _read_partitions(topics: Iterable[TopicPartitions], member_epoch: int) -> AssignedPartitions:
    assigned = {}
    for topic in topics:
        # Absent in records of Kafka before 4.3: then the member's epoch is the closest known value.
        epochs = topic.assignment_epochs or ()
        for position, index in enumerate(topic.partitions):
            epoch = epochs[position] if position < len(epochs) else member_epoch
            assigned[TopicIdPartition(topic.topic_id, index)] = epoch
    return assigned


def _read_expression(key: bytes, value: bytes | None) -> ConsumerChange:
    named = decode_body(ConsumerGroupRegularExpressionKey, key)
    if value is None:
        return ExpressionChange(named.group_id, named.regular_expression, None)
    body = decode_body(ConsumerGroupRegularExpressionValue, value)
    resolved = ResolvedExpression(frozenset(body.topics), body.version, body.timestamp)
    return ExpressionChange(named.group_id, named.regular_expression, resolved)


_READERS = {
    _GROUP: _read_group,
    _PARTITION_METADATA: _read_partition_metadata,
    _MEMBER: _read_subscription,
    _TARGET_METADATA: _read_target_epoch,
    _TARGET_MEMBER: _read_target,
    _CURRENT: _read_assignment,
    _REGULAR_EXPRESSION: _read_expression,
}
