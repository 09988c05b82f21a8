"""What a follower's fetch reads of one partition, and what a leader's throttle holds back of it (KIP-73).

Rules:
- A follower reads up to the end of the log. Its fetch says how far its own log goes, which may raise the high
  watermark; a fetch that fails or diverges says nothing (KAFKA-13141).
- A throttled partition gives no records to a follower that nobody waits for while the leader's rate is exceeded, and
  otherwise as many as there is room for, at least one batch. What the follower does not get is read again when there is
  room. Its fetch counts all the same.
"""

from __future__ import annotations

from penstock.broker.broker import Broker
from penstock.broker.fetch_readers import FollowerRead, Read, diverges, read_records
from penstock.broker.fetch_sessions import FetchPlan, FetchTarget, PartitionKey
from penstock.broker.partitions.follower_watch import FollowerWatch
from penstock.broker.partitions.partition import Partition
from penstock.broker.partitions.throttling import Allowance, Throttle
from penstock.protocol.errors import ApiError, ErrorCode
from penstock.protocol.messages.fetch import PartitionData


def read_for_follower(
    broker: Broker, partition: Partition, target: FetchTarget, data: PartitionData, read: Read
) -> None:
    """The follower's progress counts once it is known that its log agrees with this one."""
    follower, epoch = read.reader.follower, read.reader.broker_epoch
    assert follower is not None
    try:
        partition.check_leader_epoch(target.current_leader_epoch)
    except ApiError:
        if read.watch is not None:
            read.watch.detach(target.key)  # whoever has another epoch does not follow this leader; it names it again
        raise
    leading, log = partition.leading, partition.log
    partition.check_leader_of(read.watch, target.current_leader_epoch, epoch)
    log.availability.check_online()  # a log that could not be opened knows neither its records nor where it ends
    is_epoch_known = target.current_leader_epoch >= 0
    if leading is None:  # no followers by our image; a newer one may say otherwise
        raise ApiError(ErrorCode.UNKNOWN_LEADER_EPOCH if is_epoch_known else ErrorCode.NOT_LEADER_OR_FOLLOWER)
    progress = leading.progress_of(follower, epoch, is_epoch_known)
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
            and not leading.is_waited_for(follower, progress)
        ):
            _read_throttled(partition, target, data, read, throttle)
        else:
            _read(partition, target, data, read)
        if read.is_first:
            leading.note_fetch(follower, progress, target.fetch_offset, target.log_start_offset, epoch)
    data.high_watermark, data.last_stable_offset, data.log_start_offset = partition.offsets()
    if is_behind(target, data):
        read.is_behind, read.at_once = True, read.at_once or not read.is_first  # after it has waited a little


def is_behind(target: FetchTarget, data: PartitionData) -> bool:
    """Whether a follower could raise its high watermark, or must delete records. Consumers say neither, and are never
    behind.
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


def end_pass(broker: Broker, plan: FetchPlan, read: Read) -> None:
    """All that the fetch is about was looked at."""
    followed, watch = read.followed, plan.watch
    if followed is None or watch is None or plan.session is None:
        return
    if followed.held:
        _set_aside(broker, plan, watch, followed.held)
    confirmations = broker.partitions.context.confirmations
    if read.is_first:
        confirmations.note_fetch(watch)
    if confirmations.is_asking(watch):
        read.is_behind, read.at_once = True, read.at_once or not read.is_first  # after it has waited a little


def _set_aside(broker: Broker, plan: FetchPlan, watch: FollowerWatch, held: list[PartitionKey]) -> None:
    """Throttled partitions for which there was no room are no news any more. A fetch that waits reads them again when
    there is room, and not with each append.
    """
    throttle = broker.partitions.context.throttle
    if throttle is None:  # taken away while the partitions were read
        watch.ready.update(dict.fromkeys(held))
        return
    watch.hold(held, throttle)
    if plan.is_incremental:
        keys = set(held)
        plan.targets = [target for target in plan.targets if target.key not in keys]


def note_sent(broker: Broker, size: int, followed: FollowerRead, watch: FollowerWatch) -> None:
    """The answer to a follower is made."""
    broker.partitions.context.confirmations.note_answer(watch)
    if size:
        replicas = broker.metrics.replicas
        replicas.bytes_out += size
        replicas.reassigned_bytes_out += followed.reassigned_size
        if followed.allowance is not None:
            followed.allowance.settle()
