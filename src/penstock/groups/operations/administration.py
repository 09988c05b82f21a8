"""DescribeGroups, ListGroups, DeleteGroups, and the removal of offsets that nobody will ask for again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable

from penstock.coordinators.outcome import CoordinatorRecord, Token
from penstock.core.types import NO_TIMESTAMP, ZERO_TOPIC_ID
from penstock.groups.classic.group import ClassicGroup, GroupState
from penstock.groups.consumer.group import ConsumerGroup, ConsumerMember, Group
from penstock.groups.outcome import GroupOutcome
from penstock.groups.records.consumer_offsets import CommittedOffset, encode_group, encode_offset
from penstock.groups.requests import DeletedTopic, DeleteGroupRequest, DescribeGroupRequest
from penstock.groups.results import (
    DeleteGroupResult,
    DescribedConsumer,
    DescribedConsumerGroup,
    DescribedGroup,
    DescribedMember,
    ListedGroup,
)
from penstock.groups.shard import GroupShard
from penstock.protocol.errors import ErrorCode

# ---------------------------------------------------------------------------------------------------- describe, list


def describe_group(shard: GroupShard, request: DescribeGroupRequest) -> DescribedGroup:
    group_id = request.group_id
    group = shard.groups.get(group_id)
    if group is None:
        return DescribedGroup(
            ErrorCode.GROUP_ID_NOT_FOUND, group_id, GroupState.DEAD.value, error_message=f"Group {group_id} not found."
        )
    if isinstance(group, ConsumerGroup):
        message = f"Group {group_id} is not a classic group."
        return DescribedGroup(ErrorCode.GROUP_ID_NOT_FOUND, group_id, GroupState.DEAD.value, error_message=message)
    is_stable = group.state is GroupState.STABLE
    members = tuple(
        DescribedMember(
            member_id=member.member_id,
            group_instance_id=member.group_instance_id,
            client_id=member.client_id,
            client_host=member.client_host,
            metadata=(member.metadata(group.protocol_name) or b"") if is_stable else b"",
            assignment=member.assignment,
        )
        for member in group.members.values()
    )
    return DescribedGroup(
        error=ErrorCode.NONE,
        group_id=group_id,
        state=group.state.value,
        protocol_type=group.protocol_type or "",
        protocol_data=(group.protocol_name or "") if is_stable else "",
        members=members,
    )


def describe_consumer_group(shard: GroupShard, request: DescribeGroupRequest) -> DescribedConsumerGroup:
    group_id = request.group_id
    group = shard.groups.get(group_id)
    if not isinstance(group, ConsumerGroup):
        message = f"Group {group_id} not found." if group is None else f"Group {group_id} is not a consumer group."
        return DescribedConsumerGroup(ErrorCode.GROUP_ID_NOT_FOUND, group_id, message)
    votes = Counter(member.server_assignor for member in group.members.values() if member.server_assignor)
    return DescribedConsumerGroup(
        error=ErrorCode.NONE,
        group_id=group_id,
        state=group.state.value,
        epoch=group.epoch,
        target_epoch=group.target_epoch,
        assignor=next((name for name, _ in votes.most_common(1)), shard.settings.consumer_assignors[0]),
        members=tuple(_described(group, member) for member in group.members.values()),
    )


def _described(group: ConsumerGroup, member: ConsumerMember) -> DescribedConsumer:
    return DescribedConsumer(
        member_id=member.member_id,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        member_epoch=member.member_epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        topic_names=tuple(sorted(member.topic_names)),
        topic_regex=member.topic_regex,
        assignment=tuple(sorted((*member.assigned, *member.pending_revocation))),
        target=tuple(sorted(group.target.get(member.member_id, ()))),
        uses_classic_protocol=member.classic is not None,
    )


def list_groups(shard: GroupShard, states: Collection[str] = (), types: Collection[str] = ()) -> list[ListedGroup]:
    """Filters are compared without regard to case; an empty one lets everything pass."""
    wanted_states = {state.strip().lower() for state in states}
    wanted_types = {name.strip().lower() for name in types}
    return [_listed(group) for group in shard.groups.values() if _is_wanted(group, wanted_states, wanted_types)]


def _is_wanted(group: Group, states: set[str], types: set[str]) -> bool:
    return (not states or group.state.value.lower() in states) and (not types or group.group_type.value in types)


def _listed(group: Group) -> ListedGroup:
    return ListedGroup(group.group_id, group.protocol_type or "", group.state.value, group.group_type.value)


# ---------------------------------------------------------------------------------------------------- delete


def delete_group(
    shard: GroupShard, token: Token[DeleteGroupResult], request: DeleteGroupRequest, _now_ms: int
) -> GroupOutcome:
    """Timers of members that were only given an id run out by themselves: the tombstone may yet fail to be written."""
    outcome = shard.outcome()
    group_id = request.group_id
    group = shard.groups.get(group_id)
    if group is None:
        outcome.reply(token, DeleteGroupResult(ErrorCode.GROUP_ID_NOT_FOUND, group_id))
    elif group.state is not GroupState.EMPTY:
        outcome.reply(token, DeleteGroupResult(ErrorCode.NON_EMPTY_GROUP, group_id))
    else:
        partitions = dict.fromkeys(
            [*shard.offsets.of_group(group_id), *shard.offsets.partitions_with_open_transaction(group_id)]
        )
        outcome.records += [encode_offset(group_id, *partition, None) for partition in partitions]
        outcome.records += _tombstones(group)
        outcome.reply(token, DeleteGroupResult(ErrorCode.NONE, group_id))
    return outcome


# ---------------------------------------------------------------------------------------------------- expiry


def expire_offsets(shard: GroupShard, now_ms: int) -> GroupOutcome:
    """Writes tombstones for offsets past their retention, and for empty groups that are left without any."""
    outcome = shard.outcome()
    outcome.is_atomic = False
    for group in shard.groups.values():
        expired, remaining = _expired_offsets(shard, group, now_ms)
        outcome.records += expired
        if (
            remaining == 0
            and group.state is GroupState.EMPTY
            and not shard.offsets.has_open_transaction(group.group_id)
        ):
            outcome.records += _tombstones(group)
    return outcome


def _tombstones(group: Group) -> list[CoordinatorRecord]:
    return group.tombstones() if isinstance(group, ConsumerGroup) else [encode_group(group.group_id, None)]


def _expired_offsets(shard: GroupShard, group: Group, now_ms: int) -> tuple[list[CoordinatorRecord], int]:
    """(tombstones, how many offsets stay)"""
    offsets = shard.offsets.of_group(group.group_id)
    if not _can_expire(group):
        return [], len(offsets)
    expired = [
        encode_offset(group.group_id, *partition, None)
        for partition, committed in offsets.items()
        if not group.is_subscribed_to(partition.topic)
        and _is_expired(group, committed, now_ms, shard.settings.offsets_retention_ms)
        and not shard.offsets.has_open_transaction(group.group_id, partition)
    ]
    return expired, len(offsets) - len(expired)


def _can_expire(group: Group) -> bool:
    """Simple groups and empty ones, and stable ones whose subscriptions are known; a rebalance is no time to judge
    who reads what. Of KIP-848 groups they are always known.
    """
    if isinstance(group, ConsumerGroup):
        return True
    if group.protocol_type is None or group.state is GroupState.EMPTY:
        return True
    return group.state is GroupState.STABLE and group.uses_consumer_protocol() and group.subscribed_topics is not None


def _is_expired(group: Group, committed: CommittedOffset, now_ms: int, retention_ms: int) -> bool:
    if committed.expire_timestamp_ms != NO_TIMESTAMP:
        return now_ms >= committed.expire_timestamp_ms
    since_ms = committed.commit_timestamp_ms
    if (
        isinstance(group, ClassicGroup)
        and group.protocol_type is not None
        and group.state is GroupState.EMPTY
        and group.state_timestamp_ms != NO_TIMESTAMP
    ):
        # While a group had members its offsets were in use, so time counts from when the last one left.
        since_ms = group.state_timestamp_ms
    return now_ms - since_ms >= retention_ms


def remove_topics(shard: GroupShard, topics: Iterable[DeletedTopic]) -> GroupOutcome:
    """The offsets of deleted topics, except those committed for a later topic of the same name."""
    outcome = shard.outcome()
    outcome.is_atomic = False
    deleted = {topic.name: topic.topic_id for topic in topics}
    committed = [
        (group_id, partition, offset)
        for group_id in shard.offsets.groups()
        for partition, offset in shard.offsets.of_group(group_id).items()
    ]
    orphaned = {
        (group_id, partition): None
        for group_id, partition, offset in (*committed, *shard.offsets.pending())
        if partition.topic in deleted and _belongs(offset, deleted[partition.topic])
    }
    outcome.records = [encode_offset(group_id, *partition, None) for group_id, partition in orphaned]
    return outcome


def _belongs(committed: CommittedOffset, deleted_topic_id: bytes) -> bool:
    return ZERO_TOPIC_ID in (committed.topic_id, deleted_topic_id) or committed.topic_id == deleted_topic_id
