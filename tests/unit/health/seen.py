"""Clusters as a look sees them, for tests of what is made of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from penstock.health.observed import BrokerSeen, DirectorySeen, FeatureSeen, Observed, PartitionSeen, ReplicaKey

GIB = 1 << 30
DISK = DirectorySeen("/data", "", 100 * GIB, 50 * GIB)


def broker(
    node_id: int, *directories: DirectorySeen, silence: str = "", levels: tuple[int, int] = (1, 1)
) -> BrokerSeen:
    features = (FeatureSeen("penstock.metadata", *levels, 1),)
    return BrokerSeen(node_id, "host", 9090 + node_id, None, silence, directories or (DISK,), GIB, features)


def partition(index: int, leader: int, replicas: Sequence[int], isr: Sequence[int] | None = None) -> PartitionSeen:
    return PartitionSeen("t", index, leader, tuple(replicas), tuple(replicas if isr is None else isr))


def observed(
    partitions: Sequence[PartitionSeen] = (),
    brokers: Sequence[BrokerSeen] | None = None,
    controller: int | None = 1,
    min_in_sync: int | None = 2,
    log_ends: Mapping[tuple[int, int], int] | None = None,
) -> Observed:
    """`log_ends` by (partition, broker)."""
    present = [broker(1), broker(2), broker(3)] if brokers is None else brokers
    return Observed(
        0.0,
        "cluster",
        controller,
        {each.node_id: each for each in present},
        tuple(partitions),
        1,
        {} if min_in_sync is None else {"t": min_in_sync},
        {ReplicaKey("t", index, node_id): end for (index, node_id), end in (log_ends or {}).items()},
    )
