"""Online migration between the classic protocol and KIP-848, in both directions.

Up: a member of the new protocol joins a classic group whose members embed the consumer protocol. The group becomes a
KIP-848 group in which the others continue as classic members (`classic_members`): they keep their last assignments.
Down: the last member of the new protocol is gone. The group becomes a classic group and its members rebalance.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence

from penstock.groups.classic.group import ClassicGroup, Member
from penstock.groups.consumer.group import ConsumerGroup, ConsumerMember
from penstock.groups.consumer.step import ConsumerStep
from penstock.groups.outcome import AppendPurpose, GroupOutcome, PendingAppend
from penstock.groups.records.consumer_groups import ClassicMembership
from penstock.groups.records.consumer_offsets import encode_group
from penstock.groups.results import JoinResult, SyncResult
from penstock.groups.shard import GroupShard
from penstock.groups.subscription import (
    CONSUMER_PROTOCOL_TYPE,
    decode_assignment,
    decode_subscription,
    encode_assignment_for,
)
from penstock.groups.topics import Topics
from penstock.protocol.errors import ApiError, ErrorCode

# ---------------------------------------------------------------------------------------------------- up


def upgrade(shard: GroupShard, classic: ClassicGroup, outcome: GroupOutcome) -> ConsumerGroup:
    """The new group; its records are written. ApiError(GROUP_ID_NOT_FOUND), as in Kafka, if the upgrade is impossible.
    Nothing of the classic group changes yet: the joining member may still be refused.
    """
    group_id = classic.group_id
    start = f"Cannot upgrade classic group {group_id} to consumer group because"
    if not shard.settings.consumer_migration_policy.can_upgrade:
        raise ApiError(ErrorCode.GROUP_ID_NOT_FOUND, f"{start} online upgrade is disabled.")
    if not classic.uses_consumer_protocol():
        raise ApiError(ErrorCode.GROUP_ID_NOT_FOUND, f"{start} the group does not use the consumer embedded protocol.")
    if len(classic.members) > shard.settings.consumer_max_size:
        raise ApiError(ErrorCode.GROUP_ID_NOT_FOUND, f"{start} the group size exceeds the consumer group maximum size.")
    try:
        members = [_upgraded(classic, member, shard.topics) for member in classic.members.values()]
    except ApiError as error:
        raise ApiError(ErrorCode.GROUP_ID_NOT_FOUND, f"{start} {error.message}.") from error
    group = ConsumerGroup(group_id)
    for member in members:
        group.replay_subscription(member.member_id, member.subscription())
        group.replay_assignment(member.member_id, member.assignment())
        group.replay_target(member.member_id, frozenset(member.assigned))
    group.replay_target_epoch(classic.generation_id, 0)
    group.replay_group(classic.generation_id, shard.topics.digest(group.subscribed_names()))
    outcome.records += [encode_group(group_id, None), *group.records()]
    outcome.tell_operator(
        logging.INFO, "a group changes from the classic protocol to the consumer protocol", group=group_id
    )
    return group


def _upgraded(classic: ClassicGroup, member: Member, topics: Topics) -> ConsumerMember:
    partitions, has_user_data = decode_assignment(member.assignment, topics)
    if has_user_data:
        raise ApiError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, "an unsupported custom assignor is in use")
    # Before the first generation there is no chosen protocol.
    name = classic.protocol_name or classic.select_protocol()
    # During a rebalance a member may have changed its offers and dropped the chosen protocol.
    metadata = member.metadata(name)
    subscription = decode_subscription(member.protocols[0].metadata if metadata is None else metadata, topics)
    return ConsumerMember(
        member_id=member.member_id,
        member_epoch=classic.generation_id,
        previous_epoch=classic.generation_id,
        instance_id=member.group_instance_id,
        rack_id=subscription.rack_id or None,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        client_id=member.client_id,
        client_host=member.client_host,
        topic_names=subscription.topics,
        assigned=dict.fromkeys(partitions, classic.generation_id),
        classic=ClassicMembership(member.session_timeout_ms, member.protocols),
    )


def release_classic(shard: GroupShard, classic: ClassicGroup, outcome: GroupOutcome, now_ms: int) -> None:
    """Waiting members of the classic group get the error to rejoin, and so meet the new group."""
    rebalance = shard.rebalance(classic, outcome, now_ms)
    for member_id, joining in classic.join_tokens.items():
        outcome.reply(joining, JoinResult(ErrorCode.REBALANCE_IN_PROGRESS, member_id))
        rebalance.expect_heartbeat(classic.members[member_id])
    for member_id, syncing in classic.sync_tokens.items():
        outcome.reply(syncing, SyncResult(ErrorCode.REBALANCE_IN_PROGRESS))
        rebalance.expect_heartbeat(classic.members[member_id])
    classic.join_tokens.clear()
    classic.sync_tokens.clear()


def arm_upgraded(step: ConsumerStep) -> None:
    for member in step.group.members.values():
        step.expect_heartbeat(member)


# ---------------------------------------------------------------------------------------------------- down


def can_downgrade(shard: GroupShard, left: Iterable[ConsumerMember]) -> bool:
    members = list(left)
    return (
        all(member.classic is not None for member in members)
        and shard.settings.consumer_migration_policy.can_downgrade
        and len(members) <= shard.settings.max_size
    )


def downgrade(
    shard: GroupShard,
    group: ConsumerGroup,
    left: Sequence[ConsumerMember],
    outcome: GroupOutcome,
    now_ms: int,
    *,
    gone: Sequence[ConsumerMember] = (),
    needs_rebalance: bool = True,
) -> ClassicGroup:
    """Like every rebalance this happens in memory first; `pending` restores the former group."""
    classic = _downgraded(group, left, shard.topics, now_ms)
    step = shard.consumer_step(group, outcome, now_ms)
    for member in (*gone, *group.members.values()):
        step.cancel_timers(member.member_id)
    outcome.records += group.tombstones()
    assignments = {member.member_id: member.assignment for member in classic.members.values()}
    outcome.records.append(encode_group(group.group_id, classic.image(assignments)))
    outcome.pending = PendingAppend(AppendPurpose.CHANGE_CONSUMER_GROUP, group.group_id, undo=group)
    shard.groups[group.group_id] = classic
    rebalance = shard.rebalance(classic, outcome, now_ms)
    for each in classic.members.values():
        rebalance.expect_heartbeat(each)
    if needs_rebalance:
        rebalance.prepare("the last member of the consumer protocol is gone")
    outcome.tell_operator(
        logging.INFO, "a group changes from the consumer protocol to the classic one", group=group.group_id
    )
    return classic


def _downgraded(group: ConsumerGroup, left: Sequence[ConsumerMember], topics: Topics, now_ms: int) -> ClassicGroup:
    classic = ClassicGroup(group.group_id, now_ms)
    for member in left:
        assert member.classic is not None
        as_classic = Member(
            member_id=member.member_id,
            group_instance_id=member.instance_id,
            client_id=member.client_id,
            client_host=member.client_host,
            rebalance_timeout_ms=member.rebalance_timeout_ms,
            session_timeout_ms=member.classic.session_timeout_ms,
            protocols=member.classic.protocols,
        )
        classic.add(as_classic, CONSUMER_PROTOCOL_TYPE)
    classic.generation_id = group.epoch
    classic.protocol_name = classic.select_protocol()
    assignments = {}
    for member in left:
        metadata = classic.members[member.member_id].metadata(classic.protocol_name) or b""
        # Its present partitions, not (as in Kafka) its target: the group may be upgraded again before it has rejoined,
        # and its partitions must not be given to others then.
        held = (*member.assigned, *member.pending_revocation)
        assignments[member.member_id] = encode_assignment_for(metadata, held, topics)
    # Adopted as if it had been read: Stable, with all offers of the members.
    classic.adopt(classic.image(assignments))
    return classic
