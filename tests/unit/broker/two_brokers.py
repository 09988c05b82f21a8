"""Two whole brokers in one process, without sockets: hand-made images say who leads, and the test copies the logs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from penstock.broker.apis import APIS
from penstock.broker.image_applier import ImageApplier
from penstock.broker.partitions.partition import Partition
from penstock.broker.peers.peer import PeerUnavailableError
from penstock.cluster.image import NO_LEADER, BrokerRegistration, PartitionState, TopicImage
from penstock.core.listeners import Endpoint
from penstock.protocol.message import Message
from penstock.replication.progress import NO_BROKER_EPOCH
from tests.unit.broker.served import Served, serving
from tests.waiting import until

ONE, TWO = 1, 2
BOTH = (ONE, TWO)
_SMALL = {"offsets.topic.num.partitions": "1", "transaction.state.log.num.partitions": "1"}


def led(name: str, leader: int, leader_epoch: int = 0, isr: tuple[int, ...] | None = None) -> TopicImage:
    """A topic with one partition. Unless told otherwise the leader alone is in sync."""
    if isr is None:
        isr = BOTH if leader == NO_LEADER else (leader,)
    state = PartitionState(0, BOTH, isr, leader, leader_epoch)
    return TopicImage(name, name.encode().ljust(16, b"\1")[:16], (state,), {})


class Wire:
    """What brokers ask each other. Answers wait while `gate` is closed."""

    def __init__(self) -> None:
        self.served: dict[int, Served] = {}
        self.cut_off: set[int] = set()
        self.asked: list[tuple[int, Message]] = []
        self.gate = asyncio.Event()
        self.gate.set()

    async def ask(self, node_id: int, request: Message, *, timeout_s: float, channel: str) -> Any:
        assert timeout_s > 0
        assert channel
        self.asked.append((node_id, request))
        if node_id in self.cut_off:
            raise PeerUnavailableError(f"broker {node_id} is cut off")
        served = self.served[node_id]
        answer = await served.ask(request, APIS[request.API_KEY].max_version)
        await self.gate.wait()
        return answer

    def count(self, kind: type[Message]) -> int:
        return sum(isinstance(request, kind) for _, request in self.asked)


class TwoBrokers:
    def __init__(self, one: Served, two: Served, wire: Wire) -> None:
        self.served = {ONE: one, TWO: two}
        self.wire = wire
        wire.served.update(self.served)
        self._image_appliers = {
            node_id: ImageApplier(served.broker, lambda _: None) for node_id, served in self.served.items()
        }
        self.brokers = {
            node_id: BrokerRegistration(node_id, (Endpoint("PLAINTEXT", f"host-{node_id}", 9092, "PLAINTEXT"),))
            for node_id in BOTH
        }
        self.topics: dict[str, TopicImage] = {}

    @property
    def one(self) -> Served:
        return self.served[ONE]

    @property
    def two(self) -> Served:
        return self.served[TWO]

    def show(self, *topics: TopicImage) -> None:
        """Both brokers see these topics as they are now, and the others as they were."""
        self.topics = {**self.topics, **{topic.name: topic for topic in topics}}
        for node_id in BOTH:
            self.show_to(node_id)

    def show_to(self, node_id: int) -> None:
        metadata = self.served[node_id].broker.metadata
        old = metadata.image
        metadata.publisher.image = replace(old, brokers=dict(self.brokers), topics=dict(self.topics))
        self._image_appliers[node_id].apply(old, metadata.image)
        for partition in self.served[node_id].broker.partitions:
            if partition.state.isr == (node_id,):
                partition.log.advance_high_watermark_to_end()
                if partition.leading is not None:
                    partition.leading.raise_high_watermark(self.served[node_id].clock.monotonic_ms())

    def copy(self, name: str, source: int) -> None:
        """What a follower fetches: all that its leader has."""
        target = TWO if source == ONE else ONE
        leader, follower = self.partition(name, source), self.partition(name, target)
        offset, end = follower.log.log_end_offset, leader.log.log_end_offset
        while offset < end:
            piece = leader.log.reader.read(offset, 1 << 20, end, at_least_one=True)
            assert piece is not None
            follower.log.append_as_follower(piece.read(0, len(piece)), 0)
            offset = follower.log.log_end_offset

    def replicate(self, name: str, source: int) -> None:
        """The follower has everything, and the leader has heard of it. A suspended leader will know it, too."""
        self.copy(name, source)
        partition = self.partition(name, source)
        leading, log = partition.leading, partition.log
        if leading is None:
            log.advance_high_watermark_to_end()
            return
        follower = TWO if source == ONE else ONE
        progress, now_ms = leading.followers[follower], self.served[source].clock.monotonic_ms()
        leading.note_fetch(follower, progress, log.log_end_offset, log.log_start_offset, NO_BROKER_EPOCH, now_ms)

    def partition(self, name: str, node_id: int) -> Partition:
        partition = self.served[node_id].broker.partitions.find(name, 0)
        assert partition is not None
        return partition

    async def move(self, name: str, source: int, target: int, leader_epoch: int) -> None:
        """Another broker leads, alone in sync, and has what the former leader had."""
        self.copy(name, source)
        self.show(led(name, target, leader_epoch))
        await self.settled(target)

    async def settled(self, *nodes: int) -> None:
        for node_id in nodes or BOTH:
            broker = self.served[node_id].broker
            await until(lambda: not broker.groups.shards.is_loading and not broker.transactions.shards.is_loading)  # noqa: B023


@asynccontextmanager
async def two_brokers(directory: Path, properties: Mapping[str, str] | None = None) -> AsyncIterator[TwoBrokers]:
    wire = Wire()
    async with AsyncExitStack() as stack:
        served: list[Served] = []
        for node_id in BOTH:
            path = directory / str(node_id)
            path.mkdir()
            settings = {**_SMALL, "node.id": str(node_id), **(properties or {})}
            served.append(await stack.enter_async_context(serving(path, settings, ask=wire.ask)))
        one, two = served
        yield TwoBrokers(one, two, wire)
