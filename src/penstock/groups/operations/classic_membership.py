"""JoinGroup, SyncGroup, Heartbeat and LeaveGroup of classic groups: the admission of members, and the effect of each
request in each state.
"""

from __future__ import annotations

import logging

from penstock.coordinators.outcome import Token
from penstock.groups.classic.group import ClassicGroup, GroupState, Member, metadata_size_of
from penstock.groups.classic.rebalance import Rebalance, join_result
from penstock.groups.consumer.group import ConsumerGroup
from penstock.groups.operations import classic_members
from penstock.groups.outcome import AppendPurpose, GroupOutcome, PendingAppend, TimerKind
from penstock.groups.records.consumer_offsets import encode_group
from penstock.groups.requests import (
    NO_MEMBER_ID,
    HeartbeatRequest,
    JoinRequest,
    LeaveRequest,
    LeavingMember,
    SyncRequest,
)
from penstock.groups.results import HeartbeatResult, JoinResult, LeaveResult, MemberLeft, SyncResult
from penstock.groups.shard import GroupShard
from penstock.protocol.errors import ErrorCode

# ---------------------------------------------------------------------------------------------------- JoinGroup


def join_group(shard: GroupShard, token: Token[JoinResult], request: JoinRequest, now_ms: int) -> GroupOutcome:
    outcome = shard.outcome()
    is_unknown = request.member_id == NO_MEMBER_ID
    known = shard.groups.get(request.group_id)
    if isinstance(known, ConsumerGroup) and known.members:
        return classic_members.join(shard, known, token, request, now_ms)
    # A KIP-848 group without members gives way to a classic group.
    group = known if isinstance(known, ClassicGroup) else None
    is_created = group is None
    if group is None:
        if not is_unknown:
            outcome.reply(token, JoinResult(ErrorCode.UNKNOWN_MEMBER_ID, request.member_id))
            return outcome
        group = ClassicGroup(request.group_id, now_ms)
    rebalance = shard.rebalance(group, outcome, now_ms)
    fits = _fits(group, request, shard.settings.max_metadata_bytes)
    if not fits:
        _warn_of_metadata(outcome, request.group_id)
    if not fits or not _has_room(group, request.member_id, shard.settings.max_size):
        outcome.reply(token, JoinResult(ErrorCode.GROUP_MAX_SIZE_REACHED, NO_MEMBER_ID))
        if not is_unknown:
            was_member = request.member_id in group.members
            rebalance.drop_member(request.member_id)
            if was_member:
                _rebalance_after_leave(rebalance)
            else:
                rebalance.complete_join_if_ready()
        return outcome
    if not group.supports_protocols(request.protocol_type, request.protocols):
        outcome.reply(token, JoinResult(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, request.member_id))
        return outcome
    if is_created:
        shard.groups[group.group_id] = group
        outcome.pending = PendingAppend(AppendPurpose.CREATE_GROUP, group.group_id, undo=known)
        outcome.records += known.tombstones() if isinstance(known, ConsumerGroup) else ()
    if is_unknown:
        _join_unknown(shard, rebalance, token, request)
    else:
        _join_known(rebalance, token, request)
    if is_created:
        # Recorded at once, so that the group survives this coordinator even without a generation.
        outcome.records.append(encode_group(group.group_id, ClassicGroup(group.group_id, now_ms).image({})))
    return outcome


def _has_room(group: ClassicGroup, member_id: str, max_size: int) -> bool:
    if group.state is GroupState.EMPTY:
        return True
    if group.state is GroupState.PREPARING_REBALANCE:
        # Counts the members that have rejoined: where the limit was lowered, the last to rejoin are refused.
        return member_id in group.join_tokens or len(group.join_tokens) < max_size
    return member_id in group.members or len(group.members) < max_size


def _fits(group: ClassicGroup, request: JoinRequest, most_bytes: int) -> bool:
    """Whether the offers of all members fit, with this offer in place of the member's former offer."""
    member_id = request.member_id
    if request.group_instance_id is not None:
        member_id = group.static_members.get(request.group_instance_id, member_id)
    former = group.members.get(member_id)
    others_size = group.metadata_size - (0 if former is None else former.metadata_size)
    return others_size + metadata_size_of(member_id, request.client_id, request.protocols) <= most_bytes


def _warn_of_metadata(outcome: GroupOutcome, group_id: str) -> None:
    outcome.tell_operator(
        logging.WARNING,
        "metadata or assignments of a group are above penstock.group.max.metadata.bytes and are refused",
        group=group_id,
    )


def _join_unknown(shard: GroupShard, rebalance: Rebalance, token: Token[JoinResult], request: JoinRequest) -> None:
    group = rebalance.group
    if request.group_instance_id is not None:
        new_member_id = shard.new_member_id(request.group_instance_id)
        existing = group.static_members.get(request.group_instance_id)
        if existing is not None:
            _replace_static_member(rebalance, token, request, existing, new_member_id)
        else:
            _add_member(rebalance, token, request, new_member_id)
        return
    new_member_id = shard.new_member_id(request.client_id)
    if not request.accepts_member_id_required:
        _add_member(rebalance, token, request, new_member_id)
        return
    # A client that never gets its member id (lost response, timed-out request) must not become a member without a
    # client (KIP-394).
    rebalance.expect_join(new_member_id, request.session_timeout_ms, request.client)
    rebalance.outcome.reply(token, JoinResult(ErrorCode.MEMBER_ID_REQUIRED, new_member_id))


def _join_known(rebalance: Rebalance, token: Token[JoinResult], request: JoinRequest) -> None:
    group, outcome, member_id = rebalance.group, rebalance.outcome, request.member_id
    if member_id in group.pending_join and request.group_instance_id is None:
        _add_member(rebalance, token, request, member_id)
        return
    error = group.check_member(member_id, request.group_instance_id)
    if error is not ErrorCode.NONE:
        outcome.reply(token, JoinResult(error, member_id))
        return
    is_unchanged = group.members[member_id].protocols == request.protocols
    if group.state is GroupState.COMPLETING_REBALANCE and is_unchanged:
        # The answer to its first JoinGroup was lost.
        outcome.reply(token, join_result(group, member_id))
    elif group.state is GroupState.STABLE and is_unchanged and not group.is_leader(member_id):
        outcome.reply(token, join_result(group, member_id))
    else:
        # A leader that rejoins a stable group wants a new assignment: it may have seen new partitions.
        group.update(_with_request(group.members[member_id], request))
        rebalance.park_join(member_id, token)
        rebalance.start_or_continue(f"member {member_id} rejoins: {request.reason}")


def _add_member(rebalance: Rebalance, token: Token[JoinResult], request: JoinRequest, member_id: str) -> None:
    group = rebalance.group
    member = Member(
        member_id=member_id,
        group_instance_id=request.group_instance_id,
        client_id=request.client_id,
        client_host=request.client_host,
        rebalance_timeout_ms=_rebalance_timeout_ms(request),
        session_timeout_ms=request.session_timeout_ms,
        protocols=request.protocols,
        is_new=True,
        client=request.client,
    )
    if group.initial_delay is not None:
        group.has_new_member = True
    group.add(member, request.protocol_type)
    rebalance.park_join(member_id, token)
    rebalance.expect_heartbeat(member, rebalance.settings.new_member_join_timeout_ms)
    rebalance.start_or_continue(f"member {member_id} joins: {request.reason}")


def _replace_static_member(
    rebalance: Rebalance, token: Token[JoinResult], request: JoinRequest, old_id: str, new_id: str
) -> None:
    group, outcome = rebalance.group, rebalance.outcome
    old = group.members[old_id]
    old_leader = group.leader or ""
    # Its successor knows that the instance is a member, so the group waits for it as for any member that rejoins.
    new = _with_request(old, request)._replace(member_id=new_id, is_new=False)
    rebalance.answer_parked(old_id, old_id, ErrorCode.FENCED_INSTANCE_ID)
    group.replace(old_id, new)
    outcome.cancel_timer(TimerKind.SESSION, group.group_id, old_id)
    rebalance.expect_heartbeat(new)
    if group.state is not GroupState.STABLE or group.select_protocol() != group.protocol_name:
        # During an assignment the leader still uses the old member id, so it must begin again.
        rebalance.park_join(new_id, token)
        rebalance.start_or_continue(f"static member {request.group_instance_id} returns: {request.reason}")
        return
    # The purpose of static membership: a restart changes the member id and nothing else.
    assignments = {member.member_id: member.assignment for member in group.members.values()}
    outcome.records.append(encode_group(group.group_id, group.image(assignments)))
    outcome.pending = PendingAppend(AppendPurpose.REPLACE_STATIC_MEMBER, group.group_id, group.generation_id, undo=old)
    result = join_result(group, new_id)
    if request.accepts_skip_assignment:
        outcome.reply(token, result._replace(skip_assignment=group.is_leader(new_id)))
    else:
        # An older client that becomes the leader would assign again, and no member would ask for the result: its answer
        # names the previous leader.
        outcome.reply(token, result._replace(leader=old_leader, members=()))


def _with_request(member: Member, request: JoinRequest) -> Member:
    return member._replace(
        protocols=request.protocols,
        rebalance_timeout_ms=_rebalance_timeout_ms(request),
        session_timeout_ms=request.session_timeout_ms,
    )


def abandon_join(shard: GroupShard, token: Token[JoinResult], request: JoinRequest, now_ms: int) -> GroupOutcome:
    """The client has gone before its first generation began. No client would act as such a member, so it is removed. A
    client that lost nothing but its connection gets UNKNOWN_MEMBER_ID, and joins again. A member that has seen a
    generation stays until its session ends.
    """
    outcome = shard.outcome()
    group = shard.groups.get(request.group_id)
    if isinstance(group, ClassicGroup):
        candidates = (request.member_id,) if request.member_id != NO_MEMBER_ID else group.join_tokens
        member_id = next((each for each in candidates if group.join_tokens.get(each) is token), None)
        if member_id is not None and group.members[member_id].is_new:
            rebalance = shard.rebalance(group, outcome, now_ms)
            rebalance.drop_member(member_id)
            rebalance.complete_join_if_ready()
            shard.forget_if_unused(group, outcome)
    return outcome


def _rebalance_timeout_ms(request: JoinRequest) -> int:
    return request.session_timeout_ms if request.rebalance_timeout_ms < 0 else request.rebalance_timeout_ms


# ---------------------------------------------------------------------------------------------------- SyncGroup


def sync_group(shard: GroupShard, token: Token[SyncResult], request: SyncRequest, now_ms: int) -> GroupOutcome:
    outcome = shard.outcome()
    group = shard.groups.get(request.group_id)
    if isinstance(group, ConsumerGroup):
        return classic_members.sync(shard, group, token, request, now_ms)
    if group is None or group.state is GroupState.EMPTY:
        outcome.reply(token, SyncResult(ErrorCode.UNKNOWN_MEMBER_ID))
        return outcome
    error = _check_sync(group, request)
    rebalance = shard.rebalance(group, outcome, now_ms)
    if error is not ErrorCode.NONE:
        outcome.reply(token, SyncResult(error))
    elif group.state is GroupState.STABLE:
        rebalance.note_sync(request.member_id)
        assignment = group.members[request.member_id].assignment
        outcome.reply(token, SyncResult(ErrorCode.NONE, group.protocol_type, group.protocol_name, assignment))
    elif group.is_leader(request.member_id) and _is_too_large(request, shard.settings.max_metadata_bytes):
        # The other members join again, as after an assignment that cannot be written.
        _warn_of_metadata(outcome, group.group_id)
        outcome.reply(token, SyncResult(ErrorCode.GROUP_MAX_SIZE_REACHED))
        rebalance.prepare("the assignment is too large")
    else:
        rebalance.park_sync(request.member_id, token)
        rebalance.note_sync(request.member_id)
        if group.is_leader(request.member_id):
            _store_assignment(rebalance, request)
    return outcome


def _is_too_large(request: SyncRequest, most_bytes: int) -> bool:
    return sum(len(entry.assignment) for entry in request.assignments) > most_bytes


def _check_sync(group: ClassicGroup, request: SyncRequest) -> ErrorCode:
    error = group.check_member(request.member_id, request.group_instance_id)
    if error is not ErrorCode.NONE:
        return error
    if request.generation_id != group.generation_id:
        return ErrorCode.ILLEGAL_GENERATION
    if _is_inconsistent(request.protocol_type, group.protocol_type) or _is_inconsistent(
        request.protocol_name, group.protocol_name
    ):
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    if group.state is GroupState.PREPARING_REBALANCE:
        return ErrorCode.REBALANCE_IN_PROGRESS
    return ErrorCode.NONE


def _is_inconsistent(requested: str | None, actual: str | None) -> bool:
    return requested is not None and actual is not None and requested != actual


def _store_assignment(rebalance: Rebalance, request: SyncRequest) -> None:
    """Records the leader's assignment. The group becomes Stable when the record is replayed; later requests are
    answered from the group.
    """
    group = rebalance.group
    given = {entry.member_id: entry.assignment for entry in request.assignments}
    assignments = {member_id: given.get(member_id, b"") for member_id in group.members}
    rebalance.outcome.records.append(encode_group(group.group_id, group.image(assignments)))
    rebalance.outcome.pending = PendingAppend(AppendPurpose.STORE_ASSIGNMENT, group.group_id, group.generation_id)
    rebalance.answer_syncs(ErrorCode.NONE, assignments)


# ---------------------------------------------------------------------------------------------------- Heartbeat


def heartbeat(shard: GroupShard, token: Token[HeartbeatResult], request: HeartbeatRequest, now_ms: int) -> GroupOutcome:
    outcome = shard.outcome()
    group = shard.groups.get(request.group_id)
    if isinstance(group, ConsumerGroup):
        return classic_members.heartbeat(shard, group, token, request, now_ms)
    error = ErrorCode.UNKNOWN_MEMBER_ID
    if group is not None:
        error = group.check_member(request.member_id, request.group_instance_id)
        if error is ErrorCode.NONE and request.generation_id != group.generation_id:
            error = ErrorCode.ILLEGAL_GENERATION
        if error is ErrorCode.NONE:
            shard.rebalance(group, outcome, now_ms).expect_heartbeat(group.members[request.member_id])
            if group.state is GroupState.PREPARING_REBALANCE:
                error = ErrorCode.REBALANCE_IN_PROGRESS
    outcome.reply(token, HeartbeatResult(error))
    return outcome


# ---------------------------------------------------------------------------------------------------- LeaveGroup


def leave_group(shard: GroupShard, token: Token[LeaveResult], request: LeaveRequest, now_ms: int) -> GroupOutcome:
    outcome = shard.outcome()
    group = shard.groups.get(request.group_id)
    if isinstance(group, ConsumerGroup):
        return classic_members.leave(shard, group, token, request, now_ms)
    if group is None:
        errors = [ErrorCode.UNKNOWN_MEMBER_ID for _ in request.members]
    else:
        rebalance = shard.rebalance(group, outcome, now_ms)
        errors = [_leave(rebalance, member) for member in request.members]
        if ErrorCode.NONE in errors:
            _rebalance_after_leave(rebalance)
    left = tuple(
        MemberLeft(member.member_id, member.group_instance_id, error)
        for member, error in zip(request.members, errors, strict=True)
    )
    outcome.reply(token, LeaveResult(ErrorCode.NONE, left))
    return outcome


def _leave(rebalance: Rebalance, leaving: LeavingMember) -> ErrorCode:
    group = rebalance.group
    member_id = leaving.member_id
    if member_id == NO_MEMBER_ID:
        # An administrator removes a static member by its instance id.
        if leaving.group_instance_id is None or leaving.group_instance_id not in group.static_members:
            return ErrorCode.UNKNOWN_MEMBER_ID
        member_id = group.static_members[leaving.group_instance_id]
    elif member_id not in group.pending_join:
        error = group.check_member(member_id, leaving.group_instance_id)
        if error is not ErrorCode.NONE:
            return error
    rebalance.drop_member(member_id)
    return ErrorCode.NONE


def _rebalance_after_leave(rebalance: Rebalance) -> None:
    if rebalance.group.state in (GroupState.STABLE, GroupState.COMPLETING_REBALANCE):
        rebalance.prepare("members left")
    else:
        rebalance.complete_join_if_ready()
