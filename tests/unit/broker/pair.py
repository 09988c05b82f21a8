"""Two brokers in one process: hand-made images say who leads, and the test copies the logs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

from penstock.broker.following import follow_leaders
from penstock.broker.partitions.flusher import Flusher
from penstock.broker.partitions.partition import Partition
from penstock.broker.runtimes.group_runtime import GroupRuntime
from penstock.broker.slices import Slices
from penstock.cluster.image import NO_LEADER, PartitionState, TopicImage
from penstock.core.internal_topics import CONSUMER_OFFSETS
from penstock.core.metrics.counters import GroupMetrics, LogMetrics
from penstock.groups.coordinator import GroupCoordinator
from penstock.groups.settings import GroupSettings
from tests.unit.broker.harness import Host, until

ONE, TWO = 1, 2
BOTH = (ONE, TWO)


def led(name: str, leader: int, leader_epoch: int, isr: tuple[int, ...] | None = None) -> TopicImage:
    """A topic with one partition. Unless told otherwise the leader alone is in sync."""
    if isr is None:
        isr = BOTH if leader == NO_LEADER else (leader,)
    state = PartitionState(0, BOTH, isr, leader, leader_epoch)
    return TopicImage(name, name.encode().ljust(16, b"\1")[:16], (state,), {})


class Side:
    """One of the two brokers."""

    def __init__(self, path: Path, node_id: int) -> None:
        self.node_id = node_id
        self.host = Host(path, node_id=node_id)
        self.flusher = Flusher(LogMetrics(), self.host.clock)
        self.slices = Slices(lambda: 0.0)
        self.groups = GroupRuntime(
            GroupCoordinator(GroupSettings(min_session_timeout_ms=1, initial_rebalance_delay_ms=1), 1),
            self.host.partitions,
            self.flusher,
            self.host.clock,
            GroupMetrics(),
            self.slices,
        )

    def follow(self, *topics: TopicImage) -> None:
        self.host.apply(*topics)
        for topic in topics:
            if topic.name == CONSUMER_OFFSETS:
                follow_leaders(self.groups, self.node_id, topic)

    async def close(self) -> None:
        await self.groups.close()
        await self.flusher.close()


class Pair:
    def __init__(self, path: Path) -> None:
        self.sides = {node_id: Side(path / str(node_id), node_id) for node_id in BOTH}
        self.topics: dict[str, TopicImage] = {}

    @property
    def one(self) -> Side:
        return self.sides[ONE]

    @property
    def two(self) -> Side:
        return self.sides[TWO]

    def show(self, *topics: TopicImage) -> None:
        """Both brokers see these topics as they are now, and the others as they were."""
        self.topics |= {topic.name: topic for topic in topics}
        for side in self.sides.values():
            side.follow(*self.topics.values())

    def copy(self, name: str, source: int) -> None:
        """What a follower fetches: all that its leader has, and the leader's high watermark."""
        leader = self.sides[source].host.partition(name).log
        follower = self.sides[TWO if source == ONE else ONE].host.partition(name).log
        offset = follower.log_end_offset
        while offset < leader.log_end_offset:
            piece = leader.reader.read(offset, 1 << 20, leader.log_end_offset, at_least_one=True)
            assert piece is not None
            follower.append_as_follower(piece.read(0, len(piece)), 0)
            offset = follower.log_end_offset
        follower.advance_high_watermark(leader.high_watermark)

    def replicate(self, name: str, source: int) -> None:
        """The follower has it all, and the leader has heard so."""
        self.copy(name, source)
        partition: Partition = self.sides[source].host.partition(name)
        partition.log.advance_high_watermark_to_end()
        partition.notify(1)

    def move(self, name: str, source: int, target: int, leader_epoch: int) -> None:
        self.copy(name, source)
        self.show(led(name, target, leader_epoch))
        log = self.sides[target].host.partition(name).log
        log.advance_high_watermark_to_end()  # a leader that is alone in sync

    def run(self, scenario: Callable[[], Coroutine[Any, Any, None]]) -> None:
        async def whole() -> None:
            try:
                await scenario()
            finally:
                for side in self.sides.values():
                    await side.close()
                assert len(asyncio.all_tasks()) == 1

        for side in self.sides.values():
            side.host.path.mkdir(parents=True, exist_ok=True)
        asyncio.run(whole())


async def active(runtime: GroupRuntime) -> None:
    await until(lambda: runtime.shards.is_active(0))
