"""The offsets of a log, and the move of its start: ListOffsets, OffsetForLeaderEpoch, DeleteRecords."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple, Protocol

from penstock.broker.authorizer import CLUSTER_NAME, Authorizer, Operation, ResourceType
from penstock.broker.partitions.partition import Partition
from penstock.broker.partitions.partitions import Partitions
from penstock.broker.partitions.purgatory import Waiter
from penstock.broker.session import RequestContext
from penstock.broker.slices import Slices, Work, collect
from penstock.core.clock import Clock
from penstock.core.internal_topics import INTERNAL_TOPICS
from penstock.core.metrics.counters import BrokerMetrics
from penstock.core.types import NO_OFFSET
from penstock.protocol.errors import ApiError, ErrorCode
from penstock.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)
from penstock.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from penstock.protocol.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopicResult,
)

# The timestamps of ListOffsets that stand for an end of the log or for another offset.
_LATEST = -1
_EARLIEST = -2
_MAX_TIMESTAMP = -3
_EARLIEST_LOCAL = -4
_LATEST_TIERED = -5
_EARLIEST_PENDING_UPLOAD = -6
# The first version that knows each timestamp.
_SINCE = {
    _LATEST: 0,
    _EARLIEST: 0,
    _MAX_TIMESTAMP: 7,
    _EARLIEST_LOCAL: 8,
    _LATEST_TIERED: 9,
    _EARLIEST_PENDING_UPLOAD: 11,
}
_NEVER = 32767
_FIRST_VERSION_WITH_OFFSET_NOT_AVAILABLE = 5
_READ_COMMITTED = 1
_HIGH_WATERMARK = -1  # DeleteRecords: all records
_DEBUGGING_REPLICA = -2  # ListOffsets: a tool that asks one replica for the end of its log, whichever broker leads


class OffsetPort(Protocol):
    """The parts of the broker that the handlers of offsets use."""

    authorizer: Authorizer
    clock: Clock
    metrics: BrokerMetrics
    partitions: Partitions
    slices: Slices


def _find(broker: OffsetPort, context: RequestContext, operation: Operation, topic: str, partition: int) -> Partition:
    if not broker.authorizer.is_allowed(context, operation, ResourceType.TOPIC, topic):
        raise ApiError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    return _find_hosted(broker, topic, partition)


def _find_hosted(broker: OffsetPort, topic: str, partition: int) -> Partition:
    hosted = broker.partitions.find(topic, partition)
    if hosted is None:
        raise ApiError(broker.partitions.why_missing(topic, partition))
    return hosted


# ---------------------------------------------------------------------------- ListOffsets


def list_offsets(
    broker: OffsetPort, context: RequestContext, request: ListOffsetsRequest
) -> ListOffsetsResponse | Work[ListOffsetsResponse]:
    """Answers for each partition the offset of a timestamp, or of one of the ends of the log.

    A partition that the request names twice gets INVALID_REQUEST. Any replica answers the "debugging" replica -2 with
    the end of its log, even if the replica does not lead. Version 7 knows the newest timestamp, version 8 the earliest
    local offset, version 9 the latest tiered offset, version 11 the earliest offset that waits for tiering. Penstock
    tiers nothing.
    """
    topics = request.topics
    if len(topics) == 1 and len(topics[0].partitions) == 1:  # needs no slices, and no partition is named twice
        (topic,) = topics
        answer = _answer_offset(broker, context, request, topic.name, topic.partitions[0], is_repeated=False)
        return ListOffsetsResponse(topics=[ListOffsetsTopicResponse(name=topic.name, partitions=[answer])])
    return _list_offsets_in_slices(broker, context, request)


def _list_offsets_in_slices(
    broker: OffsetPort, context: RequestContext, request: ListOffsetsRequest
) -> Work[ListOffsetsResponse]:
    named: Counter[tuple[str, int]] = Counter()
    for topic in request.topics:
        for asked in topic.partitions:
            named[topic.name, asked.partition_index] += 1
            yield
    response = ListOffsetsResponse()
    for topic in request.topics:
        answers = yield from collect(
            _answer_offset(broker, context, request, topic.name, asked, named[topic.name, asked.partition_index] > 1)
            for asked in topic.partitions
        )
        response.topics.append(ListOffsetsTopicResponse(name=topic.name, partitions=answers))
        yield
    return response


def _answer_offset(
    broker: OffsetPort,
    context: RequestContext,
    request: ListOffsetsRequest,
    topic: str,
    asked: ListOffsetsPartition,
    is_repeated: bool,
) -> ListOffsetsPartitionResponse:
    answer = ListOffsetsPartitionResponse(partition_index=asked.partition_index, offset=-1, timestamp=-1)
    try:
        if not broker.authorizer.is_allowed(context, Operation.DESCRIBE, ResourceType.TOPIC, topic):
            raise ApiError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        if is_repeated:
            raise ApiError(ErrorCode.INVALID_REQUEST)
        partition = _find_hosted(broker, topic, asked.partition_index)
        partition.check_leader_epoch(asked.current_leader_epoch)
        if request.replica_id == _DEBUGGING_REPLICA and asked.timestamp == _LATEST:
            _tell_log_end(partition, answer)
            return answer
        partition.check_leader()
        _list_offset(partition, asked, answer, context.api_version, request)
    except ApiError as error:
        answer.error_code = error.code
    return answer


def _list_offset(
    partition: Partition,
    asked: ListOffsetsPartition,
    answer: ListOffsetsPartitionResponse,
    version: int,
    request: ListOffsetsRequest,
) -> None:
    """A follower gets the end of the log. Other readers get the offset up to which they may read. While a new leader
    does not know this offset, other readers get the error that makes them wait (KIP-207).
    """
    if not partition.is_online:
        raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR)
    log, leading = partition.log, partition.leading
    end = partition.readable_end(request.isolation_level == _READ_COMMITTED)
    is_end_unknown = leading is not None and log.high_watermark < leading.epoch_start
    if leading is not None and request.replica_id in leading.followers:
        end, is_end_unknown = log.log_end_offset, False
    timestamp = asked.timestamp
    if timestamp < 0 and version < _SINCE.get(timestamp, _NEVER):
        raise ApiError(ErrorCode.UNSUPPORTED_VERSION)
    if timestamp == _LATEST:
        if is_end_unknown:
            raise _end_unknown(version)
        answer.offset, answer.leader_epoch = end, partition.state.leader_epoch
    elif timestamp in (_EARLIEST, _EARLIEST_LOCAL):
        answer.offset, answer.leader_epoch = partition.earliest()
    elif timestamp in (_LATEST_TIERED, _EARLIEST_PENDING_UPLOAD):
        answer.offset = -1  # Penstock tiers nothing
    else:
        is_newest = timestamp == _MAX_TIMESTAMP
        record = log.reader.find_max_timestamp() if is_newest else log.reader.find_by_timestamp(timestamp)
        if record is not None and (record.offset < end or is_newest):
            answer.offset, answer.timestamp, answer.leader_epoch = record.offset, record.timestamp, record.leader_epoch
        elif record is not None and is_end_unknown:
            raise _end_unknown(version)


def _tell_log_end(partition: Partition, answer: ListOffsetsPartitionResponse) -> None:
    """The end of this replica's log, and its newest epoch: as in Kafka a tool may ask any replica, in sync or not."""
    if not partition.is_online:
        raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR)
    answer.offset, answer.leader_epoch = partition.log.log_end_offset, partition.log.epochs.latest


def _end_unknown(version: int) -> ApiError:
    is_known = version >= _FIRST_VERSION_WITH_OFFSET_NOT_AVAILABLE
    return ApiError(ErrorCode.OFFSET_NOT_AVAILABLE if is_known else ErrorCode.LEADER_NOT_AVAILABLE)


# ---------------------------------------------------------------------------- OffsetForLeaderEpoch


def offset_for_leader_epoch(
    broker: OffsetPort, context: RequestContext, request: OffsetForLeaderEpochRequest
) -> Work[OffsetForLeaderEpochResponse]:
    """Answers the end offset of each leader epoch (KIP-320), by which a consumer notices a truncated log. Brokers may
    ask for every topic, clients for the topics that they may describe. All versions have the same behaviour.
    """
    authorizer = broker.authorizer
    is_broker = authorizer.would_allow(context, Operation.CLUSTER_ACTION, ResourceType.CLUSTER, CLUSTER_NAME)
    response = OffsetForLeaderEpochResponse()
    for topic in request.topics:
        may = is_broker or authorizer.is_allowed(context, Operation.DESCRIBE, ResourceType.TOPIC, topic.topic)
        answers = yield from collect(_epoch_end(broker, topic.topic, asked, may) for asked in topic.partitions)
        response.topics.append(OffsetForLeaderTopicResult(topic=topic.topic, partitions=answers))
        yield
    return response


def _epoch_end(broker: OffsetPort, topic: str, asked: OffsetForLeaderPartition, may: bool) -> EpochEndOffset:
    answer = EpochEndOffset(partition=asked.partition)
    if not may:
        answer.error_code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        return answer
    try:
        partition = _find_hosted(broker, topic, asked.partition)
        partition.check_leader_epoch(asked.current_leader_epoch)
        partition.check_leader()
        answer.leader_epoch, answer.end_offset = partition.end_offset_for_epoch(asked.leader_epoch)
    except ApiError as error:
        answer.error_code = error.code
    return answer


# ---------------------------------------------------------------------------- DeleteRecords


class _Deletion(NamedTuple):
    """A deletion of records on the leader, which the followers may not have made yet."""

    partition: Partition
    wanted: int  # the offset at which all logs should begin
    answer: DeleteRecordsPartitionResult

    def is_settled(self, broker: OffsetPort) -> bool:
        partition, answer = self.partition, self.answer
        if broker.partitions.find(*partition.topic_partition) is not partition:
            answer.error_code = broker.partitions.why_missing(*partition.topic_partition)
        elif not partition.is_leader:
            answer.error_code = ErrorCode.NOT_LEADER_OR_FOLLOWER
        elif not partition.is_online:
            answer.error_code = ErrorCode.KAFKA_STORAGE_ERROR
        else:
            leading = partition.leading
            answer.low_watermark = partition.log_start_offset if leading is None else leading.low_watermark()
            is_reached = answer.low_watermark >= self.wanted
            answer.error_code = ErrorCode.NONE if is_reached else ErrorCode.REQUEST_TIMED_OUT
            return is_reached
        answer.low_watermark = NO_OFFSET
        return True


async def delete_records(
    broker: OffsetPort, context: RequestContext, request: DeleteRecordsRequest
) -> DeleteRecordsResponse:
    """Moves the start of logs forward. Offset -1 means the high watermark. Compacted and internal topics refuse. The
    answer waits until every live replica has moved the start too; the low watermark is the lowest start of all of them.
    All versions have the same behaviour.
    """
    pending: list[_Deletion] = []
    response = await broker.slices.run(_delete(broker, context, request, pending))
    deadline_ms = broker.clock.monotonic_ms() + request.timeout_ms
    while pending := [each for each in pending if not each.is_settled(broker)]:
        left_ms = deadline_ms - broker.clock.monotonic_ms()
        if left_ms <= 0:
            broker.metrics.purgatory.count_expired("DeleteRecords")
            break
        deletions = [each.partition.deletions for each in pending]
        await Waiter(1).wait([each for each in deletions if each is not None], left_ms)
    return response


def _delete(
    broker: OffsetPort, context: RequestContext, request: DeleteRecordsRequest, pending: list[_Deletion]
) -> Work[DeleteRecordsResponse]:
    response = DeleteRecordsResponse()
    for topic in request.topics:
        answers = yield from collect(
            _delete_before(broker, context, topic.name, asked, pending) for asked in topic.partitions
        )
        response.topics.append(DeleteRecordsTopicResult(name=topic.name, partitions=answers))
        yield
    return response


def _delete_before(
    broker: OffsetPort, context: RequestContext, topic: str, asked: DeleteRecordsPartition, pending: list[_Deletion]
) -> DeleteRecordsPartitionResult:
    answer = DeleteRecordsPartitionResult(partition_index=asked.partition_index, low_watermark=NO_OFFSET)
    try:
        partition = _find(broker, context, Operation.DELETE, topic, asked.partition_index)
        if topic in INTERNAL_TOPICS:
            raise ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION)
        partition.check_leader()
        offset = None if asked.offset == _HIGH_WATERMARK else asked.offset
        deletion = _Deletion(partition, partition.delete_records_before(offset), answer)
        if not deletion.is_settled(broker):
            pending.append(deletion)
    except ApiError as error:
        answer.error_code = error.code
    return answer
