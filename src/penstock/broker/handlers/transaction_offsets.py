"""TxnOffsetCommit: offsets of a group that count when a producer's transaction commits."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Protocol

from penstock.broker.authorizer import Authorizer, Operation, ResourceType
from penstock.broker.handlers.group_offsets import FEW_OFFSETS
from penstock.broker.runtimes.group_runtime import GroupRuntime
from penstock.broker.runtimes.transaction_admission import Admission, TransactionAdmission
from penstock.broker.session import RequestContext
from penstock.broker.slices import Slices, collect
from penstock.cluster.metadata import Metadata
from penstock.coordinators.operations import Refusal
from penstock.core.internal_topics import CONSUMER_OFFSETS
from penstock.core.types import TopicPartition
from penstock.groups import requests, results
from penstock.groups.operations.table import COMMIT_IN_TRANSACTION
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)

_FIRST_WITH_LOADING_ERROR = 2
_FIRST_WITH_ABORTABLE = 4
_FIRST_THAT_ADDS = 5
# The transaction coordinator's errors, translated for clients of this API: they retry with the same coordinator.
_RETRY_ERRORS = {
    ErrorCode.NETWORK_EXCEPTION: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.NOT_COORDINATOR: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
}

_Errors = dict[tuple[str, int], ErrorCode]


class TransactionOffsetPort(Protocol):
    """The parts of the broker that the handler uses."""

    admission: TransactionAdmission
    authorizer: Authorizer
    groups: GroupRuntime
    metadata: Metadata
    slices: Slices


async def txn_offset_commit(
    broker: TransactionOffsetPort, context: RequestContext, request: TxnOffsetCommitRequest
) -> TxnOffsetCommitResponse:
    """Records offsets of a group that count when the producer's transaction commits. All offsets are one batch.

    From version 3 on the member is checked (KIP-447). Clients know TRANSACTION_ABORTABLE from version 4 on. From
    version 5 on the commit adds its partition to the transaction.
    """
    refusal = _refuse(broker, context, request)
    errors: _Errors = {}
    looked_up = () if refusal else _offsets_to_commit(broker, context, request, errors)
    offsets = [offset for offset in await broker.slices.run(collect(looked_up)) if offset is not None]
    if offsets:
        domain = requests.TransactionalCommitRequest(
            group_id=request.group_id,
            producer_id=request.producer_id,
            producer_epoch=request.producer_epoch,
            offsets=offsets,
            member_id=request.member_id,
            generation_id=request.generation_id,
            group_instance_id=request.group_instance_id,
        )
        result = await _commit(broker, context, request.transactional_id, domain)
        async for name, index, error in broker.slices.each(result.partitions):
            errors[name, index] = error
            broker.groups.metrics.offset_commits += not error
    if context.api_version < _FIRST_WITH_LOADING_ERROR:
        loading, other = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.COORDINATOR_NOT_AVAILABLE
        async for partition, error in broker.slices.each(list(errors.items())):
            errors[partition] = other if error is loading else error
    response = TxnOffsetCommitResponse()
    async for topic in broker.slices.each(request.topics):
        partitions = await broker.slices.run(
            collect(
                TxnOffsetCommitResponsePartition(
                    partition_index=asked.partition_index,
                    error_code=refusal or errors[topic.name, asked.partition_index],
                )
                for asked in topic.partitions
            )
        )
        response.topics.append(TxnOffsetCommitResponseTopic(name=topic.name, partitions=partitions))
    return response


def _refuse(broker: TransactionOffsetPort, context: RequestContext, request: TxnOffsetCommitRequest) -> ErrorCode:
    may = broker.authorizer.is_allowed
    if not may(context, Operation.WRITE, ResourceType.TRANSACTIONAL_ID, request.transactional_id):
        return ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    if not may(context, Operation.READ, ResourceType.GROUP, request.group_id):
        return ErrorCode.GROUP_AUTHORIZATION_FAILED
    return ErrorCode.NONE


def _offsets_to_commit(
    broker: TransactionOffsetPort, context: RequestContext, request: TxnOffsetCommitRequest, errors: _Errors
) -> Iterable[requests.OffsetToCommit | None]:
    """Yields the offsets to commit, None in place of a refused offset; the error of a refused offset goes to
    `errors`.
    """
    for topic in request.topics:
        may = broker.authorizer.is_allowed(context, Operation.READ, ResourceType.TOPIC, topic.name)
        for asked in topic.partitions:
            if not may:
                errors[topic.name, asked.partition_index] = ErrorCode.TOPIC_AUTHORIZATION_FAILED
                yield None
            elif broker.metadata.image.partition(topic.name, asked.partition_index) is None:
                errors[topic.name, asked.partition_index] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                yield None
            else:
                yield requests.OffsetToCommit(
                    topic.name,
                    asked.partition_index,
                    asked.committed_offset,
                    asked.committed_leader_epoch,
                    asked.committed_metadata,
                )


async def _commit(
    broker: TransactionOffsetPort,
    context: RequestContext,
    transactional_id: str,
    domain: requests.TransactionalCommitRequest,
) -> results.OffsetCommitResult:
    """Checks the transaction in the turn of the commit, so all slow work comes before the check."""
    refuse = partial(_refuse_commit, broker, context, transactional_id, domain)
    if len(domain.offsets) > FEW_OFFSETS:
        return await broker.groups.submit_in_slices(COMMIT_IN_TRANSACTION, domain, refuse)
    refusal = await refuse()
    return await broker.groups.submit(COMMIT_IN_TRANSACTION, domain) if refusal is None else refusal


async def _refuse_commit(
    broker: TransactionOffsetPort,
    context: RequestContext,
    transactional_id: str,
    domain: requests.TransactionalCommitRequest,
) -> results.OffsetCommitResult | None:
    """The refusal, if the transaction may not take offsets."""
    shards = broker.groups.shards
    offsets_partition = TopicPartition(CONSUMER_OFFSETS, shards.partition_for(domain.group_id))
    if domain.group_id and shards.refusal(offsets_partition.partition) is None:
        admission = Admission(
            transactional_id,
            domain.producer_id,
            domain.producer_epoch,
            (offsets_partition,),
            adds=context.api_version >= _FIRST_THAT_ADDS,
            accepts_transaction_abortable=context.api_version >= _FIRST_WITH_ABORTABLE,
        )
        refusals = broker.admission.admit(admission)
        refusals = refusals if isinstance(refusals, dict) else await refusals
        if offsets_partition in refusals:
            refusal = refusals[offsets_partition]
            return COMMIT_IN_TRANSACTION.refuse(domain, Refusal(_RETRY_ERRORS.get(refusal, refusal)))
    return None
