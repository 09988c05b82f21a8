"""Links of a broker to its cluster: connections, requests to the controller, replicas, the detection of dead brokers.

A standalone broker has no links. The links follow every image in the turn in which the image takes effect: connections
to removed brokers end, fetchers go to the new leaders, and the controller watches the registered brokers.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import NamedTuple

from penstock.broker.forwarding.forwarder import Forwarding
from penstock.broker.partitions.flusher import Flusher
from penstock.broker.partitions.partitions import Partitions
from penstock.broker.peers.controller import Controller
from penstock.broker.peers.controller_requests import ControllerRequests
from penstock.broker.peers.failure_detection import FailureDetector, Probe
from penstock.broker.peers.peer import Connect, Peer
from penstock.broker.peers.peers import Peers
from penstock.broker.peers.presence import Presence
from penstock.broker.peers.shutdowns import Shutdowns
from penstock.broker.replicas.fetcher import Follower
from penstock.broker.replicas.replicas import Replicas
from penstock.broker.slices import Slices
from penstock.cluster.image import ImageDelta, MetadataImage
from penstock.cluster.metadata import Metadata
from penstock.core.clock import Clock
from penstock.core.listeners import Endpoint
from penstock.core.metrics.cluster_counters import ReplicaMetrics
from penstock.core.time.backoff import Chance

_REPLICATION = "replication"
# The divisor of the time after which brokers end idle connections: one late request does no harm.
_KEEP_ALIVE_PARTS = 3


class Wires(NamedTuple):
    """The ways to reach other brokers. The simulation has its own."""

    connect: Connect
    probe: Callable[[Endpoint], Awaitable[Probe]]


class ClusterLinks:
    """Call `start` once the broker follows its metadata; call `close` at its end."""

    def __init__(
        self,
        metadata: Metadata,
        wires: Wires,
        chance: Chance,
        slices: Slices,
        suspected: Callable[[], None],
    ) -> None:
        """`suspected` is called when earlier answers about leaders may be wrong; see `Presence`."""
        self._metadata = metadata
        self._chance = chance
        node_id = metadata.config.identity.node_id
        self.peers = Peers(node_id, self._find, wires.connect, chance)
        self.controller = Controller(node_id, self.peers, metadata, chance)
        self.forwarding = Forwarding(self.controller, slices)
        self.shutdowns = Shutdowns(node_id, metadata.controller_api, self.peers, lambda: metadata.image)
        self._requests = ControllerRequests(
            node_id,
            self.controller,
            metadata.controller_api,
            self.shutdowns,
            lambda: metadata.image,
            lambda: metadata.broker_epoch,
            chance,
        )
        max_idle_s = metadata.config.network.connections_max_idle_ms / 1000
        keep_alive_s = max_idle_s / _KEEP_ALIVE_PARTS if max_idle_s > 0 else None
        self._detector = FailureDetector(
            node_id, self.peers, self._find, wires.probe, metadata.controller_api.report_dead, chance, keep_alive_s
        )
        self.presence = Presence(node_id, self.peers, lambda: metadata.image, suspected)
        self.replicas: Replicas | None = None  # set by `start`
        self._is_closed = False

    def start(self, partitions: Partitions, flusher: Flusher, clock: Clock, metrics: ReplicaMetrics) -> None:
        """Begins: the current image has taken effect, and followers fetch from here on."""
        metadata = self._metadata
        config = metadata.config
        follower = Follower(
            config.identity.node_id,
            lambda: metadata.broker_epoch,
            clock,
            flusher,
            config.replication,
            self._open_for_replication,
            metrics,
            self._chance,
        )
        requests = self._requests
        self.replicas = Replicas(
            partitions, follower, requests.alter_partition, metadata.is_session_sure, requests.report_lost
        )
        self.replicas.limit(config.throttles)
        nothing = MetadataImage(metadata.image.cluster_id)
        self.follow(nothing, metadata.image, ImageDelta.between(nothing, metadata.image))
        self.replicas.start()

    def follow(self, old: MetadataImage, new: MetadataImage, delta: ImageDelta) -> None:
        if self._is_closed:
            return
        self.peers.follow(old, new)
        self.presence.follow(old, new)
        if self.replicas is not None:
            if delta.broker_configs_changed:
                self.replicas.limit(self._metadata.config.throttles)
            self.replicas.apply(old, new, delta)
            self._detector.follow(new)

    async def request_shutdown(self, deadline_s: float) -> bool:
        """Whether the controller has moved all leaderships away from this broker; see `ControllerRequests`."""
        return await self._requests.request_shutdown(deadline_s)

    async def close(self) -> None:
        self._is_closed = True
        await self._detector.close()
        if self.replicas is not None:
            await self.replicas.close()
        await self.presence.close()
        await self.peers.close()

    def _find(self, node_id: int) -> Endpoint | None:
        registration = self._metadata.image.brokers.get(node_id)
        return None if registration is None else registration.endpoint(self._metadata.config.inter_broker_listener)

    async def _open_for_replication(self, node_id: int) -> Peer:
        return await self.peers.open(node_id, _REPLICATION)
