"""A group, of whichever protocol: who is in it, what each member reads, what is committed.

Kinds are what brokers call them: `classic`, `consumer` (KIP-848), `share` (KIP-932), and whatever comes. Of a kind that
is not known here a group has its name, kind and state; members and commits are None, as where they were not asked for.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from penstock.core.types import TopicPartition

CLASSIC: Final = "classic"
CONSUMER: Final = "consumer"
KNOWN_KINDS: Final = frozenset({CLASSIC, CONSUMER})
# The state that brokers give to a classic group that does not exist.
DEAD: Final = "Dead"


class CommittedOffset(NamedTuple):
    offset: int
    leader_epoch: int = -1
    metadata: str = ""


class MemberState(NamedTuple):
    member_id: str
    instance_id: str | None  # of a static member
    client_id: str
    client_host: str
    assigned: tuple[TopicPartition, ...]
    is_classic: bool


class GroupState(NamedTuple):
    group_id: str
    kind: str
    state: str  # Kafka's word: Stable, Empty, PreparingRebalance, ...
    protocol_type: str = ""
    coordinator: int | None = None
    assignor: str = ""
    members: tuple[MemberState, ...] | None = None
    committed: Mapping[TopicPartition, CommittedOffset] | None = None

    @property
    def is_simple(self) -> bool:
        """It has offsets alone: nothing joins it."""
        return self.kind == CLASSIC and not self.protocol_type

    @property
    def is_mixed(self) -> bool:
        """It has members of both protocols."""
        return self.kind == CONSUMER and len({each.is_classic for each in self.members or ()}) > 1

    def reader_of(self, place: TopicPartition) -> MemberState | None:
        return next((member for member in self.members or () if place in member.assigned), None)
