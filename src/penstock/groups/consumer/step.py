"""One step of one KIP-848 group: what has to be recorded when a member says something, or is gone.

In this order, and each only where something has changed: the member, the topics its regular expression stands for,
the group's epoch, the target assignment of that epoch, the member's way towards it. The group itself is only read;
replay of the records changes it.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import NamedTuple

from penstock.coordinators.outcome import CoordinatorRecord
from penstock.coordinators.regular_expression import finish
from penstock.core.types import TopicId
from penstock.groups.assignment.assignors import ASSIGNORS, Subscriber
from penstock.groups.consumer.expressions import Matched, match_topics
from penstock.groups.consumer.group import ConsumerGroup, ConsumerMember, member_tombstones
from penstock.groups.consumer.reconciliation import Goal, reconcile
from penstock.groups.outcome import AppendPurpose, GroupOutcome, PendingAppend, TimerKind
from penstock.groups.records.consumer_groups import (
    MemberState,
    ResolvedExpression,
    encode_assignment,
    encode_consumer_group,
    encode_expression,
    encode_partition_metadata_tombstone,
    encode_subscription,
    encode_target,
    encode_target_epoch,
)
from penstock.groups.settings import GroupSettings
from penstock.groups.topics import TopicIdPartition, Topics
from penstock.protocol.errors import ApiError

logger = logging.getLogger(__name__)

# Kafka's number: every topic's name is compared with every expression, so topics that are created one after the other
# are looked at together.
_MIN_REFRESH_INTERVAL_MS = 10_000

Expressions = Mapping[str, ResolvedExpression]


class MemberChange(NamedTuple):
    """What is known of the member before and after its request."""

    before: ConsumerMember
    after: ConsumerMember
    is_new: bool  # its subscription is to be recorded in any case
    owned: Collection[TopicIdPartition] | None
    may_describe: Callable[[str], bool]

    @property
    def has_changed_subscription(self) -> bool:
        return self.before.topic_names != self.after.topic_names or self.has_changed_expression

    @property
    def has_changed_expression(self) -> bool:
        return self.before.topic_regex != self.after.topic_regex


class ConsumerStep:
    __slots__ = ("group", "matched", "now_ms", "outcome", "settings", "topics")

    def __init__(
        self, group: ConsumerGroup, outcome: GroupOutcome, settings: GroupSettings, topics: Topics, now_ms: int
    ) -> None:
        self.group = group
        self.outcome = outcome
        self.settings = settings
        self.topics = topics
        self.now_ms = now_ms
        self.matched: Mapping[str, Matched] = {}  # expressions that were matched before this step

    # ----------------------------------------------------------------------------------- members change

    def advance(self, change: MemberChange) -> ConsumerMember:
        """The member as it will be. ApiError if what it says cannot be."""
        group, after = self.group, change.after
        if change.is_new or after != change.before:
            self.record(encode_subscription(group.group_id, after.member_id, after.subscription()))
        expressions = self._refresh_expressions(change)
        epoch = self._bump_epoch(change, expressions)
        target_epoch, target = self._assign(change, epoch, expressions)
        return self._reconcile(change, target_epoch, target, expressions)

    def keep(self, change: MemberChange) -> tuple[ConsumerMember, bool]:
        """As `advance`, but with the target as it is: (the member as it will be, whether the target is outdated)."""
        expressions = self._refresh_expressions(change)
        epoch = self._bump_epoch(change, expressions)
        if self.group.target_epoch < epoch:
            return change.after, True
        target = self.group.target_of(change.after)
        return self._reconcile(change, self.group.target_epoch, target, expressions), False

    def record(self, *records: CoordinatorRecord) -> None:
        self.outcome.records += records
        self.outcome.pending = PendingAppend(AppendPurpose.CHANGE_CONSUMER_GROUP, self.group.group_id)

    # ------------------------------------------------------------------------------------ expressions

    def _refresh_expressions(self, change: MemberChange) -> Expressions:
        group = self.group
        must_refresh = self.must_refresh()
        if not change.has_changed_expression and not must_refresh:
            return group.expressions
        used = {member.topic_regex for member in group.members_with(change.after).values() if member.topic_regex}
        for expression in group.expressions.keys() - used:
            self.record(encode_expression(group.group_id, expression, None))
        refreshed = {}
        for expression in sorted(used):
            resolved = group.expressions.get(expression)
            if resolved is None or must_refresh:
                resolved = self._resolve(expression, change)
                self.record(encode_expression(group.group_id, expression, resolved))
            refreshed[expression] = resolved
        if must_refresh:
            group.are_expressions_outdated = False
        return refreshed

    def must_refresh(self) -> bool:
        """Whether all expressions of the group are to be looked up again."""
        if not self.group.expressions:
            return False
        age_ms = self.now_ms - min(resolved.timestamp_ms for resolved in self.group.expressions.values())
        return age_ms > self.settings.consumer_regex_refresh_interval_ms or (
            self.group.are_expressions_outdated and age_ms > _MIN_REFRESH_INTERVAL_MS
        )

    def _resolve(self, expression: str, change: MemberChange) -> ResolvedExpression:
        matched = self.matched.get(expression)
        if matched is None:
            matched = finish(match_topics(expression, self.topics, change.may_describe))
        if isinstance(matched, ApiError):
            if change.after.topic_regex == expression:
                raise ApiError(matched.code, f"SubscribedTopicRegex {matched.message}") from matched
            # Recorded by Kafka, whose syntax may know more than ours: as good as no topics, and no reason to refuse
            # the other members.
            self.outcome.tell_operator(
                logging.WARNING,
                "a recorded regular expression cannot be used: it stands for no topics",
                group=self.group.group_id,
                expression=expression,
            )
            matched = frozenset()
        return ResolvedExpression(matched, self.topics.version, self.now_ms)

    # ------------------------------------------------------------------------------------------ epoch

    def _bump_epoch(self, change: MemberChange, expressions: Expressions) -> int:
        group = self.group
        is_bumped = change.has_changed_subscription
        if not is_bumped and not group.is_metadata_outdated and expressions is group.expressions:
            return group.epoch
        names = group.names_of(group.members_with(change.after).values(), expressions)
        digest = self.topics.digest(names)
        group.is_metadata_outdated = False
        if group.has_partition_metadata:
            self.record(encode_partition_metadata_tombstone(group.group_id))
        if is_bumped or digest != group.metadata_digest or _differ(expressions, group.expressions):
            return self._record_epoch(digest)
        return group.epoch

    def _record_epoch(self, digest: int) -> int:
        epoch = self.group.epoch + 1
        self.record(encode_consumer_group(self.group.group_id, epoch, digest))
        logger.debug("the group's epoch is bumped", extra={"group": self.group.group_id, "epoch": epoch})
        return epoch

    # ----------------------------------------------------------------------------------------- target

    def _assign(
        self, change: MemberChange, epoch: int, expressions: Expressions
    ) -> tuple[int, frozenset[TopicIdPartition]]:
        group = self.group
        if group.target_epoch >= epoch or not self._may_assign():
            return group.target_epoch, group.target_of(change.after)
        members = group.members_with(change.after)
        # A subscription is usually that of many members.
        ids = {names: self.topics.ids(names) for names in {_names(member, expressions) for member in members.values()}}
        subscribers = {
            member.member_id: Subscriber(ids[_names(member, expressions)], member.instance_id, group.target_of(member))
            for member in members.values()
        }
        assigned = ASSIGNORS[self._preferred_assignor(members.values())](subscribers, self.topics)
        target = {member_id: frozenset(partitions) for member_id, partitions in assigned.items()}
        for member_id, partitions in target.items():
            if partitions != group.target.get(member_id):
                self.record(encode_target(group.group_id, member_id, partitions))
        self.record(encode_target_epoch(group.group_id, epoch, self.now_ms))
        return epoch, target[change.after.member_id]

    def _may_assign(self) -> bool:
        interval_ms = self.settings.consumer_assignment_interval_ms
        last_ms = self.group.target_timestamp_ms
        return not interval_ms or not last_ms or self.now_ms >= last_ms + interval_ms

    def _preferred_assignor(self, members: Iterable[ConsumerMember]) -> str:
        votes = Counter(member.server_assignor for member in members if member.server_assignor in ASSIGNORS)
        preferred = next((name for name, _ in votes.most_common(1)), None)
        return preferred or self.settings.consumer_assignors[0]

    # --------------------------------------------------------------------------------- reconciliation

    def _reconcile(
        self, change: MemberChange, target_epoch: int, target: frozenset[TopicIdPartition], expressions: Expressions
    ) -> ConsumerMember:
        group, member = self.group, change.after
        if not change.has_changed_subscription and member.is_reconciled_to(target_epoch):
            return member
        goal = Goal(
            epoch=target_epoch,
            partitions=target,
            subscribed_topic_ids=self._subscribed_ids(member, expressions),
            has_subscription_changed=change.has_changed_subscription,
            owners=group.owners,
            owned=change.owned,
        )
        reconciled = reconcile(member, goal)
        if reconciled != member:
            self.record(encode_assignment(group.group_id, member.member_id, reconciled.assignment()))
            self._expect_revocation(reconciled)
        return reconciled

    def _subscribed_ids(self, member: ConsumerMember, expressions: Expressions) -> frozenset[TopicId]:
        return self.topics.ids(_names(member, expressions))

    def _expect_revocation(self, member: ConsumerMember) -> None:
        if member.classic is not None:
            return  # has to join again in time instead
        if member.state is MemberState.UNREVOKED_PARTITIONS:
            self.outcome.set_timer(
                TimerKind.REVOCATION, self.group.group_id, member.rebalance_timeout_ms, member.member_id
            )
        else:
            self.outcome.cancel_timer(TimerKind.REVOCATION, self.group.group_id, member.member_id)

    # ---------------------------------------------------------------------------------------- members

    def replace_static(self, former: ConsumerMember, member_id: str) -> ConsumerMember:
        """A new process takes the place of a static member, under a new member id."""
        member = former._replace(member_id=member_id, member_epoch=0, previous_epoch=0)
        group_id, target = self.group.group_id, self.group.target.get(former.member_id, frozenset())
        self.cancel_timers(former.member_id)
        self.record(
            *member_tombstones(group_id, former.member_id),
            encode_subscription(group_id, member_id, member.subscription()),
            encode_target(group_id, member_id, target),
            encode_assignment(group_id, member_id, member.assignment()),
        )
        return member

    def remove(self, gone: Collection[ConsumerMember]) -> None:
        group = self.group
        for member in gone:
            self.record(*member_tombstones(group.group_id, member.member_id))
            self.cancel_timers(member.member_id)
        gone_ids = {member.member_id for member in gone}
        left = [member for member in group.members.values() if member.member_id not in gone_ids]
        for expression in group.expressions:
            if not group.uses_expression(expression, left):
                self.record(encode_expression(group.group_id, expression, None))
        self._record_epoch(self.topics.digest(group.names_of(left)))

    def expect_heartbeat(self, member: ConsumerMember) -> None:
        timeout_ms = self.settings.consumer_session_timeout_ms
        if member.classic is not None:
            timeout_ms = member.classic.session_timeout_ms
        self.outcome.set_timer(TimerKind.SESSION, self.group.group_id, timeout_ms, member.member_id)

    def cancel_timers(self, member_id: str) -> None:
        for kind in TimerKind:
            self.outcome.cancel_timer(kind, self.group.group_id, member_id)

    def arm_timers(self) -> None:
        """Everybody gets a whole session to be heard of: after loading, and after a change that was not recorded."""
        for member in self.group.members.values():
            self.expect_heartbeat(member)
            if member.state is MemberState.UNREVOKED_PARTITIONS:
                self._expect_revocation(member)


def _names(member: ConsumerMember, expressions: Expressions) -> frozenset[str]:
    resolved = expressions.get(member.topic_regex)
    return member.topic_names if resolved is None else member.topic_names | resolved.topics


def _differ(new: Expressions, old: Expressions) -> bool:
    nothing = ResolvedExpression(frozenset(), 0, 0)
    return any(new.get(each, nothing).topics != old.get(each, nothing).topics for each in new.keys() | old.keys())
