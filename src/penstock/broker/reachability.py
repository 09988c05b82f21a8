"""The brokers that a client can reach on its listener, and the effect on the partitions in its answer.

The rules are those of Kafka's metadata cache:

- Addresses are those of the client's listener. An answer does not name a broker without that listener.
- A leader that is not registered: LEADER_NOT_AVAILABLE, and no leader is named. The same where a connection to the
  leader has just ended (`peers.suspects`), which Kafka does not check. A leader without the listener:
  LISTENER_NOT_FOUND, which Metadata knows from version 6 on.
- A replica is offline when its broker is not registered, lacks the listener, or has lost the disk. This broker knows
  the state of its own disks alone.
"""

from __future__ import annotations

from collections.abc import Container
from typing import NamedTuple

from penstock.broker.partitions.partitions import Partitions
from penstock.cluster.image import NO_LEADER, MetadataImage, PartitionState
from penstock.protocol.errors import ErrorCode


class PartitionView(NamedTuple):
    state: PartitionState
    code: ErrorCode
    leader: int
    offline: list[int]


class Reachability:
    """For one image, one listener and one request."""

    __slots__ = ("_image", "_node_id", "_partitions", "_suspects", "reachable")

    def __init__(
        self, image: MetadataImage, listener: str, node_id: int, partitions: Partitions, suspects: Container[int] = ()
    ) -> None:
        self._suspects = suspects
        self._image = image
        self._node_id = node_id
        self._partitions = partitions
        self.reachable = frozenset(
            node_id for node_id, broker in image.brokers.items() if broker.endpoint(listener) is not None
        )

    def view(self, topic: str, state: PartitionState) -> PartitionView:
        offline = self._offline(topic, state)
        leader = state.leader
        is_away = leader in self._suspects or (leader == self._node_id and leader in offline)
        if leader in self.reachable and not is_away:
            return PartitionView(state, ErrorCode.NONE, leader, offline)
        is_listening = leader in self.reachable or leader not in self._image.brokers
        code = ErrorCode.LEADER_NOT_AVAILABLE if is_listening else ErrorCode.LISTENER_NOT_FOUND
        return PartitionView(state, code, NO_LEADER, offline)

    def _offline(self, topic: str, state: PartitionState) -> list[int]:
        offline: list[int] = []
        if not self.reachable.issuperset(state.replicas):
            offline = [node_id for node_id in state.replicas if node_id not in self.reachable]
        own = self._node_id
        if own in state.replicas and own not in offline and not self._partitions.is_online(topic, state.partition):
            offline.append(own)
        return offline
