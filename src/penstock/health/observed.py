"""What one look at a cluster has seen. Values alone: whoever judges them needs no connection."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

NOBODY = -1


class ReplicaKey(NamedTuple):
    topic: str
    partition: int
    node_id: int


class DirectorySeen(NamedTuple):
    path: str
    error: str = ""  # empty: it is in service
    total_bytes: int | None = None
    usable_bytes: int | None = None


class FeatureSeen(NamedTuple):
    name: str
    lowest: int
    highest: int
    finalized: int | None  # the level in force, where the broker tells one


class BrokerSeen(NamedTuple):
    """A broker that is registered. Where it did not answer, `silence` says why, and the rest is not known."""

    node_id: int
    host: str
    port: int
    rack: str | None = None
    silence: str = ""
    directories: tuple[DirectorySeen, ...] = ()
    stored_bytes: int | None = None  # in its replicas; None where it did not tell
    features: tuple[FeatureSeen, ...] = ()
    certificate_left_s: float | None = None  # how long its certificate is still valid; None without TLS


class PartitionSeen(NamedTuple):
    topic: str
    partition: int
    leader: int  # NOBODY where there is none
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"

    @property
    def preferred_leader(self) -> int:
        return self.replicas[0] if self.replicas else NOBODY

    @property
    def lagging(self) -> tuple[int, ...]:
        """Replicas that should be in sync and are not. Those that a move adds come in sync when the move is done."""
        return tuple(node for node in self.replicas if node not in self.isr and node not in self.adding)

    @property
    def is_moving(self) -> bool:
        return bool(self.adding or self.removing)


@dataclass(frozen=True)
class Observed:
    """`at_s` is the time of the look by the looker's own clock, for rates between two looks."""

    at_s: float
    cluster_id: str
    controller_id: int | None
    brokers: Mapping[int, BrokerSeen] = field(default_factory=dict)
    partitions: tuple[PartitionSeen, ...] = ()
    topic_count: int = 0
    # By topic, of the topics that were asked about: those with a lagging replica, or all.
    min_in_sync: Mapping[str, int] = field(default_factory=dict)
    # Where the logs of lagging partitions end, by replica, as far as brokers told.
    log_ends: Mapping[ReplicaKey, int] = field(default_factory=dict)
    # Sizes of the replicas on the move and of their leaders' ones.
    sizes: Mapping[ReplicaKey, int] = field(default_factory=dict)
    # Replicas on their way into another directory of their broker: the size of the new copy.
    future_sizes: Mapping[ReplicaKey, int] = field(default_factory=dict)
    # What could not be read, each with its reason.
    unread: tuple[str, ...] = ()
    # Why the broker that is named as the controller did not answer as one; empty where it did.
    controller_silence: str = ""

    def minimum(self, partition: PartitionSeen) -> int | None:
        """How many in-sync replicas acks=all needs: never more than there are (KIP-966). None where nobody told."""
        configured = self.min_in_sync.get(partition.topic)
        return None if configured is None else min(configured, len(partition.replicas))
