"""The consumer group protocol of KIP-848: ConsumerGroupHeartbeat and ConsumerGroupDescribe."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Protocol

from penstock.broker.authorizer import NOT_ASKED, Authorizer, Operation, ResourceType, authorized_operations
from penstock.broker.runtimes.group_runtime import GroupRuntime
from penstock.broker.session import RequestContext
from penstock.broker.slices import Slices, Work, collect
from penstock.core.types import TopicId
from penstock.groups import requests, results
from penstock.groups.consumer.group import JOINING
from penstock.groups.operations.table import CONSUMER_HEARTBEAT, DESCRIBE_CONSUMER_GROUP
from penstock.groups.topics import Topic, TopicIdPartition, by_topic, by_topic_in_steps
from penstock.protocol.errors import ErrorCode, shorten_reason
from penstock.protocol.messages.consumer_group_describe import (
    Assignment as DescribedAssignment,
)
from penstock.protocol.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
    Member,
)
from penstock.protocol.messages.consumer_group_describe import (
    TopicPartitions as DescribedTopicPartitions,
)
from penstock.protocol.messages.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)

_FIRST_WITH_OWN_MEMBER_ID = 1  # in version 0 the coordinator generates the id
_CLASSIC_MEMBER = 0
_CONSUMER_MEMBER = 1

# ---------------------------------------------------------------------------------------------------- heartbeat


class ConsumerGroupPort(Protocol):
    """The parts of the broker that the handlers of consumer groups use."""

    authorizer: Authorizer
    groups: GroupRuntime
    slices: Slices


async def consumer_group_heartbeat(
    broker: ConsumerGroupPort, context: RequestContext, request: ConsumerGroupHeartbeatRequest
) -> ConsumerGroupHeartbeatResponse:
    """Joins, keeps alive, changes or leaves: the one request of the consumer protocol (KIP-848). From version 1 on a
    member brings its own id and may subscribe by a regular expression.
    """
    if not broker.authorizer.is_allowed(context, Operation.READ, ResourceType.GROUP, request.group_id):
        return ConsumerGroupHeartbeatResponse(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)

    def may_describe(topic: str) -> bool:  # a pattern leaves out forbidden topics without an error
        return broker.authorizer.would_allow(context, Operation.DESCRIBE, ResourceType.TOPIC, topic)

    names, owned = request.subscribed_topic_names, request.topic_partitions
    asked = (
        broker.authorizer.is_allowed(context, Operation.DESCRIBE, ResourceType.TOPIC, name) for name in names or ()
    )
    if not all(await broker.slices.run(collect(asked))):
        return ConsumerGroupHeartbeatResponse(error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    owned_partitions = await broker.slices.run(
        collect(TopicIdPartition(topic.topic_id, index) for topic in owned or () for index in topic.partitions)
    )
    domain = requests.ConsumerHeartbeatRequest(
        group_id=request.group_id,
        member_id=request.member_id,
        member_epoch=request.member_epoch,
        instance_id=request.instance_id,
        rack_id=request.rack_id,
        rebalance_timeout_ms=request.rebalance_timeout_ms,
        topic_names=None if names is None else frozenset(names),
        topic_regex=request.subscribed_topic_regex,
        server_assignor=request.server_assignor,
        owned=None if owned is None else frozenset(owned_partitions),
        client_id=context.client_id or "",
        client_host=f"/{context.client_host}",
        client=context.client if request.member_epoch == JOINING else "",
        may_describe=may_describe,
        must_bring_member_id=context.api_version >= _FIRST_WITH_OWN_MEMBER_ID,
    )
    result = await broker.groups.submit_in_slices(CONSUMER_HEARTBEAT, domain)
    assignment = None
    if result.assignment is not None:
        assignment = await broker.slices.run(_assignment(result.assignment))
    return ConsumerGroupHeartbeatResponse(
        error_code=result.error,
        error_message=shorten_reason(result.error_message),
        member_id=result.member_id,
        member_epoch=result.member_epoch,
        heartbeat_interval_ms=result.heartbeat_interval_ms,
        assignment=assignment,
    )


def _assignment(partitions: Iterable[TopicIdPartition]) -> Work[Assignment]:
    grouped = yield from by_topic_in_steps(partitions)
    topics = yield from collect(
        TopicPartitions(topic_id=topic_id, partitions=indexes) for topic_id, indexes in grouped.items()
    )
    return Assignment(topic_partitions=topics)


# ---------------------------------------------------------------------------------------------------- describe


async def consumer_group_describe(
    broker: ConsumerGroupPort, context: RequestContext, request: ConsumerGroupDescribeRequest
) -> ConsumerGroupDescribeResponse:
    """Shows groups of the consumer protocol, as far as their state is on disk. From version 1 on a member has its
    type.
    """
    look = partial(_describe_all, broker, context, request.group_ids)
    described = await broker.groups.read_in_slices(request.group_ids, look)
    async for group in broker.slices.each(described):
        if request.include_authorized_operations and not group.error_code:
            group.authorized_operations = authorized_operations(
                broker.authorizer, context, ResourceType.GROUP, group.group_id
            )
    return ConsumerGroupDescribeResponse(groups=described)


def _describe_all(
    broker: ConsumerGroupPort, context: RequestContext, group_ids: Sequence[str]
) -> Work[list[DescribedGroup]]:
    described = []
    for group_id in group_ids:
        described.append((yield from _describe(broker, context, group_id)))
        yield
    return described


def _describe(broker: ConsumerGroupPort, context: RequestContext, group_id: str) -> Work[DescribedGroup]:
    if not broker.authorizer.is_allowed(context, Operation.DESCRIBE, ResourceType.GROUP, group_id):
        return DescribedGroup(group_id=group_id, error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
    group = broker.groups.shards.read(DESCRIBE_CONSUMER_GROUP, requests.DescribeGroupRequest(group_id))
    if group.error:
        message = shorten_reason(group.error_message)
        return DescribedGroup(group_id=group_id, error_code=group.error, error_message=message)
    topics = broker.groups.coordinator.topics.by_id
    members = []
    names: set[str] = set()
    for member in group.members:
        members.append(_member(member, topics))
        used = {partition.topic_id for partition in (*member.assignment, *member.target)}
        names.update(topics[topic_id].name for topic_id in used if topic_id in topics)
        yield
    allowed = yield from collect(
        broker.authorizer.is_allowed(context, Operation.DESCRIBE, ResourceType.TOPIC, name) for name in sorted(names)
    )
    if not all(allowed):
        message = "The group has described topic(s) that the client is not authorized to describe."
        return DescribedGroup(group_id=group_id, error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED, error_message=message)
    return DescribedGroup(
        group_id=group_id,
        group_state=group.state,
        group_epoch=group.epoch,
        assignment_epoch=group.target_epoch,
        assignor_name=group.assignor,
        members=members,
        authorized_operations=NOT_ASKED,
    )


def _member(member: results.DescribedConsumer, topics: Mapping[TopicId, Topic]) -> Member:
    return Member(
        member_id=member.member_id,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        member_epoch=member.member_epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=list(member.topic_names),
        subscribed_topic_regex=member.topic_regex,
        assignment=_described_assignment(member.assignment, topics),
        target_assignment=_described_assignment(member.target, topics),
        member_type=_CLASSIC_MEMBER if member.uses_classic_protocol else _CONSUMER_MEMBER,
    )


def _described_assignment(
    partitions: Iterable[TopicIdPartition], topics: Mapping[TopicId, Topic]
) -> DescribedAssignment:
    return DescribedAssignment(
        topic_partitions=[
            DescribedTopicPartitions(topic_id=topic_id, topic_name=topics[topic_id].name, partitions=indexes)
            for topic_id, indexes in by_topic(partitions).items()
            if topic_id in topics
        ]
    )
