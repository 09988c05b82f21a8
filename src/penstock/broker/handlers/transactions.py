"""Transactions: adds partitions to them, ends them, describes them. `produce` and `transaction_offsets` check the
writes inside a transaction.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import NamedTuple, Protocol

from penstock.broker.authorizer import CLUSTER_NAME, Authorizer, Operation, ResourceType
from penstock.broker.partitions.durability_wait import Appended, settle
from penstock.broker.partitions.flusher import Flusher
from penstock.broker.partitions.partition import Partition
from penstock.broker.producer_ids import ProducerIds
from penstock.broker.runtimes.group_runtime import GroupRuntime
from penstock.broker.runtimes.marker_delivery import ANSWER_TIMEOUT_MS
from penstock.broker.runtimes.transaction_markers import Marker
from penstock.broker.runtimes.transaction_runtime import TransactionRuntime
from penstock.broker.session import RequestContext
from penstock.broker.slices import Slices, Work, collect, pieces
from penstock.broker.topic_creation import TopicCreation
from penstock.cluster.metadata import Metadata
from penstock.core.clock import Clock
from penstock.core.internal_topics import CONSUMER_OFFSETS, INTERNAL_TOPICS, WRITTEN_BY_BROKERS_ALONE
from penstock.core.types import TopicPartition
from penstock.protocol.errors import ApiError, ErrorCode
from penstock.protocol.messages import describe_transactions as described
from penstock.protocol.messages import list_transactions as listed
from penstock.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from penstock.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopicResult,
    AddPartitionsToTxnTransaction,
)
from penstock.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from penstock.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopic,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from penstock.transactions import requests
from penstock.transactions.operations import (
    ADD_OFFSETS,
    ADD_PARTITIONS,
    DESCRIBE_TRANSACTION,
    END_TRANSACTION,
    VERIFY_PARTITIONS,
)

# From these versions on a client knows PRODUCER_FENCED; earlier clients get INVALID_PRODUCER_EPOCH.
_FIRST_ADD_WITH_FENCED = 2
_FIRST_END_WITH_FENCED = 2
# AddPartitionsToTxn between brokers: several transactions, and verification alone.
_FIRST_BATCHED_ADD = 4
_FIRST_ADD_WITH_ABORTABLE = 5
_FIRST_END_WITH_EPOCH_BUMP = 5
_EPOCH_PER_TRANSACTION = 2  # the level of transaction.version

# The number of transactions of a broker's request that one turn of the loop begins with: each takes 20 us.
_BEGUN_PER_TURN = 50

_Errors = dict[TopicPartition, ErrorCode]


class TransactionPort(Protocol):
    """The parts of the broker that the handlers of transactions use."""

    authorizer: Authorizer
    clock: Clock
    flusher: Flusher
    groups: GroupRuntime
    metadata: Metadata
    producer_ids: ProducerIds
    slices: Slices
    topic_creation: TopicCreation
    transactions: TransactionRuntime


def _may_write(broker: TransactionPort, context: RequestContext, transactional_id: str) -> bool:
    return broker.authorizer.is_allowed(context, Operation.WRITE, ResourceType.TRANSACTIONAL_ID, transactional_id)


# ------------------------------------------------------------------------------------------------- AddPartitionsToTxn


async def add_partitions_to_txn(
    broker: TransactionPort, context: RequestContext, request: AddPartitionsToTxnRequest
) -> AddPartitionsToTxnResponse:
    """Adds partitions to a transaction, or reports whether the transaction has them.

    Versions up to 3 come from clients and concern one transaction. Versions from 4 on come from brokers, concern
    several transactions, and may only verify. Clients know PRODUCER_FENCED from version 2 on; TRANSACTION_ABORTABLE is
    known from version 5 on.
    """
    if context.api_version < _FIRST_BATCHED_ADD:
        one = AddPartitionsToTxnTransaction(
            transactional_id=request.v3_and_below_transactional_id,
            producer_id=request.v3_and_below_producer_id,
            producer_epoch=request.v3_and_below_producer_epoch,
            topics=request.v3_and_below_topics,
        )
        result = await _add(broker, context, one, is_client=True)
        return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=result.topic_results)
    if not broker.authorizer.is_allowed(context, Operation.CLUSTER_ACTION, ResourceType.CLUSTER, CLUSTER_NAME):
        return AddPartitionsToTxnResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    return AddPartitionsToTxnResponse(results_by_transaction=await _add_in_time(broker, context, request.transactions))


async def _add_in_time(
    broker: TransactionPort, context: RequestContext, transactions: Sequence[AddPartitionsToTxnTransaction]
) -> list[AddPartitionsToTxnResult]:
    """Adds partitions for another broker, which has one request in flight: a slow addition gets an error that the
    producer retries. The addition goes through all the same, and a second addition does no harm. All additions run
    together and share one deadline, so that transactions with hanging replicas take no time from the others.
    """
    adding: list[asyncio.Task[AddPartitionsToTxnResult]] = []
    try:
        for piece in pieces(transactions, _BEGUN_PER_TURN):
            adding += [asyncio.create_task(_add(broker, context, each, is_client=False)) for each in piece]
            await asyncio.sleep(0)
        if adding:
            await asyncio.wait(adding, timeout=ANSWER_TIMEOUT_MS / 1000)
        return [
            task.result() if task.done() else _not_in_time(asked)
            for asked, task in zip(transactions, adding, strict=True)
        ]
    finally:
        for task in adding:
            task.cancel()


def _not_in_time(asked: AddPartitionsToTxnTransaction) -> AddPartitionsToTxnResult:
    code = ErrorCode.COORDINATOR_NOT_AVAILABLE
    topics = [
        AddPartitionsToTxnTopicResult(
            name=topic.name,
            results_by_partition=[
                AddPartitionsToTxnPartitionResult(partition_index=index, partition_error_code=code)
                for index in topic.partitions
            ],
        )
        for topic in asked.topics
    ]
    return AddPartitionsToTxnResult(transactional_id=asked.transactional_id, topic_results=topics)


async def _add(
    broker: TransactionPort, context: RequestContext, asked: AddPartitionsToTxnTransaction, is_client: bool
) -> AddPartitionsToTxnResult:
    partitions = await broker.slices.run(
        collect(TopicPartition(topic.name, index) for topic in asked.topics for index in topic.partitions)
    )
    errors = await broker.slices.run(_refuse_partitions(broker, context, asked.transactional_id, partitions, is_client))
    if not errors:
        domain = requests.AddPartitionsRequest(
            transactional_id=asked.transactional_id,
            producer_id=asked.producer_id,
            producer_epoch=asked.producer_epoch,
            partitions=tuple(dict.fromkeys(partitions)),
            client_transaction_version=0 if is_client else _EPOCH_PER_TRANSACTION,
            accepts_producer_fenced=context.api_version >= _FIRST_ADD_WITH_FENCED,
            accepts_transaction_abortable=context.api_version >= _FIRST_ADD_WITH_ABORTABLE,
        )
        errors = await _add_or_verify(broker, domain, asked.verify_only)
    answer = AddPartitionsToTxnResult(transactional_id=asked.transactional_id)
    async for topic in broker.slices.each(asked.topics):
        told = await broker.slices.run(
            collect(
                AddPartitionsToTxnPartitionResult(
                    partition_index=index, partition_error_code=errors[TopicPartition(topic.name, index)]
                )
                for index in topic.partitions
            )
        )
        answer.topic_results.append(AddPartitionsToTxnTopicResult(name=topic.name, results_by_partition=told))
    return answer


async def _add_or_verify(broker: TransactionPort, domain: requests.AddPartitionsRequest, verify_only: bool) -> _Errors:
    transactions = broker.transactions
    if verify_only:
        result = await transactions.read(
            [domain.transactional_id], lambda: transactions.shards.read(VERIFY_PARTITIONS, domain)
        )
    else:
        result = await transactions.submit(ADD_PARTITIONS, domain)
    return {partition: error async for partition, error in broker.slices.each(result.partitions)}


def _refuse_partitions(
    broker: TransactionPort,
    context: RequestContext,
    transactional_id: str,
    partitions: Sequence[TopicPartition],
    is_client: bool,
) -> Work[_Errors]:
    """The errors; empty when the transaction may add all partitions. One refused partition keeps the others out:
    OPERATION_NOT_ATTEMPTED.
    """
    if is_client and not _may_write(broker, context, transactional_id):
        return dict.fromkeys(partitions, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    errors: _Errors = {}
    for partition in partitions:
        may = not is_client or (
            partition.topic not in INTERNAL_TOPICS
            and broker.authorizer.is_allowed(context, Operation.WRITE, ResourceType.TOPIC, partition.topic)
        )
        if not may:
            errors[partition] = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        elif broker.metadata.image.partition(*partition) is None:
            errors[partition] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        yield
    if errors:
        for partition in partitions:
            errors.setdefault(partition, ErrorCode.OPERATION_NOT_ATTEMPTED)
            yield
    return errors


# ------------------------------------------------------------------------------------------------- AddOffsetsToTxn


async def add_offsets_to_txn(
    broker: TransactionPort, context: RequestContext, request: AddOffsetsToTxnRequest
) -> AddOffsetsToTxnResponse:
    """Adds the partition with a group's offsets to a transaction. Clients know PRODUCER_FENCED from version 2 on."""
    if not _may_write(broker, context, request.transactional_id):
        return AddOffsetsToTxnResponse(error_code=ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    if not broker.authorizer.is_allowed(context, Operation.READ, ResourceType.GROUP, request.group_id):
        return AddOffsetsToTxnResponse(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
    await broker.topic_creation.ensure(CONSUMER_OFFSETS)
    domain = requests.AddOffsetsRequest(
        transactional_id=request.transactional_id,
        producer_id=request.producer_id,
        producer_epoch=request.producer_epoch,
        offsets_partition=broker.groups.shards.partition_for(request.group_id),
        accepts_producer_fenced=context.api_version >= _FIRST_ADD_WITH_FENCED,
    )
    result = await broker.transactions.submit(ADD_OFFSETS, domain)
    return AddOffsetsToTxnResponse(error_code=result.error)


# ------------------------------------------------------------------------------------------------- EndTxn


async def end_txn(broker: TransactionPort, context: RequestContext, request: EndTxnRequest) -> EndTxnResponse:
    """Commits or aborts a transaction. Clients know PRODUCER_FENCED from version 2 on. From version 5 on each
    transaction has an epoch of its own, and the answer has the next epoch (KIP-890).
    """
    if not _may_write(broker, context, request.transactional_id):
        return EndTxnResponse(error_code=ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    domain = requests.EndTransactionRequest(
        transactional_id=request.transactional_id,
        producer_id=request.producer_id,
        producer_epoch=request.producer_epoch,
        is_commit=request.committed,
        client_transaction_version=_EPOCH_PER_TRANSACTION if context.api_version >= _FIRST_END_WITH_EPOCH_BUMP else 0,
        accepts_producer_fenced=context.api_version >= _FIRST_END_WITH_FENCED,
    )
    await broker.producer_ids.ensure()  # the producer id may have used up its epochs
    result = await broker.transactions.submit(END_TRANSACTION, domain)
    return EndTxnResponse(error_code=result.error, producer_id=result.producer_id, producer_epoch=result.producer_epoch)


# ------------------------------------------------------------------------------------------------- WriteTxnMarkers


class _Written(NamedTuple):
    """A marker in one partition: refused, or appended and perhaps still to be flushed and replicated."""

    partition_index: int
    error: ErrorCode
    appended: Appended | None


async def write_txn_markers(
    broker: TransactionPort, context: RequestContext, request: WriteTxnMarkersRequest
) -> WriteTxnMarkersResponse:
    """Ends transactions in partitions, for other brokers, and for administrators who end a transaction that no
    coordinator knows any more. From version 2 on a marker has the transaction's version. A marker that is not
    replicated within a second gets the answer REQUEST_TIMED_OUT, and stays.
    """
    authorizer = broker.authorizer
    allowed = authorizer.would_allow(
        context, Operation.ALTER, ResourceType.CLUSTER, CLUSTER_NAME
    ) or authorizer.is_allowed(context, Operation.CLUSTER_ACTION, ResourceType.CLUSTER, CLUSTER_NAME)
    written = await broker.slices.run(_write_markers(broker, request, allowed))
    to_settle = [each.appended for each in written if each.appended is not None]
    not_settled = await settle(broker.flusher, to_settle, ANSWER_TIMEOUT_MS) if to_settle else {}
    return await broker.slices.run(_markers_response(request, iter(written), not_settled))


def _markers_response(
    request: WriteTxnMarkersRequest, written: Iterator[_Written], not_settled: Mapping[Partition, ErrorCode]
) -> Work[WriteTxnMarkersResponse]:
    """`written` has an entry for each partition of the request, in its order."""
    response = WriteTxnMarkersResponse()
    for marker in request.markers:
        answer = WritableTxnMarkerResult(producer_id=marker.producer_id)
        response.markers.append(answer)
        for topic in marker.topics:
            entries = islice(written, len(topic.partition_indexes))
            told = yield from collect(_marker_result(entry, not_settled) for entry in entries)
            answer.topics.append(WritableTxnMarkerTopicResult(name=topic.name, partitions=told))
            yield
        yield
    return response


def _write_markers(broker: TransactionPort, request: WriteTxnMarkersRequest, allowed: bool) -> Work[list[_Written]]:
    written: list[_Written] = []
    for marker in request.markers:
        for topic in marker.topics:
            written += yield from _write_marker(broker, marker, topic, allowed)
            yield
        yield
    return written


def _write_marker(
    broker: TransactionPort, asked: WritableTxnMarker, topic: WritableTxnMarkerTopic, allowed: bool
) -> Work[list[_Written]]:
    marker = Marker(
        asked.producer_id,
        asked.producer_epoch,
        asked.coordinator_epoch,
        asked.transaction_result,
        asked.transaction_version,
    )
    written = []
    for index in topic.partition_indexes:
        code, appended = ErrorCode.CLUSTER_AUTHORIZATION_FAILED, None
        if topic.name in WRITTEN_BY_BROKERS_ALONE:  # transactions cannot write to these topics
            code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        elif allowed:
            try:
                appended = broker.transactions.markers.append(TopicPartition(topic.name, index), marker)
                code = ErrorCode.NONE
            except ApiError as error:
                code = error.code
        written.append(_Written(index, code, appended))
        yield
    return written


def _marker_result(written: _Written, not_settled: Mapping[Partition, ErrorCode]) -> WritableTxnMarkerPartitionResult:
    code = written.error
    if written.appended is not None:
        code = not_settled.get(written.appended.partition, ErrorCode.NONE)
    return WritableTxnMarkerPartitionResult(partition_index=written.partition_index, error_code=code)


# ------------------------------------------------------------------------------------------------- describe, list


async def describe_transactions(
    broker: TransactionPort, context: RequestContext, request: described.DescribeTransactionsRequest
) -> described.DescribeTransactionsResponse:
    """Shows transactions with their partitions, as far as their state is on disk. There is one version."""
    ids = request.transactional_ids
    states = await broker.transactions.read_in_slices(ids, partial(_describe_all, broker, context, ids))
    return described.DescribeTransactionsResponse(transaction_states=states)


def _describe_all(
    broker: TransactionPort, context: RequestContext, ids: Sequence[str]
) -> Work[list[described.TransactionState]]:
    states = []
    for transactional_id in ids:
        states.append((yield from _describe(broker, context, transactional_id)))
        yield
    return states


def _may_describe(broker: TransactionPort, context: RequestContext, transactional_id: str) -> bool:
    return broker.authorizer.is_allowed(context, Operation.DESCRIBE, ResourceType.TRANSACTIONAL_ID, transactional_id)


def _describe(
    broker: TransactionPort, context: RequestContext, transactional_id: str
) -> Work[described.TransactionState]:
    if not _may_describe(broker, context, transactional_id):
        return described.TransactionState(
            error_code=ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, transactional_id=transactional_id
        )
    found = broker.transactions.shards.read(DESCRIBE_TRANSACTION, requests.DescribeTransactionRequest(transactional_id))
    topics: dict[str, described.TopicData] = {}
    for topic, index in found.partitions:
        if broker.authorizer.would_allow(context, Operation.DESCRIBE, ResourceType.TOPIC, topic):
            topics.setdefault(topic, described.TopicData(topic=topic)).partitions.append(index)
        yield
    return described.TransactionState(
        error_code=found.error,
        transactional_id=transactional_id,
        transaction_state=found.state,
        transaction_timeout_ms=found.timeout_ms,
        transaction_start_time_ms=found.start_time_ms,
        producer_id=found.producer_id,
        producer_epoch=found.producer_epoch,
        topics=list(topics.values()),
    )


async def list_transactions(
    broker: TransactionPort, context: RequestContext, request: listed.ListTransactionsRequest
) -> listed.ListTransactionsResponse:
    """Lists transactions. A request may filter by state and producer, from version 1 on by the duration of a
    transaction, from version 2 on by a pattern of the id.
    """
    domain = requests.ListTransactionsRequest(
        states=tuple(request.state_filters),
        producer_ids=tuple(request.producer_id_filters),
        duration_ms=request.duration_filter,
        transactional_id_pattern=request.transactional_id_pattern,
    )
    found = await broker.transactions.read_in_slices(
        None, lambda: broker.transactions.coordinator.list_transactions(domain, broker.clock.now_ms())
    )
    return listed.ListTransactionsResponse(
        error_code=found.error,
        unknown_state_filters=list(found.unknown_state_filters),
        transaction_states=[
            listed.TransactionState(
                transactional_id=entry.transactional_id, producer_id=entry.producer_id, transaction_state=entry.state
            )
            async for entry in broker.slices.each(found.transactions)
            if broker.authorizer.would_allow(
                context, Operation.DESCRIBE, ResourceType.TRANSACTIONAL_ID, entry.transactional_id
            )
        ],
    )
