"""Leaders and followers that are led by hand: each fetch and each look at in-sync sets is a call of the test."""

from __future__ import annotations

from pathlib import Path

from penstock.cluster.image import PartitionState
from penstock.core.log_settings import LogSettings
from penstock.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ReplicaState
from penstock.testing.clock import ManualClock
from tests.unit.broker.replication_rig import TOPIC_ID, Node, ReplicaCluster

LAG_MS = 10_000
ALL = (1, 2, 3)


def driven(path: Path, state: PartitionState, settings: LogSettings | None = None) -> ReplicaCluster:
    cluster = ReplicaCluster(path, settings=settings, is_driven=True)
    cluster.start()
    cluster.set_states(state)
    return cluster


async def fetch(
    leader: Node, follower: int, offset: int, *, epoch: int = 0, last_epoch: int = -1, broker_epoch: int | None = None
) -> int:
    """The error code of the answer."""
    partition = FetchPartition(
        partition=0,
        current_leader_epoch=epoch,
        fetch_offset=offset,
        last_fetched_epoch=last_epoch,
        log_start_offset=0,
        partition_max_bytes=1_000,
        high_watermark=0,
    )
    state = ReplicaState(replica_id=follower, replica_epoch=follower if broker_epoch is None else broker_epoch)
    topic = FetchTopic(topic_id=TOPIC_ID, partitions=[partition])
    response = await leader.ask(FetchRequest(replica_state=state, topics=[topic]), 18)
    return int(response.responses[0].partitions[0].error_code)


def advance(node: Node, milliseconds: int) -> None:
    assert isinstance(node.clock, ManualClock)
    node.clock.advance(milliseconds)


def look(node: Node) -> None:
    node.replicas._led[node.partition().topic_partition] = node.partition()  # driven by hand
    for _ in node.replicas.look_for_lagging():
        pass


async def close(cluster: ReplicaCluster) -> None:
    for node in cluster.nodes.values():
        await node.close()
