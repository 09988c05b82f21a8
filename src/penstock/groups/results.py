"""What the coordinator answers. Every answer to a request that may write can be turned into a failure (`failed`),
because the append of its records may fail after the answer was composed.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

from penstock.core.types import NO_LEADER_EPOCH, NO_OFFSET
from penstock.groups.requests import NO_GENERATION, NO_MEMBER_ID
from penstock.protocol.errors import ErrorCode


class JoinedMember(NamedTuple):
    member_id: str
    group_instance_id: str | None
    metadata: bytes


@dataclass(frozen=True, slots=True)
class JoinResult:
    error: ErrorCode
    member_id: str
    generation_id: int = NO_GENERATION
    protocol_type: str | None = None
    protocol_name: str | None = None  # null on the wire from JoinGroup v7 on, "" before
    leader: str = ""
    skip_assignment: bool = False
    members: tuple[JoinedMember, ...] = ()  # for the leader alone

    def failed(self, error: ErrorCode) -> JoinResult:
        return JoinResult(error, NO_MEMBER_ID)


@dataclass(frozen=True, slots=True)
class SyncResult:
    error: ErrorCode
    protocol_type: str | None = None
    protocol_name: str | None = None
    assignment: bytes = b""

    def failed(self, error: ErrorCode) -> SyncResult:
        return SyncResult(error)


@dataclass(frozen=True, slots=True)
class HeartbeatResult:
    error: ErrorCode

    def failed(self, error: ErrorCode) -> HeartbeatResult:
        return HeartbeatResult(error)


class MemberLeft(NamedTuple):
    member_id: str
    group_instance_id: str | None
    error: ErrorCode


@dataclass(frozen=True, slots=True)
class LeaveResult:
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


@dataclass(frozen=True, slots=True)
class OffsetCommitResult:
    """One entry per offset of the request, in its order."""

    partitions: tuple[PartitionError, ...]

    def failed(self, error: ErrorCode) -> OffsetCommitResult:
        return OffsetCommitResult(tuple(entry._replace(error=error) for entry in self.partitions))


class FetchedOffset(NamedTuple):
    topic: str
    partition: int
    offset: int = NO_OFFSET
    leader_epoch: int = NO_LEADER_EPOCH
    metadata: str = ""
    error: ErrorCode = ErrorCode.NONE


@dataclass(frozen=True, slots=True)
class OffsetFetchResult:
    error: ErrorCode
    partitions: tuple[FetchedOffset, ...] = ()


@dataclass(frozen=True, slots=True)
class OffsetDeleteResult:
    error: ErrorCode
    partitions: tuple[PartitionError, ...] = ()

    def failed(self, error: ErrorCode) -> OffsetDeleteResult:
        return OffsetDeleteResult(error)


@dataclass(frozen=True, slots=True)
class DeleteGroupResult:
    error: ErrorCode
    group_id: str

    def failed(self, error: ErrorCode) -> DeleteGroupResult:
        return replace(self, error=error)


class DescribedMember(NamedTuple):
    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    metadata: bytes
    assignment: bytes


@dataclass(frozen=True, slots=True)
class DescribedGroup:
    """A group that does not exist is "Dead" with GROUP_ID_NOT_FOUND; before DescribeGroups v6 Kafka sends it
    without the error.
    """

    error: ErrorCode
    group_id: str
    state: str = ""
    protocol_type: str = ""
    protocol_data: str = ""
    members: tuple[DescribedMember, ...] = ()
    error_message: str | None = None


class ListedGroup(NamedTuple):
    group_id: str
    protocol_type: str
    state: str
    group_type: str


@dataclass(frozen=True, slots=True)
class ListGroupsResult:
    error: ErrorCode
    groups: tuple[ListedGroup, ...] = ()


Result = (
    JoinResult
    | SyncResult
    | HeartbeatResult
    | LeaveResult
    | OffsetCommitResult
    | OffsetDeleteResult
    | DeleteGroupResult
)
