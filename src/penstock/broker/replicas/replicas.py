"""The replicas of this broker follow the image: which leaders to fetch from, which in-sync sets to maintain, and which
partitions to lead.

`apply` runs in the turn of the loop in which an image takes effect, right after `Partitions.apply`: from then on no
answer of an older leader epoch is accepted. Brokers that come and go concern thousands of led partitions at once. Later
turns check these, some at a time.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator

from penstock.broker.partitions.partition import Partition
from penstock.broker.partitions.partitions import Partitions
from penstock.broker.replicas.fetcher import Follower, LeaderFetcher
from penstock.broker.replicas.in_sync_sets import AskController, InSyncSets
from penstock.broker.replicas.lost_replicas import ROUND_MS, LostReplicas, ReportLost
from penstock.broker.replicas.throttles import Throttles
from penstock.cluster.image import NO_LEADER, ImageDelta, MetadataImage
from penstock.core.config.sections import ThrottleSection
from penstock.core.types import TopicPartition
from penstock.replication.lease import LEASE_MS, may_lead
from penstock.replication.progress import NEVER_MS

logger = logging.getLogger("penstock.broker.replicas")

# The number of partitions that one turn of the loop checks for lagging members and for leases: about 1 ms.
_LOOKED_AT_PER_TURN = 500


class Replicas:
    """Needs a running loop. `start` begins the rounds, `close` ends everything."""

    def __init__(
        self,
        partitions: Partitions,
        follower: Follower,
        ask_controller: AskController,
        session_is_sure: Callable[[], bool],
        report_lost: ReportLost,
        lease_ms: int = LEASE_MS,
    ) -> None:
        """`session_is_sure` tells whether the store cannot have given up this broker's session, by this broker's
        clock.
        """
        self._partitions = partitions
        self._follower = follower
        self._session_is_sure = session_is_sure
        self._lease_ms = lease_ms
        partitions.context.metrics = follower.metrics
        partitions.context.is_sure = self.is_sure
        partitions.context.is_session_sure = session_is_sure
        self.throttles = Throttles(partitions.context)
        self.in_sync_sets = InSyncSets(partitions, ask_controller, follower.chance)
        self.lost_replicas = LostReplicas(follower.node_id, partitions, report_lost)
        self._fetchers: dict[int, LeaderFetcher] = {}
        # The partition, its leader and the leader's epoch.
        self._following: dict[TopicPartition, tuple[Partition, int, int]] = {}
        self._led: dict[TopicPartition, Partition] = {}  # partitions with followers
        self._suspended: dict[TopicPartition, Partition] = {}  # partitions without a lease
        # The partitions with these brokers as followers are still to be checked.
        self._changed_brokers: dict[int, None] = {}
        self._looking: asyncio.Task[None] | None = None
        self._leases_looked_at_ms = follower.clock.monotonic_ms()
        self._rounds: list[asyncio.Task[None]] = []
        self._is_closed = False

    def start(self) -> None:
        loop = asyncio.get_running_loop()
        half_lag_ms = max(self._follower.settings.replica_lag_time_max_ms // 2, 1)
        self._rounds = [
            loop.create_task(self._repeat(half_lag_ms, self.look_for_lagging), name="in-sync members"),
            loop.create_task(self._repeat(max(self._lease_ms // 4, 1), self.look_at_leases), name="leases"),
            loop.create_task(self._repeat(ROUND_MS, self.lost_replicas.look), name="lost replicas"),
        ]

    async def close(self) -> None:
        self._is_closed = True
        tasks = [*self._rounds] if self._looking is None else [*self._rounds, self._looking]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self.in_sync_sets.close()
        await self.lost_replicas.close()
        await asyncio.gather(*(fetcher.close() for fetcher in self._fetchers.values()))

    # -------------------------------------------------------------------------------------------- the image

    def limit(self, settings: ThrottleSection) -> None:
        """The rates of throttled replication may have changed."""
        self.throttles.limit(settings)
        self._look_at_throttle()

    def _look_at_throttle(self) -> None:
        for fetcher in self._fetchers.values():
            fetcher.look_again()

    def apply(self, old: MetadataImage, new: MetadataImage, delta: ImageDelta) -> None:
        """Costs 0.3 us for each new or changed partition, and more only for partitions with several replicas."""
        if self.throttles.follow(delta):
            self._look_at_throttle()
        for topic in delta.deleted:
            for index in range(len(topic.partitions)):
                self._forget(TopicPartition(topic.name, index))
        for topic in (*delta.created, *delta.configured):
            for state in topic.partitions:
                if len(state.replicas) > 1:
                    self._follow_state(TopicPartition(topic.name, state.partition))
        for topic_partition in (*delta.added, *delta.changed):
            self._follow_state(topic_partition)
        if old.brokers is not new.brokers:
            self._look_at_brokers(old, new)

    def _look_at_brokers(self, old: MetadataImage, new: MetadataImage) -> None:
        for node_id in {**old.brokers, **new.brokers}:
            if old.brokers.get(node_id) != new.brokers.get(node_id):
                self._changed_brokers[node_id] = None
        if self._changed_brokers and self._led and self._looking is None and not self._is_closed:
            self._looking = asyncio.get_running_loop().create_task(self._look_at_changed(), name="changed brokers")

    async def _look_at_changed(self) -> None:
        try:
            while self._changed_brokers:
                changed, self._changed_brokers = self._changed_brokers, {}
                await self._go_through(self._look_for_members(changed))
        finally:
            self._looking = None

    def _look_for_members(self, changed: Iterable[int]) -> Iterator[None]:
        """A replica in sync stays so until the controller decides otherwise: other replicas may join now, or need not
        be waited for any more. Deletions wait for all present brokers.
        """
        for topic_partition, partition in list(self._led.items()):
            leading = partition.leading
            if leading is not None and self._led.get(topic_partition) is partition:
                if partition.deletions is not None:
                    partition.deletions.wake()
                isr = partition.state.isr
                if any(node_id in leading.followers and node_id not in isr for node_id in changed):
                    self._look_at(partition)
            yield

    def _follow_state(self, topic_partition: TopicPartition) -> None:
        partition = self._partitions.find(*topic_partition)
        if partition is None:
            self._forget(topic_partition)
            return
        state, node_id = partition.state, self._follower.node_id
        # Otherwise nothing has changed, and the lease is still to come.
        if partition.is_leader or state.leader != node_id:
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
            if self.throttles.follower.topics:
                # This replica may have joined or left the in-sync set.
                self._fetchers[state.leader].look_again([partition])
            return
        self._stop_following(topic_partition)
        if state.leader != NO_LEADER and partition.is_online and not self._is_closed:
            self._following[topic_partition] = wanted
            self._fetcher(state.leader).add(partition, state.leader_epoch)

    def _fetcher(self, leader: int) -> LeaderFetcher:
        fetcher = self._fetchers.get(leader)
        if fetcher is None:
            fetcher = self._fetchers[leader] = LeaderFetcher(leader, self._follower, self.throttles.follower)
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

    def lags(self) -> Iterator[tuple[int, TopicPartition, int]]:
        """(leader, partition, offsets to the leader's high watermark) of all partitions that this broker follows."""
        for leader, fetcher in list(self._fetchers.items()):
            for partition, lag in fetcher.lags():
                yield leader, partition.topic_partition, lag

    # -------------------------------------------------------------------------------------------- rounds

    async def _repeat(self, interval_ms: int, step: Callable[[], Iterator[None]]) -> None:
        while True:
            await asyncio.sleep(interval_ms / 1000)
            await self._go_through(step())

    async def _go_through(self, steps: Iterator[None]) -> None:
        try:
            for number, _ in enumerate(steps, start=1):
                if number % _LOOKED_AT_PER_TURN == 0:
                    await asyncio.sleep(0)
        except Exception:  # the next round may do better
            logger.exception("looking at the led partitions failed")

    def look_for_lagging(self) -> Iterator[None]:
        for partition in list(self._led.values()):
            self._look_at(partition)
            if partition.is_online:  # otherwise no follower could fetch, and this replica has to leave the set
                self.in_sync_sets.look_for_lagging(partition)
            yield

    def _look_at(self, partition: Partition) -> None:
        """Time has passed, or brokers came and went: the high watermark may have waited for a broker, and another may
        join now.
        """
        if partition.leading is not None:
            partition.leading.raise_high_watermark(self._follower.clock.monotonic_ms())
            self.in_sync_sets.look_for_candidates(partition)

    def look_at_leases(self) -> Iterator[None]:
        """Ends leaderships that are not sure any more. They continue where the session is sure, or where all in-sync
        followers have followed since.
        """
        is_sure, has_stood_still = self._session_is_sure(), self._has_stood_still()
        resumed: list[TopicPartition] = []
        suspended: list[TopicPartition] = []
        for topic_partition, partition in list(self._suspended.items()):
            if self._suspended.get(topic_partition) is partition and (is_sure or self._may_lead_again(partition)):
                del self._suspended[topic_partition]
                partition.allow_leading(True)
                self.in_sync_sets.ask_again(partition)
                resumed.append(topic_partition)
            yield
        for topic_partition, partition in () if is_sure else list(self._led.items()):
            if self._led.get(topic_partition) is partition and not self._may_lead_on(partition, has_stood_still):
                self._suspended[topic_partition] = partition
                partition.allow_leading(False)
                suspended.append(topic_partition)
            yield
        self._leases_looked_at_ms = self._follower.clock.monotonic_ms()  # until then no leadership is sure
        if suspended:
            logger.warning(
                "neither the store nor all in-sync followers are in reach, so others may lead: partitions=%d first=%s",
                len(suspended),
                suspended[0],
            )
        if resumed:
            logger.info("leads again: partitions=%d first=%s", len(resumed), resumed[0])

    def is_sure(self, topic_partition: TopicPartition) -> bool:
        """Whether this broker may lead at this moment the partitions that it leads in its image. Where only its lease
        allows that, another broker may lead, too: then no write is acknowledged here, and no answer comes from memory
        (`confirmations`).
        """
        partition = self._led.get(topic_partition)
        return self._session_is_sure() or partition is None or self._may_lead_on(partition, self._has_stood_still())

    def _has_stood_still(self) -> bool:
        """Whether the process was paused for longer than leases last. Fetches that came since may have waited in
        sockets: their senders may lead.
        """
        return self._follower.clock.monotonic_ms() - self._leases_looked_at_ms > self._lease_ms

    def _may_lead_on(self, partition: Partition, has_stood_still: bool) -> bool:
        leading = partition.leading
        if leading is None:
            return True
        fetches_ms = leading.last_fetches_ms()
        if has_stood_still:
            fetches_ms = [NEVER_MS] * len(fetches_ms)
        return self._is_sure_of(partition, len(leading.followers), fetches_ms)

    def _may_lead_again(self, partition: Partition) -> bool:
        suspension = partition.suspension
        return suspension is None or self._is_sure_of(
            partition, suspension.other_replicas, suspension.last_followed_ms()
        )

    def _is_sure_of(self, partition: Partition, other_replicas: int, last_fetches_ms: list[int]) -> bool:
        may_be_unclean = partition.log.settings.unclean_leader_election_enable
        now_ms = self._follower.clock.monotonic_ms()
        return may_lead(False, other_replicas, last_fetches_ms, may_be_unclean, now_ms, self._lease_ms)
