"""One step of one KIP-848 group: the records that follow from a member's request, or from its end.

In this order, and each only where something has changed: the member, the topics of its regular expression, the group's
epoch, the target assignment of that epoch, the member's step towards it. The step only reads the group itself; replay
of the records changes it.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import NamedTuple

from penstock.coordinators.newcomers import Newcomer
from penstock.coordinators.outcome import CoordinatorRecord
from penstock.core.steps import finish
from penstock.core.types import TopicId
from penstock.groups.assignment.assignors import ASSIGNORS, IN_STEPS, Subscriber
from penstock.groups.consumer.expressions import Matched, match_topics
from penstock.groups.consumer.group import NO_PARTITIONS, ConsumerGroup, ConsumerMember, member_tombstones
from penstock.groups.consumer.reconciliation import Goal, reconcile
from penstock.groups.outcome import AppendPurpose, GroupOutcome, PendingAppend, TimerKind
from penstock.groups.records.consumer_groups import (
    AssignmentChange,
    ExpressionChange,
    LargeChange,
    MemberState,
    ResolvedExpression,
    SubscriptionChange,
    TargetChange,
    encode_consumer_group,
    encode_expression,
    encode_in_steps,
    encode_partition_metadata_tombstone,
    encode_target_epoch,
)
from penstock.groups.settings import GroupSettings
from penstock.groups.topics import Steps, TopicIdPartition, Topics
from penstock.protocol.errors import ApiError

logger = logging.getLogger(__name__)

# Kafka's number: every expression is compared with every topic's name, so topics that are created one after the other
# are handled together.
_MIN_REFRESH_INTERVAL_MS = 10_000

Expressions = Mapping[str, ResolvedExpression]


class MemberChange(NamedTuple):
    """The member before and after its request."""

    before: ConsumerMember
    after: ConsumerMember
    is_new: bool  # its subscription is recorded in any case
    owned: Collection[TopicIdPartition] | None
    may_describe: Callable[[str], bool]

    @property
    def has_changed_subscription(self) -> bool:
        return self.before.topic_names != self.after.topic_names or self.has_changed_expression

    @property
    def has_changed_expression(self) -> bool:
        return self.before.topic_regex != self.after.topic_regex


class ConsumerStep:
    __slots__ = (
        "_former",
        "_has_new_digest",
        "_has_new_expressions",
        "group",
        "large_changes",
        "matched",
        "now_ms",
        "outcome",
        "settings",
        "topics",
    )

    def __init__(
        self, group: ConsumerGroup, outcome: GroupOutcome, settings: GroupSettings, topics: Topics, now_ms: int
    ) -> None:
        self.group = group
        self.outcome = outcome
        self.settings = settings
        self.topics = topics
        self.now_ms = now_ms
        self.matched: Mapping[str, Matched] = {}  # expressions that were matched before this step
        # The content of the records at these places of `outcome.records`: to decode large ones again would take long.
        self.large_changes: dict[int, LargeChange] = {}
        self._former: ConsumerMember | None = None  # the static member that is replaced
        self._has_new_expressions = self._has_new_digest = False

    # ----------------------------------------------------------------------------------- members change

    def advance(self, change: MemberChange) -> ConsumerMember:
        """The future state of the member. ApiError if its request is impossible."""
        if self._is_idle(change):
            return change.after
        member = finish(self.advance_in_steps(change))
        self.settle()
        return member

    def _is_idle(self, change: MemberChange) -> bool:
        """Whether nothing has changed and there is nothing to do: most heartbeats."""
        group = self.group
        return (
            not change.is_new
            and not group.is_metadata_outdated
            and group.target_epoch >= group.epoch
            and change.after.is_reconciled_to(group.target_epoch)
            and change.after == change.before
            and not self.must_refresh()
        )

    def advance_in_steps(self, change: MemberChange) -> Steps[ConsumerMember]:
        """Changes nothing but this step, so it may be abandoned between two steps. `settle` belongs to it."""
        group, after = self.group, change.after
        if self._former is not None:
            yield from self._take_place(self._former, change.before)
        if change.is_new or after != change.before:
            yield from self._record_large(SubscriptionChange(group.group_id, after.member_id, after.subscription()))
        expressions = yield from self._refresh_expressions(change)
        epoch = yield from self._bump_epoch(change, expressions)
        target_epoch, target = yield from self._assign(change, epoch, expressions)
        return (yield from self._reconcile(change, target_epoch, target, expressions))

    def settle(self) -> None:
        """The outdated state is up to date again."""
        if self._has_new_expressions:
            self.group.are_expressions_outdated = False
        if self._has_new_digest:
            self.group.is_metadata_outdated = False

    def keep(self, change: MemberChange) -> tuple[ConsumerMember, bool]:
        """As `advance`, but with an unchanged target: (the future state of the member, whether the target is
        outdated).
        """
        expressions = finish(self._refresh_expressions(change))
        epoch = finish(self._bump_epoch(change, expressions))
        if self.group.target_epoch < epoch:
            return change.after, True
        target = self.group.target_of(change.after)
        return finish(self._reconcile(change, self.group.target_epoch, target, expressions)), False

    def record(self, *records: CoordinatorRecord) -> None:
        self.outcome.records += records
        self.outcome.pending = PendingAppend(AppendPurpose.CHANGE_CONSUMER_GROUP, self.group.group_id)

    def _record_large(self, change: LargeChange) -> Steps[None]:
        record = yield from encode_in_steps(change)
        self.large_changes[len(self.outcome.records)] = change
        self.record(record)

    # ------------------------------------------------------------------------------------ expressions

    def _refresh_expressions(self, change: MemberChange) -> Steps[Expressions]:
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
                yield from self._record_large(ExpressionChange(group.group_id, expression, resolved))
            refreshed[expression] = resolved
        self._has_new_expressions = must_refresh
        return refreshed

    def must_refresh(self) -> bool:
        """Whether all expressions of the group have to be matched again."""
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
            # Recorded by Kafka, whose syntax may know more than ours: it counts as no topics, and is no reason to
            # refuse the other members.
            self.outcome.tell_operator(
                logging.WARNING,
                "a recorded regular expression cannot be used: it stands for no topics",
                group=self.group.group_id,
                expression=expression,
            )
            matched = frozenset()
        return ResolvedExpression(matched, self.topics.version, self.now_ms)

    # ------------------------------------------------------------------------------------------ epoch

    def _bump_epoch(self, change: MemberChange, expressions: Expressions) -> Steps[int]:
        group = self.group
        is_bumped = change.has_changed_subscription
        if not is_bumped and not group.is_metadata_outdated and expressions is group.expressions:
            return group.epoch
        names = group.names_of(group.members_with(change.after).values(), expressions)
        yield
        digest = yield from self.topics.digest_in_steps(names)
        self._has_new_digest = True
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
    ) -> Steps[tuple[int, frozenset[TopicIdPartition]]]:
        group = self.group
        if group.target_epoch >= epoch or not self._may_assign():
            return group.target_epoch, group.target_of(change.after)
        members = group.members_with(change.after)
        # A subscription is usually that of many members.
        ids: dict[frozenset[str], frozenset[TopicId]] = {}
        subscribers = {}
        for member in members.values():
            names = _names(member, expressions)
            if names not in ids:
                ids[names] = yield from self.topics.ids_in_steps(names)
            subscribers[member.member_id] = Subscriber(ids[names], member.instance_id, group.target_of(member))
            yield
        assigned = yield from IN_STEPS[self._preferred_assignor(members.values())](subscribers, self.topics)
        target = NO_PARTITIONS
        for member_id, partitions in assigned.items():
            shall_have = frozenset(partitions)
            if shall_have != group.target.get(member_id):
                yield from self._record_large(TargetChange(group.group_id, member_id, shall_have))
            if member_id == change.after.member_id:
                target = shall_have
            yield
        self.record(encode_target_epoch(group.group_id, epoch, self.now_ms))
        return epoch, target

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
    ) -> Steps[ConsumerMember]:
        group, member = self.group, change.after
        if not change.has_changed_subscription and member.is_reconciled_to(target_epoch):
            return member
        goal = Goal(
            epoch=target_epoch,
            partitions=target,
            subscribed_topic_ids=(yield from self.topics.ids_in_steps(_names(member, expressions))),
            has_subscription_changed=change.has_changed_subscription,
            owners=group.owners,
            owned=change.owned,
        )
        reconciled = yield from reconcile(member, goal)
        if reconciled != member:
            yield from self._record_large(AssignmentChange(group.group_id, member.member_id, reconciled.assignment()))
            self._expect_revocation(reconciled)
        return reconciled

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
        """A new process replaces a static member, under a new member id. `advance` records it."""
        self._former = former
        self.cancel_timers(former.member_id)
        return former._replace(member_id=member_id, member_epoch=0, previous_epoch=0)

    def _take_place(self, former: ConsumerMember, member: ConsumerMember) -> Steps[None]:
        group_id, member_id = self.group.group_id, member.member_id
        target = self.group.target.get(former.member_id, NO_PARTITIONS)
        self.record(*member_tombstones(group_id, former.member_id))
        yield from self._record_large(SubscriptionChange(group_id, member_id, member.subscription()))
        yield from self._record_large(TargetChange(group_id, member_id, target))
        yield from self._record_large(AssignmentChange(group_id, member_id, member.assignment()))

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
        names = group.names_of(left)
        is_same = not group.is_metadata_outdated and names == group.subscribed_names()
        self._record_epoch(group.metadata_digest if is_same else self.topics.digest(names))

    def expect_heartbeat(self, member: ConsumerMember, newcomer: Newcomer | None = None) -> None:
        timeout_ms = self.settings.consumer_session_timeout_ms
        if member.classic is not None:
            timeout_ms = member.classic.session_timeout_ms
        self.outcome.set_timer(TimerKind.SESSION, self.group.group_id, timeout_ms, member.member_id, newcomer)

    def cancel_timers(self, member_id: str) -> None:
        for kind in TimerKind:
            self.outcome.cancel_timer(kind, self.group.group_id, member_id)

    def arm_timers(self) -> None:
        """Each member gets a whole session for its next request: after a load, and after a change that was not
        recorded.
        """
        for member in self.group.members.values():
            self.expect_heartbeat(member)
            if member.state is MemberState.UNREVOKED_PARTITIONS:
                self._expect_revocation(member)


def _names(member: ConsumerMember, expressions: Expressions) -> frozenset[str]:
    resolved = expressions.get(member.topic_regex)
    if resolved is None:
        return member.topic_names
    return member.topic_names | resolved.topics if member.topic_names else resolved.topics


def _differ(new: Expressions, old: Expressions) -> bool:
    nothing = ResolvedExpression(frozenset(), 0, 0)
    return any(new.get(each, nothing).topics != old.get(each, nothing).topics for each in new.keys() | old.keys())
