"""Idempotent producers: their ids, and what partitions know of them."""

from __future__ import annotations

from penstock.broker.authorizer import CLUSTER_NAME, Operation, ResourceType
from penstock.broker.broker import Broker
from penstock.broker.session import RequestContext
from penstock.core.types import NO_PRODUCER_EPOCH, NO_PRODUCER_ID
from penstock.protocol.errors import ApiError, ErrorCode, describe
from penstock.protocol.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)
from penstock.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse


async def init_producer_id(
    broker: Broker, context: RequestContext, request: InitProducerIdRequest
) -> InitProducerIdResponse:
    code = _refuse(broker, context, request)
    if code:
        return InitProducerIdResponse(error_code=code, producer_id=-1, producer_epoch=-1)
    return InitProducerIdResponse(producer_id=await broker.producer_ids.next(), producer_epoch=0)


def _refuse(broker: Broker, context: RequestContext, request: InitProducerIdRequest) -> ErrorCode:
    if not broker.authorizer.is_allowed(context, Operation.IDEMPOTENT_WRITE, ResourceType.CLUSTER, CLUSTER_NAME):
        return ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    if (request.producer_id == NO_PRODUCER_ID) != (request.producer_epoch == NO_PRODUCER_EPOCH):
        return ErrorCode.INVALID_REQUEST
    # Transactions are not served: a clear refusal instead of retries for a coordinator that will never be there.
    return ErrorCode.NONE if request.transactional_id is None else ErrorCode.INVALID_REQUEST


def describe_producers(
    broker: Broker, context: RequestContext, request: DescribeProducersRequest
) -> DescribeProducersResponse:
    response = DescribeProducersResponse()
    for topic in request.topics:
        answers = [_describe(broker, context, topic.name, index) for index in topic.partition_indexes]
        response.topics.append(TopicResponse(name=topic.name, partitions=answers))
    return response


def _describe(broker: Broker, context: RequestContext, topic: str, index: int) -> PartitionResponse:
    answer = PartitionResponse(partition_index=index)
    try:
        if not broker.authorizer.is_allowed(context, Operation.READ, ResourceType.TOPIC, topic):
            raise ApiError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        partition = broker.partitions.find(topic, index)
        if partition is None:
            raise ApiError(broker.partitions.why_missing(topic, index))
    except ApiError as error:
        answer.error_code, answer.error_message = error.code, describe(error.code)
        return answer
    answer.active_producers = [
        ProducerState(
            producer_id=entry.producer_id,
            producer_epoch=entry.producer_epoch,
            last_sequence=entry.last_sequence,
            last_timestamp=entry.last_timestamp,
            coordinator_epoch=entry.coordinator_epoch,
            current_txn_start_offset=entry.current_transaction_first_offset,
        )
        for entry in partition.log.active_producers()
    ]
    return answer
