"""Readers of a fetch, the results of one pass over its partitions, and the choice of the replica for a consumer
(KIP-392).

Rules:
- A follower sends its node id. It counts as a follower once it may act for the cluster and is registered; only then its
  fetch gets a follower's session and news of the partitions.
- A consumer from version 11 on may read from a follower, if the consumer sends its rack or the leader epoch that it
  knows. A consumer that sends neither did not choose this broker, and is sent to the leader.
- A reader with the replica id -2 compares replicas: a consumer that reads from whichever replica it asks (Kafka's
  debugging consumer, such as kafka-replica-verification).
- With `replica.selector.class` the leader names the best replica in the consumer's rack instead of giving records.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, Protocol

from penstock.broker.authorizer import CLUSTER_NAME, Authorizer, Operation, ResourceType
from penstock.broker.fetch_sessions import FetchTarget, PartitionKey
from penstock.broker.partitions.follower_watch import FollowerWatch
from penstock.broker.partitions.partition import Partition
from penstock.broker.partitions.partitions import Partitions
from penstock.broker.partitions.purgatory import Watched
from penstock.broker.partitions.throttling import Allowance
from penstock.broker.session import RequestContext
from penstock.cluster.image import BrokerRegistration
from penstock.core.clock import Clock
from penstock.core.config.broker_config import BrokerConfig
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


class FetchReaderPort(Protocol):
    """The parts of the broker that identify a reader and its location."""

    authorizer: Authorizer
    clock: Clock
    config: BrokerConfig
    node_id: int
    partitions: Partitions


class FetchReader(NamedTuple):
    """The identity of a reader, and its way of reading."""

    is_read_committed: bool
    follower: int | None  # the node id that it sends
    broker_epoch: int
    knows_replicas: bool  # a consumer that the broker can send from one replica to another
    rack: str  # the consumer's rack
    may_follow: bool = False  # a follower that may act for the cluster
    is_debugging: bool = False  # a consumer that reads from whichever replica it asks

    def may_read_follower(self, current_leader_epoch: int) -> bool:
        return self.is_debugging or (self.knows_replicas and (bool(self.rack) or current_leader_epoch >= 0))


# Most fetches come from consumers without a rack: these objects are made once.
_CONSUMERS = {
    (is_read_committed, knows_replicas): FetchReader(is_read_committed, None, -1, knows_replicas, "")
    for is_read_committed in (False, True)
    for knows_replicas in (False, True)
}

_DEBUGGER = FetchReader(False, None, -1, knows_replicas=False, rack="", is_debugging=True)


class FollowerRead:
    """The results of a pass over the partitions of a follower's fetch."""

    __slots__ = ("allowance", "held", "reassigned_size", "unread")

    def __init__(self) -> None:
        self.unread: list[PartitionKey] = []  # records that the follower lacks, and for which the answer had no room
        self.held: list[PartitionKey] = []  # the same, because of the leader's throttle
        self.allowance: Allowance | None = None  # set by the first throttled partition
        self.reassigned_size = 0  # bytes for replicas that a reassignment adds


class Read:
    """One pass over the partitions of a fetch: the results, and their partitions."""

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
        self,
        broker: FetchReaderPort,
        request: FetchRequest,
        reader: FetchReader,
        watch: FollowerWatch | None,
        is_first: bool,
    ) -> None:
        self.reader = reader
        self.watch = watch
        self.followed = None if reader.follower is None else FollowerRead()
        if watch is not None and is_first:
            watch.last_fetch_ms = broker.clock.monotonic_ms()
        self.is_first = is_first  # a fetch that waited reads again, and still counts once
        self.answers: list[tuple[FetchTarget, Watched | None, PartitionData]] = []
        # The room that is left in the response, in bytes.
        self.room = min(request.max_bytes, broker.config.requests.fetch_max_bytes)
        self.size = 0
        self.at_once = False  # an error or a divergence is answered without a wait
        self.is_behind = False  # a high watermark that the follower does not know is answered soon
        self.leaders: list[int] = []  # the leaders of partitions that other brokers lead


def read_records(
    partition: Partition, target: FetchTarget, data: PartitionData, read: Read, end: int, *, must_give: bool = False
) -> FileSlice | None:
    """Reads batches. The first batch is always whole, so that a batch larger than the limits still gets through."""
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
    """Whether the reader's last epoch ended earlier in this log than the reader believes (KIP-595): the reader must
    truncate first.
    """
    ours = EpochEnd(*partition.end_offset_for_epoch(target.last_fetched_epoch))
    if ours.epoch == -1:
        raise ApiError(ErrorCode.OFFSET_OUT_OF_RANGE)
    if is_diverging(ours, target.last_fetched_epoch, target.fetch_offset):
        data.diverging_epoch = EpochEndOffset(epoch=ours.epoch, end_offset=ours.end_offset)
        return True
    return False


def identify(broker: FetchReaderPort, context: RequestContext, request: FetchRequest) -> FetchReader:
    follower, broker_epoch, version = request.replica_id, -1, context.api_version
    if version >= _FIRST_VERSION_WITH_REPLICA_STATE:
        state = request.replica_state
        follower, broker_epoch = (_CONSUMER, -1) if state is None else (state.replica_id, state.replica_epoch)
    if follower >= 0:
        may_follow = broker.authorizer.is_allowed(context, Operation.CLUSTER_ACTION, ResourceType.CLUSTER, CLUSTER_NAME)
        return FetchReader(False, follower, broker_epoch, knows_replicas=False, rack="", may_follow=may_follow)
    if follower == _DEBUGGING_CONSUMER:
        return _DEBUGGER
    knows_replicas = version >= _FIRST_VERSION_WITH_RACKS
    reader = _CONSUMERS[request.isolation_level == _READ_COMMITTED, knows_replicas]
    return reader._replace(rack=request.rack_id) if knows_replicas and request.rack_id else reader


def find_nearest(
    broker: FetchReaderPort, context: RequestContext, partition: Partition, rack: str, fetch_offset: int
) -> int | None:
    """The broker from which a consumer in `rack` should read the partition; None when the consumer should read here."""
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
    """Whether a client of this listener can reach the broker for longer than the moment."""
    registration = brokers.get(node_id)
    return registration is not None and not registration.is_stopping and registration.endpoint(listener) is not None
