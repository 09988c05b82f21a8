"""Reads for a follower's fetch of one partition, and the leader's throttle on these reads (KIP-73).

Rules:
- A follower reads up to the end of the log. Its fetch carries the end of its own log, which may raise the high
  watermark; a fetch that fails or diverges raises nothing (KAFKA-13141).
- While the leader's rate is exceeded, a throttled partition gives no records to a follower that the high watermark does
  not wait for. Otherwise the partition gives as many records as the rate has room for, at least one batch. The follower
  reads the withheld records again when there is room. Its fetch counts as progress all the same.
"""

from __future__ import annotations

from typing import Protocol

from penstock.broker.fetch_readers import FollowerRead, Read, diverges, read_records
from penstock.broker.fetch_sessions import FetchPlan, FetchTarget, PartitionKey
from penstock.broker.partitions.follower_watch import FollowerWatch
from penstock.broker.partitions.partition import Partition
from penstock.broker.partitions.partitions import Partitions
from penstock.broker.partitions.throttling import Allowance, Throttle
from penstock.core.metrics.counters import BrokerMetrics
from penstock.protocol.errors import ApiError, ErrorCode
from penstock.protocol.messages.fetch import PartitionData


class FollowerReadPort(Protocol):
    """The parts of the broker that reads for followers use."""

    metrics: BrokerMetrics
    partitions: Partitions


def read_for_follower(
    broker: FollowerReadPort, partition: Partition, target: FetchTarget, data: PartitionData, read: Read
) -> None:
    """Reads a partition for a follower. The follower's progress counts once its log is known to agree with the
    leader's.
    """
    follower, epoch = read.reader.follower, read.reader.broker_epoch
    assert follower is not None
    try:
        partition.check_leader_epoch(target.current_leader_epoch)
    except ApiError:
        if read.watch is not None:
            # With another epoch the follower does not follow this leader; the follower names the partition again.
            read.watch.detach(target.key)
        raise
    leading, log = partition.leading, partition.log
    partition.check_leader_of(read.watch, target.current_leader_epoch, epoch)
    log.availability.check_online()  # a log that could not be opened knows neither its records nor its end
    is_epoch_known = target.current_leader_epoch >= 0
    if leading is None:  # this broker's image has no followers for the partition; a newer image may have some
        raise ApiError(ErrorCode.UNKNOWN_LEADER_EPOCH if is_epoch_known else ErrorCode.NOT_LEADER_OR_FOLLOWER)
    progress = leading.progress_of(follower, epoch, is_epoch_known)
    now_ms = broker.partitions.context.clock.monotonic_ms()
    if read.watch is not None:
        read.watch.attach(target.key, leading)
    if target.fetch_offset < log.log_start_offset:
        raise ApiError(ErrorCode.OFFSET_OUT_OF_RANGE)  # also where the logs diverge (KAFKA-12996)
    if target.last_fetched_epoch >= 0 and diverges(partition, target, data):
        read.at_once = True
    else:
        throttle = broker.partitions.context.throttle
        if (
            throttle is not None
            and throttle.concerns(partition.topic_partition)
            and not leading.is_waited_for(follower, progress, now_ms)
        ):
            _read_throttled(partition, target, data, read, throttle)
        else:
            _read(partition, target, data, read)
        if read.is_first:
            start_offset = target.log_start_offset
            if leading.note_fetch(follower, progress, target.fetch_offset, start_offset, epoch, now_ms):
                broker.partitions.context.noticed(partition.topic_partition)
    data.high_watermark, data.last_stable_offset, data.log_start_offset = partition.offsets()
    if is_behind(target, data):
        read.is_behind, read.at_once = True, read.at_once or not read.is_first  # after a short wait of the fetch


def is_behind(target: FetchTarget, data: PartitionData) -> bool:
    """Whether a follower could raise its high watermark, or must delete records. Consumers send neither value and are
    never behind.
    """
    return (
        min(data.high_watermark, target.fetch_offset) > target.high_watermark
        or 0 <= target.log_start_offset < data.log_start_offset
    )


def _read(partition: Partition, target: FetchTarget, data: PartitionData, read: Read) -> None:
    end, followed = partition.log.log_end_offset, read.followed
    assert followed is not None
    records = read_records(partition, target, data, read, end)
    if records is not None:
        _count_reassigned(partition, read, len(records))
    elif target.fetch_offset < end:
        followed.unread.append(target.key)


def _read_throttled(
    partition: Partition, target: FetchTarget, data: PartitionData, read: Read, throttle: Throttle
) -> None:
    end, followed = partition.log.log_end_offset, read.followed
    assert followed is not None
    allowance = followed.allowance
    if allowance is None:
        allowance = followed.allowance = Allowance(throttle)
    records = None
    if allowance.is_open:
        limited = target._replace(max_bytes=min(target.max_bytes, allowance.left))
        records = read_records(partition, limited, data, read, end, must_give=not allowance.size)
    if records is not None:
        allowance.take(len(records))
        _count_reassigned(partition, read, len(records))
    elif target.fetch_offset < end:
        followed.held.append(target.key)


def _count_reassigned(partition: Partition, read: Read, size: int) -> None:
    adding = partition.state.adding
    if adding and read.followed is not None and read.reader.follower in adding:
        read.followed.reassigned_size += size


def end_pass(broker: FollowerReadPort, plan: FetchPlan, read: Read) -> None:
    """Ends a read of all partitions of the fetch."""
    followed, watch = read.followed, plan.watch
    if followed is None or watch is None or plan.session is None:
        return
    if followed.held:
        _set_aside(broker, plan, watch, followed.held)
    confirmations = broker.partitions.context.confirmations
    if read.is_first:
        confirmations.note_fetch(watch)
    if confirmations.is_asking(watch):
        read.is_behind, read.at_once = True, read.at_once or not read.is_first  # after a short wait of the fetch


def _set_aside(broker: FollowerReadPort, plan: FetchPlan, watch: FollowerWatch, held: list[PartitionKey]) -> None:
    """Takes throttled partitions without room off the list of partitions with news. A waiting fetch reads them again
    when there is room, and not with each append.
    """
    throttle = broker.partitions.context.throttle
    if throttle is None:  # the throttle was removed during the reads
        watch.ready.update(dict.fromkeys(held))
        return
    watch.hold(held, throttle)
    if plan.is_incremental:
        keys = set(held)
        plan.targets = [target for target in plan.targets if target.key not in keys]


def note_sent(broker: FollowerReadPort, size: int, followed: FollowerRead, watch: FollowerWatch) -> None:
    """Notes that the answer to a follower is complete."""
    broker.partitions.context.confirmations.note_answer(watch)
    if size:
        replicas = broker.metrics.replicas
        replicas.bytes_out += size
        replicas.reassigned_bytes_out += followed.reassigned_size
        if followed.allowance is not None:
            followed.allowance.settle()
