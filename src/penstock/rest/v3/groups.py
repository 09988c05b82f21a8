"""Consumer groups of both protocols in one form: their members, each member's partitions, committed offsets.

A KIP-848 group answers ConsumerGroupDescribe, a classic group DescribeGroups. The proxy tries both in that order, as
Java's administration client does.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Sequence

from penstock.admin.queries.groups import read_classic_group, read_new_group
from penstock.admin.state.groups import CLASSIC, CONSUMER, DEAD, GroupState
from penstock.client.brokers import Brokers, CoordinatorKind
from penstock.client.consumer_protocol import CONSUMER as CONSUMER_TYPE
from penstock.protocol.errors import ApiError, ErrorCode
from penstock.protocol.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
)
from penstock.protocol.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from penstock.protocol.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from penstock.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from penstock.protocol.messages.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse
from penstock.rest.v3.calls import check


def state_word(group: GroupState) -> str:
    """`PreparingRebalance` as PREPARING_REBALANCE."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", group.state).upper() or "UNKNOWN"


async def describe_group(brokers: Brokers, group_id: str) -> GroupState:
    """Raises ApiError: GROUP_ID_NOT_FOUND, GROUP_AUTHORIZATION_FAILED."""
    coordinator = await _find_coordinator(brokers, group_id)
    try:
        request = ConsumerGroupDescribeRequest(group_ids=[group_id])
        new: ConsumerGroupDescribeResponse = await brokers.ask_coordinator(
            CoordinatorKind.GROUP, group_id, request, retry=True
        )
        check(new.groups[0].error_code, new.groups[0].error_message)
        return read_new_group(new.groups[0], coordinator)
    except ApiError as error:
        if error.code not in (ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.UNSUPPORTED_VERSION):
            raise
    answer: DescribeGroupsResponse = await brokers.ask_coordinator(
        CoordinatorKind.GROUP, group_id, DescribeGroupsRequest(groups=[group_id]), retry=True
    )
    row = answer.groups[0]
    check(row.error_code, row.error_message)
    group = read_classic_group(row, coordinator)
    if group.state == DEAD:  # what brokers say of a group that does not exist
        raise ApiError(ErrorCode.GROUP_ID_NOT_FOUND)
    return group


async def _find_coordinator(brokers: Brokers, group_id: str) -> int | None:
    """For a link alone: without a coordinator at the moment there is none."""
    request = FindCoordinatorRequest(key=group_id, key_type=0, coordinator_keys=[group_id])
    answer: FindCoordinatorResponse = await brokers.ask(request, retry=True)
    node, code = answer.node_id, answer.error_code
    if answer.coordinators:
        node, code = answer.coordinators[0].node_id, answer.coordinators[0].error_code
    if code in (ErrorCode.GROUP_AUTHORIZATION_FAILED, ErrorCode.INVALID_GROUP_ID):
        check(code)
    return node if code == ErrorCode.NONE and node >= 0 else None


async def list_groups(brokers: Brokers) -> list[GroupState]:
    """The groups that the caller may describe. Each broker is asked for those that it coordinates."""
    cluster: DescribeClusterResponse = await brokers.ask(DescribeClusterRequest(), retry=True)
    check(cluster.error_code, cluster.error_message)
    found: list[GroupState] = []
    for node in sorted(row.broker_id for row in cluster.brokers):
        listed: ListGroupsResponse = await brokers.ask_node(node, ListGroupsRequest(), retry=True)
        check(listed.error_code)
        found += await _describe_all(brokers, node, listed.groups)
    return sorted(found, key=operator.attrgetter("group_id"))  # a group that moves meanwhile may be told twice


async def _describe_all(brokers: Brokers, node: int, rows: Sequence[ListedGroup]) -> list[GroupState]:
    classic: list[str] = []
    new: list[str] = []
    for row in rows:
        if row.group_type.lower() == CONSUMER:
            new.append(row.group_id)
        elif row.group_type.lower() in ("", CLASSIC) and row.protocol_type in ("", CONSUMER_TYPE):
            classic.append(row.group_id)
    found: list[GroupState] = []
    if new:
        answer: ConsumerGroupDescribeResponse = await brokers.ask_node(
            node, ConsumerGroupDescribeRequest(group_ids=new), retry=True
        )
        found += [read_new_group(row, node) for row in answer.groups if row.error_code == ErrorCode.NONE]
    if classic:
        described: DescribeGroupsResponse = await brokers.ask_node(
            node, DescribeGroupsRequest(groups=classic), retry=True
        )
        groups = [read_classic_group(row, node) for row in described.groups if row.error_code == ErrorCode.NONE]
        found += [group for group in groups if group.state != DEAD]
    return found
