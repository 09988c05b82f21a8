"""The requests of clients to the coordinator, without wire versions: handlers translate.

Where Kafka's answer depends on the request's version, the request names what its sender accepts, not its version.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from penstock.core.types import NO_LEADER_EPOCH, ZERO_TOPIC_ID, TopicId, TopicPartition
from penstock.groups.topics import TopicIdPartition

NO_MEMBER_ID = ""
NO_GENERATION = -1
DEFAULT_RETENTION = -1


class Protocol(NamedTuple):
    """An assignor that a member offers, with its metadata for it."""

    name: str
    metadata: bytes


class JoinRequest(NamedTuple):
    group_id: str
    member_id: str
    protocol_type: str
    protocols: tuple[Protocol, ...]
    session_timeout_ms: int
    rebalance_timeout_ms: int = -1  # -1 (JoinGroup v0): the session timeout
    group_instance_id: str | None = None
    client_id: str = ""
    client_host: str = ""  # as Kafka writes it: "/127.0.0.1"
    client: str = ""  # the client that pending joins count for
    reason: str = ""
    accepts_member_id_required: bool = True  # JoinGroup v4 and later (KIP-394)
    accepts_skip_assignment: bool = True  # JoinGroup v9 and later (KIP-814)


class MemberAssignment(NamedTuple):
    member_id: str
    assignment: bytes


class SyncRequest(NamedTuple):
    group_id: str
    member_id: str
    generation_id: int
    group_instance_id: str | None = None
    protocol_type: str | None = None  # SyncGroup v5 and later
    protocol_name: str | None = None
    assignments: tuple[MemberAssignment, ...] = ()


class HeartbeatRequest(NamedTuple):
    group_id: str
    member_id: str
    generation_id: int
    group_instance_id: str | None = None


class LeavingMember(NamedTuple):
    member_id: str
    group_instance_id: str | None = None
    reason: str = ""


class LeaveRequest(NamedTuple):
    group_id: str
    members: tuple[LeavingMember, ...]


class ConsumerHeartbeatRequest(NamedTuple):
    """KIP-848. None: absent in the request, so it does not change."""

    group_id: str
    member_id: str
    member_epoch: int  # 0 to join, -1 to leave, -2: a static member leaves for a while
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int = -1
    topic_names: frozenset[str] | None = None
    topic_regex: str | None = None
    server_assignor: str | None = None
    owned: frozenset[TopicIdPartition] | None = None
    client_id: str = ""
    client_host: str = ""
    client: str = ""  # as in JoinRequest
    # Leaves out topics that a regular expression must not reveal to this client.
    may_describe: Callable[[str], bool] = lambda _topic: True
    must_bring_member_id: bool = True  # ConsumerGroupHeartbeat v1 and later


class OffsetToCommit(NamedTuple):
    topic: str
    partition: int
    offset: int
    leader_epoch: int = NO_LEADER_EPOCH
    metadata: str | None = ""
    topic_id: TopicId = ZERO_TOPIC_ID


class OffsetCommitRequest(NamedTuple):
    group_id: str
    offsets: Sequence[OffsetToCommit]
    member_id: str = NO_MEMBER_ID
    generation_id: int = NO_GENERATION
    group_instance_id: str | None = None
    retention_time_ms: int = DEFAULT_RETENTION  # OffsetCommit v2 to v4
    accepts_group_id_not_found: bool = True  # OffsetCommit v9 and later; before: ILLEGAL_GENERATION


class TransactionalCommitRequest(NamedTuple):
    """Offsets that count when the producer's transaction commits. TxnOffsetCommit names members from v3 on."""

    group_id: str
    producer_id: int
    producer_epoch: int
    offsets: Sequence[OffsetToCommit]
    member_id: str = NO_MEMBER_ID
    generation_id: int = NO_GENERATION
    group_instance_id: str | None = None


class OffsetFetchRequest(NamedTuple):
    group_id: str
    partitions: Sequence[TopicPartition] | None  # None: all
    # An offset that was committed for an earlier topic of the same name is left out when the ids are known (OffsetFetch
    # v10).
    topic_ids: Mapping[str, TopicId] = MappingProxyType({})
    require_stable: bool = False
    member_id: str | None = None  # OffsetFetch v9 and later; for groups of the next protocol (KIP-848)
    member_epoch: int = -1


class OffsetDeleteRequest(NamedTuple):
    group_id: str
    partitions: Sequence[TopicPartition]


class DeleteGroupRequest(NamedTuple):
    group_id: str


class DescribeGroupRequest(NamedTuple):
    """For groups of either protocol."""

    group_id: str


class DeletedTopic(NamedTuple):
    name: str
    topic_id: TopicId = ZERO_TOPIC_ID
