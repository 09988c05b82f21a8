"""Groups and what they have committed. The coordinator of each group decides."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from penstock.admin.changes.outcomes import ask_each_node
from penstock.admin.queries.refusals import PartitionRefusals, Refusals, check, refusals
from penstock.admin.queries.slices import by_topic
from penstock.admin.state.groups import CommittedOffset
from penstock.client.brokers import Brokers, CoordinatorKind
from penstock.core.types import TopicPartition
from penstock.protocol.errors import ApiError, ErrorCode
from penstock.protocol.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from penstock.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from penstock.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
)

NO_GENERATION = -1  # of a consumer that is no member
# What coordinators say to a commit of a stranger where the group has members.
_HAS_MEMBERS = frozenset({ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION, ErrorCode.STALE_MEMBER_EPOCH})


async def delete_groups(brokers: Brokers, coordinators: Mapping[int, Sequence[str]]) -> Refusals:
    """By the broker that coordinates them. A group with members is refused."""
    requests = {
        node_id: [DeleteGroupsRequest(groups_names=list(group_ids))] for node_id, group_ids in coordinators.items()
    }
    refused: Refusals = {}
    for _, request, answer in await ask_each_node(brokers, requests):
        refused |= _undeleted(request, answer)
    return refused


def _undeleted(request: DeleteGroupsRequest, answer: DeleteGroupsResponse | ApiError) -> Refusals:
    if isinstance(answer, ApiError):
        return dict.fromkeys(request.groups_names, answer)
    return refusals((row.group_id, row) for row in answer.results)


async def alter_commits(
    brokers: Brokers, group_id: str, offsets: Mapping[TopicPartition, int | CommittedOffset]
) -> PartitionRefusals:
    """One request, which the coordinator records as a whole. A group that does not exist comes to be by it; one with
    members is refused, since its members would commit over it.
    """
    request = commit_request(group_id, offsets)
    answer: OffsetCommitResponse = await brokers.ask_coordinator(CoordinatorKind.GROUP, group_id, request, retry=True)
    return {place: _explain(group_id, error) for place, error in read_refused_commits(answer).items()}


def commit_request(
    group_id: str,
    offsets: Mapping[TopicPartition, int | CommittedOffset],
    *,
    generation_id: int = NO_GENERATION,
    member_id: str = "",
) -> OffsetCommitRequest:
    """Of a member, or of a stranger."""
    topics = [
        OffsetCommitRequestTopic(
            name=topic, partitions=[_commit(index, offsets[TopicPartition(topic, index)]) for index in indexes]
        )
        for topic, indexes in by_topic(sorted(offsets)).items()
    ]
    return OffsetCommitRequest(
        group_id=group_id, generation_id_or_member_epoch=generation_id, member_id=member_id, topics=topics
    )


def _commit(index: int, wanted: int | CommittedOffset) -> OffsetCommitRequestPartition:
    commit = CommittedOffset(wanted) if isinstance(wanted, int) else wanted
    return OffsetCommitRequestPartition(
        partition_index=index,
        committed_offset=commit.offset,
        committed_leader_epoch=commit.leader_epoch,
        committed_metadata=commit.metadata,
    )


def _explain(group_id: str, error: ApiError) -> ApiError:
    return ApiError(error.code, f"group {group_id} has members") if error.code in _HAS_MEMBERS else error


async def delete_commits(brokers: Brokers, group_id: str, places: Iterable[TopicPartition]) -> PartitionRefusals:
    """A partition of a topic that a member still reads is refused. Raises ApiError for what refuses all of them: no
    such group, or members of whom the coordinator does not know what they read.
    """
    answer: OffsetDeleteResponse = await brokers.ask_coordinator(
        CoordinatorKind.GROUP, group_id, deletion_of_commits(group_id, places), retry=True
    )
    check(answer.error_code)
    return read_refused_commits(answer)


def read_refused_commits(answer: OffsetCommitResponse | OffsetDeleteResponse) -> PartitionRefusals:
    return refusals(
        (TopicPartition(topic.name, row.partition_index), row) for topic in answer.topics for row in topic.partitions
    )


def deletion_of_commits(group_id: str, places: Iterable[TopicPartition]) -> OffsetDeleteRequest:
    topics = [
        OffsetDeleteRequestTopic(
            name=topic, partitions=[OffsetDeleteRequestPartition(partition_index=index) for index in indexes]
        )
        for topic, indexes in by_topic(sorted(places)).items()
    ]
    return OffsetDeleteRequest(group_id=group_id, topics=topics)
