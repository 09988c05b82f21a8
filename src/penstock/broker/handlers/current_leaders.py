"""Who leads a partition instead of this broker, told in the answer that refuses a request (KIP-951).

Produce answers carry it from version 10 on, fetch answers from version 16 on: the client goes to the new leader without
asking for metadata. Endpoints are those of the listener that the client came by.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from penstock.broker.broker import Broker
from penstock.protocol.errors import ErrorCode

FIRST_PRODUCE_VERSION = 10
FIRST_FETCH_VERSION = 16
# The errors of clients that look for the leader in the wrong place.
MISPLACED = frozenset({ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH})


class Node(NamedTuple):
    node_id: int
    host: str
    port: int
    rack: str | None


def current_leader(broker: Broker, topic: str, partition: int) -> tuple[int, int] | None:
    """(node id, epoch); None if the partition is not known here. The id is -1 while nobody leads."""
    state = broker.partitions.state_of(topic, partition)
    return None if state is None else (state.leader, state.leader_epoch)


def leader_nodes(broker: Broker, listener: str, node_ids: Iterable[int]) -> Iterator[Node]:
    """Those of the brokers that are registered with the listener, each once."""
    for node_id in dict.fromkeys(node_ids):
        registration = broker.partitions.context.brokers.get(node_id)
        endpoint = None if registration is None else registration.endpoint(listener)
        if registration is not None and endpoint is not None:
            yield Node(node_id, endpoint.host, endpoint.port, registration.rack)
