"""A partition and its replicas, and what is said of them. This module is the one place that defines these words:

lagging           a replica that should be in sync and is not; one that a move adds is not expected to be yet
under-replicated  a partition with a lagging replica
incomplete        a partition with a replica that is not in sync, expected or not
offline           a partition that no broker leads, or that is led by a broker that is not there
minimum           how many in-sync replicas acks=all needs: min.insync.replicas, but never more than there are
                  replicas (KIP-966)
at minimum        a partition with exactly as many in-sync replicas as the minimum: one fewer, and acks=all fails
under minimum     a partition with fewer: acks=all fails
preferred leader  the first replica
misled            a partition that is led by another broker although its preferred leader is there and in sync
target, sources   the replicas after a move, and those before it
"""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from penstock.core.types import TopicPartition

# What Kafka's protocol says where a partition has no leader.
NO_LEADER = -1
_UNKNOWN_EPOCH = -1


class ReplicaKey(NamedTuple):
    topic: str
    partition: int
    node_id: int


class PartitionState(NamedTuple):
    topic: str
    partition: int
    leader: int  # NO_LEADER where there is none
    replicas: tuple[int, ...]  # while they move: those that come and those that go
    isr: tuple[int, ...]
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()
    offline_replicas: tuple[int, ...] = ()  # their broker or their disk is away
    leader_epoch: int = _UNKNOWN_EPOCH

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"

    @property
    def key(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)

    @property
    def preferred_leader(self) -> int:
        return self.replicas[0] if self.replicas else NO_LEADER

    @property
    def lagging(self) -> tuple[int, ...]:
        return tuple(node for node in self.replicas if node not in self.isr and node not in self.adding)

    @property
    def is_under_replicated(self) -> bool:
        return bool(self.lagging)

    @property
    def is_incomplete(self) -> bool:
        return len(self.isr) < len(self.replicas)

    @property
    def is_moving(self) -> bool:
        return bool(self.adding or self.removing)

    @property
    def target(self) -> tuple[int, ...]:
        return tuple(node for node in self.replicas if node not in self.removing)

    @property
    def sources(self) -> tuple[int, ...]:
        return tuple(node for node in self.replicas if node not in self.adding)

    def is_offline(self, present: Collection[int]) -> bool:
        """`present` are the brokers that are there."""
        return self.leader not in present

    def is_misled(self, present: Collection[int]) -> bool:
        preferred = self.preferred_leader
        return self.leader != preferred and preferred in present and preferred in self.isr

    def minimum(self, configured: int) -> int:
        """`configured` is the topic's min.insync.replicas."""
        return min(configured, len(self.replicas))

    def is_at_minimum(self, configured: int) -> bool:
        return len(self.isr) == self.minimum(configured)

    def is_under_minimum(self, configured: int) -> bool:
        return len(self.isr) < self.minimum(configured)


class TopicState(NamedTuple):
    name: str
    topic_id: bytes = b""  # empty where the broker does not number topics
    is_internal: bool = False
    partitions: tuple[PartitionState, ...] = ()  # in their order

    @property
    def replication_factor(self) -> int:
        """Of the first partition, without the replicas that a move adds."""
        return len(self.partitions[0].sources) if self.partitions else 0
