"""The group coordinator: its shards, one for each partition of `__consumer_offsets`, and operations on all of them.

Clients' requests go to `shards` with a line of `operations.table`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Mapping

from penstock.coordinators.outcome import Token
from penstock.coordinators.routing import ShardKind, Shards
from penstock.core.types import new_uuid
from penstock.groups.consumer.group import ConsumerGroup, ConsumerProgress, Group
from penstock.groups.operations import administration, classic_membership, consumer_membership
from penstock.groups.operations.administration import Candidates, Removal
from penstock.groups.outcome import GroupOutcome, TimerKey
from penstock.groups.requests import JoinRequest
from penstock.groups.results import JoinResult, ListGroupsResult
from penstock.groups.settings import GroupSettings
from penstock.groups.shard import GroupShard
from penstock.groups.topics import Topics, changed_names
from penstock.protocol.errors import ErrorCode

GroupShards = Shards[GroupShard, GroupOutcome, TimerKey, GroupSettings]


class GroupCoordinator:
    def __init__(self, settings: GroupSettings, partition_count: int, new_suffix: Callable[[], str] = new_uuid) -> None:
        self.settings_by_group: Mapping[str, GroupSettings] = {}
        self.topics = Topics()
        self._new_suffix = new_suffix
        kind = ShardKind(GroupOutcome, self._new_shard, GroupShard.on_loaded, _on_timer)
        self.shards: GroupShards = Shards(kind, settings, partition_count)

    def _new_shard(self, partition: int, _leader_epoch: int) -> GroupShard:
        shard = GroupShard(partition, self.shards.settings, self._new_suffix, self.topics)
        shard.settings_by_group = self.settings_by_group
        return shard

    def change_settings(self, settings: GroupSettings, by_group: Mapping[str, GroupSettings]) -> None:
        """`by_group` has the groups with settings of their own. A session or an interval in progress keeps its
        length.
        """
        self.settings_by_group = by_group
        self.shards.change_settings(settings)
        for shard in self.shards.all():
            shard.settings_by_group = by_group

    def on_topics_changed(self, topics: Topics) -> None:
        """Topics were created or deleted, or got partitions. Call this before the first load of a group, too."""
        changed = changed_names(self.topics, topics)
        has_created = bool(topics.by_id.keys() - self.topics.by_id.keys())
        self.topics = topics
        for shard in self.shards.all():
            shard.on_topics_changed(topics, changed, has_created)

    def replay_transaction_end(self, partition: int, producer_id: int, is_committed: bool) -> None:
        self.shards.hosted(partition).offsets.replay_transaction_end(producer_id, is_committed)

    def abandon_join(self, partition: int, request: JoinRequest, token: Token[JoinResult], now_ms: int) -> GroupOutcome:
        return self.shards.run(partition, lambda shard: classic_membership.abandon_join(shard, token, request, now_ms))

    # --------------------------------------------------------------------------------- administration

    def expire_offsets(self, partition: int, now_ms: int, candidates: Candidates | None = None) -> GroupOutcome:
        return self.shards.run(partition, lambda shard: administration.expire_offsets(shard, now_ms, candidates))

    def remove_topics(self, partition: int, removal: Removal, candidates: Candidates | None = None) -> GroupOutcome:
        return self.shards.run(partition, lambda shard: administration.remove_topics(shard, removal, candidates))

    def list_groups(
        self, states: Collection[str] = (), types: Collection[str] = ()
    ) -> Generator[None, None, ListGroupsResult]:
        """One step for each name and each group. Between two steps the groups may change in any way."""
        if self.shards.is_loading:
            return ListGroupsResult(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        wanted = yield from administration.compile_filter(states, types)
        listed = []
        for group in self.all_groups():
            if wanted.accepts(group):
                listed.append(administration.show_listed(group))
            yield
        return ListGroupsResult(ErrorCode.NONE, tuple(listed))

    # ---------------------------------------------------------------------------------------- figures

    def all_groups(self) -> list[Group]:
        return [group for shard in self.shards.active() for group in shard.groups.values()]

    def consumer_progress(self, partition: int, group_id: str) -> ConsumerProgress | None:
        """The progress of a KIP-848 group; None for any other."""
        group = self.shards.hosted(partition).groups.get(group_id) if self.shards.is_active(partition) else None
        return ConsumerProgress(group.epoch, group.state) if isinstance(group, ConsumerGroup) else None

    def offset_count(self) -> int:
        return sum(shard.offsets.count() for shard in self.shards.active())


def _on_timer(shard: GroupShard, key: TimerKey, now_ms: int) -> GroupOutcome:
    group = shard.groups.get(key.group_id)
    if isinstance(group, ConsumerGroup):
        return consumer_membership.on_timer(shard, group, key, now_ms)
    return shard.on_timer(key, now_ms)
