"""A classic group: its members, their waiting requests, and its recorded generation.

Assignments and the state Stable come from replay alone (`adopt`). Everything else is soft: members join and leave in
memory, a new generation is prepared in memory, and only its outcome is recorded. A coordinator that dies in between
falls back to the recorded generation, and the members find out with their next heartbeat.

    Empty -> PreparingRebalance -> CompletingRebalance -> Stable
      ^            |     ^                  |                |
      +------------+     +------------------+----------------+
"""

from __future__ import annotations

import enum
import logging
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from penstock.coordinators.newcomers import OWN_SIZE, Newcomer
from penstock.coordinators.outcome import Token
from penstock.core.lazy.lazy_sequence import LazySequence
from penstock.groups.records.consumer_offsets import RecordedGroup, RecordedMember
from penstock.groups.requests import NO_MEMBER_ID, Protocol
from penstock.groups.results import JoinedMember, JoinResult, SyncResult
from penstock.groups.subscription import CONSUMER_PROTOCOL_TYPE, decode_subscribed_topics
from penstock.protocol.errors import ErrorCode

logger = logging.getLogger(__name__)


class GroupType(enum.Enum):
    CLASSIC = "classic"
    CONSUMER = "consumer"  # KIP-848


class GroupState(enum.Enum):
    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    ASSIGNING = "Assigning"  # this state and the next belong to KIP-848 groups alone
    RECONCILING = "Reconciling"
    DEAD = "Dead"  # the state in the description of a missing group


_ALLOWED_NEXT = {
    GroupState.EMPTY: {GroupState.PREPARING_REBALANCE},
    GroupState.PREPARING_REBALANCE: {GroupState.COMPLETING_REBALANCE, GroupState.EMPTY},
    GroupState.COMPLETING_REBALANCE: {GroupState.STABLE, GroupState.PREPARING_REBALANCE},
    GroupState.STABLE: {GroupState.PREPARING_REBALANCE},
    GroupState.DEAD: set(),
}


def metadata_size_of(member_id: str, client_id: str, protocols: Iterable[Protocol]) -> int:
    """The size of a member's metadata, in bytes, roughly."""
    size = len(member_id) + len(client_id)
    for name, metadata in protocols:
        size += len(name) + len(metadata)
    return size


class Member(NamedTuple):
    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    protocols: tuple[Protocol, ...]
    assignment: bytes = b""
    # The member has not seen a generation yet: it knows no member id, so it cannot send heartbeats and expires by a
    # timeout of its own.
    is_new: bool = False
    # The client of the join, until the member sends another request. Not recorded.
    client: str = ""

    def metadata(self, protocol_name: str | None) -> bytes | None:
        for name, metadata in self.protocols:
            if name == protocol_name:
                return metadata
        return None

    @property
    def metadata_size(self) -> int:
        return metadata_size_of(self.member_id, self.client_id, self.protocols)

    def as_newcomer(self, group_id: str) -> Newcomer:
        return Newcomer(self.client, group_id, OWN_SIZE + self.metadata_size)

    def protocol_names(self) -> frozenset[str]:
        return frozenset([name for name, _ in self.protocols])


class InitialDelay(NamedTuple):
    """The first rebalance of an empty group waits for more members, again and again, but no longer than the rebalance
    timeout.
    """

    delay_ms: int
    remaining_ms: int


class ClassicGroup:
    group_type = GroupType.CLASSIC

    def __init__(self, group_id: str, now_ms: int) -> None:
        self.group_id = group_id
        self.state = GroupState.EMPTY
        self.state_timestamp_ms = now_ms
        self.generation_id = 0
        self.protocol_type: str | None = None
        self.protocol_name: str | None = None
        self.leader: str | None = None
        self.members: dict[str, Member] = {}
        self.static_members: dict[str, str] = {}  # instance id -> member id
        self.subscribed_topics: frozenset[str] | None = None  # None: not known
        # The waiting requests, by member id.
        self.join_tokens: dict[str, Token[JoinResult]] = {}
        self.sync_tokens: dict[str, Token[SyncResult]] = {}
        # Members that got a member id and the error to join with it (KIP-394).
        self.pending_join: set[str] = set()
        # Members that know the generation and have not asked for their assignment yet.
        self.pending_sync: set[str] = set()
        self.initial_delay: InitialDelay | None = None
        self.has_new_member = False
        # Whether members have had assignments since the group was made or loaded.
        self.was_stable = False
        self.metadata_size = 0  # of all members
        self._supporters: Counter[str] = Counter()  # protocol name -> members that offer it

    # ------------------------------------------------------------------------------------------ state

    def transition_to(self, state: GroupState, now_ms: int) -> None:
        assert state in _ALLOWED_NEXT[self.state], f"group {self.group_id}: {self.state} -> {state}"
        self.state = state
        self.state_timestamp_ms = now_ms

    def start_next_generation(self, now_ms: int) -> None:
        self.generation_id += 1
        self.protocol_name = self.select_protocol() if self.members else None
        self.subscribed_topics = self._read_subscribed_topics()
        self.transition_to(GroupState.COMPLETING_REBALANCE if self.members else GroupState.EMPTY, now_ms)
        self.pending_sync.clear()

    def image(self, assignments: dict[str, bytes]) -> RecordedGroup:
        """The record of the present generation."""
        return RecordedGroup(
            protocol_type=self.protocol_type,
            generation_id=self.generation_id,
            protocol_name=self.protocol_name,
            leader=self.leader,
            state_timestamp_ms=self.state_timestamp_ms,
            members=tuple(
                RecordedMember(
                    member_id=member.member_id,
                    group_instance_id=member.group_instance_id,
                    client_id=member.client_id,
                    client_host=member.client_host,
                    rebalance_timeout_ms=member.rebalance_timeout_ms,
                    session_timeout_ms=member.session_timeout_ms,
                    subscription=member.metadata(self.protocol_name) or b"",
                    assignment=assignments.get(member.member_id, b""),
                )
                for member in self.members.values()
            ),
        )

    def adopt(self, recorded: RecordedGroup) -> None:
        """Replay. The group takes over the record; present members keep the data that the log does not store (all their
        offered protocols). A rebalance in progress is not disturbed: it starts from newer knowledge and will be
        recorded when it ends.
        """
        if self.state is GroupState.PREPARING_REBALANCE:
            return
        known = self.members
        self.was_stable |= bool(recorded.members)
        self.state = GroupState.STABLE if recorded.members else GroupState.EMPTY
        self.state_timestamp_ms = recorded.state_timestamp_ms
        self.generation_id = recorded.generation_id
        self.protocol_type = recorded.protocol_type
        self.protocol_name = recorded.protocol_name
        self.members = {
            member.member_id: _member_from_record(member, known.get(member.member_id), recorded.protocol_name)
            for member in recorded.members
        }
        self.leader = recorded.leader if recorded.leader in self.members else next(iter(self.members), None)
        self.static_members = {
            member.group_instance_id: member.member_id
            for member in recorded.members
            if member.group_instance_id is not None
        }
        self.pending_sync &= self.members.keys()
        self._supporters.clear()
        self.metadata_size = 0
        for each in self.members.values():
            self._count(each)
        self.subscribed_topics = self._read_subscribed_topics()

    @property
    def is_unused(self) -> bool:
        """Whether the group has no member, expects none, and never had an assignment."""
        return self.state is GroupState.EMPTY and not self.pending_join and not self.was_stable

    # ---------------------------------------------------------------------------------------- members

    def add(self, member: Member, protocol_type: str) -> None:
        if not self.members:
            self.protocol_type = protocol_type
        assert self.protocol_type == protocol_type
        assert member.group_instance_id not in self.static_members
        if self.leader is None:
            self.leader = member.member_id
        if member.group_instance_id is not None:
            self.static_members[member.group_instance_id] = member.member_id
        self.members[member.member_id] = member
        self._count(member)
        self.pending_join.discard(member.member_id)

    def update(self, member: Member) -> None:
        """Replaces the member with the same id."""
        earlier = self.members[member.member_id]
        if earlier.protocols is not member.protocols:
            self._withdraw(earlier)
            self._count(member)
        self.members[member.member_id] = member

    def _count(self, member: Member) -> None:
        self._supporters.update(member.protocol_names())
        self.metadata_size += member.metadata_size

    def _withdraw(self, member: Member) -> None:
        """Names that no member offers any more are forgotten: clients make them up."""
        self.metadata_size -= member.metadata_size
        self._supporters.subtract(member.protocol_names())
        for name in member.protocol_names():
            if not self._supporters[name]:
                del self._supporters[name]

    def replace(self, old_member_id: str, new: Member) -> None:
        """A new process takes the place of a static member, under a new member id."""
        assert new.group_instance_id is not None
        old = self.members[old_member_id]
        self._withdraw(old)
        self._count(new)
        # In the same place: the order of members decides who leads next.
        self.members = {new.member_id if key == old_member_id else key: value for key, value in self.members.items()}
        self.members[new.member_id] = new
        self.static_members[new.group_instance_id] = new.member_id
        if self.leader == old_member_id:
            self.leader = new.member_id
        if old_member_id in self.pending_sync:
            self.pending_sync.remove(old_member_id)
            self.pending_sync.add(new.member_id)

    def remove(self, member_id: str) -> None:
        """The member's waiting requests must have been answered before."""
        assert member_id not in self.join_tokens
        assert member_id not in self.sync_tokens
        member = self.members.pop(member_id, None)
        if member is not None:
            self._withdraw(member)
            if member.group_instance_id is not None:
                self.static_members.pop(member.group_instance_id, None)
        if self.leader == member_id:
            self.leader = next(iter(self.members), None)
        self.pending_join.discard(member_id)
        self.pending_sync.discard(member_id)

    def elect_joined_leader(self) -> bool:
        """Elects a leader that has joined; another member takes over if the leader did not rejoin."""
        if self.leader is None:
            return False
        if self.leader not in self.join_tokens:
            joined = next((member_id for member_id in self.members if member_id in self.join_tokens), None)
            if joined is None:
                return False
            logger.debug(
                "the group's leader did not rejoin; another member leads",
                extra={"group": self.group_id, "leader": joined},
            )
            self.leader = joined
        return True

    def has_all_members_joined(self) -> bool:
        return len(self.join_tokens) == len(self.members) and not self.pending_join

    def check_member(self, member_id: str, group_instance_id: str | None) -> ErrorCode:
        if group_instance_id is not None:
            current = self.static_members.get(group_instance_id)
            if current is None:
                return ErrorCode.UNKNOWN_MEMBER_ID
            if current != member_id:
                return ErrorCode.FENCED_INSTANCE_ID
        return ErrorCode.NONE if member_id in self.members else ErrorCode.UNKNOWN_MEMBER_ID

    def is_heartbeat_satisfied(self, member_id: str) -> bool:
        """A member with a parked request cannot send heartbeats, and need not; but a new member is awaited only for a
        limited time.
        """
        return not self.members[member_id].is_new and (member_id in self.join_tokens or member_id in self.sync_tokens)

    def rebalance_timeout_ms(self) -> int:
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    def joined_members(self) -> Sequence[JoinedMember]:
        protocol_name = self.protocol_name

        def show(member: Member) -> JoinedMember:
            return JoinedMember(member.member_id, member.group_instance_id, member.metadata(protocol_name) or b"")

        return LazySequence(tuple(self.members.values()), show)

    def is_leader(self, member_id: str) -> bool:
        return member_id != NO_MEMBER_ID and self.leader == member_id

    # -------------------------------------------------------------------------------------- protocols

    def supports_protocols(self, protocol_type: str, protocols: tuple[Protocol, ...]) -> bool:
        if self.state is GroupState.EMPTY:
            return bool(protocol_type and protocols)
        return self.protocol_type == protocol_type and any(
            self._supporters[protocol.name] == len(self.members) for protocol in protocols
        )

    def select_protocol(self) -> str:
        """Each member votes for the first of its protocols that all members offer; the most votes win."""
        candidates = {name for name, count in self._supporters.items() if count == len(self.members)}
        if len(candidates) == 1:
            return candidates.pop()  # as nearly always; a vote takes 2 us per member
        votes = Counter(
            next(protocol.name for protocol in member.protocols if protocol.name in candidates)
            for member in self.members.values()
        )
        return votes.most_common(1)[0][0]

    def uses_consumer_protocol(self) -> bool:
        return self.protocol_type == CONSUMER_PROTOCOL_TYPE

    def is_subscribed_to(self, topic: str) -> bool:
        """When in doubt, yes: offsets of a topic that may be read are not deleted."""
        return self.uses_consumer_protocol() if self.subscribed_topics is None else topic in self.subscribed_topics

    def _read_subscribed_topics(self) -> frozenset[str] | None:
        if not self.uses_consumer_protocol():
            return None
        topics: set[str] = set()
        # The members of a group mostly subscribe alike: each different subscription is decoded once.
        for metadata in {member.metadata(self.protocol_name) or b"" for member in self.members.values()}:
            subscribed = decode_subscribed_topics(metadata)
            if subscribed is None:
                return None
            topics |= subscribed
        return frozenset(topics)


def _member_from_record(recorded: RecordedMember, known: Member | None, protocol_name: str | None) -> Member:
    # The log stores one protocol per member. A member's other offers are known only while the coordinator lives, and
    # only if this is still the same offer.
    keeps_offer = known is not None and known.metadata(protocol_name) == recorded.subscription
    return Member(
        member_id=recorded.member_id,
        group_instance_id=recorded.group_instance_id,
        client_id=recorded.client_id,
        client_host=recorded.client_host,
        rebalance_timeout_ms=recorded.rebalance_timeout_ms,
        session_timeout_ms=recorded.session_timeout_ms,
        protocols=known.protocols if known and keeps_offer else (Protocol(protocol_name or "", recorded.subscription),),
        assignment=recorded.assignment,
        client=known.client if known else "",
    )
