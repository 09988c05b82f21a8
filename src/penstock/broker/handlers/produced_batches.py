"""The batches of a produce request: whether there is one for each partition, and which schemas are to be checked."""

from __future__ import annotations

from penstock.broker.authorizer import Operation, ResourceType
from penstock.broker.broker import Broker
from penstock.broker.schema_checks.checks import Asked
from penstock.broker.session import RequestContext
from penstock.protocol.batch import HEADER_SIZE, LOG_OVERHEAD, read_batch_size
from penstock.protocol.errors import ApiError, ErrorCode
from penstock.protocol.message import Buffer
from penstock.protocol.messages.produce import ProduceRequest

FIRST_VERSION_WITH_TOPIC_IDS = 13


def only_batch(records: Buffer | None) -> Buffer:
    """A request has one whole batch per partition. What follows it and is no whole batch is ignored, as in Kafka."""
    size = len(records) if records is not None else 0
    if records is None or size < HEADER_SIZE:
        raise ApiError(ErrorCode.INVALID_RECORD, "a produce request needs exactly one record batch per partition")
    batch_size = read_batch_size(records)
    if batch_size == size:
        return records
    if batch_size > size:
        raise ApiError(ErrorCode.INVALID_RECORD, "the record batch is cut short")
    if batch_size < HEADER_SIZE:
        raise ApiError(ErrorCode.CORRUPT_MESSAGE, f"a record batch cannot have {batch_size} bytes")
    rest = size - batch_size
    if rest >= LOG_OVERHEAD and read_batch_size(records, batch_size) <= rest:
        raise ApiError(ErrorCode.INVALID_RECORD, "a produce request needs exactly one record batch per partition")
    return memoryview(records)[:batch_size]


def batches_to_check(broker: Broker, context: RequestContext, request: ProduceRequest) -> list[Asked]:
    """Batches of topics that ask for the check of their schemas, as far as somebody sends them who may."""
    asked: list[Asked] = []
    for topic in request.topic_data:
        name: str | None = topic.name
        if context.api_version >= FIRST_VERSION_WITH_TOPIC_IDS:
            name = broker.partitions.topic_name(topic.topic_id)
        if name is None:
            continue
        for data in topic.partition_data:
            partition = broker.partitions.find(name, data.index)
            if partition is None or not partition.is_leader or not partition.log.settings.validates_schemas:
                continue
            if not broker.authorizer.would_allow(context, Operation.WRITE, ResourceType.TOPIC, name):
                break
            try:
                batch = only_batch(data.records)
            except ApiError:
                continue  # it is refused for that
            asked.append(Asked(partition.topic_partition, partition.log.settings, batch))
    return asked
