"""Brokers in one process that replicate partitions among each other, without a controller and without sockets.

The test makes the images; in-sync changes are made by the rig, as a controller would. Frames go from a follower to its
leader's dispatcher, unless the way between them is cut.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from penstock.broker.apis import APIS
from penstock.broker.authorizer import AllowEverything
from penstock.broker.broker import Broker
from penstock.broker.dispatch import Dispatcher
from penstock.broker.fetch_sessions import FetchSessions
from penstock.broker.partitions.flusher import Flusher
from penstock.broker.partitions.partition import Partition
from penstock.broker.partitions.partitions import Partitions
from penstock.broker.quotas.client_quotas import ClientQuotas
from penstock.broker.replicas.fetcher import Follower
from penstock.broker.replicas.replicas import Replicas
from penstock.broker.session import Session
from penstock.broker.slices import Slices
from penstock.cluster.decisions.lost_replicas import decide_lost_replicas
from penstock.cluster.image import BrokerRegistration, ImageDelta, MetadataImage, PartitionState, TopicImage
from penstock.core.clock import Clock, SystemClock
from penstock.core.config.broker_config import BrokerConfig
from penstock.core.listeners import Endpoint
from penstock.core.log_settings import LogSettings
from penstock.core.metrics.counters import BrokerMetrics
from penstock.log.directories.log_directories import LogDirectories
from penstock.log.storage.files import Files
from penstock.protocol.errors import ErrorCode
from penstock.protocol.message import Message
from penstock.protocol.messages.fetch import FetchRequest, FetchResponse
from penstock.protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from penstock.replication.changes import AlterPartitionResult, InSyncChange, LostReplica
from penstock.testing.clock import ManualClock
from tests.unit.broker.served import decode_reply, encode_frame
from tests.waiting import until

TOPIC = "orders"
TOPIC_ID = b"orders".ljust(16, b"\1")
# Short, because idle fetches and failures wait for real: a test lasts as long as the longest of them.
SETTINGS = {
    "replica.fetch.wait.max.ms": "40",
    "replica.fetch.backoff.ms": "10",
    "replica.socket.timeout.ms": "5000",
    "replica.lag.time.max.ms": "10000",
}


class Node:
    def __init__(self, cluster: ReplicaCluster, node_id: int, path: Path, files: Files | None = None) -> None:
        self.cluster = cluster
        self.node_id = node_id
        self.path = path
        self.clock: Clock = ManualClock() if cluster.is_driven else cluster.clock
        self.files = files or Files()
        self.image = MetadataImage("cluster")
        self.is_up = False

    def open(self) -> None:
        own = {"log.dirs": str(self.path), "node.id": str(self.node_id)}
        config = BrokerConfig.parse({**own, **self.cluster.properties})
        metrics = BrokerMetrics(lambda code: ErrorCode(code).name)
        self.directories = LogDirectories.open(
            [self.path],
            node_id=self.node_id,
            cluster_id="cluster",
            settings_for=lambda _: self.cluster.settings,
            clock=self.clock,
            files=self.files,
        )
        self.partitions = Partitions(
            self.node_id,
            self.directories,
            lambda _: self.cluster.settings,
            metrics.topics,
            self.clock,
            config.replication.replica_lag_time_max_ms,
        )
        flusher, absent = Flusher(metrics.logs, self.clock), cast("Any", None)  # what nobody here asks for
        self.broker = Broker(
            node_id=self.node_id,
            config=config,
            clock=self.clock,
            metrics=metrics,
            authorizer=AllowEverything(),
            quotas=ClientQuotas(self.clock, config.quotas, metrics.quotas),
            served_versions=[],
            slices=Slices(asyncio.get_running_loop().time),
            metadata=absent,
            directories=self.directories,
            partitions=self.partitions,
            flusher=flusher,
            fetch_sessions=FetchSessions(1_000, 120_000, metrics.purgatory, random.Random(self.node_id)),
            producer_ids=absent,
            groups=absent,
            transactions=absent,
            admission=absent,
            topic_creation=absent,
            schema_checks=absent,
            moves=absent,
            chance=random.Random(1),
        )
        self.dispatcher = Dispatcher(self.broker, APIS, metrics.requests, self.broker.slices)
        follower = self._follower(self.broker)
        self.session = Session("1", "10.0.0.1", "PLAINTEXT")  # of whoever asks
        self.session_is_sure = True
        self.replicas = Replicas(
            self.partitions, follower, self.cluster.change_in_sync, lambda: self.session_is_sure, self._report_lost
        )
        self.image = MetadataImage("cluster")
        self.is_up = True

    def _follower(self, broker: Broker) -> Follower:
        return Follower(
            self.node_id,
            lambda: self.image.brokers[self.node_id].epoch,
            self.clock,
            broker.flusher,
            broker.config.replication,
            self._open_link,
            broker.metrics.replicas,
            broker.chance.random,
        )

    async def _report_lost(self, lost: Sequence[LostReplica]) -> None:
        image, epoch = self.cluster.image, self.image.brokers[self.node_id].epoch
        decided = decide_lost_replicas(image, self.node_id, epoch, lost, lambda _: False)
        assert all(result.code is ErrorCode.NONE for result in decided.results)
        self.cluster.publish(decided.image)

    def look_for_lost(self) -> None:
        """What a round does."""
        for _ in self.replicas.lost_replicas.look():
            pass

    def apply(self, image: MetadataImage) -> None:
        old, self.image = self.image, image
        delta = self.partitions.apply(old, image)
        assert isinstance(delta, ImageDelta)
        if not self.cluster.is_driven:
            self.replicas.apply(old, image, delta)

    async def close(self, clean: bool = True) -> None:
        self.is_up = False
        await self.replicas.close()
        await self.broker.flusher.close()
        self.directories.close(clean=clean)

    async def _open_link(self, node_id: int) -> NodeLink:
        link = NodeLink(self, self.cluster.nodes[node_id])
        link.check()
        return link

    async def ask(self, request: Message, version: int) -> Any:
        reply = self.dispatcher.handle(self.session, encode_frame(request, version))
        if reply is not None and not isinstance(reply, list):
            reply = await reply
        return decode_reply(reply, request.RESPONSE, version)

    def partition(self, index: int = 0) -> Partition:
        found = self.partitions.find(TOPIC, index)
        assert found is not None
        return found

    async def produce(
        self, records: bytes, *, acks: int = -1, timeout_ms: int = 10_000, index: int = 0, version: int = 10
    ) -> PartitionProduceResponse:
        response = await self.produce_response(records, acks, timeout_ms, index, version)
        return response.responses[0].partition_responses[0]

    async def produce_response(
        self, records: bytes, acks: int = -1, timeout_ms: int = 10_000, index: int = 0, version: int = 10
    ) -> ProduceResponse:
        data = PartitionProduceData(index=index, records=records)
        topic = TopicProduceData(name=TOPIC, partition_data=[data])
        request = ProduceRequest(acks=acks, timeout_ms=timeout_ms, topic_data=[topic])
        response = await self.ask(request, version)
        assert isinstance(response, ProduceResponse)
        return response


class NodeLink:
    """From a follower to its leader."""

    def __init__(self, source: Node, target: Node) -> None:
        self._source = source
        self._target = target
        self._dispatcher = target.dispatcher

    def check(self) -> None:
        cluster, target = self._source.cluster, self._target
        is_cut = frozenset((self._source.node_id, target.node_id)) in cluster.cuts
        if is_cut or not target.is_up or target.dispatcher is not self._dispatcher:
            raise ConnectionError("cut")

    async def request(self, message: Message, *, timeout_s: float) -> Any:
        self.check()
        version = message.RESPONSE.MAX_VERSION
        async with asyncio.timeout(timeout_s):
            response = await self._target.ask(message, version)
            await asyncio.sleep(0)
        self.check()
        if isinstance(message, FetchRequest) and isinstance(response, FetchResponse):
            self._source.cluster.fetch_count += 1
        return response

    async def close(self) -> None:
        return


class ReplicaCluster:
    """Three brokers, and the partitions of one topic."""

    def __init__(
        self,
        path: Path,
        count: int = 3,
        settings: LogSettings | None = None,
        is_driven: bool = False,
        properties: Mapping[str, str] | None = None,
        clock: Clock | None = None,
    ) -> None:
        """A driven cluster does nothing by itself: the test says who fetches, and who learns of an image."""
        self.is_driven = is_driven
        self.clock = clock or SystemClock()
        self.topic_settings: dict[str, str] = {}  # in the images to come
        self.properties = {**SETTINGS, **(properties or {})}
        self.settings = settings or LogSettings()
        self.cuts: set[frozenset[int]] = set()
        self.refusal: ErrorCode | None = None  # of in-sync changes
        self.changes: list[InSyncChange] = []
        self.fetch_count = 0
        self._epoch = 100
        self.nodes = {node_id: Node(self, node_id, path / str(node_id)) for node_id in range(1, count + 1)}
        brokers = {node_id: self.registration(node_id, node_id) for node_id in self.nodes}
        self.image = MetadataImage("cluster", brokers=brokers)

    def registration(self, node_id: int, epoch: int) -> BrokerRegistration:
        endpoint = Endpoint("PLAINTEXT", f"host{node_id}", 9092, "PLAINTEXT")
        return BrokerRegistration(node_id, (endpoint,), f"rack{node_id}", epoch)

    def start(self, *node_ids: int) -> None:
        for node_id in node_ids or self.nodes:
            self.nodes[node_id].open()
            self.nodes[node_id].apply(self.image)

    async def stop(self, node_id: int, clean: bool = True) -> None:
        await self.nodes[node_id].close(clean)
        brokers = {each: registration for each, registration in self.image.brokers.items() if each != node_id}
        self.publish(replace(self.image, brokers=brokers))

    def restart(self, node_id: int) -> None:
        """Registered anew."""
        self._epoch += 1
        epoch = self._epoch
        brokers = {**self.image.brokers, node_id: self.registration(node_id, epoch)}
        self.publish(replace(self.image, brokers=brokers))
        self.start(node_id)

    def publish(self, image: MetadataImage) -> None:
        self.image = image
        for node in self.nodes.values():
            if node.is_up:
                node.apply(image)

    def set_states(self, *states: PartitionState) -> None:
        self.publish(self.image.with_topics({TOPIC: TopicImage(TOPIC, TOPIC_ID, states, dict(self.topic_settings))}))

    def configure(self, **settings: str) -> None:
        """Other settings of the topic, with underscores for the dots in their names."""
        self.topic_settings = {name.replace("_", "."): value for name, value in settings.items()}
        self.set_states(*self.image.topics[TOPIC].partitions)

    def limit(self, *, leader: int | None = None, follower: int | None = None) -> None:
        """The rates of throttled replication, on all brokers. None for no limit."""
        rates = {"leader.replication.throttled.rate": leader, "follower.replication.throttled.rate": follower}
        given = {name: str(rate) for name, rate in rates.items() if rate is not None}
        for node in self.nodes.values():
            node.replicas.limit(BrokerConfig.parse(given).throttles)

    def state(self, index: int = 0) -> PartitionState:
        state = self.image.partition(TOPIC, index)
        assert state is not None
        return state

    def change(self, index: int = 0, **fields: Any) -> None:
        """A new state of one partition, as the controller writes it."""
        state = self.state(index)
        states = list(self.image.topics[TOPIC].partitions)
        states[index] = state._replace(partition_epoch=state.partition_epoch + 1, **fields)
        self.set_states(*states)

    def elect(self, leader: int, isr: tuple[int, ...] | None = None, index: int = 0) -> None:
        epoch = self.state(index).leader_epoch + 1
        self.change(index, leader=leader, leader_epoch=epoch, isr=isr or self.state(index).isr)

    async def change_in_sync(self, changes: Sequence[InSyncChange]) -> Sequence[AlterPartitionResult]:
        self.changes += changes
        await asyncio.sleep(0)
        results = []
        for change in changes:
            state = self.state(change.partition)
            code = self.refusal or ErrorCode.NONE
            if change.leader_epoch < state.leader_epoch:
                code = ErrorCode.FENCED_LEADER_EPOCH
            elif change.partition_epoch < state.partition_epoch:
                code = ErrorCode.INVALID_UPDATE_VERSION
            if code:
                results.append(AlterPartitionResult(change.topic_id, change.partition, code, None))
                continue
            self.change(change.partition, isr=tuple(node_id for node_id, _ in change.isr))
            results.append(AlterPartitionResult(change.topic_id, change.partition, code, self.state(change.partition)))
        return results

    def log_bytes(self, node_id: int, index: int = 0) -> bytes:
        """All records of a partition as they stand in the files."""
        directory = self.nodes[node_id].path / f"{TOPIC}-{index}"
        return b"".join(path.read_bytes() for path in sorted(directory.glob("*.log")))

    async def until_equal(self, index: int = 0) -> None:
        """All replicas that are up have the leader's records and its high watermark."""

        def is_equal() -> bool:
            logs = [node.partition(index).log for node in self.nodes.values() if node.is_up]
            return len({(log.log_end_offset, log.high_watermark) for log in logs}) == 1

        await until(is_equal)


@asynccontextmanager
async def replicating(
    path: Path,
    *states: PartitionState,
    count: int = 3,
    settings: LogSettings | None = None,
    properties: Mapping[str, str] | None = None,
    clock: Clock | None = None,
) -> AsyncIterator[ReplicaCluster]:
    cluster = ReplicaCluster(path, count, settings, properties=properties, clock=clock)
    all_nodes = tuple(cluster.nodes)
    cluster.start()
    cluster.set_states(*(states or (PartitionState(0, all_nodes, all_nodes, 1),)))
    try:
        yield cluster
    finally:
        for node in cluster.nodes.values():
            if node.is_up:
                await node.close()
