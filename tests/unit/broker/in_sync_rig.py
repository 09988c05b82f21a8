"""Leaders and followers that are led by hand: each fetch and each look at in-sync sets is a call of the test."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from penstock.cluster.image import PartitionState
from penstock.core.log_settings import LogSettings
from penstock.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
    ReplicaState,
)
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


class Following:
    """One follower's fetch session with a leader."""

    def __init__(self, leader: Node, node_id: int) -> None:
        self._leader = leader
        self._node_id = node_id
        self._session_id = self._session_epoch = 0

    async def fetch(self, epoch: int = 0, broker_epoch: int | None = None) -> int:
        """Of the partition, at that leader epoch. The error code of the answer."""
        partition = FetchPartition(partition=0, current_leader_epoch=epoch, fetch_offset=0, partition_max_bytes=1_000)
        response = await self._send(broker_epoch, topics=[FetchTopic(topic_id=TOPIC_ID, partitions=[partition])])
        return int(response.responses[0].partitions[0].error_code)

    async def fetch_nothing_new(self) -> None:
        """The fetch names no partition: nothing has changed at the follower."""
        await self._send()

    async def forget(self) -> None:
        """The follower does not follow any more."""
        await self._send(forgotten_topics_data=[ForgottenTopic(topic_id=TOPIC_ID, partitions=[0])])

    async def _send(self, broker_epoch: int | None = None, **fields: Any) -> FetchResponse:
        epoch_sent = self._node_id if broker_epoch is None else broker_epoch
        request = FetchRequest(
            replica_state=ReplicaState(replica_id=self._node_id, replica_epoch=epoch_sent),
            session_id=self._session_id,
            session_epoch=self._session_epoch,
            **fields,
        )
        response = await self._leader.ask(request, 18)
        assert isinstance(response, FetchResponse)
        self._session_id = response.session_id
        self._session_epoch += 1
        return response


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
