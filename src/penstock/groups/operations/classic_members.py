"""JoinGroup, SyncGroup, Heartbeat and LeaveGroup of members that speak the classic protocol in a KIP-848 group.

Such a member gets nothing but its own part: it never leads, its JoinGroup is answered at once, and its generation is
its member epoch. A heartbeat makes it rejoin when the target has moved, or when it has partitions to give up or to
take; JoinGroup lists its owned partitions, and the SyncGroup answer has its present ones.
"""

from __future__ import annotations

from penstock.coordinators.newcomers import OWN_SIZE, Newcomer
from penstock.coordinators.outcome import Token
from penstock.groups.classic.group import metadata_size_of
from penstock.groups.consumer.group import ConsumerGroup, ConsumerMember
from penstock.groups.consumer.step import ConsumerStep, MemberChange
from penstock.groups.operations import migration
from penstock.groups.operations.consumer_membership import check_metadata_size, remove_members
from penstock.groups.outcome import GroupOutcome, TimerKind
from penstock.groups.records.consumer_groups import ClassicMembership, MemberState
from penstock.groups.requests import (
    NO_MEMBER_ID,
    HeartbeatRequest,
    JoinRequest,
    LeaveRequest,
    LeavingMember,
    SyncRequest,
)
from penstock.groups.results import HeartbeatResult, JoinResult, LeaveResult, MemberLeft, SyncResult
from penstock.groups.settings import MigrationPolicy
from penstock.groups.shard import GroupShard
from penstock.groups.subscription import (
    CONSUMER_PROTOCOL_TYPE,
    Subscription,
    decode_subscription,
    encode_assignment_for,
)
from penstock.protocol.errors import ApiError, ErrorCode

# ---------------------------------------------------------------------------------------------------- JoinGroup


def join(
    shard: GroupShard, group: ConsumerGroup, token: Token[JoinResult], request: JoinRequest, now_ms: int
) -> GroupOutcome:
    outcome = shard.outcome()
    try:
        outcome.reply(token, _join(shard, group, outcome, request, now_ms))
    except ApiError as error:
        outcome = shard.outcome()
        outcome.reply(token, JoinResult(error.code, request.member_id))
    return outcome


def _join(
    shard: GroupShard, group: ConsumerGroup, outcome: GroupOutcome, request: JoinRequest, now_ms: int
) -> JoinResult:
    _check_join(shard, group, request)
    is_unknown = request.member_id == NO_MEMBER_ID
    member_id = request.member_id or shard.new_consumer_id()
    if is_unknown and request.group_instance_id is None and request.accepts_member_id_required:
        return JoinResult(ErrorCode.MEMBER_ID_REQUIRED, member_id)
    subscription = decode_subscription(request.protocols[0].metadata, shard.topics)
    step = shard.consumer_step(group, outcome, now_ms)
    former = group.static_member(request.group_instance_id)
    if former is not None and is_unknown:
        others = [member for member in group.members.values() if member.member_id != former.member_id]
        if former.classic is None and others and migration.can_downgrade(shard, others):
            return _join_downgraded(shard, step, former, request, member_id, subscription)
    before = _find(step, former, request, member_id)
    change = _change(group, before, request, subscription)
    member = step.advance(change)
    step.expect_heartbeat(member, _newcomer(request, member_id) if change.is_new else None)
    group.awaited_joins.discard(member_id)
    outcome.cancel_timer(TimerKind.JOIN, group.group_id, member_id)
    outcome.set_timer(TimerKind.SYNC, group.group_id, member.rebalance_timeout_ms, member_id)
    return _joined(member)


def _newcomer(request: JoinRequest, member_id: str) -> Newcomer:
    metadata_size = metadata_size_of(member_id, request.client_id, request.protocols)
    return Newcomer(request.client, request.group_id, OWN_SIZE + metadata_size)


def _check_join(shard: GroupShard, group: ConsumerGroup, request: JoinRequest) -> None:
    if shard.settings.consumer_migration_policy is MigrationPolicy.DISABLED:
        raise ApiError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    if len(group.members) >= shard.settings.consumer_max_size and request.member_id not in group.members:
        raise ApiError(ErrorCode.GROUP_MAX_SIZE_REACHED)
    metadata_size = metadata_size_of(request.member_id, request.client_id, request.protocols)
    check_metadata_size(shard, group, (request.member_id, request.group_instance_id), metadata_size)
    names = {protocol.name for protocol in request.protocols}
    if not group.supports_protocols(request.protocol_type, names):
        raise ApiError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)


def _find(step: ConsumerStep, former: ConsumerMember | None, request: JoinRequest, member_id: str) -> ConsumerMember:
    if request.group_instance_id is None:
        return step.group.members.get(member_id) or ConsumerMember(member_id)
    if request.member_id == NO_MEMBER_ID:
        return ConsumerMember(member_id) if former is None else step.replace_static(former, member_id)
    return _check_instance(former, member_id)


def _check_instance(member: ConsumerMember | None, member_id: str) -> ConsumerMember:
    if member is None:
        raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID)
    if member.member_id != member_id:
        raise ApiError(ErrorCode.FENCED_INSTANCE_ID)
    return member


def _change(
    group: ConsumerGroup, before: ConsumerMember, request: JoinRequest, subscription: Subscription
) -> MemberChange:
    timeout_ms = request.rebalance_timeout_ms
    after = before._replace(
        instance_id=request.group_instance_id or before.instance_id,
        rack_id=subscription.rack_id or before.rack_id,
        rebalance_timeout_ms=request.session_timeout_ms if timeout_ms < 0 else timeout_ms,
        topic_names=subscription.topics,
        topic_regex="",
        client_id=request.client_id,
        client_host=request.client_host,
        classic=ClassicMembership(request.session_timeout_ms, request.protocols),
    )
    is_new = before.member_id not in group.members
    return MemberChange(before, after, is_new, subscription.owned, lambda _topic: True)


def _join_downgraded(
    shard: GroupShard,
    step: ConsumerStep,
    former: ConsumerMember,
    request: JoinRequest,
    member_id: str,
    subscription: Subscription,
) -> JoinResult:
    """A static member comes back with the classic protocol, and was the last of the other protocol: now the group is
    classic.
    """
    group, outcome = step.group, step.outcome
    before = former._replace(member_id=member_id, member_epoch=0, previous_epoch=0)
    # The records of `keep` are gone with the group; only its verdict counts.
    trial = shard.consumer_step(group, shard.outcome(), step.now_ms)
    member, needs_rebalance = trial.keep(_change(group, before, request, subscription))
    left = [member if each.member_id == former.member_id else each for each in group.members.values()]
    needs_rebalance = needs_rebalance or not all(each.is_reconciled_to(group.target_epoch) for each in left)
    classic = migration.downgrade(
        shard, group, left, outcome, step.now_ms, gone=[former], needs_rebalance=needs_rebalance
    )
    return _joined(member)._replace(generation_id=classic.generation_id)


def _joined(member: ConsumerMember) -> JoinResult:
    assert member.classic is not None
    return JoinResult(
        ErrorCode.NONE,
        member.member_id,
        generation_id=member.member_epoch,
        protocol_type=CONSUMER_PROTOCOL_TYPE,
        protocol_name=member.classic.protocols[0].name,
    )


# ---------------------------------------------------------------------------------------------------- SyncGroup


def sync(
    shard: GroupShard, group: ConsumerGroup, token: Token[SyncResult], request: SyncRequest, now_ms: int
) -> GroupOutcome:
    outcome = shard.outcome()
    step = shard.consumer_step(group, outcome, now_ms)
    try:
        member, classic = _member(group, request.member_id, request.group_instance_id, request.generation_id)
        name = classic.protocols[0].name
        if request.protocol_type not in (None, CONSUMER_PROTOCOL_TYPE) or request.protocol_name not in (None, name):
            raise ApiError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        if group.target_epoch > member.member_epoch and member.state is not MemberState.UNREVOKED_PARTITIONS:
            _await_join(step, member)
            raise ApiError(ErrorCode.REBALANCE_IN_PROGRESS)
        assignment = encode_assignment_for(classic.protocols[0].metadata, member.assigned, shard.topics)
        outcome.cancel_timer(TimerKind.SYNC, group.group_id, member.member_id)
        step.expect_heartbeat(member)
        outcome.reply(token, SyncResult(ErrorCode.NONE, CONSUMER_PROTOCOL_TYPE, name, assignment))
    except ApiError as error:
        outcome.reply(token, SyncResult(error.code))
    return outcome


def _member(
    group: ConsumerGroup, member_id: str, instance_id: str | None, generation_id: int
) -> tuple[ConsumerMember, ClassicMembership]:
    if instance_id is not None:
        member = _check_instance(group.static_member(instance_id), member_id)
    else:
        known = group.members.get(member_id)
        if known is None:
            raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID)
        member = known
    if member.classic is None:
        raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID)
    if member.member_epoch != generation_id:
        raise ApiError(ErrorCode.ILLEGAL_GENERATION)
    return member, member.classic


def _await_join(step: ConsumerStep, member: ConsumerMember) -> None:
    """The wait begins with the first such heartbeat, not with the last."""
    if member.member_id not in step.group.awaited_joins:
        step.group.awaited_joins.add(member.member_id)
        step.outcome.set_timer(TimerKind.JOIN, step.group.group_id, member.rebalance_timeout_ms, member.member_id)


# ---------------------------------------------------------------------------------------------------- Heartbeat


def heartbeat(
    shard: GroupShard, group: ConsumerGroup, token: Token[HeartbeatResult], request: HeartbeatRequest, now_ms: int
) -> GroupOutcome:
    outcome = shard.outcome()
    step = shard.consumer_step(group, outcome, now_ms)
    try:
        member, _ = _member(group, request.member_id, request.group_instance_id, request.generation_id)
        step.expect_heartbeat(member)
        if (
            member.member_epoch < group.target_epoch
            or member.state is MemberState.UNREVOKED_PARTITIONS
            or (member.state is MemberState.UNRELEASED_PARTITIONS and not group.is_waiting(member))
        ):
            _await_join(step, member)
            raise ApiError(ErrorCode.REBALANCE_IN_PROGRESS)
        outcome.reply(token, HeartbeatResult(ErrorCode.NONE))
    except ApiError as error:
        outcome.reply(token, HeartbeatResult(error.code))
    return outcome


# ---------------------------------------------------------------------------------------------------- LeaveGroup


def leave(
    shard: GroupShard, group: ConsumerGroup, token: Token[LeaveResult], request: LeaveRequest, now_ms: int
) -> GroupOutcome:
    outcome = shard.outcome()
    gone: dict[str, ConsumerMember] = {}
    answers = []
    for leaving in request.members:
        error = ErrorCode.NONE
        try:
            member = _find_leaving(group, leaving)
            gone[member.member_id] = member
        except ApiError as refused:
            error = refused.code
        answers.append(MemberLeft(leaving.member_id, leaving.group_instance_id, error))
    remove_members(shard, group, list(gone.values()), outcome, now_ms)
    outcome.reply(token, LeaveResult(ErrorCode.NONE, tuple(answers)))
    return outcome


def _find_leaving(group: ConsumerGroup, leaving: LeavingMember) -> ConsumerMember:
    if leaving.group_instance_id is None:
        member = group.members.get(leaving.member_id)
        if member is None:
            raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID)
        return member
    member = group.static_member(leaving.group_instance_id)
    # An administrator removes a static member by its instance id alone.
    expected = leaving.member_id or (member.member_id if member is not None else NO_MEMBER_ID)
    return _check_instance(member, expected)
