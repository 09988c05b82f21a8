"""Idempotent and transactional producers: InitProducerId, and the producer states of partitions."""

from __future__ import annotations

from typing import Protocol

from penstock.broker.authorizer import CLUSTER_NAME, Authorizer, Operation, ResourceType
from penstock.broker.partitions.partitions import Partitions
from penstock.broker.producer_ids import ProducerIds
from penstock.broker.quotas.client_quotas import ClientQuotas
from penstock.broker.runtimes.transaction_runtime import TransactionRuntime
from penstock.broker.session import RequestContext
from penstock.broker.slices import Work, collect
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
from penstock.transactions import requests
from penstock.transactions.operations import INIT_PRODUCER_ID

_FIRST_WITH_FENCED = 4
_FIRST_EPOCH = 0


class ProducerPort(Protocol):
    """The parts of the broker that the handlers of producers use."""

    authorizer: Authorizer
    partitions: Partitions
    producer_ids: ProducerIds
    quotas: ClientQuotas
    transactions: TransactionRuntime


async def init_producer_id(
    broker: ProducerPort, context: RequestContext, request: InitProducerIdRequest
) -> InitProducerIdResponse:
    """Gives an idempotent producer its id, and a transactional one its id and epoch, which fences its predecessor.

    From version 3 on a producer may ask for the next epoch of the id it has. Clients know PRODUCER_FENCED from version
    4 on.
    """
    code = _refuse(broker, context, request)
    if code:
        return InitProducerIdResponse(error_code=code, producer_id=NO_PRODUCER_ID, producer_epoch=NO_PRODUCER_EPOCH)
    if request.transactional_id is None:
        return InitProducerIdResponse(producer_id=await broker.producer_ids.next(), producer_epoch=0)
    domain = requests.InitProducerIdRequest(
        transactional_id=request.transactional_id,
        transaction_timeout_ms=request.transaction_timeout_ms,
        expected_producer_id=request.producer_id,
        expected_producer_epoch=request.producer_epoch,
        accepts_producer_fenced=context.api_version >= _FIRST_WITH_FENCED,
    )
    new_producers = broker.quotas.new_producers
    if new_producers.is_owed and not _is_known(broker, request.transactional_id) and new_producers.is_refused(context):
        return InitProducerIdResponse(
            error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,  # every producer asks again after this error
            producer_id=NO_PRODUCER_ID,
            producer_epoch=NO_PRODUCER_EPOCH,
        )
    await broker.producer_ids.ensure()
    result = await broker.transactions.submit(INIT_PRODUCER_ID, domain)
    if not result.error and result.producer_epoch == _FIRST_EPOCH:
        new_producers.charge(context)  # the coordinator remembers one id more
    return InitProducerIdResponse(
        error_code=result.error, producer_id=result.producer_id, producer_epoch=result.producer_epoch
    )


def _is_known(broker: ProducerPort, transactional_id: str) -> bool:
    """True also where another broker coordinates the id; that broker answers for itself."""
    shards = broker.transactions.shards
    partition = shards.partition_for(transactional_id)
    return not shards.is_active(partition) or transactional_id in shards.hosted(partition).transactions


def _refuse(broker: ProducerPort, context: RequestContext, request: InitProducerIdRequest) -> ErrorCode:
    """A client that may write to any topic may write idempotently (KIP-679)."""
    authorizer, name = broker.authorizer, request.transactional_id
    if name is not None:
        if not authorizer.is_allowed(context, Operation.WRITE, ResourceType.TRANSACTIONAL_ID, name):
            return ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    elif not authorizer.would_allow(
        context, Operation.IDEMPOTENT_WRITE, ResourceType.CLUSTER, CLUSTER_NAME
    ) and not authorizer.is_allowed_anywhere(context, Operation.WRITE, ResourceType.TOPIC):
        return ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    if (request.producer_id == NO_PRODUCER_ID) != (request.producer_epoch == NO_PRODUCER_EPOCH):
        return ErrorCode.INVALID_REQUEST
    return ErrorCode.NONE


def describe_producers(
    broker: ProducerPort, context: RequestContext, request: DescribeProducersRequest
) -> Work[DescribeProducersResponse]:
    """Lists the producers that each partition remembers, with their open transactions. There is one version.

    A follower answers too (KIP-664): a tool that searches a broker for hanging transactions asks about all its
    replicas.
    """
    response = DescribeProducersResponse()
    for topic in request.topics:
        answers = yield from collect(_describe(broker, context, topic.name, index) for index in topic.partition_indexes)
        response.topics.append(TopicResponse(name=topic.name, partitions=answers))
        yield
    return response


def _describe(broker: ProducerPort, context: RequestContext, topic: str, index: int) -> PartitionResponse:
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
        for entry in partition.log.producers.active()
    ]
    return answer
