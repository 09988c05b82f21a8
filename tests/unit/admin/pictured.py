"""Pictures of clusters, for tests of what is made of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from penstock.admin.state.brokers import BrokerState, DirectoryState, FeatureLevels, ReplicaFiles
from penstock.admin.state.cluster import MIN_IN_SYNC, ClusterState, LogEnd
from penstock.admin.state.configs import ConfigPlace, ConfigSetting
from penstock.admin.state.partitions import PartitionState, ReplicaKey, TopicState
from penstock.admin.state.parts import Failure, Part, PartRead
from penstock.core.config.resources import ConfigSource

GIB = 1 << 30
DISK = DirectoryState("/data", "", 100 * GIB, 50 * GIB)


def broker(
    node_id: int, *directories: DirectoryState, silence: str = "", levels: tuple[int, int] = (1, 1)
) -> BrokerState:
    features = (FeatureLevels("penstock.metadata", *levels, 1),)
    return BrokerState(node_id, "host", 9090 + node_id, None, silence, directories or (DISK,), GIB, features)


def partition(index: int, leader: int, replicas: Sequence[int], isr: Sequence[int] | None = None) -> PartitionState:
    return PartitionState("t", index, leader, tuple(replicas), tuple(replicas if isr is None else isr))


def stored(sizes: Mapping[ReplicaKey, int]) -> dict[ReplicaKey, ReplicaFiles]:
    return {key: ReplicaFiles("/data", size) for key, size in sizes.items()}


def minimum_of(topic: str, value: int) -> dict[ConfigPlace, dict[str, ConfigSetting]]:
    setting = ConfigSetting(MIN_IN_SYNC, str(value), ConfigSource.DYNAMIC_TOPIC_CONFIG)
    return {ConfigPlace.topic(topic): {MIN_IN_SYNC: setting}}


def pictured(
    partitions: Sequence[PartitionState] = (),
    brokers: Sequence[BrokerState] | None = None,
    controller: int | None = 1,
    min_in_sync: int | None = 2,
    log_ends: Mapping[tuple[int, int], int] | None = None,
) -> ClusterState:
    """One topic `t`; `log_ends` by (partition, broker)."""
    present = [broker(1), broker(2), broker(3)] if brokers is None else brokers
    return ClusterState(
        cluster_id="cluster",
        controller_id=controller,
        brokers={each.node_id: each for each in present},
        topics={"t": TopicState("t", partitions=tuple(partitions))},
        log_ends={
            ReplicaKey("t", index, node_id): LogEnd(0, end) for (index, node_id), end in (log_ends or {}).items()
        },
        configs={} if min_in_sync is None else minimum_of("t", min_in_sync),
    )


def failing(state: ClusterState, part: Part, reason: str) -> ClusterState:
    return replace(state, parts={**state.parts, part: PartRead(state.at_s, (Failure(part.value, reason, 1),))})
