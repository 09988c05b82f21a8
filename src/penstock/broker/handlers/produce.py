"""Produce: record batches into partitions."""

from __future__ import annotations

from collections.abc import Awaitable

from penstock.broker.authorizer import Operation, ResourceType
from penstock.broker.broker import Broker
from penstock.broker.partition import Partition
from penstock.broker.session import RequestContext, UnanswerableError
from penstock.core.metrics import TopicMetrics
from penstock.protocol.batch import HEADER_SIZE, TRANSACTIONAL_FLAG, read_header
from penstock.protocol.errors import ApiError, ErrorCode
from penstock.protocol.messages.produce import (
    BatchIndexAndErrorMessage,
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)

_FIRST_VERSION_WITH_TOPIC_IDS = 13
_VALID_ACKS = (-1, 0, 1)
# Kafka's own tools write to internal topics under this client id; nobody else may.
_ADMIN_CLIENT_ID = "__admin_client"


def produce(
    broker: Broker, context: RequestContext, request: ProduceRequest
) -> ProduceResponse | Awaitable[ProduceResponse | None] | None:
    """Costs about 25 us for one partition of one topic, 10 of them in the log. Nothing per record, nothing per byte
    but CRC and write. Tried: a hand-written codec for this request (saves 2 us, not worth a second codec). Bench: one
    record at a time; small requests.
    """
    now_ms = broker.clock.now_ms()
    to_flush: list[Partition] = []
    responses = []
    failed = False
    for topic in request.topic_data:
        answer = _produce_topic(broker, context, request.acks, topic, now_ms, to_flush)
        failed = failed or any(partition.error_code for partition in answer.partition_responses)
        responses.append(answer)
    if request.acks == 0:
        if failed:  # the only sign that a client without acknowledgements can see
            raise UnanswerableError("produce without acks", "a produce request with acks=0 failed")
        return None
    response = ProduceResponse(responses=responses)
    return _after_flush(broker, response, to_flush) if to_flush else response


def _produce_topic(
    broker: Broker, context: RequestContext, acks: int, topic: TopicProduceData, now_ms: int, to_flush: list[Partition]
) -> TopicProduceResponse:
    name: str | None = topic.name
    if context.api_version >= _FIRST_VERSION_WITH_TOPIC_IDS:
        name = broker.partitions.topic_name(topic.topic_id)
    refusal = _refuse_topic(broker, context, name, acks)
    answers = []
    for data in topic.partition_data:
        if refusal is not None or name is None:
            code, message = refusal or (ErrorCode.UNKNOWN_TOPIC_ID, None)
            answers.append(_error(data.index, code, message))
        else:
            answers.append(_produce_partition(broker, name, acks, data, now_ms, to_flush))
    return TopicProduceResponse(name=topic.name, topic_id=topic.topic_id, partition_responses=answers)


def _refuse_topic(
    broker: Broker, context: RequestContext, name: str | None, acks: int
) -> tuple[ErrorCode, str | None] | None:
    if name is None:
        return ErrorCode.UNKNOWN_TOPIC_ID, None
    if not broker.authorizer.is_allowed(context, Operation.WRITE, ResourceType.TOPIC, name):
        return ErrorCode.TOPIC_AUTHORIZATION_FAILED, None
    if acks not in _VALID_ACKS:
        return ErrorCode.INVALID_REQUIRED_ACKS, None
    if broker.partitions.is_internal(name) and context.client_id != _ADMIN_CLIENT_ID:
        return ErrorCode.INVALID_TOPIC_EXCEPTION, f"cannot append to the internal topic {name}"
    return None


def _produce_partition(
    broker: Broker, topic: str, acks: int, data: PartitionProduceData, now_ms: int, to_flush: list[Partition]
) -> PartitionProduceResponse:
    partition = broker.partitions.find(topic, data.index)
    if partition is None:
        broker.metrics.topics.overflow.failed_produce_requests += 1
        return _error(data.index, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    metrics = partition.metrics
    metrics.produce_requests += 1
    records = data.records
    try:
        if records is None or len(records) < HEADER_SIZE:
            raise ApiError(ErrorCode.INVALID_RECORD, "a produce request needs exactly one record batch per partition")
        header = read_header(records)
        if header.attributes & TRANSACTIONAL_FLAG:
            raise ApiError(ErrorCode.INVALID_TXN_STATE, "transactions are not served by this broker")
        result = partition.append(records, acks, now_ms)
    except ApiError as error:
        _count_failure(metrics, error, len(records or b""))
        return _append_error(partition, data.index, error)
    metrics.bytes_in += len(records)
    metrics.messages_in += header.record_count
    if result.must_flush:
        to_flush.append(partition)
    return PartitionProduceResponse(
        index=data.index,
        base_offset=result.base_offset,
        log_append_time_ms=result.log_append_time_ms,
        log_start_offset=partition.log.log_start_offset,
    )


def _count_failure(metrics: TopicMetrics, error: ApiError, size: int) -> None:
    metrics.failed_produce_requests += 1
    if error.code == ErrorCode.MESSAGE_TOO_LARGE:
        metrics.bytes_rejected += size
    elif error.code == ErrorCode.CORRUPT_MESSAGE:
        metrics.invalid_crc_records += 1
    elif error.code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER:
        metrics.invalid_sequence_records += 1


def _append_error(partition: Partition, index: int, error: ApiError) -> PartitionProduceResponse:
    answer = _error(index, error.code, error.message)
    answer.log_start_offset = partition.log.log_start_offset
    answer.record_errors = [
        BatchIndexAndErrorMessage(batch_index=record, batch_index_error_message=text)
        for record, text in error.record_errors
    ]
    return answer


def _error(index: int, code: ErrorCode, message: str | None = None) -> PartitionProduceResponse:
    return PartitionProduceResponse(
        index=index, error_code=code, base_offset=-1, log_start_offset=-1, error_message=message
    )


async def _after_flush(broker: Broker, response: ProduceResponse, partitions: list[Partition]) -> ProduceResponse:
    """flush.messages was reached: the acknowledgement waits until what was appended is on the disk."""
    failed = await broker.flusher.flush(partitions)
    if failed:
        names = {partition.topic_partition for partition in failed}
        for topic in response.responses:
            for answer in topic.partition_responses:
                name = topic.name or broker.partitions.topic_name(topic.topic_id)
                if (name, answer.index) in names:
                    answer.error_code = ErrorCode.KAFKA_STORAGE_ERROR
    return response
