"""The rules for commits and fetches of offsets in a KIP-848 group.

A commit that was on its way while its member entered a new epoch still counts for the partitions that the member had
all the while (KIP-1251), so an older epoch is judged partition by partition.
"""

from __future__ import annotations

from penstock.core.types import ZERO_TOPIC_ID
from penstock.groups.consumer.group import ConsumerGroup, ConsumerMember
from penstock.groups.requests import (
    NO_MEMBER_ID,
    OffsetCommitRequest,
    OffsetFetchRequest,
    OffsetToCommit,
    TransactionalCommitRequest,
)
from penstock.groups.topics import TopicIdPartition, Topics
from penstock.protocol.errors import ErrorCode


def check_commit(group: ConsumerGroup, request: OffsetCommitRequest) -> ErrorCode:
    if request.generation_id < 0 and not group.members:
        return ErrorCode.NONE  # an administrator, or a consumer that assigns its own partitions
    member = group.members.get(request.member_id)
    if member is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    if member.classic is None and not request.accepts_group_id_not_found:
        return ErrorCode.UNSUPPORTED_VERSION  # members of this protocol know version 9
    return _stale(member) if request.generation_id > member.member_epoch else ErrorCode.NONE


def check_transactional_commit(group: ConsumerGroup, request: TransactionalCommitRequest) -> ErrorCode:
    is_anonymous = request.member_id == NO_MEMBER_ID and request.group_instance_id is None
    if request.generation_id < 0 and (not group.members or is_anonymous):
        return ErrorCode.NONE
    member = group.members.get(request.member_id)
    if member is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    return ErrorCode.ILLEGAL_GENERATION if request.generation_id > member.member_epoch else ErrorCode.NONE


def check_partition(
    group: ConsumerGroup,
    request: OffsetCommitRequest | TransactionalCommitRequest,
    offset: OffsetToCommit,
    topics: Topics,
) -> ErrorCode:
    member = group.members.get(request.member_id)
    if member is None or request.generation_id == member.member_epoch:
        return ErrorCode.NONE
    topic_id = offset.topic_id
    if topic_id == ZERO_TOPIC_ID and offset.topic in topics.by_name:
        topic_id = topics.by_name[offset.topic].topic_id
    partition = TopicIdPartition(topic_id, offset.partition)
    assigned_in = member.assigned.get(partition, member.pending_revocation.get(partition))
    if assigned_in is not None and request.generation_id >= assigned_in:
        return ErrorCode.NONE
    return ErrorCode.ILLEGAL_GENERATION if isinstance(request, TransactionalCommitRequest) else _stale(member)


def check_fetch(group: ConsumerGroup, request: OffsetFetchRequest) -> ErrorCode:
    if request.member_id is None and request.member_epoch < 0:
        return ErrorCode.NONE
    member = group.members.get(request.member_id or NO_MEMBER_ID)
    if member is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    return ErrorCode.NONE if request.member_epoch == member.member_epoch else _stale(member)


def _stale(member: ConsumerMember) -> ErrorCode:
    return ErrorCode.STALE_MEMBER_EPOCH if member.classic is None else ErrorCode.ILLEGAL_GENERATION
