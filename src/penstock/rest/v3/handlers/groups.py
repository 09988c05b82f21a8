"""Consumer groups, their consumers, each consumer's partitions, and their lags."""

from __future__ import annotations

from penstock.admin.state.groups import GroupState, MemberState
from penstock.core.types import TopicPartition
from penstock.rest.v3.calls import Call, not_found
from penstock.rest.v3.groups import describe_group, list_groups, state_word
from penstock.rest.v3.offsets import committed_offsets, end_offsets
from penstock.rest.v3.resource_urls import ResourceUrl
from penstock.rest.v3.shapes import (
    Consumer,
    ConsumerAssignment,
    ConsumerAssignmentList,
    ConsumerGroup,
    ConsumerGroupLagSummary,
    ConsumerGroupList,
    ConsumerLag,
    ConsumerLagList,
    ConsumerList,
)


def _place(call: Call, group_id: str) -> ResourceUrl:
    return call.cluster.under("consumer-groups", "consumer-group", group_id)


def _partition_place(call: Call, place: TopicPartition) -> ResourceUrl:
    return call.cluster.under("topics", "topic", place.topic).under("partitions", "partition", place.partition)


async def _find(call: Call) -> GroupState:
    return await describe_group(call.brokers, call.path["consumer_group_id"])


async def list_consumer_groups(call: Call) -> ConsumerGroupList:
    data = [_group(call, group) for group in await list_groups(call.brokers)]
    return ConsumerGroupList(metadata=call.cluster.listing("consumer-groups"), data=data)


async def get_consumer_group(call: Call) -> ConsumerGroup:
    return _group(call, await _find(call))


def _group(call: Call, group: GroupState) -> ConsumerGroup:
    place = _place(call, group.group_id)
    node = group.coordinator
    return ConsumerGroup(
        metadata=place.metadata,
        cluster_id=call.cluster_id,
        consumer_group_id=group.group_id,
        is_simple=group.is_simple,
        partition_assignor=group.assignor,
        state=state_word(group),
        type=group.kind.upper(),
        is_mixed_consumer_group=group.is_mixed,
        coordinator=None if node is None else call.cluster.under("brokers", "broker", node).related,
        consumers=place.relating("consumers"),
        lag_summary=place.relating("lag-summary"),
    )


# ------------------------------------------------------------------------------------------------ consumers


def _find_member(call: Call, group: GroupState) -> MemberState:
    consumer_id = call.path["consumer_id"]
    for member in group.members or ():
        if member.member_id == consumer_id:
            return member
    raise not_found(f"Consumer {consumer_id} cannot be found in the group.")


def _consumer(call: Call, group: GroupState, member: MemberState) -> Consumer:
    place = _place(call, group.group_id).under("consumers", "consumer", member.member_id)
    return Consumer(
        metadata=place.metadata,
        cluster_id=call.cluster_id,
        consumer_group_id=group.group_id,
        consumer_id=member.member_id,
        instance_id=member.instance_id,
        client_id=member.client_id,
        assignments=place.relating("assignments"),
    )


async def list_consumers(call: Call) -> ConsumerList:
    group = await _find(call)
    data = [_consumer(call, group, member) for member in group.members or ()]
    return ConsumerList(metadata=_place(call, group.group_id).listing("consumers"), data=data)


async def get_consumer(call: Call) -> Consumer:
    group = await _find(call)
    return _consumer(call, group, _find_member(call, group))


def _assignment(call: Call, group: GroupState, member: MemberState, place: TopicPartition) -> ConsumerAssignment:
    at = _place(call, group.group_id)
    consumer = at.under("consumers", "consumer", member.member_id)
    own = consumer.under("assignments", "assignment", place.topic).under("partitions", "partition", place.partition)
    lag = at.under("lags", "lag", place.topic).under("partitions", "partition", place.partition)
    return ConsumerAssignment(
        metadata=own.metadata,
        cluster_id=call.cluster_id,
        consumer_group_id=group.group_id,
        consumer_id=member.member_id,
        topic_name=place.topic,
        partition_id=place.partition,
        partition=_partition_place(call, place).related,
        lag=lag.related,
    )


async def list_assignments(call: Call) -> ConsumerAssignmentList:
    group = await _find(call)
    member = _find_member(call, group)
    consumer = _place(call, group.group_id).under("consumers", "consumer", member.member_id)
    data = [_assignment(call, group, member, place) for place in member.assigned]
    return ConsumerAssignmentList(metadata=consumer.listing("assignments"), data=data)


async def get_assignment(call: Call) -> ConsumerAssignment:
    place = TopicPartition(call.path["topic_name"], call.number("partition_id"))
    group = await _find(call)
    member = _find_member(call, group)
    if place not in member.assigned:
        raise not_found(f"The consumer does not read partition {place.partition} of the topic.")
    return _assignment(call, group, member, place)


# ------------------------------------------------------------------------------------------------ how far behind


async def _lags(call: Call) -> tuple[GroupState, list[ConsumerLag]]:
    group = await _find(call)
    committed = await committed_offsets(call.brokers, group.group_id)
    if not committed:
        raise not_found("Consumer group offsets could not be found.")
    ends = await end_offsets(call.brokers, committed)
    lags = [
        _lag(call, group, place, offset, ends[place]) for place, offset in sorted(committed.items()) if place in ends
    ]
    return group, lags


def _lag(call: Call, group: GroupState, place: TopicPartition, offset: int, end: int) -> ConsumerLag:
    own = (
        _place(call, group.group_id).under("lags", "lag", place.topic).under("partitions", "partition", place.partition)
    )
    member = group.reader_of(place)
    return ConsumerLag(
        metadata=own.metadata,
        cluster_id=call.cluster_id,
        consumer_group_id=group.group_id,
        topic_name=place.topic,
        partition_id=place.partition,
        current_offset=offset,
        log_end_offset=end,
        lag=end - offset,
        consumer_id="" if member is None else member.member_id,
        instance_id=None if member is None else member.instance_id,
        client_id="" if member is None else member.client_id,
    )


async def list_lags(call: Call) -> ConsumerLagList:
    group, lags = await _lags(call)
    return ConsumerLagList(metadata=_place(call, group.group_id).listing("lags"), data=lags)


async def get_lag(call: Call) -> ConsumerLag:
    topic, index = call.path["topic_name"], call.number("partition_id")
    for lag in (await _lags(call))[1]:
        if lag.topic_name == topic and lag.partition_id == index:
            return lag
    raise not_found("The group has committed no offset of this partition.")


async def get_lag_summary(call: Call) -> ConsumerGroupLagSummary:
    group, lags = await _lags(call)
    if not lags:
        raise not_found("Consumer group offsets could not be found.")
    worst = max(lags, key=lambda lag: lag.lag)
    place = _place(call, group.group_id)
    return ConsumerGroupLagSummary(
        metadata=place.part("lag-summary").metadata,
        cluster_id=call.cluster_id,
        consumer_group_id=group.group_id,
        max_lag_consumer_id=worst.consumer_id,
        max_lag_instance_id=worst.instance_id,
        max_lag_client_id=worst.client_id,
        max_lag_topic_name=worst.topic_name,
        max_lag_partition_id=worst.partition_id,
        max_lag=worst.lag,
        total_lag=sum(lag.lag for lag in lags),
        max_lag_consumer=place.under("consumers", "consumer", worst.consumer_id).related,
        max_lag_partition=_partition_place(call, TopicPartition(worst.topic_name, worst.partition_id)).related,
    )
