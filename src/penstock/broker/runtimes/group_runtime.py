"""Runs the group coordinator (`coordinator_runtime` explains how). Its own parts: offsets that count only when a
transaction commits, the existing topics, expiry, and figures.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence

from penstock.broker.partitions.flusher import Flusher
from penstock.broker.partitions.partitions import Partitions
from penstock.broker.runtimes.coordinator_loading import Loaded
from penstock.broker.runtimes.coordinator_log import CoordinatorLog
from penstock.broker.runtimes.coordinator_runtime import CoordinatorRuntime, wait_for
from penstock.broker.runtimes.coordinator_timers import CoordinatorTimers
from penstock.broker.runtimes.tickets import Ticket
from penstock.broker.session import shorten
from penstock.broker.slices import OFFSETS_PER_TURN, Slices, Work, pieces
from penstock.cluster.image import TopicImage
from penstock.coordinators.newcomers import Newcomer, Newcomers
from penstock.core.clock import Clock
from penstock.core.internal_topics import CONSUMER_OFFSETS
from penstock.core.metrics.counters import GroupMetrics
from penstock.core.types import ZERO_TOPIC_ID, TopicPartition
from penstock.groups.classic.group import GroupState
from penstock.groups.consumer.group import ConsumerProgress
from penstock.groups.coordinator import GroupCoordinator
from penstock.groups.operations.administration import Removal
from penstock.groups.outcome import AppendPurpose, GroupOutcome, TimerKey, TimerKind
from penstock.groups.requests import DeletedTopic, JoinRequest
from penstock.groups.results import JoinResult
from penstock.groups.settings import GroupSettings
from penstock.groups.shard import GroupShard
from penstock.groups.topics import Topic, Topics
from penstock.protocol.records import EncodedRecords, Record, build_batch, build_encoded_batch

_CROWD = "members that joined and were not heard of again make room for others: too many clients join and do not stay"

_OFFSET_KEY = b"\0\1"  # the version at the begin of the keys of committed offsets


class GroupRuntime(CoordinatorRuntime[GroupShard, GroupOutcome, TimerKey, GroupSettings]):
    def __init__(
        self,
        coordinator: GroupCoordinator,
        partitions: Partitions,
        flusher: Flusher,
        clock: Clock,
        metrics: GroupMetrics,
        slices: Slices,
    ) -> None:
        log = CoordinatorLog(CONSUMER_OFFSETS, partitions, flusher, clock, slices)
        settings = coordinator.shards.settings
        super().__init__(coordinator.shards, log, clock, slices, settings.offsets_commit_timeout_ms)
        self._timers = CoordinatorTimers(self._on_timer, settings.newcomer_bounds, self._drop)
        self.coordinator = coordinator
        self.metrics = metrics

    @property
    def newcomers(self) -> Newcomers[TimerKey]:
        """Members that joined and have sent nothing since."""
        return self._timers.newcomers

    # -------------------------------------------------------------------------------------------- figures

    def _append(self, outcome: GroupOutcome) -> None:
        before = self._progress(outcome)
        super()._append(outcome)
        if outcome.pending is not None and outcome.pending.purpose is AppendPurpose.STORE_ASSIGNMENT:
            self.metrics.completed_rebalances += 1
        after = self._progress(outcome)
        if after is not None and after != before:
            self.metrics.consumer_rebalances += before is None or after.epoch > before.epoch
            self.metrics.completed_rebalances += after.state is GroupState.STABLE

    def _progress(self, outcome: GroupOutcome) -> ConsumerProgress | None:
        pending = outcome.pending
        if pending is None or pending.purpose is not AppendPurpose.CHANGE_CONSUMER_GROUP:
            return None
        return self.coordinator.consumer_progress(outcome.partition, pending.group_id)

    def _on_timer(self, key: TimerKey) -> None:
        if key.kind is TimerKind.SESSION:
            self.metrics.sessions_expired += 1
        super()._on_timer(key)

    # -------------------------------------------------------------------------------------------- clients that go

    def _drop(self, key: TimerKey, newcomer: Newcomer) -> None:
        """A member that has sent nothing since makes room for others: the action of its timer happens now."""
        self.metrics.pending_joins_dropped += 1
        outcome = self.shards.on_timer(key, self._clock.now_ms())
        outcome.notices.clear()  # the notices would say that the session is over
        outcome.tell_operator(
            logging.WARNING, _CROWD, client=shorten(newcomer.client), group=shorten(newcomer.group_id)
        )
        self._perform(outcome)

    def abandon_join(self, request: JoinRequest, ticket: Ticket[JoinResult]) -> None:
        """The client has gone while its JoinGroup waited for an answer."""
        partition = self.shards.partition_for(request.group_id)
        if ticket.result is None and self.shards.is_active(partition):
            self._perform(self.coordinator.abandon_join(partition, request, ticket, self._clock.now_ms()))

    # -------------------------------------------------------------------------------------------- transactions

    def _batch(self, outcome: GroupOutcome, records: Sequence[Record] | EncodedRecords) -> tuple[bytes, int]:
        producer = outcome.producer
        if producer is None:
            return super()._batch(outcome, records)
        # Sequence 0 in every batch, as Kafka writes it: these batches are never retried, so sequences are not compared.
        if isinstance(records, EncodedRecords):
            batch = build_encoded_batch(records, **producer._asdict(), base_sequence=0, is_transactional=True)
        else:
            batch = build_batch(records, **producer._asdict(), base_sequence=0, is_transactional=True)
        return batch, producer.producer_id

    def end_transaction(self, partition: int, producer_id: int, is_committed: bool) -> None:
        """The log of `partition` has a marker: offsets that waited for the marker count from now on, or never."""
        self.coordinator.replay_transaction_end(partition, producer_id, is_committed)

    # -------------------------------------------------------------------------------------------- upkeep

    def topics_changed(self, topics: Iterable[TopicImage]) -> None:
        known = (Topic(topic.name, topic.topic_id, len(topic.partitions)) for topic in topics)
        version = self.coordinator.topics.version + 1
        self.coordinator.on_topics_changed(Topics.of(known, version))

    async def expire_offsets(self) -> None:
        await self._slices.run(self._expire_offsets())

    def _expire_offsets(self) -> Work[None]:
        shards = [(partition, self.shards.hosted(partition)) for partition in self.shards.active_partitions()]
        for partition, shard in shards:
            # Also of groups without offsets: they may expire.
            offsets = ((group_id, list(shard.offsets.of_group(group_id))) for group_id in list(shard.groups))
            for candidates in _some_at_a_time(offsets):
                if candidates and self._is_still(partition, shard):
                    outcome = self.coordinator.expire_offsets(partition, self._clock.now_ms(), candidates)
                    self.metrics.offset_expirations += self._clean_up(outcome)
                yield

    def remove_topics(self, topics: Sequence[DeletedTopic]) -> None:
        """Goes on in the background if there is much to check. No request waits for it: offsets of a deleted topic are
        of no use.
        """
        topic_ids = {topic.name: topic.topic_id for topic in topics}
        removals = [
            (partition, self.shards.hosted(partition), Removal(topic_ids, self._log.end_offset(partition)))
            for partition in self.shards.active_partitions()
        ]
        removing = self._slices.begin(self._remove_topics(removals))
        if removing is not None:
            self._begin(wait_for(removing))

    def _remove_topics(self, removals: Sequence[tuple[int, GroupShard, Removal]]) -> Work[None]:
        for partition, shard, removal in removals:
            offsets = (
                (group_id, [each for each in shard.offsets.partitions_of(group_id) if each.topic in removal.topic_ids])
                for group_id in shard.offsets.groups()
            )
            for candidates in _some_at_a_time(offsets):
                if candidates and self._is_still(partition, shard):
                    outcome = self.coordinator.remove_topics(partition, removal, candidates)
                    self.metrics.offset_deletions += self._clean_up(outcome)
                yield

    def _finish_loading(self, partition: int, loaded: Loaded) -> None:
        super()._finish_loading(partition, loaded)
        shard = self.shards.find(partition)
        if loaded is Loaded.ALL and shard is not None and self.coordinator.topics.is_known:
            removing = self._slices.begin(self._remove_strangers(partition, shard, self._log.end_offset(partition)))
            if removing is not None:
                self._begin(wait_for(removing))

    def _remove_strangers(self, partition: int, shard: GroupShard, end_offset: int) -> Work[None]:
        """Removes offsets of topics that were deleted while the partition had no coordinator, or a coordinator that did
        not remove them.

        A broker that takes over a partition has a newer image than its former leader had, so a topic that the broker
        does not know is deleted.
        """
        offsets = (
            (group_id, [each for each in shard.offsets.partitions_of(group_id) if self._is_strange(each)])
            for group_id in shard.offsets.groups()
        )
        for candidates in _some_at_a_time(offsets):
            if candidates and self._is_still(partition, shard):
                names = dict.fromkeys(each.topic for _, partitions in candidates for each in partitions)
                removal = Removal(dict.fromkeys(names, ZERO_TOPIC_ID), end_offset)
                outcome = self.coordinator.remove_topics(partition, removal, candidates)
                self.metrics.offset_deletions += self._clean_up(outcome)
            yield

    def _is_strange(self, topic_partition: TopicPartition) -> bool:
        return topic_partition.topic not in self.coordinator.topics.by_name

    def _is_still(self, partition: int, shard: GroupShard) -> bool:
        return self.shards.is_active(partition) and self.shards.hosted(partition) is shard

    def _clean_up(self, outcome: GroupOutcome) -> int:
        """The number of deleted offsets: all requested offsets, unless the log took only some of the tombstones."""
        count = _count_offsets(outcome)
        self._perform(outcome)
        return count - _count_offsets(outcome)


def _some_at_a_time(
    groups: Iterable[tuple[str, list[TopicPartition]]],
) -> Iterator[list[tuple[str, Sequence[TopicPartition]]]]:
    """Groups with their offsets, as many as one turn can handle; often nothing, so that other work gets its turns."""
    gathered: list[tuple[str, Sequence[TopicPartition]]] = []
    size = 0
    for group_id, partitions in groups:
        for piece in pieces(partitions, OFFSETS_PER_TURN):
            if size + len(piece) + 1 > OFFSETS_PER_TURN:
                yield gathered
                gathered, size = [], 0
            gathered.append((group_id, piece))
            size += len(piece) + 1
        yield []
    yield gathered


def _count_offsets(outcome: GroupOutcome) -> int:
    """Counts the tombstones of offsets; a clean-up may write those of groups, too."""
    return sum(record.key.startswith(_OFFSET_KEY) for record in outcome.records)
