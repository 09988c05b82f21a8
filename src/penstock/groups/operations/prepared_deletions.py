"""DeleteGroups of a group with many offsets, and OffsetDelete of many: tombstones encoded in steps, then written in one
batch.

Tombstones are prepared for the offsets that the group has when the preparation begins. The deletion is decided only if
they still cover all offsets to delete. A tombstone for an offset that is gone already does no harm.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from functools import partial
from itertools import chain

from penstock.coordinators.operations import encode_records
from penstock.coordinators.outcome import CoordinatorRecord, PreparedBatch, Token
from penstock.core.types import TopicPartition
from penstock.groups.operations import administration, commits
from penstock.groups.outcome import GroupOutcome
from penstock.groups.records.consumer_offsets import encode_offset
from penstock.groups.requests import DeleteGroupRequest, OffsetDeleteRequest
from penstock.groups.results import DeleteGroupResult, OffsetDeleteResult, PartitionError
from penstock.groups.shard import GroupShard
from penstock.protocol.errors import ApiError, ErrorCode
from penstock.protocol.records import EncodedRecords

# ---------------------------------------------------------------------------------------------------- DeleteGroups


class PreparedGroupDeletion:
    def __init__(
        self,
        request: DeleteGroupRequest,
        partitions: frozenset[TopicPartition],
        group_tombstones: list[CoordinatorRecord],
        records: EncodedRecords,
    ) -> None:
        self._request = request
        self._partitions = partitions
        self._group_tombstones = group_tombstones
        self._records = records

    def decide(self, shard: GroupShard, token: Token[DeleteGroupResult], _now_ms: int) -> GroupOutcome | None:
        group_id = self._request.group_id
        group = administration.find_deletable(shard, group_id)
        if shard.offsets.has_others(group_id, self._partitions):
            return None
        if administration.tombstones(group) != self._group_tombstones:
            return None
        outcome = shard.outcome()
        outcome.prepared = PreparedBatch(self._records, partial(self._replay, shard))
        outcome.reply(token, DeleteGroupResult(ErrorCode.NONE, group_id))
        return outcome

    def _replay(self, shard: GroupShard, base_offset: int, _producer_id: int) -> None:
        shard.offsets.replay_group_delete(self._request.group_id)
        for record in self._group_tombstones:
            shard.replay(*record, base_offset)


def prepare_group_deletion(
    shard: GroupShard, request: DeleteGroupRequest, now_ms: int
) -> Generator[None, None, PreparedGroupDeletion | None]:
    group_id = request.group_id
    partitions = shard.offsets.partitions_of(group_id)
    try:
        group = administration.find_deletable(shard, group_id)
    except ApiError:
        return None
    group_tombstones = administration.tombstones(group)
    tombstones = (encode_offset(group_id, *partition, None) for partition in partitions)
    records = yield from encode_records(chain(tombstones, group_tombstones), now_ms)
    return PreparedGroupDeletion(request, frozenset(partitions), group_tombstones, records)


# ---------------------------------------------------------------------------------------------------- OffsetDelete


class PreparedOffsetDeletion:
    def __init__(self, request: OffsetDeleteRequest) -> None:
        self._request = request
        self._results: list[PartitionError] = []
        self._deleted: list[TopicPartition] = []
        self._missing: list[TopicPartition] = []  # partitions without an offset
        self._is_subscribed: dict[str, bool] = {}  # by topic
        self._records = EncodedRecords(b"", 0, 0)

    def prepare(self, shard: GroupShard, now_ms: int) -> Generator[None, None, PreparedOffsetDeletion | None]:
        try:
            self._records = yield from encode_records(self._take_partitions(shard), now_ms)
        except ApiError:
            return None
        return self

    def _take_partitions(self, shard: GroupShard) -> Iterator[CoordinatorRecord | None]:
        for partition, is_subscribed, has_offset in commits.judge_deletions(shard, self._request):
            self._is_subscribed[partition.topic] = is_subscribed
            self._results.append(commits.deletion_result(partition, is_subscribed))
            if is_subscribed:
                yield None
            elif has_offset:
                self._deleted.append(partition)
                yield encode_offset(self._request.group_id, *partition, None)
            else:
                self._missing.append(partition)
                yield None

    def decide(self, shard: GroupShard, token: Token[OffsetDeleteResult], _now_ms: int) -> GroupOutcome | None:
        group = commits.find_deletable(shard, self._request)
        if any(group.is_subscribed_to(topic) is not known for topic, known in self._is_subscribed.items()):
            return None
        if shard.offsets.has_any(self._request.group_id, self._missing):
            return None
        outcome = shard.outcome()
        if self._deleted:
            outcome.prepared = PreparedBatch(self._records, partial(self._replay, shard))
        outcome.reply(token, OffsetDeleteResult(ErrorCode.NONE, self._results))
        return outcome

    def _replay(self, shard: GroupShard, _base_offset: int, _producer_id: int) -> None:
        shard.offsets.replay_deletes(self._request.group_id, self._deleted)


def prepare_offset_deletion(
    shard: GroupShard, request: OffsetDeleteRequest, now_ms: int
) -> Generator[None, None, PreparedOffsetDeletion | None]:
    return PreparedOffsetDeletion(request).prepare(shard, now_ms)
