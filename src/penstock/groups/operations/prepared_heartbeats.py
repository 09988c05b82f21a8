"""ConsumerGroupHeartbeat of a group with regular expressions: they are matched in steps, then the heartbeat is decided
on.

Most heartbeats need no expression to be matched and are not prepared at all.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping

from penstock.coordinators.outcome import Token
from penstock.groups.consumer.expressions import Matched, match_topics
from penstock.groups.consumer.group import ConsumerGroup
from penstock.groups.operations import consumer_membership
from penstock.groups.outcome import GroupOutcome
from penstock.groups.requests import ConsumerHeartbeatRequest
from penstock.groups.results import ConsumerHeartbeatResult
from penstock.groups.shard import GroupShard
from penstock.groups.topics import Topics


class PreparedHeartbeat:
    def __init__(self, request: ConsumerHeartbeatRequest, topics: Topics, matched: Mapping[str, Matched]) -> None:
        self._request = request
        self._topics = topics
        self._matched = matched

    def decide(self, shard: GroupShard, token: Token[ConsumerHeartbeatResult], now_ms: int) -> GroupOutcome | None:
        """None if topics came or went since, or if more expressions have to be matched."""
        needed = _expressions_to_match(shard, self._request, now_ms)
        if needed and (shard.topics is not self._topics or not needed <= self._matched.keys()):
            return None
        return consumer_membership.heartbeat(shard, token, self._request, now_ms, self._matched)


def prepare_heartbeat(
    shard: GroupShard, request: ConsumerHeartbeatRequest, now_ms: int
) -> Generator[None, None, PreparedHeartbeat | None]:
    needed = _expressions_to_match(shard, request, now_ms)
    if not needed:
        return None
    topics, matched = shard.topics, {}
    for expression in sorted(needed):
        matched[expression] = yield from match_topics(expression, topics, request.may_describe)
    return PreparedHeartbeat(request, topics, matched)


def _expressions_to_match(shard: GroupShard, request: ConsumerHeartbeatRequest, now_ms: int) -> set[str]:
    group = shard.groups.get(request.group_id)
    needed = {request.topic_regex} if request.topic_regex else set()
    if not isinstance(group, ConsumerGroup) or not group.expressions:
        return needed
    if shard.consumer_step(group, shard.outcome(), now_ms).must_refresh():
        return needed | group.expressions.keys()
    return needed - group.expressions.keys()
