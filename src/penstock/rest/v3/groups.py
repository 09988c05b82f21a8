"""Consumer groups of both protocols, seen alike: who is in them, what each member reads, what is committed.

A group of KIP-848 answers to ConsumerGroupDescribe, a classic one to DescribeGroups. Which one it is, is asked in that
order, as Java's administration client does.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from penstock.client.brokers import Brokers, CoordinatorKind
from penstock.client.consumer_protocol import read_assignment
from penstock.core.types import TopicPartition
from penstock.protocol.errors import ApiError, ErrorCode
from penstock.protocol.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
)
from penstock.protocol.messages.consumer_group_describe import DescribedGroup as NewGroup
from penstock.protocol.messages.consumer_group_describe import Member as NewMember
from penstock.protocol.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from penstock.protocol.messages.describe_groups import (
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from penstock.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from penstock.protocol.messages.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse
from penstock.rest.v3.calls import check

_CONSUMER = "consumer"
_CLASSIC_MEMBER, _CONSUMER_MEMBER = 0, 1


class GroupMember(NamedTuple):
    id: str
    instance_id: str | None
    client_id: str
    assigned: Sequence[TopicPartition]


class Group(NamedTuple):
    id: str
    state: str
    type: str  # CLASSIC, CONSUMER
    assignor: str
    is_simple: bool  # offsets alone: nobody joins it
    is_mixed: bool  # members of both protocols
    members: Sequence[GroupMember]
    coordinator: int | None

    def reader_of(self, place: TopicPartition) -> GroupMember | None:
        for member in self.members:
            if place in member.assigned:
                return member
        return None


def _by_id(found: Group | GroupMember) -> str:
    return found.id


def _state(word: str) -> str:
    """`PreparingRebalance` as PREPARING_REBALANCE."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", word).upper() or "UNKNOWN"


def _of_classic(row: DescribedGroup, coordinator: int | None) -> Group:
    members = [_classic_member(row, member) for member in row.members]
    return Group(
        row.group_id,
        _state(row.group_state),
        "CLASSIC",
        row.protocol_data,
        not row.protocol_type,
        is_mixed=False,
        members=sorted(members, key=_by_id),
        coordinator=coordinator,
    )


def _classic_member(row: DescribedGroup, member: DescribedGroupMember) -> GroupMember:
    assigned: list[TopicPartition] = []
    if row.protocol_type == _CONSUMER:
        try:
            assigned = sorted(read_assignment(member.member_assignment))
        except ApiError:
            assigned = []  # bytes of a client that does not keep to the protocol
    return GroupMember(member.member_id, member.group_instance_id, member.client_id, assigned)


def _of_new(row: NewGroup, coordinator: int | None) -> Group:
    kinds = {member.member_type for member in row.members}
    return Group(
        row.group_id,
        _state(row.group_state),
        "CONSUMER",
        row.assignor_name,
        is_simple=False,
        is_mixed=kinds >= {_CLASSIC_MEMBER, _CONSUMER_MEMBER},
        members=sorted(map(_new_member, row.members), key=_by_id),
        coordinator=coordinator,
    )


def _new_member(member: NewMember) -> GroupMember:
    topics = () if member.assignment is None else member.assignment.topic_partitions
    assigned = [TopicPartition(topic.topic_name, index) for topic in topics for index in topic.partitions]
    return GroupMember(member.member_id, member.instance_id, member.client_id, sorted(assigned))


async def describe_group(brokers: Brokers, group_id: str) -> Group:
    """Raises ApiError: GROUP_ID_NOT_FOUND, GROUP_AUTHORIZATION_FAILED."""
    coordinator = await _find_coordinator(brokers, group_id)
    try:
        request = ConsumerGroupDescribeRequest(group_ids=[group_id])
        new: ConsumerGroupDescribeResponse = await brokers.ask_coordinator(
            CoordinatorKind.GROUP, group_id, request, retry=True
        )
        check(new.groups[0].error_code, new.groups[0].error_message)
        return _of_new(new.groups[0], coordinator)
    except ApiError as error:
        if error.code not in (ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.UNSUPPORTED_VERSION):
            raise
    answer: DescribeGroupsResponse = await brokers.ask_coordinator(
        CoordinatorKind.GROUP, group_id, DescribeGroupsRequest(groups=[group_id]), retry=True
    )
    row = answer.groups[0]
    check(row.error_code, row.error_message)
    group = _of_classic(row, coordinator)
    if group.state == "DEAD":  # what brokers say of a group that does not exist
        raise ApiError(ErrorCode.GROUP_ID_NOT_FOUND)
    return group


async def _find_coordinator(brokers: Brokers, group_id: str) -> int | None:
    """For a link alone: where nobody coordinates right now, there is none."""
    request = FindCoordinatorRequest(key=group_id, key_type=0, coordinator_keys=[group_id])
    answer: FindCoordinatorResponse = await brokers.ask(request, retry=True)
    node, code = answer.node_id, answer.error_code
    if answer.coordinators:
        node, code = answer.coordinators[0].node_id, answer.coordinators[0].error_code
    if code in (ErrorCode.GROUP_AUTHORIZATION_FAILED, ErrorCode.INVALID_GROUP_ID):
        check(code)
    return node if code == ErrorCode.NONE and node >= 0 else None


async def list_groups(brokers: Brokers) -> list[Group]:
    """The groups that the caller may describe. Each broker is asked for those that it coordinates."""
    cluster: DescribeClusterResponse = await brokers.ask(DescribeClusterRequest(), retry=True)
    check(cluster.error_code, cluster.error_message)
    found: list[Group] = []
    for node in sorted(row.broker_id for row in cluster.brokers):
        listed: ListGroupsResponse = await brokers.ask_node(node, ListGroupsRequest(), retry=True)
        check(listed.error_code)
        found += await _describe_all(brokers, node, listed.groups)
    return sorted(found, key=_by_id)  # a group that moves meanwhile may be told twice


async def _describe_all(brokers: Brokers, node: int, rows: Sequence[ListedGroup]) -> list[Group]:
    classic: list[str] = []
    new: list[str] = []
    for row in rows:
        if row.group_type.lower() == _CONSUMER:
            new.append(row.group_id)
        elif row.group_type.lower() in ("", "classic") and row.protocol_type in ("", _CONSUMER):
            classic.append(row.group_id)
    found: list[Group] = []
    if new:
        answer: ConsumerGroupDescribeResponse = await brokers.ask_node(
            node, ConsumerGroupDescribeRequest(group_ids=new), retry=True
        )
        found += [_of_new(row, node) for row in answer.groups if row.error_code == ErrorCode.NONE]
    if classic:
        described: DescribeGroupsResponse = await brokers.ask_node(
            node, DescribeGroupsRequest(groups=classic), retry=True
        )
        groups = [_of_classic(row, node) for row in described.groups if row.error_code == ErrorCode.NONE]
        found += [group for group in groups if group.state != "DEAD"]
    return found
