"""The classic group protocol: FindCoordinator, membership, and administration of groups."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterator, Sequence
from functools import partial
from typing import Protocol

from penstock.broker.authorizer import (
    CLUSTER_NAME,
    NOT_ASKED,
    Authorizer,
    Operation,
    ResourceType,
    authorized_operations,
)
from penstock.broker.runtimes.group_runtime import GroupRuntime
from penstock.broker.runtimes.tickets import Ticket, answer_with
from penstock.broker.runtimes.transaction_runtime import TransactionRuntime
from penstock.broker.session import RequestContext
from penstock.broker.slices import OFFSETS_PER_TURN, Slices, Work, collect, pieces
from penstock.broker.topic_creation import TopicCreation
from penstock.cluster.metadata import Metadata
from penstock.core.internal_topics import CONSUMER_OFFSETS, TRANSACTION_STATE
from penstock.groups import requests, results
from penstock.groups.operations.table import (
    DELETE_GROUP,
    DESCRIBE_GROUP,
    HEARTBEAT,
    JOIN_GROUP,
    LEAVE_GROUP,
    SYNC_GROUP,
)
from penstock.protocol.errors import ErrorCode, shorten_reason
from penstock.protocol.messages.delete_groups import DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse
from penstock.protocol.messages.describe_groups import (
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from penstock.protocol.messages.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse
from penstock.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from penstock.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse, JoinGroupResponseMember
from penstock.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberResponse
from penstock.protocol.messages.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse
from penstock.protocol.messages.sync_group import (
    SyncGroupRequest,
    SyncGroupRequestAssignment,
    SyncGroupResponse,
)

_GROUP_KEY = 0
_TRANSACTION_KEY = 1
_SHARE_KEY = 2
# By key type: the topic with the coordinator's state, the resource type for the authorizer, and the error of a refusal.
_COORDINATORS = {
    _GROUP_KEY: (CONSUMER_OFFSETS, ResourceType.GROUP, ErrorCode.GROUP_AUTHORIZATION_FAILED),
    _TRANSACTION_KEY: (
        TRANSACTION_STATE,
        ResourceType.TRANSACTIONAL_ID,
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    ),
}
_FIRST_BATCHED_FIND = 4
_FIRST_WITH_SHARE_KEYS = 6
_FIRST_WITH_MEMBER_ID_REQUIRED = 4
_FIRST_WITH_SKIP_ASSIGNMENT = 9
_FIRST_WITH_NULL_PROTOCOL = 7
_FIRST_BATCHED_LEAVE = 3
_FIRST_WITH_PROTOCOL_NAMES = 5
_FIRST_WITH_GROUP_NOT_FOUND = 6
# Up to this number of members, one turn of the loop handles all of them, in a tenth of a millisecond; slices handle
# more.
_FEW_MEMBERS = 100


class GroupPort(Protocol):
    """The parts of the broker that the handlers of groups use."""

    authorizer: Authorizer
    groups: GroupRuntime
    metadata: Metadata
    slices: Slices
    topic_creation: TopicCreation
    transactions: TransactionRuntime

    def endpoints(self, listener: str) -> Iterator[tuple[int, str, int, str | None]]: ...


def _may(broker: GroupPort, context: RequestContext, operation: Operation, group_id: str) -> bool:
    return broker.authorizer.is_allowed(context, operation, ResourceType.GROUP, group_id)


# ---------------------------------------------------------------------------------------------------- FindCoordinator


async def find_coordinator(
    broker: GroupPort, context: RequestContext, request: FindCoordinatorRequest
) -> FindCoordinatorResponse:
    """Names the broker that coordinates a group or a transactional id.

    The coordinator of a group is the leader of the group's partition of `__consumer_offsets`, the coordinator of a
    transactional id the leader of the id's partition of `__transaction_state`. The first request creates the topic.
    From version 4 on a request asks for several coordinators.
    """
    batched = context.api_version >= _FIRST_BATCHED_FIND
    keys = request.coordinator_keys if batched else [request.key]
    answers = [await _find(broker, context, request.key_type, key) async for key in broker.slices.each(keys)]
    if batched:
        return FindCoordinatorResponse(coordinators=answers)
    (answer,) = answers
    return FindCoordinatorResponse(
        error_code=answer.error_code,
        error_message=answer.error_message,
        node_id=answer.node_id,
        host=answer.host,
        port=answer.port,
    )


async def _find(broker: GroupPort, context: RequestContext, key_type: int, key: str) -> Coordinator:
    answer = Coordinator(key=key, node_id=-1, port=-1, error_message=None)
    if key_type not in _COORDINATORS:
        answer.error_code = ErrorCode.INVALID_REQUEST
        if key_type == _SHARE_KEY and context.api_version >= _FIRST_WITH_SHARE_KEYS:
            authorizer = broker.authorizer
            if not authorizer.is_allowed(context, Operation.CLUSTER_ACTION, ResourceType.CLUSTER, CLUSTER_NAME):
                answer.error_code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
                return answer
        answer.error_message = "this broker coordinates consumer groups and transactions; share groups are not served"
        return answer
    topic_name, resource, refusal = _COORDINATORS[key_type]
    if not broker.authorizer.is_allowed(context, Operation.DESCRIBE, resource, key):
        answer.error_code = refusal
        return answer
    await broker.topic_creation.ensure(topic_name)
    topic = broker.metadata.image.topics.get(topic_name)
    leader = -1
    if topic is not None:
        is_group = key_type == _GROUP_KEY
        index = (broker.groups.shards if is_group else broker.transactions.shards).partition_for(key)
        leader = topic.partitions[index].leader
    for node_id, host, port, _rack in broker.endpoints(context.listener):
        if node_id == leader:
            answer.node_id, answer.host, answer.port = node_id, host, port
            return answer
    answer.error_code = ErrorCode.COORDINATOR_NOT_AVAILABLE
    return answer


# ---------------------------------------------------------------------------------------------------- membership


def join_group(
    broker: GroupPort, context: RequestContext, request: JoinGroupRequest
) -> JoinGroupResponse | Awaitable[JoinGroupResponse]:
    """Joins a classic group; the answer comes when the group's next generation has its members.

    From version 4 on the first answer to a new member is the member's id (KIP-394). From version 5 on a member may be
    static. From version 7 on the protocol may be null where the join failed. From version 9 on the answer may ask a
    leader to keep the assignment.
    """
    if not _may(broker, context, Operation.READ, request.group_id):
        return JoinGroupResponse(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
    domain = requests.JoinRequest(
        group_id=request.group_id,
        member_id=request.member_id,
        protocol_type=request.protocol_type,
        protocols=tuple(requests.Protocol(protocol.name, protocol.metadata) for protocol in request.protocols),
        session_timeout_ms=request.session_timeout_ms,
        rebalance_timeout_ms=request.rebalance_timeout_ms,
        group_instance_id=request.group_instance_id,
        client_id=context.client_id or "",
        client_host=f"/{context.client_host}",
        client=context.client,
        reason=request.reason or "",
        accepts_member_id_required=context.api_version >= _FIRST_WITH_MEMBER_ID_REQUIRED,
        accepts_skip_assignment=context.api_version >= _FIRST_WITH_SKIP_ASSIGNMENT,
    )
    ticket = broker.groups.start(JOIN_GROUP, domain)
    if ticket.result is not None and len(ticket.result.members) <= _FEW_MEMBERS:
        return _joined(context, ticket.result, _show(ticket.result.members))
    return _joined_later(broker, context, domain, ticket)


async def _joined_later(
    broker: GroupPort, context: RequestContext, request: requests.JoinRequest, ticket: Ticket[results.JoinResult]
) -> JoinGroupResponse:
    try:
        result = await ticket.wait()
    except asyncio.CancelledError:  # the connection is lost
        broker.groups.abandon_join(request, ticket)
        raise
    if len(result.members) <= _FEW_MEMBERS:
        return _joined(context, result, _show(result.members))
    return _joined(context, result, await broker.slices.run(collect(map(_show_member, result.members))))


def _show(members: Sequence[results.JoinedMember]) -> list[JoinGroupResponseMember]:
    return [_show_member(member) for member in members]


def _show_member(member: results.JoinedMember) -> JoinGroupResponseMember:
    return JoinGroupResponseMember(
        member_id=member.member_id, group_instance_id=member.group_instance_id, metadata=member.metadata
    )


def _joined(
    context: RequestContext, result: results.JoinResult, members: list[JoinGroupResponseMember]
) -> JoinGroupResponse:
    name = result.protocol_name
    return JoinGroupResponse(
        error_code=result.error,
        generation_id=result.generation_id,
        protocol_type=result.protocol_type,
        protocol_name=name if context.api_version >= _FIRST_WITH_NULL_PROTOCOL else name or "",
        leader=result.leader,
        skip_assignment=result.skip_assignment,
        member_id=result.member_id,
        members=members,
    )


def sync_group(
    broker: GroupPort, context: RequestContext, request: SyncGroupRequest
) -> SyncGroupResponse | Awaitable[SyncGroupResponse]:
    """Takes the leader's assignment, and gives each member its part. From version 3 on a member may be static, from
    version 5 on a member must name the protocol.
    """
    if not _may(broker, context, Operation.READ, request.group_id):
        return SyncGroupResponse(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
    is_unnamed = request.protocol_type is None or request.protocol_name is None
    if is_unnamed and context.api_version >= _FIRST_WITH_PROTOCOL_NAMES:
        return SyncGroupResponse(error_code=ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    if len(request.assignments) > _FEW_MEMBERS:
        return _sync_many(broker, request)
    return _sync(broker, request, tuple(map(_read_assignment, request.assignments)))


async def _sync_many(broker: GroupPort, request: SyncGroupRequest) -> SyncGroupResponse:
    assignments = await broker.slices.run(collect(map(_read_assignment, request.assignments)))
    response = _sync(broker, request, tuple(assignments))
    return response if isinstance(response, SyncGroupResponse) else await response


def _read_assignment(given: SyncGroupRequestAssignment) -> requests.MemberAssignment:
    return requests.MemberAssignment(given.member_id, given.assignment)


def _sync(
    broker: GroupPort, request: SyncGroupRequest, assignments: tuple[requests.MemberAssignment, ...]
) -> SyncGroupResponse | Awaitable[SyncGroupResponse]:
    domain = requests.SyncRequest(
        group_id=request.group_id,
        member_id=request.member_id,
        generation_id=request.generation_id,
        group_instance_id=request.group_instance_id,
        protocol_type=request.protocol_type,
        protocol_name=request.protocol_name,
        assignments=assignments,
    )
    return answer_with(_synced, broker.groups.start(SYNC_GROUP, domain))


def _synced(result: results.SyncResult) -> SyncGroupResponse:
    return SyncGroupResponse(
        error_code=result.error,
        protocol_type=result.protocol_type,
        protocol_name=result.protocol_name,
        assignment=result.assignment,
    )


def heartbeat(
    broker: GroupPort, context: RequestContext, request: HeartbeatRequest
) -> HeartbeatResponse | Awaitable[HeartbeatResponse]:
    """Keeps a member's session alive, and reports a rebalance to the member. From version 3 on a member may be
    static.
    """
    if not _may(broker, context, Operation.READ, request.group_id):
        return HeartbeatResponse(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
    domain = requests.HeartbeatRequest(
        request.group_id, request.member_id, request.generation_id, request.group_instance_id
    )
    return answer_with(_beaten, broker.groups.start(HEARTBEAT, domain))


def _beaten(result: results.HeartbeatResult) -> HeartbeatResponse:
    return HeartbeatResponse(error_code=result.error)


async def leave_group(broker: GroupPort, context: RequestContext, request: LeaveGroupRequest) -> LeaveGroupResponse:
    """Removes members from a group: one member, or from version 3 on several, which may be static. Many members leave
    one part after another, as if each had left by itself.
    """
    if not _may(broker, context, Operation.READ, request.group_id):
        return LeaveGroupResponse(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
    if context.api_version < _FIRST_BATCHED_LEAVE:
        alone = requests.LeaveRequest(request.group_id, (requests.LeavingMember(request.member_id),))
        return LeaveGroupResponse(error_code=(await broker.groups.submit(LEAVE_GROUP, alone)).single_error)
    response = LeaveGroupResponse()
    error = ErrorCode.NONE  # the group's error, since a part that could not leave
    async for piece in broker.slices.each(pieces(request.members, OFFSETS_PER_TURN)):
        leaving = tuple(requests.LeavingMember(m.member_id, m.group_instance_id, m.reason or "") for m in piece)
        left: Sequence[results.MemberLeft] = ()
        if not error:
            result = await broker.groups.submit(LEAVE_GROUP, requests.LeaveRequest(request.group_id, leaving))
            error, left = result.error, result.members
        if error and not response.members:
            return LeaveGroupResponse(error_code=error)
        if error:  # earlier parts have left, so only the members of this part get the error
            left = [results.MemberLeft(member.member_id, member.group_instance_id, error) for member in leaving]
        response.members += [
            MemberResponse(member_id=each.member_id, group_instance_id=each.group_instance_id, error_code=each.error)
            for each in left
        ]
    return response


# ---------------------------------------------------------------------------------------------------- administration


async def describe_groups(
    broker: GroupPort, context: RequestContext, request: DescribeGroupsRequest
) -> DescribeGroupsResponse:
    """Shows classic groups with their members, as far as their state is on disk.

    From version 3 on the answer may list the client's allowed operations. From version 6 on a group that does not exist
    is an error; before version 6 such a group has the state Dead.
    """
    look = partial(_describe_all, broker, context, request)
    return DescribeGroupsResponse(groups=await broker.groups.read_in_slices(request.groups, look))


def _describe_all(
    broker: GroupPort, context: RequestContext, request: DescribeGroupsRequest
) -> Work[list[DescribedGroup]]:
    described = []
    for group_id in request.groups:
        described.append((yield from _describe(broker, context, request, group_id)))
        yield
    return described


def _describe(
    broker: GroupPort, context: RequestContext, request: DescribeGroupsRequest, group_id: str
) -> Work[DescribedGroup]:
    if not _may(broker, context, Operation.DESCRIBE, group_id):
        return DescribedGroup(group_id=group_id, error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
    group = broker.groups.shards.read(DESCRIBE_GROUP, requests.DescribeGroupRequest(group_id))
    error, message = group.error, shorten_reason(group.error_message)
    if error is ErrorCode.GROUP_ID_NOT_FOUND and context.api_version < _FIRST_WITH_GROUP_NOT_FOUND:
        error, message = ErrorCode.NONE, None
    operations = NOT_ASKED
    if request.include_authorized_operations and not error:
        operations = authorized_operations(broker.authorizer, context, ResourceType.GROUP, group_id)
    members = yield from collect(
        DescribedGroupMember(
            member_id=member.member_id,
            group_instance_id=member.group_instance_id,
            client_id=member.client_id,
            client_host=member.client_host,
            member_metadata=member.metadata,
            member_assignment=member.assignment,
        )
        for member in group.members
    )
    return DescribedGroup(
        error_code=error,
        error_message=message,
        group_id=group_id,
        group_state=group.state,
        protocol_type=group.protocol_type,
        protocol_data=group.protocol_data,
        authorized_operations=operations,
        members=members,
    )


async def list_groups(broker: GroupPort, context: RequestContext, request: ListGroupsRequest) -> ListGroupsResponse:
    """Lists groups of every kind. From version 4 on a request may filter by state, from version 5 on by type."""
    sees_all = broker.authorizer.would_allow(context, Operation.DESCRIBE, ResourceType.CLUSTER, CLUSTER_NAME)
    listed = await broker.groups.read_in_slices(
        None, lambda: broker.groups.coordinator.list_groups(request.states_filter, request.types_filter)
    )
    response = ListGroupsResponse(error_code=listed.error)
    async for group in broker.slices.each(listed.groups):
        if sees_all or broker.authorizer.would_allow(context, Operation.DESCRIBE, ResourceType.GROUP, group.group_id):
            response.groups.append(
                ListedGroup(
                    group_id=group.group_id,
                    protocol_type=group.protocol_type,
                    group_state=group.state,
                    group_type=group.group_type,
                )
            )
    return response


async def delete_groups(
    broker: GroupPort, context: RequestContext, request: DeleteGroupsRequest
) -> DeleteGroupsResponse:
    """Deletes groups without members, and their offsets. All versions have the same behaviour."""
    response = DeleteGroupsResponse()
    async for group_id in broker.slices.each(request.groups_names):
        code = await _delete(broker, context, group_id)
        response.results.append(DeletableGroupResult(group_id=group_id, error_code=code))
    return response


async def _delete(broker: GroupPort, context: RequestContext, group_id: str) -> ErrorCode:
    if not _may(broker, context, Operation.DELETE, group_id):
        return ErrorCode.GROUP_AUTHORIZATION_FAILED
    result = await broker.groups.submit_in_slices(DELETE_GROUP, requests.DeleteGroupRequest(group_id))
    return result.error
