"""ConsumerGroupHeartbeat (KIP-848): join, stay, leave, and the checks of each."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from penstock.coordinators.newcomers import OWN_SIZE, Newcomer
from penstock.coordinators.operations import Refusal
from penstock.coordinators.outcome import Token
from penstock.groups.classic.group import ClassicGroup, GroupState
from penstock.groups.consumer.expressions import Matched
from penstock.groups.consumer.group import JOINING, LEAVING, LEAVING_FOR_A_WHILE, ConsumerGroup, ConsumerMember
from penstock.groups.consumer.step import ConsumerStep, MemberChange
from penstock.groups.operations import migration
from penstock.groups.outcome import EXPULSIONS, GroupOutcome, TimerKey, TimerKind
from penstock.groups.records.consumer_groups import AssignedPartitions, MemberState, encode_assignment
from penstock.groups.records.consumer_offsets import encode_group
from penstock.groups.requests import ConsumerHeartbeatRequest
from penstock.groups.results import ConsumerHeartbeatResult
from penstock.groups.settings import GroupSettings
from penstock.groups.shard import GroupShard
from penstock.groups.topics import Steps, TopicIdPartition, in_order, in_order_in_steps
from penstock.protocol.errors import ApiError, ErrorCode

logger = logging.getLogger(__name__)

_NOTHING_MATCHED: Mapping[str, Matched] = {}


def check_request(request: ConsumerHeartbeatRequest, settings: GroupSettings) -> Refusal | None:
    """The errors of a request in any state of the group, in Kafka's order and words."""
    epoch = request.member_epoch
    needs_member_id = request.must_bring_member_id or epoch > 0 or epoch == LEAVING
    is_joining = epoch == JOINING
    checks = (
        (needs_member_id and not request.member_id, "MemberId can't be empty."),
        (not request.group_id, "GroupId can't be empty."),
        (request.instance_id == "", "InstanceId can't be empty."),
        (request.rack_id == "", "RackId can't be empty."),
        (is_joining and request.rebalance_timeout_ms == -1, "RebalanceTimeoutMs must be provided in first request."),
        (
            is_joining and (request.owned is None or bool(request.owned)),
            "TopicPartitions must be empty when (re-)joining.",
        ),
        (
            is_joining and request.topic_names is None and request.topic_regex is None,
            "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining.",
        ),
        (epoch == LEAVING_FOR_A_WHILE and request.instance_id is None, "InstanceId can't be null."),
        (epoch < LEAVING_FOR_A_WHILE, "MemberEpoch is invalid."),
    )
    for is_wrong, message in checks:
        if is_wrong:
            return Refusal(ErrorCode.INVALID_REQUEST, message)
    if request.server_assignor is not None and request.server_assignor not in settings.consumer_assignors:
        supported = ", ".join(settings.consumer_assignors)
        message = f"ServerAssignor {request.server_assignor} is not supported. Supported assignors: {supported}."
        return Refusal(ErrorCode.UNSUPPORTED_ASSIGNOR, message)
    return None


def heartbeat(
    shard: GroupShard,
    token: Token[ConsumerHeartbeatResult],
    request: ConsumerHeartbeatRequest,
    now_ms: int,
    matched: Mapping[str, Matched] = _NOTHING_MATCHED,
) -> GroupOutcome:
    """`matched` are regular expressions that need not be matched again."""
    outcome = shard.outcome()
    try:
        if request.member_epoch in (LEAVING, LEAVING_FOR_A_WHILE):
            outcome.reply(token, _leave(shard, outcome, request, now_ms))
        else:
            outcome.reply(token, _heartbeat(shard, outcome, request, now_ms, matched))
    except ApiError as error:
        outcome = shard.outcome()  # nothing of the earlier preparation happens
        outcome.reply(token, ConsumerHeartbeatResult(error.code, error.message))
    return outcome


# ---------------------------------------------------------------------------------------------------- staying


class _Begun(NamedTuple):
    """A heartbeat that was not refused so far."""

    step: ConsumerStep
    change: MemberChange
    classic: ClassicGroup | None  # the group until now
    newcomer: Newcomer | None  # set where the heartbeat is the first of its member


def _heartbeat(
    shard: GroupShard,
    outcome: GroupOutcome,
    request: ConsumerHeartbeatRequest,
    now_ms: int,
    matched: Mapping[str, Matched],
) -> ConsumerHeartbeatResult:
    begun = _begin(shard, outcome, request, now_ms, matched)
    member = begun.step.advance(begun.change)
    _follow(shard, begun, member)
    assignment = in_order(member.assigned) if _tells_assignment(request, begun.change, member) else None
    return _result(begun.step, member, assignment)


def heartbeat_in_steps(
    shard: GroupShard, request: ConsumerHeartbeatRequest, now_ms: int, matched: Mapping[str, Matched]
) -> Steps[tuple[ConsumerHeartbeatResult, GroupOutcome, ConsumerStep | None]]:
    """The effect of `heartbeat` on a group that is not a classic group with members: the result, all else, and the step
    for `settle`. Changes nothing.
    """
    outcome = shard.outcome()
    try:
        begun = _begin(shard, outcome, request, now_ms, matched)
        member = yield from begun.step.advance_in_steps(begun.change)
        _follow(shard, begun, member)
        assignment = None
        if _tells_assignment(request, begun.change, member):
            assignment = yield from in_order_in_steps(member.assigned)
        return _result(begun.step, member, assignment), outcome, begun.step
    except ApiError as error:
        return ConsumerHeartbeatResult(error.code, error.message), shard.outcome(), None


def _begin(
    shard: GroupShard,
    outcome: GroupOutcome,
    request: ConsumerHeartbeatRequest,
    now_ms: int,
    matched: Mapping[str, Matched],
) -> _Begun:
    known = shard.groups.get(request.group_id)
    group = _find_or_create(shard, outcome, request)
    if len(group.members) >= shard.settings.consumer_max_size and request.member_id not in group.members:
        message = f"The consumer group has reached its maximum capacity of {shard.settings.consumer_max_size} members."
        raise ApiError(ErrorCode.GROUP_MAX_SIZE_REACHED, message)
    step = shard.consumer_step(group, outcome, now_ms)
    step.matched = matched
    member_id = request.member_id or shard.new_consumer_id()
    if request.instance_id is None:
        before = _find_dynamic(group, request, member_id)
    else:
        before = _find_static(step, request, member_id)
    change = MemberChange(
        before=before,
        after=_updated(before, request),
        is_new=member_id not in group.members,
        owned=request.owned,
        may_describe=request.may_describe,
    )
    if change.after != before:
        check_metadata_size(shard, group, (member_id, request.instance_id), change.after.metadata_size)
    newcomer = (
        Newcomer(request.client, request.group_id, OWN_SIZE + change.after.metadata_size) if change.is_new else None
    )
    return _Begun(step, change, known if isinstance(known, ClassicGroup) else None, newcomer)


def check_metadata_size(
    shard: GroupShard, group: ConsumerGroup, ids: tuple[str, str | None], metadata_size: int
) -> None:
    """Raises ApiError where the metadata of all members would be too large. `ids` are those of the member and its
    instance, whose former process it replaces.
    """
    most = shard.settings.max_metadata_bytes
    member_id, instance_id = ids
    former = group.static_member(instance_id)
    replaced_id = member_id if former is None else former.member_id
    size = group.metadata_sizes.total - group.metadata_sizes.of(replaced_id) + metadata_size
    if size > most:
        message = f"The members of the group would say {size} bytes about themselves, where {most} are the most."
        raise ApiError(ErrorCode.GROUP_MAX_SIZE_REACHED, message)


def _follow(shard: GroupShard, begun: _Begun, member: ConsumerMember) -> None:
    step = begun.step
    step.expect_heartbeat(member, begun.newcomer)
    if begun.classic is not None:
        migration.release_classic(shard, begun.classic, step.outcome, step.now_ms)
        migration.arm_upgraded(step)


def _tells_assignment(request: ConsumerHeartbeatRequest, change: MemberChange, member: ConsumerMember) -> bool:
    is_full = request.rebalance_timeout_ms != -1 and request.owned is not None
    is_full = is_full and (request.topic_names is not None or request.topic_regex is not None)
    return request.member_epoch == JOINING or is_full or member.assigned != change.before.assigned


def _result(
    step: ConsumerStep, member: ConsumerMember, assignment: tuple[TopicIdPartition, ...] | None
) -> ConsumerHeartbeatResult:
    return ConsumerHeartbeatResult(
        ErrorCode.NONE,
        member_id=member.member_id,
        member_epoch=member.member_epoch,
        heartbeat_interval_ms=step.settings.consumer_heartbeat_interval_ms,
        assignment=assignment,
    )


def _updated(member: ConsumerMember, request: ConsumerHeartbeatRequest) -> ConsumerMember:
    timeout_ms = request.rebalance_timeout_ms
    return member._replace(
        instance_id=member.instance_id if request.instance_id is None else request.instance_id,
        rack_id=member.rack_id if request.rack_id is None else request.rack_id,
        rebalance_timeout_ms=member.rebalance_timeout_ms if timeout_ms == -1 else timeout_ms,
        server_assignor=member.server_assignor if request.server_assignor is None else request.server_assignor,
        topic_names=member.topic_names if request.topic_names is None else request.topic_names,
        topic_regex=member.topic_regex if request.topic_regex is None else request.topic_regex,
        client_id=request.client_id,
        client_host=request.client_host,
        classic=None,
    )


def _find_or_create(shard: GroupShard, outcome: GroupOutcome, request: ConsumerHeartbeatRequest) -> ConsumerGroup:
    group_id = request.group_id
    group = shard.groups.get(group_id)
    is_joining = request.member_epoch == JOINING
    if isinstance(group, ConsumerGroup):
        return group
    if group is None:
        if not is_joining:
            raise ApiError(ErrorCode.GROUP_ID_NOT_FOUND, f"Consumer group {group_id} not found.")
        return ConsumerGroup(group_id)
    if not is_joining:
        raise ApiError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a consumer group.")
    if group.state is GroupState.EMPTY:
        outcome.records.append(encode_group(group_id, None))
        return ConsumerGroup(group_id)
    return migration.upgrade(shard, group, outcome)


def _find_dynamic(group: ConsumerGroup, request: ConsumerHeartbeatRequest, member_id: str) -> ConsumerMember:
    member = group.members.get(member_id)
    if member is None:
        if request.member_epoch != JOINING:
            message = f"Member {member_id} is not a member of group {group.group_id}."
            raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID, message)
        return ConsumerMember(member_id)
    _check_epoch(member, request)
    return member


def _find_static(step: ConsumerStep, request: ConsumerHeartbeatRequest, member_id: str) -> ConsumerMember:
    existing = step.group.static_member(request.instance_id)
    if request.member_epoch != JOINING:
        _check_instance(existing, request)
        assert existing is not None
        _check_epoch(existing, request)
        return existing
    if existing is None:
        return step.group.members.get(member_id) or ConsumerMember(member_id)
    if existing.classic is None and existing.member_epoch != LEAVING_FOR_A_WHILE:
        message = (
            f"Static member {member_id} with instance id {request.instance_id} cannot join the group because the "
            f"instance id is owned by {existing.member_id} member."
        )
        raise ApiError(ErrorCode.UNRELEASED_INSTANCE_ID, message)
    if existing.member_id == member_id:
        # The same process under the same id: no member is replaced, this member only begins again.
        return existing._replace(member_epoch=JOINING, previous_epoch=0)
    return step.replace_static(existing, member_id)


def _check_epoch(member: ConsumerMember, request: ConsumerHeartbeatRequest) -> None:
    received, known = request.member_epoch, member.member_epoch
    if received in (JOINING, known):
        return
    # The answer with the new epoch may have been lost: then the member still has no more than before.
    if received == member.previous_epoch and received < known and _owns_only(request, member.assigned):
        return
    compared = "greater" if received > known else "smaller"
    message = (
        f"The consumer group member has a {compared} member epoch ({received}) than the one known by the group "
        f"coordinator ({known}). The member must abandon all its partitions and rejoin."
    )
    raise ApiError(ErrorCode.FENCED_MEMBER_EPOCH, message)


def _owns_only(request: ConsumerHeartbeatRequest, assigned: AssignedPartitions) -> bool:
    return request.owned is not None and all(partition in assigned for partition in request.owned)


def _check_instance(existing: ConsumerMember | None, request: ConsumerHeartbeatRequest) -> None:
    if existing is None:
        raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID, f"Instance id {request.instance_id} is unknown.")
    if existing.member_id != request.member_id:
        message = (
            f"Static member {request.member_id} with instance id {request.instance_id} was fenced by member "
            f"{existing.member_id}."
        )
        raise ApiError(ErrorCode.FENCED_INSTANCE_ID, message)


# ---------------------------------------------------------------------------------------------------- leaving


def _leave(
    shard: GroupShard, outcome: GroupOutcome, request: ConsumerHeartbeatRequest, now_ms: int
) -> ConsumerHeartbeatResult:
    group = shard.groups.get(request.group_id)
    if group is None:
        raise ApiError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {request.group_id} not found.")
    if not isinstance(group, ConsumerGroup):
        raise ApiError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {request.group_id} is not a consumer group.")
    if request.instance_id is None:
        member = group.members.get(request.member_id)
        if member is None:
            message = f"Member {request.member_id} is not a member of group {group.group_id}."
            raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID, message)
    else:
        member = group.static_member(request.instance_id)
        _check_instance(member, request)
        assert member is not None
    if request.member_epoch == LEAVING_FOR_A_WHILE:
        step = shard.consumer_step(group, outcome, now_ms)
        away = member._replace(
            member_epoch=LEAVING_FOR_A_WHILE,
            assigned=dict.fromkeys(member.assigned, 0),
            pending_revocation={},
        )
        step.record(encode_assignment(group.group_id, away.member_id, away.assignment()))
        # The session goes on: a member that does not come back in time is removed.
        outcome.cancel_timer(TimerKind.REVOCATION, group.group_id, member.member_id)
    else:
        remove_members(shard, group, [member], outcome, now_ms)
    return ConsumerHeartbeatResult(ErrorCode.NONE, member_id=request.member_id, member_epoch=request.member_epoch)


def remove_members(
    shard: GroupShard, group: ConsumerGroup, gone: Sequence[ConsumerMember], outcome: GroupOutcome, now_ms: int
) -> None:
    """The members left or were silent for too long. If all remaining members speak the classic protocol, the group
    does, too.
    """
    if not gone:
        return
    logger.debug("members are gone", extra={"group": group.group_id, "members": [member.member_id for member in gone]})
    gone_ids = {member.member_id for member in gone}
    left = [member for member in group.members.values() if member.member_id not in gone_ids]
    if left and migration.can_downgrade(shard, left):
        migration.downgrade(shard, group, left, outcome, now_ms, gone=gone)
    else:
        shard.consumer_step(group, outcome, now_ms).remove(gone)


def on_timer(shard: GroupShard, group: ConsumerGroup, key: TimerKey, now_ms: int) -> GroupOutcome:
    """A member sent no heartbeat, did not give up its partitions, or (a classic member) did not join or sync in
    time.
    """
    outcome = shard.outcome()
    member = group.members.get(key.member_id)
    if member is None:
        return outcome  # the member is gone already, or the timer belongs to the former classic group
    if key.kind is TimerKind.REVOCATION and member.state is not MemberState.UNREVOKED_PARTITIONS:
        return outcome
    if key.kind in (TimerKind.JOIN, TimerKind.SYNC) and member.classic is None:
        return outcome
    outcome.tell_operator(
        logging.INFO,
        EXPULSIONS[key.kind],
        group=group.group_id,
        member=member.member_id,
        client_id=member.client_id,
        client_host=member.client_host,
    )
    remove_members(shard, group, [member], outcome, now_ms)
    return outcome
