"""The replicas of this broker follow the image: whom to fetch from, whose in-sync sets to maintain, what may be led.

`apply` runs in the turn of the loop in which an image takes effect, right after `Partitions.apply`: from then on no
answer of an older leader epoch is taken.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator

from penstock.broker.partitions.partition import Partition
from penstock.broker.partitions.partitions import Partitions
from penstock.broker.replicas.fetcher import Follower, LeaderFetcher
from penstock.broker.replicas.in_sync_sets import AskController, InSyncSets
from penstock.cluster.image import NO_LEADER, ImageDelta, MetadataImage
from penstock.core.types import TopicPartition
from penstock.replication.lease import may_lead

logger = logging.getLogger("penstock.broker.replicas")

# Partitions that are looked at in one turn of the loop, for members that lag and for leases: about 1 ms.
_LOOKED_AT_PER_TURN = 500
# How long an in-sync follower may be silent before a leader without a session gives up: three of its fetches, which
# wait half a second each.
LEASE_MS = 2_000
# How long a leader whose log went offline goes on to lead. Clients ask again all the while.
_OFFLINE_INTERVAL_MS = 1_000


class Replicas:
    """Needs a running loop. `start` begins the rounds, `close` ends everything."""

    def __init__(
        self,
        partitions: Partitions,
        follower: Follower,
        ask_controller: AskController,
        session_is_sure: Callable[[], bool],
        lease_ms: int = LEASE_MS,
    ) -> None:
        """`session_is_sure` says whether the store cannot have given up this broker's session, by the own clock."""
        self._partitions = partitions
        self._follower = follower
        self._session_is_sure = session_is_sure
        self._lease_ms = lease_ms
        self.in_sync_sets = InSyncSets(partitions, ask_controller)
        self._fetchers: dict[int, LeaderFetcher] = {}
        # The partition, its leader and the leader's epoch.
        self._following: dict[TopicPartition, tuple[Partition, int, int]] = {}
        self._led: dict[TopicPartition, Partition] = {}  # those with followers
        self._suspended: dict[TopicPartition, Partition] = {}  # without a lease
        self._rounds: list[asyncio.Task[None]] = []
        self._is_closed = False

    def start(self) -> None:
        loop = asyncio.get_running_loop()
        half_lag_ms = max(self._follower.settings.replica_lag_time_max_ms // 2, 1)
        self._rounds = [
            loop.create_task(self._repeat(half_lag_ms, self.look_for_lagging), name="in-sync members"),
            loop.create_task(self._repeat(max(self._lease_ms // 4, 1), self.look_at_leases), name="leases"),
            loop.create_task(self._repeat(_OFFLINE_INTERVAL_MS, self.look_for_offline), name="offline leaders"),
        ]

    async def close(self) -> None:
        self._is_closed = True
        for task in self._rounds:
            task.cancel()
        await asyncio.gather(*self._rounds, return_exceptions=True)
        await self.in_sync_sets.close()
        await asyncio.gather(*(fetcher.close() for fetcher in self._fetchers.values()))

    # -------------------------------------------------------------------------------------------- the image

    def apply(self, old: MetadataImage, new: MetadataImage, delta: ImageDelta) -> None:
        """Costs 0.3 us for each partition that came or changed, and more only for those with several replicas."""
        for topic in delta.deleted:
            for index in range(len(topic.partitions)):
                self._forget(TopicPartition(topic.name, index))
        for topic in (*delta.created, *delta.configured):
            for state in topic.partitions:
                if len(state.replicas) > 1:
                    self._follow_state(TopicPartition(topic.name, state.partition))
        for topic_partition in (*delta.added, *delta.changed):
            self._follow_state(topic_partition)
        if old.brokers is not new.brokers and old.brokers != new.brokers:
            for partition in self._led.values():
                self._look_at(partition)

    def _follow_state(self, topic_partition: TopicPartition) -> None:
        partition = self._partitions.find(*topic_partition)
        if partition is None:
            self._forget(topic_partition)
            return
        state, node_id = partition.state, self._follower.node_id
        if partition.is_leader or state.leader != node_id:  # else nothing has changed, and the lease is still to come
            self._suspended.pop(topic_partition, None)
        if state.leader == node_id:
            self._stop_following(topic_partition)
            if len(state.replicas) > 1:
                self._led[topic_partition] = partition
                self.in_sync_sets.look_for_candidates(partition)
            else:
                self._led.pop(topic_partition, None)
            return
        self._led.pop(topic_partition, None)
        wanted = partition, state.leader, state.leader_epoch
        if self._following.get(topic_partition) == wanted:
            return
        self._stop_following(topic_partition)
        if state.leader != NO_LEADER and partition.is_online and not self._is_closed:
            self._following[topic_partition] = wanted
            self._fetcher(state.leader).add(partition, state.leader_epoch)

    def _fetcher(self, leader: int) -> LeaderFetcher:
        fetcher = self._fetchers.get(leader)
        if fetcher is None:
            fetcher = self._fetchers[leader] = LeaderFetcher(leader, self._follower)
        return fetcher

    def _stop_following(self, topic_partition: TopicPartition) -> None:
        followed = self._following.pop(topic_partition, None)
        if followed is not None:
            partition, leader, _ = followed
            self._fetchers[leader].remove(partition)

    def _forget(self, topic_partition: TopicPartition) -> None:
        self._stop_following(topic_partition)
        self._led.pop(topic_partition, None)
        self._suspended.pop(topic_partition, None)

    # -------------------------------------------------------------------------------------------- rounds

    async def _repeat(self, interval_ms: int, step: Callable[[], Iterator[None]]) -> None:
        while True:
            await asyncio.sleep(interval_ms / 1000)
            try:
                for number, _ in enumerate(step(), start=1):
                    if number % _LOOKED_AT_PER_TURN == 0:
                        await asyncio.sleep(0)
            except Exception:  # the next round may do better
                logger.exception("looking at the led partitions failed")

    def look_for_lagging(self) -> Iterator[None]:
        for partition in list(self._led.values()):
            self._look_at(partition)
            self.in_sync_sets.look_for_lagging(partition)
            yield

    def look_for_offline(self) -> Iterator[None]:
        """Costs 0.1 us for each partition led that is well."""
        for partition in [each for each in self._led.values() if each.log.offline_reason is not None]:
            self.in_sync_sets.leave_if_offline(partition)
            yield

    def _look_at(self, partition: Partition) -> None:
        """Time has passed, or brokers came and went: the high watermark may have waited for one of them, and another
        may join now.
        """
        if partition.leading is not None:
            partition.leading.raise_high_watermark()
            self.in_sync_sets.look_for_candidates(partition)

    def look_at_leases(self) -> Iterator[None]:
        """Leaderships end that are not sure any more, and go on where the session is."""
        if self._session_is_sure():
            for topic_partition, partition in list(self._suspended.items()):
                del self._suspended[topic_partition]
                partition.allow_leading(True)
                yield
            return
        now_ms = self._follower.clock.monotonic_ms()
        for topic_partition, partition in list(self._led.items()):
            leading = partition.leading
            if leading is not None and not may_lead(
                False,
                len(leading.followers),
                leading.last_fetches_ms(),
                partition.log.settings.unclean_leader_election_enable,
                now_ms,
                self._lease_ms,
            ):
                logger.warning(
                    "%s: neither the store nor its followers are in reach, so another may lead", topic_partition
                )
                self._suspended[topic_partition] = partition
                partition.allow_leading(False)
            yield
