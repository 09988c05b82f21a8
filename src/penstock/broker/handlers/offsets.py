"""Questions about a log's offsets, and moving its start: ListOffsets, OffsetForLeaderEpoch, DeleteRecords."""

from __future__ import annotations

from collections import Counter

from penstock.broker.authorizer import Operation, ResourceType
from penstock.broker.broker import Broker
from penstock.broker.partitions.partition import Partition
from penstock.broker.session import RequestContext
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

# The timestamps of ListOffsets that are not times.
_LATEST = -1
_EARLIEST = -2
_MAX_TIMESTAMP = -3
_EARLIEST_LOCAL = -4
_LATEST_TIERED = -5
_EARLIEST_PENDING_UPLOAD = -6
# The first version that knows each.
_SINCE = {
    _LATEST: 0,
    _EARLIEST: 0,
    _MAX_TIMESTAMP: 7,
    _EARLIEST_LOCAL: 8,
    _LATEST_TIERED: 9,
    _EARLIEST_PENDING_UPLOAD: 11,
}
_NEVER = 32767
_HIGH_WATERMARK = -1  # DeleteRecords: "everything"


def _find(broker: Broker, context: RequestContext, operation: Operation, topic: str, partition: int) -> Partition:
    if not broker.authorizer.is_allowed(context, operation, ResourceType.TOPIC, topic):
        raise ApiError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    found = broker.partitions.find(topic, partition)
    if found is None:
        raise ApiError(broker.partitions.why_missing(topic, partition))
    return found


def list_offsets(broker: Broker, context: RequestContext, request: ListOffsetsRequest) -> ListOffsetsResponse:
    is_read_committed = request.isolation_level == 1
    repeated = Counter((topic.name, asked.partition_index) for topic in request.topics for asked in topic.partitions)
    response = ListOffsetsResponse()
    for topic in request.topics:
        answers = []
        for asked in topic.partitions:
            answer = ListOffsetsPartitionResponse(partition_index=asked.partition_index, offset=-1, timestamp=-1)
            try:
                if repeated[topic.name, asked.partition_index] > 1:
                    raise ApiError(ErrorCode.INVALID_REQUEST)
                partition = _find(broker, context, Operation.DESCRIBE, topic.name, asked.partition_index)
                _list_offset(partition, asked, answer, context.api_version, is_read_committed)
            except ApiError as error:
                answer.error_code = error.code
            answers.append(answer)
        response.topics.append(ListOffsetsTopicResponse(name=topic.name, partitions=answers))
    return response


def _list_offset(
    partition: Partition,
    asked: ListOffsetsPartition,
    answer: ListOffsetsPartitionResponse,
    version: int,
    is_read_committed: bool,
) -> None:
    partition.check_leader_epoch(asked.current_leader_epoch)
    log = partition.log
    if log.offline_reason is not None:
        raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR)
    end = partition.readable_end(is_read_committed)
    timestamp = asked.timestamp
    if timestamp < 0 and version < _SINCE.get(timestamp, _NEVER):
        raise ApiError(ErrorCode.UNSUPPORTED_VERSION)
    if timestamp == _LATEST:
        answer.offset, answer.leader_epoch = end, partition.state.leader_epoch
    elif timestamp in (_EARLIEST, _EARLIEST_LOCAL):
        answer.offset, answer.leader_epoch = log.log_start_offset, log.epochs.epoch_for_offset(log.log_start_offset)
    elif timestamp in (_LATEST_TIERED, _EARLIEST_PENDING_UPLOAD):
        answer.offset = -1  # nothing is tiered here
    else:
        found = (
            log.reader.find_max_timestamp() if timestamp == _MAX_TIMESTAMP else log.reader.find_by_timestamp(timestamp)
        )
        if found is not None and (found.offset < end or timestamp == _MAX_TIMESTAMP):
            answer.offset, answer.timestamp, answer.leader_epoch = found.offset, found.timestamp, found.leader_epoch


def offset_for_leader_epoch(
    broker: Broker, context: RequestContext, request: OffsetForLeaderEpochRequest
) -> OffsetForLeaderEpochResponse:
    response = OffsetForLeaderEpochResponse()
    for topic in request.topics:
        answers = [_epoch_end(broker, context, topic.topic, asked) for asked in topic.partitions]
        response.topics.append(OffsetForLeaderTopicResult(topic=topic.topic, partitions=answers))
    return response


def _epoch_end(broker: Broker, context: RequestContext, topic: str, asked: OffsetForLeaderPartition) -> EpochEndOffset:
    answer = EpochEndOffset(partition=asked.partition)
    try:
        partition = _find(broker, context, Operation.DESCRIBE, topic, asked.partition)
        partition.check_leader_epoch(asked.current_leader_epoch)
        answer.leader_epoch, answer.end_offset = partition.end_offset_for_epoch(asked.leader_epoch)
    except ApiError as error:
        answer.error_code = error.code
    return answer


def delete_records(broker: Broker, context: RequestContext, request: DeleteRecordsRequest) -> DeleteRecordsResponse:
    response = DeleteRecordsResponse()
    for topic in request.topics:
        answers = [_delete_before(broker, context, topic.name, asked) for asked in topic.partitions]
        response.topics.append(DeleteRecordsTopicResult(name=topic.name, partitions=answers))
    return response


def _delete_before(
    broker: Broker, context: RequestContext, topic: str, asked: DeleteRecordsPartition
) -> DeleteRecordsPartitionResult:
    answer = DeleteRecordsPartitionResult(partition_index=asked.partition_index, low_watermark=-1)
    try:
        partition = _find(broker, context, Operation.DELETE, topic, asked.partition_index)
        if broker.partitions.is_internal(topic):
            raise ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION)
        log = partition.log
        if "delete" not in log.settings.cleanup_policy:
            raise ApiError(ErrorCode.POLICY_VIOLATION, "records of a compacted topic cannot be deleted by offset")
        answer.low_watermark = log.delete_records_before(
            log.high_watermark if asked.offset == _HIGH_WATERMARK else asked.offset
        )
    except ApiError as error:
        answer.error_code = error.code
    return answer
