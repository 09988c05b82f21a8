"""DescribeGroups, ListGroups, DeleteGroups, and the removal of unused offsets."""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Iterable, Mapping
from functools import partial
from typing import NamedTuple

from penstock.coordinators.outcome import CoordinatorRecord, Token
from penstock.core.lazy.lazy_sequence import LazySequence
from penstock.core.types import NO_TIMESTAMP, ZERO_TOPIC_ID, TopicId, TopicPartition
from penstock.groups.classic.group import ClassicGroup, GroupState, GroupType, Member
from penstock.groups.consumer.group import ConsumerGroup, ConsumerMember, Group
from penstock.groups.outcome import GroupOutcome
from penstock.groups.records.consumer_offsets import CommittedOffset, encode_group, encode_offset
from penstock.groups.requests import DeleteGroupRequest, DescribeGroupRequest
from penstock.groups.results import (
    DeleteGroupResult,
    DescribedConsumer,
    DescribedConsumerGroup,
    DescribedGroup,
    DescribedMember,
    ListedGroup,
)
from penstock.groups.shard import GroupShard
from penstock.groups.topics import TopicIdPartition
from penstock.protocol.errors import ApiError, ErrorCode

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
    protocol_name = group.protocol_name

    def describe(member: Member) -> DescribedMember:
        return DescribedMember(
            member_id=member.member_id,
            group_instance_id=member.group_instance_id,
            client_id=member.client_id,
            client_host=member.client_host,
            metadata=(member.metadata(protocol_name) or b"") if is_stable else b"",
            assignment=member.assignment,
        )

    return DescribedGroup(
        error=ErrorCode.NONE,
        group_id=group_id,
        state=group.state.value,
        protocol_type=group.protocol_type or "",
        protocol_data=(protocol_name or "") if is_stable else "",
        members=LazySequence(tuple(group.members.values()), describe),
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
        members=LazySequence(tuple(group.members.values()), partial(_described, dict(group.target))),
    )


def _described(targets: Mapping[str, Iterable[TopicIdPartition]], member: ConsumerMember) -> DescribedConsumer:
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
        target=tuple(sorted(targets.get(member.member_id, ()))),
        uses_classic_protocol=member.classic is not None,
    )


_STATES = frozenset(state.value.lower() for state in GroupState)
_TYPES = frozenset(group_type.value for group_type in GroupType)


class Filter(NamedTuple):
    """Compared without regard to case; an empty filter lets everything pass."""

    states: frozenset[str]
    types: frozenset[str]

    def accepts(self, group: Group) -> bool:
        return (not self.states or group.state.value.lower() in self.states) and (
            not self.types or group.group_type.value in self.types
        )


def compile_filter(states: Iterable[str], types: Iterable[str]) -> Generator[None, None, Filter]:
    """One step for each name. Drops names that are no state and no type."""
    kept: list[frozenset[str]] = []
    for names, known in ((states, _STATES), (types, _TYPES)):
        wanted = set()
        for name in names:
            folded = name.strip().lower()
            wanted.add(folded if folded in known else "")
            yield
        kept.append(frozenset(wanted))
    return Filter(*kept)


def show_listed(group: Group) -> ListedGroup:
    return ListedGroup(group.group_id, group.protocol_type or "", group.state.value, group.group_type.value)


# ---------------------------------------------------------------------------------------------------- delete


def delete_group(
    shard: GroupShard, token: Token[DeleteGroupResult], request: DeleteGroupRequest, _now_ms: int
) -> GroupOutcome:
    """Timers of members that only have an id run out by themselves: the write of the tombstone may yet fail. ApiError
    if the request is refused. `prepared_deletions` deletes a group with many offsets.
    """
    outcome = shard.outcome()
    group_id = request.group_id
    group = find_deletable(shard, group_id)
    partitions = shard.offsets.partitions_of(group_id)
    outcome.records += [encode_offset(group_id, *partition, None) for partition in partitions]
    outcome.records += tombstones(group)
    outcome.reply(token, DeleteGroupResult(ErrorCode.NONE, group_id))
    return outcome


def find_deletable(shard: GroupShard, group_id: str) -> Group:
    """The group, if it may be deleted. ApiError otherwise."""
    group = shard.groups.get(group_id)
    if group is None:
        raise ApiError(ErrorCode.GROUP_ID_NOT_FOUND)
    if group.state is not GroupState.EMPTY:
        raise ApiError(ErrorCode.NON_EMPTY_GROUP)
    return group


def tombstones(group: Group) -> list[CoordinatorRecord]:
    """The tombstones of the group alone, without its offsets."""
    return group.tombstones() if isinstance(group, ConsumerGroup) else [encode_group(group.group_id, None)]


# ---------------------------------------------------------------------------------------------------- expiry


# Groups, each with some of its offsets or all of them.
Candidates = Iterable[tuple[str, Iterable[TopicPartition]]]


def expire_offsets(shard: GroupShard, now_ms: int, candidates: Candidates | None = None) -> GroupOutcome:
    """Writes tombstones for expired offsets, and for empty groups without any offsets left. Checks the `candidates`
    alone (None: everything), which may be gone by now.
    """
    outcome = shard.outcome()
    outcome.is_atomic = False
    if candidates is None:
        candidates = [(group_id, shard.offsets.of_group(group_id)) for group_id in shard.groups]
    expired_counts: Counter[str] = Counter()
    for group_id, partitions in candidates:
        group = shard.groups.get(group_id)
        if group is not None:
            expired = _expired_offsets(shard, group, partitions, now_ms)
            outcome.records += expired
            expired_counts[group_id] += len(expired)
    for group_id, expired_count in expired_counts.items():
        group = shard.groups[group_id]
        if (
            expired_count == len(shard.offsets.of_group(group_id))
            and group.state is GroupState.EMPTY
            and not shard.offsets.has_open_transaction(group_id)
        ):
            outcome.records += tombstones(group)
    return outcome


def _expired_offsets(
    shard: GroupShard, group: Group, partitions: Iterable[TopicPartition], now_ms: int
) -> list[CoordinatorRecord]:
    """Tombstones."""
    if not _can_expire(group):
        return []
    offsets = shard.offsets.of_group(group.group_id)
    unstable = shard.offsets.partitions_with_open_transaction(group.group_id)
    return [
        encode_offset(group.group_id, *partition, None)
        for partition in partitions
        if (committed := offsets.get(partition)) is not None
        and not group.is_subscribed_to(partition.topic)
        and _is_expired(group, committed, now_ms, shard.settings.offsets_retention_ms)
        and partition not in unstable
    ]


def _can_expire(group: Group) -> bool:
    """Simple groups and empty ones, and stable ones with known subscriptions; during a rebalance the readers of a topic
    are uncertain. KIP-848 groups always have known subscriptions.
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
        # While a group had members its offsets were in use, so time counts from the end of the last member.
        since_ms = group.state_timestamp_ms
    return now_ms - since_ms >= retention_ms


class Removal(NamedTuple):
    """Deleted topics, and the ends of each shard's log at their deletion: later commits belong to later topics of the
    same names.
    """

    topic_ids: Mapping[str, TopicId]
    end_offset: int = 2**63 - 1

    def concerns(self, partition: TopicPartition, committed: CommittedOffset) -> bool:
        deleted_id = self.topic_ids[partition.topic]
        is_same = ZERO_TOPIC_ID in (committed.topic_id, deleted_id) or committed.topic_id == deleted_id
        return is_same and committed.log_offset < self.end_offset


def remove_topics(shard: GroupShard, removal: Removal, candidates: Candidates | None = None) -> GroupOutcome:
    """Removes the offsets of deleted topics, except those committed for a later topic of the same name. Checks the
    `candidates` alone (None: everything), which may be gone by now.
    """
    outcome = shard.outcome()
    outcome.is_atomic = False
    if candidates is None:
        candidates = [(group_id, shard.offsets.partitions_of(group_id)) for group_id in shard.offsets.groups()]
    outcome.records = [
        encode_offset(group_id, *partition, None)
        for group_id, partitions in candidates
        for partition in partitions
        if partition.topic in removal.topic_ids
        and any(removal.concerns(partition, each) for each in shard.offsets.versions(group_id, partition))
    ]
    return outcome
