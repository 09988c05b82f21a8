"""Who fetches, and from which replica a consumer should read (KIP-392).

Rules:
- A follower says its node id. It counts as a follower once it may act for the cluster and is registered; only then does
  its fetch get what followers get: a session of its own, and news of the partitions.
- A consumer from version 11 on may read from a follower, if it names its rack or the leader epoch it knows. A consumer
  that names neither did not choose this broker, and is sent to the leader.
- A reader with the replica id -2 compares replicas: it is a consumer that reads from whichever replica it asks
  (Kafka's debugging consumer, which kafka-replica-verification is).
- With `replica.selector.class` the leader names the best replica in the consumer's rack instead of giving records.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from penstock.broker.authorizer import CLUSTER_NAME, Operation, ResourceType
from penstock.broker.broker import Broker
from penstock.broker.partitions.partition import Partition
from penstock.broker.session import RequestContext
from penstock.cluster.image import BrokerRegistration
from penstock.core.config.keys.coordination import RACK_AWARE_SELECTOR
from penstock.protocol.messages.fetch import FetchRequest
from penstock.replication.read_replica import ReadCandidate, choose_read_replica

_FIRST_VERSION_WITH_RACKS = 11
_FIRST_VERSION_WITH_REPLICA_STATE = 15
_READ_COMMITTED = 1
_CONSUMER, _DEBUGGING_CONSUMER = -1, -2


class Reader(NamedTuple):
    """Who fetches, and how."""

    is_read_committed: bool
    follower: int | None  # its node id, as it says
    broker_epoch: int
    knows_replicas: bool  # a consumer that can be sent from one replica to another
    rack: str  # of such a consumer
    may_follow: bool = False  # a follower that may act for the cluster
    is_debugging: bool = False  # a consumer that reads from the replica that it asks

    def may_read_follower(self, current_leader_epoch: int) -> bool:
        return self.is_debugging or (self.knows_replicas and (bool(self.rack) or current_leader_epoch >= 0))


# Most fetches come from consumers without a rack: these are made once.
_CONSUMERS = {
    (is_read_committed, knows_replicas): Reader(is_read_committed, None, -1, knows_replicas, "")
    for is_read_committed in (False, True)
    for knows_replicas in (False, True)
}

_DEBUGGER = Reader(False, None, -1, knows_replicas=False, rack="", is_debugging=True)


def identify(broker: Broker, context: RequestContext, request: FetchRequest) -> Reader:
    follower, broker_epoch, version = request.replica_id, -1, context.api_version
    if version >= _FIRST_VERSION_WITH_REPLICA_STATE:
        state = request.replica_state
        follower, broker_epoch = (_CONSUMER, -1) if state is None else (state.replica_id, state.replica_epoch)
    if follower >= 0:
        may_follow = broker.authorizer.is_allowed(context, Operation.CLUSTER_ACTION, ResourceType.CLUSTER, CLUSTER_NAME)
        return Reader(False, follower, broker_epoch, knows_replicas=False, rack="", may_follow=may_follow)
    if follower == _DEBUGGING_CONSUMER:
        return _DEBUGGER
    knows_replicas = version >= _FIRST_VERSION_WITH_RACKS
    reader = _CONSUMERS[request.isolation_level == _READ_COMMITTED, knows_replicas]
    return reader._replace(rack=request.rack_id) if knows_replicas and request.rack_id else reader


def find_nearest(
    broker: Broker, context: RequestContext, partition: Partition, rack: str, fetch_offset: int
) -> int | None:
    """The broker that a consumer in `rack` should read the partition from; None when it should read here."""
    leading = partition.leading
    if leading is None or broker.config.replication.replica_selector_class != RACK_AWARE_SELECTOR:
        return None
    brokers, log = broker.partitions.context.brokers, partition.log
    own = brokers.get(broker.node_id)
    leader = ReadCandidate(
        broker.node_id, None if own is None else own.rack, log.log_start_offset, log.log_end_offset, 0
    )
    followers = [
        ReadCandidate(
            node_id,
            brokers[node_id].rack,
            progress.log_start_offset,
            progress.log_end_offset,
            progress.caught_up_ms,
        )
        for node_id, progress in leading.followers.items()
        if node_id in partition.state.isr and _is_reachable(brokers, node_id, context.listener)
    ]
    return choose_read_replica(rack, leader, followers, fetch_offset)


def _is_reachable(brokers: Mapping[int, BrokerRegistration], node_id: int, listener: str) -> bool:
    """For a client of this listener, and not just for the moment."""
    registration = brokers.get(node_id)
    return registration is not None and not registration.is_stopping and registration.endpoint(listener) is not None
