"""OffsetCommit, OffsetFetch and OffsetDelete: their rights, and their records.

A request about many offsets is prepared first (`prepared_commits`, `prepared_deletions`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from functools import partial

from penstock.coordinators.operations import Refusal
from penstock.coordinators.outcome import Token
from penstock.core.lazy.lazy_sequence import LazySequence
from penstock.core.types import NO_TIMESTAMP, ZERO_TOPIC_ID, TopicId, TopicPartition
from penstock.groups.classic.group import ClassicGroup, GroupState
from penstock.groups.consumer import commits as consumer_commits
from penstock.groups.consumer.group import ConsumerGroup, Group
from penstock.groups.outcome import GroupOutcome, TransactionalProducer
from penstock.groups.records.consumer_offsets import CommittedOffset, encode_offset
from penstock.groups.requests import (
    DEFAULT_RETENTION,
    NO_MEMBER_ID,
    OffsetCommitRequest,
    OffsetDeleteRequest,
    OffsetFetchRequest,
    OffsetToCommit,
    TransactionalCommitRequest,
)
from penstock.groups.results import (
    FetchedOffset,
    OffsetCommitResult,
    OffsetDeleteResult,
    OffsetFetchResult,
    PartitionError,
)
from penstock.groups.shard import GroupShard
from penstock.protocol.errors import ApiError, ErrorCode

CommitRequest = OffsetCommitRequest | TransactionalCommitRequest

# The record's string field holds no more, whatever offset.metadata.max.bytes allows.
_MAX_STRING_BYTES = 32_767
_MAX_TIMESTAMP = 2**63 - 1

# ---------------------------------------------------------------------------------------------------- OffsetCommit


def commit_offsets(
    shard: GroupShard, token: Token[OffsetCommitResult], request: OffsetCommitRequest, now_ms: int
) -> GroupOutcome:
    """ApiError if the request is refused."""
    outcome = shard.outcome()
    admit_commit(shard, outcome, request, now_ms)
    outcome.reply(token, _write_offsets(shard, outcome, request, now_ms))
    return outcome


def admit_commit(shard: GroupShard, outcome: GroupOutcome, request: OffsetCommitRequest, now_ms: int) -> None:
    """ApiError if the request is refused."""
    group = shard.groups.get(request.group_id)
    error = _check_commit(group, request)
    if error is not ErrorCode.NONE:
        raise ApiError(error)
    member = group.members.get(request.member_id) if isinstance(group, ClassicGroup) else None
    if isinstance(group, ClassicGroup) and member is not None:
        # A commit is a sign of life.
        shard.rebalance(group, outcome, now_ms).expect_heartbeat(member)


def _write_offsets(shard: GroupShard, outcome: GroupOutcome, request: CommitRequest, now_ms: int) -> OffsetCommitResult:
    results = []
    for result, committed in judge_offsets(shard, request, now_ms):
        if committed is not None:
            outcome.records.append(encode_offset(request.group_id, result.topic, result.partition, committed))
        results.append(result)
    return OffsetCommitResult(tuple(results))


def judge_offsets(
    shard: GroupShard, request: CommitRequest, now_ms: int
) -> Iterator[tuple[PartitionError, CommittedOffset | None]]:
    """The result of each offset of a commit; no offset where it is refused."""
    expire_timestamp_ms = _expiry_of(request, now_ms)
    group = shard.groups.get(request.group_id)
    for offset in request.offsets:
        error = _check_offset(shard, group, request, offset)
        committed = None if error else _committed_offset(offset, now_ms, expire_timestamp_ms)
        yield PartitionError(offset.topic, offset.partition, error), committed


def _expiry_of(request: CommitRequest, now_ms: int) -> int:
    """The expiry of this commit's offsets, where an old client sets one."""
    if isinstance(request, TransactionalCommitRequest) or request.retention_time_ms == DEFAULT_RETENTION:
        return NO_TIMESTAMP
    return min(now_ms + request.retention_time_ms, _MAX_TIMESTAMP)


def _check_offset(shard: GroupShard, group: Group | None, request: CommitRequest, offset: OffsetToCommit) -> ErrorCode:
    """Whether one offset of a commit can be recorded. Of the group only the member's partitions matter."""
    if isinstance(group, ConsumerGroup):
        error = consumer_commits.check_partition(group, request, offset, shard.topics)
        if error is not ErrorCode.NONE:
            return error
    if _is_too_large(offset.metadata or "", shard.settings.offset_metadata_max_bytes):
        return ErrorCode.OFFSET_METADATA_TOO_LARGE
    return ErrorCode.NONE


def refuse_commit(request: CommitRequest, refusal: Refusal) -> OffsetCommitResult:
    return OffsetCommitResult(LazySequence(request.offsets, partial(_refused, refusal.error)))


def _refused(error: ErrorCode, offset: OffsetToCommit) -> PartitionError:
    return PartitionError(offset.topic, offset.partition, error)


def _check_commit(group: Group | None, request: OffsetCommitRequest) -> ErrorCode:
    if isinstance(group, ConsumerGroup):
        return consumer_commits.check_commit(group, request)
    has_generation = request.generation_id >= 0
    if group is None:
        if not has_generation:
            # A consumer that assigns its own partitions, or an administrator: replay creates a simple group.
            return ErrorCode.NONE
        return ErrorCode.GROUP_ID_NOT_FOUND if request.accepts_group_id_not_found else ErrorCode.ILLEGAL_GENERATION
    if not has_generation and group.state is GroupState.EMPTY:
        return ErrorCode.NONE
    if not has_generation and request.member_id == NO_MEMBER_ID and request.group_instance_id is None:
        # Other members own the partitions now.
        return ErrorCode.UNKNOWN_MEMBER_ID
    error = group.check_member(request.member_id, request.group_instance_id)
    if error is not ErrorCode.NONE:
        return error
    if request.generation_id != group.generation_id:
        return ErrorCode.ILLEGAL_GENERATION
    if group.state is GroupState.COMPLETING_REBALANCE:
        # The member knows the new generation but not yet its assignment, so it cannot know the partitions that it may
        # commit.
        return ErrorCode.REBALANCE_IN_PROGRESS
    return ErrorCode.NONE


# ----------------------------------------------------------------------------------------------- TxnOffsetCommit


def commit_in_transaction(
    shard: GroupShard, token: Token[OffsetCommitResult], request: TransactionalCommitRequest, now_ms: int
) -> GroupOutcome:
    """The records go into a batch of the producer's transaction, whose end decides whether they count. The log and the
    transaction's coordinator decide whether the producer may write at all.
    """
    outcome = shard.outcome()
    admit_transactional_commit(shard, outcome, request)
    outcome.reply(token, _write_offsets(shard, outcome, request, now_ms))
    return outcome


def admit_transactional_commit(shard: GroupShard, outcome: GroupOutcome, request: TransactionalCommitRequest) -> None:
    """ApiError if the request is refused."""
    error = _check_transactional_commit(shard.groups.get(request.group_id), request)
    if error is not ErrorCode.NONE:
        raise ApiError(error)
    outcome.producer = TransactionalProducer(request.producer_id, request.producer_epoch)


def _check_transactional_commit(group: Group | None, request: TransactionalCommitRequest) -> ErrorCode:
    """Milder than a plain commit: before version 3 a producer cannot name its member, and the transaction's own fencing
    decides about a commit during a rebalance.
    """
    if isinstance(group, ConsumerGroup):
        return consumer_commits.check_transactional_commit(group, request)
    has_generation = request.generation_id >= 0
    if group is None:
        return ErrorCode.ILLEGAL_GENERATION if has_generation else ErrorCode.NONE
    if not has_generation and group.state is GroupState.EMPTY:
        return ErrorCode.NONE
    if not has_generation and request.member_id == NO_MEMBER_ID and request.group_instance_id is None:
        return ErrorCode.NONE
    error = group.check_member(request.member_id, request.group_instance_id)
    if error is ErrorCode.NONE and request.generation_id != group.generation_id:
        return ErrorCode.ILLEGAL_GENERATION
    return error


def _is_too_large(metadata: str, limit: int) -> bool:
    if not metadata:
        return False
    utf16_units = len(metadata) + sum(character > "\uffff" for character in metadata)
    return utf16_units > limit or len(metadata.encode("utf-8", "surrogatepass")) > _MAX_STRING_BYTES


def _committed_offset(offset: OffsetToCommit, now_ms: int, expire_timestamp_ms: int) -> CommittedOffset:
    return CommittedOffset(
        offset.offset, offset.leader_epoch, offset.metadata or "", now_ms, expire_timestamp_ms, offset.topic_id
    )


# ---------------------------------------------------------------------------------------------------- OffsetFetch


def fetch_offsets(shard: GroupShard, request: OffsetFetchRequest) -> OffsetFetchResult:
    """An unknown group has no offsets, which is no error: librdkafka relies on it."""
    group = shard.groups.get(request.group_id)
    error = consumer_commits.check_fetch(group, request) if isinstance(group, ConsumerGroup) else ErrorCode.NONE
    if error is not ErrorCode.NONE:
        return OffsetFetchResult(error)
    offsets = shard.offsets.of_group(request.group_id)
    partitions = offsets.keys() if request.partitions is None else request.partitions
    committed = [(partition, offsets.get(partition)) for partition in partitions]
    unstable: Collection[TopicPartition] = ()
    if request.require_stable:
        unstable = shard.offsets.partitions_with_open_transaction(request.group_id)
    return OffsetFetchResult(ErrorCode.NONE, LazySequence(committed, partial(_fetched, request, unstable)))


def _fetched(
    request: OffsetFetchRequest,
    unstable: Collection[TopicPartition],
    entry: tuple[TopicPartition, CommittedOffset | None],
) -> FetchedOffset:
    (topic, index), committed = entry
    if entry[0] in unstable:
        return FetchedOffset(topic, index, error=ErrorCode.UNSTABLE_OFFSET_COMMIT)
    if committed is None or not _is_same_topic(committed.topic_id, request.topic_ids.get(topic, ZERO_TOPIC_ID)):
        return FetchedOffset(topic, index)
    return FetchedOffset(topic, index, committed.offset, committed.leader_epoch, committed.metadata)


def _is_same_topic(committed_for: TopicId, asked_for: TopicId) -> bool:
    return ZERO_TOPIC_ID in (committed_for, asked_for) or committed_for == asked_for


# ---------------------------------------------------------------------------------------------------- OffsetDelete


def delete_offsets(
    shard: GroupShard, token: Token[OffsetDeleteResult], request: OffsetDeleteRequest, _now_ms: int
) -> GroupOutcome:
    """ApiError if the request is refused."""
    outcome = shard.outcome()
    results = []
    for partition, is_subscribed, has_offset in judge_deletions(shard, request):
        results.append(deletion_result(partition, is_subscribed))
        if has_offset and not is_subscribed:
            outcome.records.append(encode_offset(request.group_id, *partition, None))
    outcome.reply(token, OffsetDeleteResult(ErrorCode.NONE, tuple(results)))
    return outcome


def judge_deletions(shard: GroupShard, request: OffsetDeleteRequest) -> Iterator[tuple[TopicPartition, bool, bool]]:
    """Each partition, whether the group is subscribed to its topic, and whether the group has an offset of it. ApiError
    if the request is refused.
    """
    group = find_deletable(shard, request)
    is_subscribed: dict[str, bool] = {}  # by topic, since a KIP-848 group searches its members
    for partition in request.partitions:
        topic = partition.topic
        if topic not in is_subscribed:
            is_subscribed[topic] = group.is_subscribed_to(topic)
        yield partition, is_subscribed[topic], shard.offsets.has_any(request.group_id, (partition,))


def deletion_result(partition: TopicPartition, is_subscribed: bool) -> PartitionError:
    return PartitionError(*partition, ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC if is_subscribed else ErrorCode.NONE)


def find_deletable(shard: GroupShard, request: OffsetDeleteRequest) -> Group:
    """The group, if offsets of it may be deleted. ApiError otherwise."""
    group = shard.groups.get(request.group_id)
    if group is None:
        raise ApiError(ErrorCode.GROUP_ID_NOT_FOUND)
    if isinstance(group, ClassicGroup) and group.state is not GroupState.EMPTY and not group.uses_consumer_protocol():
        # The topics that members of an opaque protocol read are unknown, so they may read any topic.
        raise ApiError(ErrorCode.NON_EMPTY_GROUP)
    return group
