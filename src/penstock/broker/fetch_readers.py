"""Who fetches, what one pass over the partitions of a fetch has found, and from which replica a consumer should read
(KIP-392).

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
from penstock.broker.fetch_sessions import FetchTarget, PartitionKey
from penstock.broker.partitions.follower_watch import FollowerWatch
from penstock.broker.partitions.partition import Partition
from penstock.broker.partitions.throttling import Allowance
from penstock.broker.partitions.waiting import Watched
from penstock.broker.session import RequestContext
from penstock.cluster.image import BrokerRegistration
from penstock.core.config.keys.coordination import RACK_AWARE_SELECTOR
from penstock.log.storage.files import FileSlice
from penstock.protocol.errors import ApiError, ErrorCode
from penstock.protocol.messages.fetch import EpochEndOffset, FetchRequest, PartitionData
from penstock.replication.read_replica import ReadCandidate, choose_read_replica
from penstock.replication.truncation import EpochEnd, is_diverging

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


class FollowerRead:
    """What a pass over the partitions of a follower's fetch has left behind."""

    __slots__ = ("allowance", "held", "reassigned_size", "unread")

    def __init__(self) -> None:
        self.unread: list[PartitionKey] = []  # what the follower does not have yet, and for which there was no room
        self.held: list[PartitionKey] = []  # the same, where the leader's throttle is the reason
        self.allowance: Allowance | None = None  # where a throttled partition was met
        self.reassigned_size = 0  # bytes for replicas that are being added


class Read:
    """One pass over the partitions of a fetch: what was found, and which partitions it came from."""

    __slots__ = (
        "answers",
        "at_once",
        "followed",
        "is_behind",
        "is_first",
        "leaders",
        "reader",
        "room",
        "size",
        "watch",
    )

    def __init__(
        self, broker: Broker, request: FetchRequest, reader: Reader, watch: FollowerWatch | None, is_first: bool
    ) -> None:
        self.reader = reader
        self.watch = watch
        self.followed = None if reader.follower is None else FollowerRead()
        if watch is not None and is_first:
            watch.last_fetch_ms = broker.clock.monotonic_ms()
        self.is_first = is_first  # a fetch that waited is read again, and still counts once
        self.answers: list[tuple[FetchTarget, Watched | None, PartitionData]] = []
        # Bytes that the response may still take.
        self.room = min(request.max_bytes, broker.config.requests.fetch_max_bytes)
        self.size = 0
        self.at_once = False  # an error or a divergence is told without waiting
        self.is_behind = False  # a high watermark that the follower does not know is told soon
        self.leaders: list[int] = []  # of partitions that are led elsewhere


def read_records(
    partition: Partition, target: FetchTarget, data: PartitionData, read: Read, end: int, *, must_give: bool = False
) -> FileSlice | None:
    """The first batch found is always whole, so that a batch larger than the limits still gets through."""
    limit = min(target.max_bytes, read.room)
    records = partition.read(target.fetch_offset, max(limit, 0), end, at_least_one=must_give or read.size == 0)
    if records is None:
        return None
    size = len(records)
    if not size:
        return None
    data.records = records
    read.size += size
    read.room -= size
    return records


def diverges(partition: Partition, target: FetchTarget, data: PartitionData) -> bool:
    """The reader's last epoch ended earlier here than the reader believes (KIP-595): it must cut back first."""
    ours = EpochEnd(*partition.end_offset_for_epoch(target.last_fetched_epoch))
    if ours.epoch == -1:
        raise ApiError(ErrorCode.OFFSET_OUT_OF_RANGE)
    if is_diverging(ours, target.last_fetched_epoch, target.fetch_offset):
        data.diverging_epoch = EpochEndOffset(epoch=ours.epoch, end_offset=ours.end_offset)
        return True
    return False


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
