"""The current leader of a partition, in the answer that refuses a request because another broker leads (KIP-951).

Produce answers carry the leader from version 10 on, fetch answers from version 16 on: the client goes to the new leader
without a metadata request. Endpoints are those of the listener that the client uses.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple, Protocol

from penstock.broker.partitions.leader_context import LeaderContext
from penstock.cluster.image import PartitionState
from penstock.protocol.errors import ErrorCode

FIRST_PRODUCE_VERSION = 10
FIRST_FETCH_VERSION = 16
# The errors of requests that went to a broker which does not lead.
MISPLACED = frozenset({ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH})


class LeaderEndpoint(NamedTuple):
    node_id: int
    host: str
    port: int
    rack: str | None


class KnownLeaders(Protocol):
    """The parts of the broker's partitions that know the leaders."""

    context: LeaderContext

    def state_of(self, topic: str, partition: int) -> PartitionState | None: ...


def current_leader(leaders: KnownLeaders, topic: str, partition: int) -> tuple[int, int] | None:
    """The (node id, epoch) of the leader; None if this broker does not know the partition. The id is -1 while no broker
    leads.
    """
    state = leaders.state_of(topic, partition)
    return None if state is None else (state.leader, state.leader_epoch)


def leader_nodes(leaders: KnownLeaders, listener: str, node_ids: Iterable[int]) -> Iterator[LeaderEndpoint]:
    """The endpoints of those leaders that have registered the listener, each leader once."""
    for node_id in dict.fromkeys(node_ids):
        registration = leaders.context.brokers.get(node_id)
        endpoint = None if registration is None else registration.endpoint(listener)
        if registration is not None and endpoint is not None:
            yield LeaderEndpoint(node_id, endpoint.host, endpoint.port, registration.rack)
