"""OffsetCommit and TxnOffsetCommit of many offsets: encoded in steps, then committed in one go.

The prepared records depend on one state that may change between the steps: the member of a KIP-848 group whose older
epochs decide offset by offset (KIP-1251). Everything else, such as generation and membership, is checked for the whole
commit at its decision.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from functools import partial

from penstock.coordinators.operations import encode_records
from penstock.coordinators.outcome import CoordinatorRecord, PreparedBatch, Token
from penstock.core.types import TopicPartition
from penstock.groups.consumer.group import ConsumerGroup, ConsumerMember
from penstock.groups.offsets import OffsetsByPartition
from penstock.groups.operations import commits
from penstock.groups.operations.commits import CommitRequest
from penstock.groups.outcome import GroupOutcome
from penstock.groups.records.consumer_offsets import BatchPlace, as_recorded, encode_offset
from penstock.groups.requests import TransactionalCommitRequest
from penstock.groups.results import OffsetCommitResult, PartitionError
from penstock.groups.shard import GroupShard
from penstock.protocol.records import EncodedRecords


class PreparedCommit:
    """All offsets of one commit, as records and as objects for memory."""

    def __init__(self, shard: GroupShard, request: CommitRequest) -> None:
        self._request = request
        self._member = _judged_member(shard, request)
        self._place = BatchPlace()
        self._offsets: OffsetsByPartition = {}
        self._results: list[PartitionError] = []
        self._records = EncodedRecords(b"", 0, 0)

    def prepare(self, shard: GroupShard, now_ms: int) -> Generator[None, None, PreparedCommit]:
        self._records = yield from encode_records(self._take_offsets(shard, now_ms), now_ms)
        return self

    def _take_offsets(self, shard: GroupShard, now_ms: int) -> Iterator[CoordinatorRecord | None]:
        request = self._request
        index = 0
        for result, committed in commits.judge_offsets(shard, request, now_ms):
            self._results.append(result)
            if committed is None:
                yield None
                continue
            partition = TopicPartition(result.topic, result.partition)
            self._offsets[partition] = as_recorded(committed)._replace(record_offset=index, batch=self._place)
            index += 1
            yield encode_offset(request.group_id, *partition, committed)

    def decide(self, shard: GroupShard, token: Token[OffsetCommitResult], now_ms: int) -> GroupOutcome | None:
        request = self._request
        outcome = shard.outcome()
        if isinstance(request, TransactionalCommitRequest):
            commits.admit_transactional_commit(shard, outcome, request)
        else:
            commits.admit_commit(shard, outcome, request, now_ms)
        if _judged_member(shard, request) is not self._member:
            return None
        if self._records.record_count:
            outcome.prepared = PreparedBatch(self._records, partial(self._replay, shard))
        outcome.reply(token, OffsetCommitResult(self._results))
        return outcome

    def _replay(self, shard: GroupShard, base_offset: int, producer_id: int) -> None:
        self._place.base_offset = base_offset
        shard.replay_commits(self._request.group_id, self._offsets, producer_id)


def _judged_member(shard: GroupShard, request: CommitRequest) -> ConsumerMember | None:
    group = shard.groups.get(request.group_id)
    return group.members.get(request.member_id) if isinstance(group, ConsumerGroup) else None


def prepare_commit(shard: GroupShard, request: CommitRequest, now_ms: int) -> Generator[None, None, PreparedCommit]:
    return PreparedCommit(shard, request).prepare(shard, now_ms)
