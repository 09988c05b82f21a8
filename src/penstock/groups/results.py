"""The coordinator's results. Every result of a request that may write can be turned into a failure (`failed`), because
the append of its records may fail after the result was made.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from penstock.core.lazy.lazy_sequence import LazySequence
from penstock.core.types import NO_LEADER_EPOCH, NO_OFFSET
from penstock.groups.requests import NO_GENERATION, NO_MEMBER_ID
from penstock.groups.topics import TopicIdPartition
from penstock.protocol.errors import ErrorCode


class JoinedMember(NamedTuple):
    member_id: str
    group_instance_id: str | None
    metadata: bytes


class JoinResult(NamedTuple):
    error: ErrorCode
    member_id: str
    generation_id: int = NO_GENERATION
    protocol_type: str | None = None
    protocol_name: str | None = None  # null on the wire from JoinGroup v7 on, "" before
    leader: str = ""
    skip_assignment: bool = False
    members: Sequence[JoinedMember] = ()  # in the leader's answer alone

    def failed(self, error: ErrorCode) -> JoinResult:
        return JoinResult(error, NO_MEMBER_ID)


class SyncResult(NamedTuple):
    error: ErrorCode
    protocol_type: str | None = None
    protocol_name: str | None = None
    assignment: bytes = b""

    def failed(self, error: ErrorCode) -> SyncResult:
        return SyncResult(error)


class HeartbeatResult(NamedTuple):
    error: ErrorCode

    def failed(self, error: ErrorCode) -> HeartbeatResult:
        return HeartbeatResult(error)


class MemberLeft(NamedTuple):
    member_id: str
    group_instance_id: str | None
    error: ErrorCode


class LeaveResult(NamedTuple):
    """Before LeaveGroup v3 there is one member and one error: `single_error`."""

    error: ErrorCode
    members: tuple[MemberLeft, ...] = ()

    @property
    def single_error(self) -> ErrorCode:
        return self.error or next((member.error for member in self.members), ErrorCode.NONE)

    def failed(self, error: ErrorCode) -> LeaveResult:
        return LeaveResult(error)


class PartitionError(NamedTuple):
    topic: str
    partition: int
    error: ErrorCode


class OffsetCommitResult(NamedTuple):
    """One entry per offset of the request, in its order."""

    partitions: Sequence[PartitionError]

    def failed(self, error: ErrorCode) -> OffsetCommitResult:
        return OffsetCommitResult(LazySequence(self.partitions, lambda entry: entry._replace(error=error)))


class FetchedOffset(NamedTuple):
    topic: str
    partition: int
    offset: int = NO_OFFSET
    leader_epoch: int = NO_LEADER_EPOCH
    metadata: str = ""
    error: ErrorCode = ErrorCode.NONE


class OffsetFetchResult(NamedTuple):
    error: ErrorCode
    partitions: Sequence[FetchedOffset] = ()


class OffsetDeleteResult(NamedTuple):
    error: ErrorCode
    partitions: Sequence[PartitionError] = ()

    def failed(self, error: ErrorCode) -> OffsetDeleteResult:
        return OffsetDeleteResult(error)


class DeleteGroupResult(NamedTuple):
    error: ErrorCode
    group_id: str

    def failed(self, error: ErrorCode) -> DeleteGroupResult:
        return self._replace(error=error)


class DescribedMember(NamedTuple):
    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    metadata: bytes
    assignment: bytes


class DescribedGroup(NamedTuple):
    """A group that does not exist is "Dead" with GROUP_ID_NOT_FOUND; before DescribeGroups v6 Kafka sends it
    without the error.
    """

    error: ErrorCode
    group_id: str
    state: str = ""
    protocol_type: str = ""
    protocol_data: str = ""
    members: Sequence[DescribedMember] = ()
    error_message: str | None = None


class ConsumerHeartbeatResult(NamedTuple):
    error: ErrorCode
    error_message: str | None = None
    member_id: str | None = None
    member_epoch: int = 0
    heartbeat_interval_ms: int = 0
    assignment: tuple[TopicIdPartition, ...] | None = None  # None: unchanged

    def failed(self, error: ErrorCode) -> ConsumerHeartbeatResult:
        return ConsumerHeartbeatResult(error)


class DescribedConsumer(NamedTuple):
    member_id: str
    instance_id: str | None
    rack_id: str | None
    member_epoch: int
    client_id: str
    client_host: str
    topic_names: tuple[str, ...]
    topic_regex: str
    assignment: tuple[TopicIdPartition, ...]  # with the partitions that it has not given up yet
    target: tuple[TopicIdPartition, ...]
    uses_classic_protocol: bool


class DescribedConsumerGroup(NamedTuple):
    error: ErrorCode
    group_id: str
    error_message: str | None = None
    state: str = ""
    epoch: int = 0
    target_epoch: int = 0
    assignor: str = ""
    members: Sequence[DescribedConsumer] = ()


class ListedGroup(NamedTuple):
    group_id: str
    protocol_type: str
    state: str
    group_type: str


class ListGroupsResult(NamedTuple):
    error: ErrorCode
    groups: tuple[ListedGroup, ...] = ()
