"""The next step of one member from its present assignment to its target (KIP-848).

1. The member gives up the partitions that it shall not keep. Until its heartbeat does not list these partitions any
   more it stays in its epoch: UNREVOKED_PARTITIONS.
2. Then it enters the target's epoch and gets the free partitions. It waits for partitions that other members have not
   given up yet: UNRELEASED_PARTITIONS.
3. With everything in place it is STABLE.

No partition is given to a member while `owners` has it under another member. This rule alone keeps the promise that no
two members own one partition.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple

from penstock.core.types import TopicId
from penstock.groups.consumer.group import ConsumerMember
from penstock.groups.records.consumer_groups import AssignedPartitions, MemberState
from penstock.groups.topics import Steps, TopicIdPartition
from penstock.protocol.errors import ApiError, ErrorCode


class Goal(NamedTuple):
    epoch: int
    partitions: frozenset[TopicIdPartition]
    # By the member's own subscription: partitions of topics that it left are taken from it at once, before a new
    # target.
    subscribed_topic_ids: frozenset[TopicId]
    has_subscription_changed: bool
    owners: Mapping[TopicIdPartition, str]
    owned: Collection[TopicIdPartition] | None  # the partitions that the member lists; None: it lists none


def reconcile(member: ConsumerMember, goal: Goal) -> Steps[ConsumerMember]:
    """In a few steps. ApiError(FENCED_MEMBER_EPOCH) if the member has to begin again."""
    if member.state is MemberState.STABLE:
        if member.member_epoch != goal.epoch:
            return (yield from _next_step(member, goal))
        return _drop_unsubscribed(member, goal) if goal.has_subscription_changed else member
    if member.state is MemberState.UNREVOKED_PARTITIONS and _owns_any(goal, member.pending_revocation):
        return _drop_unsubscribed(member, goal) if goal.has_subscription_changed else member
    if member.state is MemberState.UNKNOWN:
        if goal.owned is None or goal.owned:
            raise ApiError(ErrorCode.FENCED_MEMBER_EPOCH, "the member is in an unknown state and must rejoin")
        member = member._replace(member_epoch=goal.epoch)
    return (yield from _next_step(member, goal))


def _owns_any(goal: Goal, partitions: AssignedPartitions) -> bool:
    return goal.owned is None or any(partition in partitions for partition in goal.owned)


def _drop_unsubscribed(member: ConsumerMember, goal: Goal) -> ConsumerMember:
    unwanted = {
        partition: epoch
        for partition, epoch in member.assigned.items()
        if partition.topic_id not in goal.subscribed_topic_ids
    }
    if not unwanted:
        return member
    kept = {partition: epoch for partition, epoch in member.assigned.items() if partition not in unwanted}
    pending = {**member.pending_revocation, **unwanted}
    member = member._replace(assigned=kept, previous_epoch=member.member_epoch)
    if _owns_any(goal, pending):
        return member._replace(state=MemberState.UNREVOKED_PARTITIONS, pending_revocation=pending)
    return member


def _next_step(member: ConsumerMember, goal: Goal) -> Steps[ConsumerMember]:
    wanted = {partition for partition in goal.partitions if partition.topic_id in goal.subscribed_topic_ids}
    yield
    kept = {partition: epoch for partition, epoch in member.assigned.items() if partition in wanted}
    yield
    unwanted = {partition: epoch for partition, epoch in member.assigned.items() if partition not in wanted}
    if unwanted and _owns_any(goal, unwanted):
        return member._replace(
            state=MemberState.UNREVOKED_PARTITIONS,
            previous_epoch=member.member_epoch,
            assigned=kept,
            pending_revocation=unwanted,
        )
    yield
    missing = wanted - kept.keys()
    free = {partition: goal.epoch for partition in missing if _is_free(member, goal, partition)}
    yield
    return member._replace(
        state=MemberState.STABLE if len(free) == len(missing) else MemberState.UNRELEASED_PARTITIONS,
        member_epoch=goal.epoch,
        previous_epoch=member.member_epoch,
        assigned={**kept, **free},
        pending_revocation={},
    )


def _is_free(member: ConsumerMember, goal: Goal, partition: TopicIdPartition) -> bool:
    # Partitions that this member itself is giving up may come back to it.
    return goal.owners.get(partition) in (None, member.member_id) or partition in member.pending_revocation
