"""A KIP-848 group: its members, the target assignment, and the present assignment of each member.

The coordinator assigns and the members obey: a member that changes its subscription bumps the group's epoch; a target
assignment is made for that epoch; the heartbeats of every member bring it there, and it gives up the partitions that it
shall not keep first (`reconciliation`). All recorded state changes by replay alone; unrecorded state is listed at the
end of the constructor, and its loss costs at most a little time.

    Empty        no members
    Assigning    the group's epoch is ahead of the target's
    Reconciling  some member has not reached its target yet
    Stable
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from types import MappingProxyType
from typing import NamedTuple

from penstock.coordinators.outcome import CoordinatorRecord
from penstock.groups.classic.group import ClassicGroup, GroupState, GroupType, metadata_size_of
from penstock.groups.records.consumer_groups import (
    AssignedPartitions,
    ClassicMembership,
    MemberState,
    RecordedAssignment,
    RecordedSubscription,
    ResolvedExpression,
    encode_assignment,
    encode_consumer_group,
    encode_expression,
    encode_partition_metadata_tombstone,
    encode_subscription,
    encode_target,
    encode_target_epoch,
)
from penstock.groups.subscription import CONSUMER_PROTOCOL_TYPE
from penstock.groups.topics import TopicIdPartition

JOINING = 0
LEAVING = -1
LEAVING_FOR_A_WHILE = -2  # a static member that will be back
NO_TARGET_EPOCH = -1
_FIRST_EPOCH = 1  # of a group and its target; a member's subscription makes it the second
NO_PARTITIONS: frozenset[TopicIdPartition] = frozenset()
_NOTHING_ASSIGNED: AssignedPartitions = MappingProxyType({})


class ConsumerMember(NamedTuple):
    member_id: str
    member_epoch: int = JOINING
    previous_epoch: int = -1
    state: MemberState = MemberState.STABLE
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int = -1
    client_id: str = ""
    client_host: str = ""
    topic_names: frozenset[str] = frozenset()
    topic_regex: str = ""
    server_assignor: str | None = None
    assigned: AssignedPartitions = _NOTHING_ASSIGNED
    pending_revocation: AssignedPartitions = _NOTHING_ASSIGNED
    classic: ClassicMembership | None = None  # speaks the classic protocol (online migration)

    @property
    def metadata_size(self) -> int:
        """The size of the member's metadata, in bytes, roughly. The offers of a classic member hold its topics."""
        if self.classic is not None:
            return metadata_size_of(self.member_id, self.client_id, self.classic.protocols)
        names = (self.member_id, self.client_id, self.instance_id or "", self.rack_id or "", self.topic_regex)
        return sum(map(len, names)) + sum(map(len, self.topic_names))

    def is_reconciled_to(self, target_epoch: int) -> bool:
        return self.state is MemberState.STABLE and self.member_epoch == target_epoch

    def subscription(self) -> RecordedSubscription:
        return RecordedSubscription(
            instance_id=self.instance_id,
            rack_id=self.rack_id,
            client_id=self.client_id,
            client_host=self.client_host,
            topic_names=self.topic_names,
            topic_regex=self.topic_regex,
            rebalance_timeout_ms=self.rebalance_timeout_ms,
            server_assignor=self.server_assignor,
            classic=self.classic,
        )

    def assignment(self) -> RecordedAssignment:
        return RecordedAssignment(
            self.member_epoch, self.previous_epoch, self.state, self.assigned, self.pending_revocation
        )

    def with_subscription(self, recorded: RecordedSubscription) -> ConsumerMember:
        return self._replace(**recorded._asdict())

    def with_assignment(self, recorded: RecordedAssignment) -> ConsumerMember:
        return self._replace(**recorded._asdict())


class ConsumerProgress(NamedTuple):
    """The rebalances of a group: each begins with a new epoch and ends when the group is stable."""

    epoch: int
    state: GroupState


class MetadataSizes:
    """The metadata sizes of each member, and of all, in bytes: to measure them again would take its time."""

    __slots__ = ("_of_members", "total")

    def __init__(self) -> None:
        self.total = 0
        self._of_members: dict[str, int] = {}

    def of(self, member_id: str) -> int:
        """0 where there is no such member."""
        return self._of_members.get(member_id, 0)

    def put(self, member_id: str, size: int) -> None:
        """0: the member does not exist any more."""
        self.total += size - self._of_members.pop(member_id, 0)
        if size:
            self._of_members[member_id] = size


class ConsumerGroup:
    group_type = GroupType.CONSUMER
    protocol_type = CONSUMER_PROTOCOL_TYPE

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.epoch = _FIRST_EPOCH
        self.metadata_digest = 0
        self.target_epoch = _FIRST_EPOCH
        self.target_timestamp_ms = 0
        self.members: dict[str, ConsumerMember] = {}
        self.static_members: dict[str, str] = {}  # instance id -> member id
        self.target: dict[str, frozenset[TopicIdPartition]] = {}
        self.expressions: dict[str, ResolvedExpression] = {}
        self.has_partition_metadata = False  # an older Kafka wrote it; a tombstone removes it
        # Derived from the members: the owner of each partition that has one, also while it gives the partition up.
        self.owners: dict[TopicIdPartition, str] = {}
        self.metadata_sizes = MetadataSizes()  # derived, too
        # Not recorded: the topics may have changed since the target was made; a topic was created since the search by
        # the regular expressions; classic members that got the error to rejoin and are awaited.
        self.is_metadata_outdated = True
        self.are_expressions_outdated = True
        self.awaited_joins: set[str] = set()
        self.revision = 0  # larger with every change, for work on the group in several turns
        self._state: GroupState | None = None
        self._names: frozenset[str] | None = None

    # ------------------------------------------------------------------------------------------ state

    @property
    def state(self) -> GroupState:
        if self._state is None:
            self._state = self._find_state()
        return self._state

    def _find_state(self) -> GroupState:
        if not self.members:
            return GroupState.EMPTY
        if self.epoch > self.target_epoch:
            return GroupState.ASSIGNING
        if all(member.is_reconciled_to(self.target_epoch) for member in self.members.values()):
            return GroupState.STABLE
        return GroupState.RECONCILING

    def target_of(self, member: ConsumerMember) -> frozenset[TopicIdPartition]:
        """A static member that returns under another id has the target of its former id."""
        member_id = member.member_id
        if member.instance_id is not None:
            member_id = self.static_members.get(member.instance_id, member_id)
        return self.target.get(member_id, NO_PARTITIONS)

    def is_waiting(self, member: ConsumerMember) -> bool:
        """Whether another member still has a partition of the member's target."""
        return member.state is MemberState.UNRELEASED_PARTITIONS and any(
            partition in self.owners
            for partition in self.target.get(member.member_id, ())
            if partition not in member.assigned
        )

    def static_member(self, instance_id: str | None) -> ConsumerMember | None:
        member_id = self.static_members.get(instance_id) if instance_id is not None else None
        return None if member_id is None else self.members.get(member_id)

    # ---------------------------------------------------------------------------------- subscriptions

    def subscribed_names(self) -> frozenset[str]:
        if self._names is None:
            self._names = self.names_of(self.members.values())
        return self._names

    def names_of(
        self, members: Iterable[ConsumerMember], expressions: Mapping[str, ResolvedExpression] | None = None
    ) -> frozenset[str]:
        resolved = self.expressions if expressions is None else expressions
        names: set[str] = set()
        expressions_in_use = set()
        for member in members:
            names |= member.topic_names
            expressions_in_use.add(member.topic_regex)  # usually one for many members
        for expression in expressions_in_use & resolved.keys():
            names |= resolved[expression].topics
        return frozenset(names)

    def is_subscribed_to(self, topic: str) -> bool:
        return topic in self.subscribed_names()

    def members_with(self, updated: ConsumerMember) -> dict[str, ConsumerMember]:
        """The members once `updated` is recorded, in place of a static member of the same instance."""
        members = {**self.members, updated.member_id: updated}
        former = self.static_members.get(updated.instance_id) if updated.instance_id is not None else None
        if former is not None and former != updated.member_id:
            members.pop(former, None)
        return members

    def uses_expression(self, expression: str, members: Iterable[ConsumerMember]) -> bool:
        return any(member.topic_regex == expression for member in members)

    # ------------------------------------------------------------------------------- classic members

    def classic_count(self) -> int:
        return sum(member.classic is not None for member in self.members.values())

    def supports_protocols(self, protocol_type: str, names: Collection[str]) -> bool:
        if protocol_type != CONSUMER_PROTOCOL_TYPE or not names:
            return False
        supporters = Counter(
            protocol.name
            for member in self.members.values()
            if member.classic is not None
            for protocol in member.classic.protocols
        )
        count = self.classic_count()
        return any(supporters[name] == count for name in names)

    # ----------------------------------------------------------------------------------------- replay

    def replay_group(self, epoch: int, metadata_digest: int) -> None:
        self.epoch, self.metadata_digest = epoch, metadata_digest
        self._forget_derived()

    def replay_subscription(self, member_id: str, recorded: RecordedSubscription | None) -> None:
        if recorded is None:
            self._remove(member_id)
        else:
            member = (self.members.get(member_id) or ConsumerMember(member_id)).with_subscription(recorded)
            self.metadata_sizes.put(member_id, member.metadata_size)
            self._put(member)

    def replay_assignment(self, member_id: str, recorded: RecordedAssignment | None) -> None:
        known = self.members.get(member_id)
        if recorded is not None:
            self._put((known or ConsumerMember(member_id)).with_assignment(recorded))
        elif known is not None:
            gone = RecordedAssignment(LEAVING, LEAVING, MemberState.STABLE, {}, {})
            self._put(known.with_assignment(gone))

    def replay_target(self, member_id: str, partitions: frozenset[TopicIdPartition] | None) -> None:
        self.revision += 1
        if partitions is None:
            self.target.pop(member_id, None)
        else:
            self.target[member_id] = partitions

    def replay_target_epoch(self, epoch: int | None, timestamp_ms: int) -> None:
        self.target_epoch = NO_TARGET_EPOCH if epoch is None else epoch
        self.target_timestamp_ms = timestamp_ms
        self._forget_derived()

    def replay_expression(self, expression: str, resolved: ResolvedExpression | None) -> None:
        if resolved is None:
            self.expressions.pop(expression, None)
        else:
            self.expressions[expression] = resolved
        self._forget_derived()

    def _put(self, member: ConsumerMember) -> None:
        known = self.members.get(member.member_id)
        has_same = known is not None and known.assigned is member.assigned
        if not has_same or known is None or known.pending_revocation is not member.pending_revocation:
            self._release(member.member_id)
            self.owners.update(dict.fromkeys(member.assigned, member.member_id))
            self.owners.update(dict.fromkeys(member.pending_revocation, member.member_id))
        self.members[member.member_id] = member
        if member.instance_id is not None:
            self.static_members[member.instance_id] = member.member_id
        self._forget_derived()

    def _remove(self, member_id: str) -> None:
        self._release(member_id)
        self.metadata_sizes.put(member_id, 0)
        member = self.members.pop(member_id, None)
        if member is not None and self.static_members.get(member.instance_id or "") == member_id:
            del self.static_members[member.instance_id or ""]
        self.awaited_joins.discard(member_id)
        self._forget_derived()

    def _release(self, member_id: str) -> None:
        member = self.members.get(member_id)
        if member is not None:
            for partition in (*member.assigned, *member.pending_revocation):
                if self.owners.get(partition) == member_id:
                    del self.owners[partition]

    def _forget_derived(self) -> None:
        self._state = self._names = None
        self.revision += 1

    # ---------------------------------------------------------------------------------------- records

    def tombstones(self) -> list[CoordinatorRecord]:
        group_id = self.group_id
        return [
            *(encode_assignment(group_id, member_id, None) for member_id in self.members),
            *(encode_target(group_id, member_id, None) for member_id in dict.fromkeys([*self.members, *self.target])),
            encode_target_epoch(group_id, None),
            *(encode_subscription(group_id, member_id, None) for member_id in self.members),
            *(encode_expression(group_id, expression, None) for expression in self.expressions),
            encode_partition_metadata_tombstone(group_id),
            encode_consumer_group(group_id, None),
        ]

    def records(self) -> list[CoordinatorRecord]:
        """All records, in the order in which they can be replayed."""
        group_id, members = self.group_id, self.members.values()
        return [
            *(encode_subscription(group_id, member.member_id, member.subscription()) for member in members),
            encode_consumer_group(group_id, self.epoch, self.metadata_digest),
            *(encode_target(group_id, member_id, partitions) for member_id, partitions in self.target.items()),
            encode_target_epoch(group_id, self.target_epoch, self.target_timestamp_ms),
            *(encode_assignment(group_id, member.member_id, member.assignment()) for member in members),
        ]


def member_tombstones(group_id: str, member_id: str) -> list[CoordinatorRecord]:
    return [
        encode_assignment(group_id, member_id, None),
        encode_target(group_id, member_id, None),
        encode_subscription(group_id, member_id, None),
    ]


# For every kind of group.
Group = ClassicGroup | ConsumerGroup
