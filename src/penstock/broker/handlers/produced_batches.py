"""The batches of a produce request: finds the one batch of each partition, and the batches whose schemas need a
check.
"""

from __future__ import annotations

from typing import Protocol

from penstock.broker.authorizer import Authorizer, Operation, ResourceType
from penstock.broker.partitions.partitions import Partitions
from penstock.broker.schema_checks.verdicts import Asked
from penstock.broker.session import RequestContext
from penstock.protocol.batch import HEADER_SIZE, LOG_OVERHEAD, read_batch_size
from penstock.protocol.errors import ApiError, ErrorCode
from penstock.protocol.message import Buffer
from penstock.protocol.messages.produce import ProduceRequest

FIRST_VERSION_WITH_TOPIC_IDS = 13


class ProducedBatchPort(Protocol):
    """The parts of the broker that find batches whose schemas need a check."""

    authorizer: Authorizer
    partitions: Partitions


def only_batch(records: Buffer | None) -> Buffer:
    """A request has one whole batch per partition. As in Kafka, bytes behind the batch that are no whole batch are
    ignored.
    """
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


def batches_to_check(broker: ProducedBatchPort, context: RequestContext, request: ProduceRequest) -> list[Asked]:
    """The batches of topics that ask for the check of their schemas, as far as the client may write to the topic."""
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
                continue  # the handler refuses the partition for that
            asked.append(Asked(partition.topic_partition, partition.log.settings, batch))
    return asked
