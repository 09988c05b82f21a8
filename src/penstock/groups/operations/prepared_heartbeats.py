"""ConsumerGroupHeartbeat of a group with regular expressions, or with many partitions.

Expressions are matched in steps, then the heartbeat is decided. Where thousands of partitions are assigned the whole
decision is drafted in steps: the target assignment, the records, and the objects for replay. A draft reads the group,
the topics and the settings. If any of them changes between two steps the draft is abandoned there, so that no draft
sees two states; if any has changed before the decision, the decision is not made.

Most heartbeats change nothing and are not prepared at all.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from functools import partial
from typing import NamedTuple

from penstock.coordinators.operations import encode_records
from penstock.coordinators.outcome import PreparedBatch, Token
from penstock.groups.classic.group import ClassicGroup, GroupState
from penstock.groups.consumer.expressions import Matched, match_topics
from penstock.groups.consumer.group import LEAVING, LEAVING_FOR_A_WHILE, ConsumerGroup, Group
from penstock.groups.consumer.step import ConsumerStep
from penstock.groups.operations import consumer_membership
from penstock.groups.outcome import GroupOutcome
from penstock.groups.records.consumer_offsets import AnyChange, decode_record
from penstock.groups.requests import ConsumerHeartbeatRequest
from penstock.groups.results import ConsumerHeartbeatResult
from penstock.groups.settings import GroupSettings
from penstock.groups.shard import GroupShard
from penstock.groups.topics import Steps, Topics
from penstock.protocol.errors import ApiError

# A group with fewer partitions is decided in one turn: some 2 ms.
_FEW_PARTITIONS = 300


class _Basis(NamedTuple):
    """The state that a draft reads."""

    group: Group | None
    revision: int
    topics: Topics
    settings: GroupSettings

    @classmethod
    def of(cls, shard: GroupShard, group_id: str) -> _Basis:
        group = shard.groups.get(group_id)
        revision = group.revision if isinstance(group, ConsumerGroup) else 0
        return cls(group, revision, shard.topics, shard.settings_of(group_id))

    def is_current(self, shard: GroupShard, group_id: str) -> bool:
        group = shard.groups.get(group_id)
        if group is not self.group or shard.topics is not self.topics:
            return False
        if isinstance(group, ConsumerGroup):
            is_same = group.revision == self.revision
        else:
            is_same = group is None or group.state is GroupState.EMPTY
        return is_same and shard.settings_of(group_id) is self.settings


class _Draft:
    """A heartbeat with all its consequences, as long as nothing changes."""

    def __init__(self, shard: GroupShard, request: ConsumerHeartbeatRequest) -> None:
        self._request = request
        self._basis = _Basis.of(shard, request.group_id)
        self._outcome = shard.outcome()
        self._result: ConsumerHeartbeatResult | None = None
        self._step: ConsumerStep | None = None

    def write(self, shard: GroupShard, now_ms: int, matched: Mapping[str, Matched]) -> Steps[None]:
        for _ in self._steps(shard, now_ms, matched):
            yield
            if not self._basis.is_current(shard, self._request.group_id):
                return

    def _steps(self, shard: GroupShard, now_ms: int, matched: Mapping[str, Matched]) -> Steps[None]:
        result, outcome, step = yield from consumer_membership.heartbeat_in_steps(shard, self._request, now_ms, matched)
        if outcome.records:
            changes: list[AnyChange] = []
            for index, (key, value) in enumerate(outcome.records):
                large = step.large_changes.get(index) if step is not None else None
                changes.append(decode_record(key, value) if large is None else large)
                yield
            records = yield from encode_records(outcome.records, now_ms)
            outcome.prepared = PreparedBatch(records, partial(_replay, shard, changes))
            outcome.records = []
        self._result, self._outcome, self._step = result, outcome, step

    def decide(self, shard: GroupShard, token: Token[ConsumerHeartbeatResult]) -> GroupOutcome | None:
        if self._result is None or not self._basis.is_current(shard, self._request.group_id):
            return None
        if self._step is not None:
            self._step.settle()
        self._outcome.reply(token, self._result)
        return self._outcome


def _replay(shard: GroupShard, changes: list[AnyChange], _base_offset: int, _producer_id: int) -> None:
    for change in changes:
        shard.replay_change(change)


class PreparedHeartbeat:
    def __init__(
        self,
        request: ConsumerHeartbeatRequest,
        topics: Topics,
        matched: Mapping[str, Matched],
        draft: _Draft | None,
    ) -> None:
        self._request = request
        self._topics = topics
        self._matched = matched
        self._draft = draft

    def decide(self, shard: GroupShard, token: Token[ConsumerHeartbeatResult], now_ms: int) -> GroupOutcome | None:
        """None if a draft is out of date, if topics were created or deleted since, or if more expressions have to be
        matched.
        """
        needed = _expressions_to_match(shard, self._request, now_ms)
        if needed and (shard.topics is not self._topics or not needed <= self._matched.keys()):
            return None
        if self._draft is not None:
            return self._draft.decide(shard, token)
        return consumer_membership.heartbeat(shard, token, self._request, now_ms, self._matched)


def prepare_heartbeat(
    shard: GroupShard, request: ConsumerHeartbeatRequest, now_ms: int
) -> Generator[None, None, PreparedHeartbeat | None]:
    needed = _expressions_to_match(shard, request, now_ms)
    topics, matched = shard.topics, {}
    for expression in sorted(needed):
        matched[expression] = yield from match_topics(expression, topics, request.may_describe)
    if _is_large(shard, request, matched):
        draft = _Draft(shard, request)
        yield from draft.write(shard, now_ms, matched)
        return PreparedHeartbeat(request, topics, matched, draft)
    return PreparedHeartbeat(request, topics, matched, None) if needed else None


def _is_large(shard: GroupShard, request: ConsumerHeartbeatRequest, matched: Mapping[str, Matched]) -> bool:
    """Whether the heartbeat may concern many partitions. A classic group with members is not drafted: its members get
    answers because of the change, and they are not part of the draft.
    """
    group = shard.groups.get(request.group_id)
    if request.member_epoch in (LEAVING, LEAVING_FOR_A_WHILE):
        return False
    if isinstance(group, ClassicGroup) and group.state is not GroupState.EMPTY:
        return False
    count = len(request.owned or ())
    if isinstance(group, ConsumerGroup):
        member = group.members.get(request.member_id)
        is_up_to_date = group.target_epoch >= group.epoch and not group.is_metadata_outdated
        says_nothing = request.topic_names is None and request.topic_regex is None
        if is_up_to_date and says_nothing and member is not None and member.is_reconciled_to(group.target_epoch):
            return False
        count += len(group.owners)
        if count <= _FEW_PARTITIONS and not is_up_to_date:
            count += _partition_count(shard.topics, group.subscribed_names())
    count += _partition_count(shard.topics, request.topic_names or frozenset())
    for names in matched.values():
        count += 0 if isinstance(names, ApiError) else _partition_count(shard.topics, names)
    return count > _FEW_PARTITIONS


def _partition_count(topics: Topics, names: frozenset[str]) -> int:
    return sum(topic.partition_count for name in names if (topic := topics.by_name.get(name)) is not None)


def _expressions_to_match(shard: GroupShard, request: ConsumerHeartbeatRequest, now_ms: int) -> set[str]:
    group = shard.groups.get(request.group_id)
    needed = {request.topic_regex} if request.topic_regex else set()
    if not isinstance(group, ConsumerGroup) or not group.expressions:
        return needed
    if shard.consumer_step(group, shard.outcome(), now_ms).must_refresh():
        return needed | group.expressions.keys()
    return needed - group.expressions.keys()
