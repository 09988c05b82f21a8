"""Produce: appends record batches to partitions."""

from __future__ import annotations

from collections.abc import Awaitable, Iterator
from typing import Protocol

from penstock.broker.authorizer import Operation, ResourceType
from penstock.broker.handlers.brokers.forwarding import CallerPort, is_broker
from penstock.broker.handlers.produce_refusals import (
    SPECIAL_FLAGS,
    name_leader,
    name_leaders,
    note_refusal,
    refusal,
    refuse_append,
)
from penstock.broker.handlers.produced_batches import FIRST_VERSION_WITH_TOPIC_IDS, batches_to_check, only_batch
from penstock.broker.partitions.flusher import Flusher
from penstock.broker.partitions.partition import Partition
from penstock.broker.partitions.partitions import Partitions
from penstock.broker.quotas.client_quotas import ClientQuotas
from penstock.broker.runtimes.transaction_admission import Admission, Refusals, TransactionAdmission
from penstock.broker.schema_checks.checks import SchemaChecks
from penstock.broker.schema_checks.verdicts import Verdicts
from penstock.broker.session import RequestContext, Settling, UnanswerableError
from penstock.broker.slices import Slices
from penstock.core.clock import Clock
from penstock.core.internal_topics import INTERNAL_TOPICS, WRITTEN_BY_BROKERS_ALONE
from penstock.core.metrics.counters import BrokerMetrics
from penstock.core.types import TopicPartition
from penstock.protocol.batch import (
    FLAGS_POSITION,
    HEADER_SIZE,
    TRANSACTIONAL_FLAG,
    BatchHeader,
    read_header,
)
from penstock.protocol.compression import Codec
from penstock.protocol.errors import ApiError, ErrorCode
from penstock.protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from penstock.replication.in_sync import ALL_REPLICAS
from penstock.security.audit.events import AuditEvent, AuditKind, Auditor

_FIRST_VERSION_WITH_ZSTD = 7
_FIRST_VERSION_WITH_ABORTABLE = 11
_FIRST_VERSION_THAT_ADDS = 12
_ADDING_TRANSACTION_VERSION = 2
_VALID_ACKS = (-1, 0, 1)
# The coordinator's errors, translated to errors that producers know. Transient errors become the error that makes any
# producer try again without a search for another leader.
_NOT_NOW = (ErrorCode.NOT_ENOUGH_REPLICAS, "the transaction could not be verified yet")
_REFUSALS = {
    ErrorCode.INVALID_TXN_STATE: (ErrorCode.INVALID_TXN_STATE, "the partition was not added to the transaction"),
    ErrorCode.NETWORK_EXCEPTION: _NOT_NOW,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: _NOT_NOW,
    ErrorCode.COORDINATOR_NOT_AVAILABLE: _NOT_NOW,
    ErrorCode.NOT_COORDINATOR: _NOT_NOW,
}
# Producers whose writes add partitions know CONCURRENT_TRANSACTIONS, too.
_REFUSALS_OF_OLDER_CLIENTS = {**_REFUSALS, ErrorCode.CONCURRENT_TRANSACTIONS: _NOT_NOW}
# Kafka's own tools write to internal topics under this client id; other client ids may not.
_ADMIN_CLIENT_ID = "__admin_client"
# The number of a request's partitions that one turn of the loop appends to: some 2 ms, and 5 ms where each append is
# the first of its partition and opens the log.
_PIECE = 100


class ProducePort(CallerPort, Protocol):
    """The parts of the broker that produce uses."""

    admission: TransactionAdmission
    auditor: Auditor
    clock: Clock
    flusher: Flusher
    metrics: BrokerMetrics
    partitions: Partitions
    quotas: ClientQuotas
    schema_checks: SchemaChecks
    slices: Slices


def produce(
    broker: ProducePort, context: RequestContext, request: ProduceRequest
) -> ProduceResponse | Awaitable[ProduceResponse | None] | None:
    """Appends one batch to each partition that the request names.

    From version 7 on a batch may use zstd. Clients know TRANSACTION_ABORTABLE from version 11 on. From version 12 on a
    write adds its partition to the transaction. From version 13 on topics have ids instead of names. With acks=0 there
    is no response, and a failure closes the connection. With acks=all the response waits until all in-sync replicas
    have the records. From version 10 on a refusal names the partition's leader (KIP-951).

    Costs about 14 us for one partition of one topic, half of them in the log. Nothing per record, nothing per byte
    but CRC and write. The common shape takes a shortcut past decoder and encoder: `produce_single`. Bench: produce.
    """
    count = 0
    is_transactional = False
    for topic in request.topic_data:
        count += len(topic.partition_data)
        for data in topic.partition_data:
            records = data.records
            if records is not None and len(records) >= HEADER_SIZE and records[FLAGS_POSITION] & TRANSACTIONAL_FLAG:
                is_transactional = True
    if is_transactional and not _may_write_in_transaction(broker, context, request.transactional_id):
        return _refuse_all(request, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    if count > _PIECE:
        return _produce_in_pieces(broker, context, request)
    if not broker.partitions.validates_schemas:
        return _produce_checked(broker, context, request, {})
    verdicts = broker.schema_checks.check(batches_to_check(broker, context, request))
    if isinstance(verdicts, dict):
        return _produce_checked(broker, context, request, verdicts)
    return _produce_when_checked(broker, context, request, verdicts)


def _produce_checked(
    broker: ProducePort, context: RequestContext, request: ProduceRequest, verdicts: Verdicts
) -> ProduceResponse | Awaitable[ProduceResponse | None] | None:
    if request.transactional_id is None:
        return _append_all(_Job(broker, context, request, None, verdicts), request)
    return _produce_in_transaction(broker, context, request, request.transactional_id, verdicts)


async def _produce_when_checked(
    broker: ProducePort, context: RequestContext, request: ProduceRequest, verdicts: Awaitable[Verdicts]
) -> ProduceResponse | None:
    response = _produce_checked(broker, context, request, await verdicts)
    return response if response is None or isinstance(response, ProduceResponse) else await response


def _may_write_in_transaction(broker: ProducePort, context: RequestContext, transactional_id: str | None) -> bool:
    """Refuses a transactional batch without an id even where no authorizer is set (CVE-2018-17196)."""
    return transactional_id is not None and broker.authorizer.is_allowed(
        context, Operation.WRITE, ResourceType.TRANSACTIONAL_ID, transactional_id
    )


def _refuse_all(request: ProduceRequest, code: ErrorCode) -> ProduceResponse:
    """Refuses the whole request: also batches that would be allowed alone are not appended."""
    if request.acks == 0:
        raise UnanswerableError("produce without acks", "a produce request with acks=0 failed")
    return ProduceResponse(
        responses=[
            TopicProduceResponse(
                name=topic.name,
                topic_id=topic.topic_id,
                partition_responses=[refusal(data.index, code) for data in topic.partition_data],
            )
            for topic in request.topic_data
        ]
    )


async def _produce_in_pieces(
    broker: ProducePort, context: RequestContext, request: ProduceRequest
) -> ProduceResponse | None:
    """Serves parts of the request as if the client had sent several requests: the checks and the append of a part share
    one turn of the loop.
    """
    responses: list[TopicProduceResponse] = []
    async for piece in broker.slices.each(_pieces(request)):
        answer = produce(broker, context, piece)
        response = answer if answer is None or isinstance(answer, ProduceResponse) else await answer
        for topic in () if response is None else response.responses:
            if responses and (responses[-1].name, responses[-1].topic_id) == (topic.name, topic.topic_id):
                responses[-1].partition_responses += topic.partition_responses
            else:
                responses.append(topic)
    return None if request.acks == 0 else name_leaders(broker.partitions, context, ProduceResponse(responses=responses))


def _pieces(request: ProduceRequest) -> Iterator[ProduceRequest]:
    topics: list[TopicProduceData] = []
    room = _PIECE
    for topic in request.topic_data:
        for start in range(0, len(topic.partition_data), _PIECE):
            data = topic.partition_data[start : start + _PIECE]
            if len(data) > room:
                yield _piece(request, topics)
                topics, room = [], _PIECE
            topics.append(TopicProduceData(name=topic.name, topic_id=topic.topic_id, partition_data=data))
            room -= len(data)
    yield _piece(request, topics)


def _piece(request: ProduceRequest, topics: list[TopicProduceData]) -> ProduceRequest:
    return ProduceRequest(
        transactional_id=request.transactional_id, acks=request.acks, timeout_ms=request.timeout_ms, topic_data=topics
    )


def _append_all(job: _Job, request: ProduceRequest) -> ProduceResponse | Awaitable[ProduceResponse | None] | None:
    response = ProduceResponse(responses=[_produce_topic(job, topic) for topic in request.topic_data])
    if request.acks == 0:
        if job.failed:  # the only sign that a client with acks=0 can see
            raise UnanswerableError("produce without acks", "a produce request with acks=0 failed")
        return None
    if job.to_flush or job.to_replicate:
        return Settling(_respond_when_safe(job, response))
    return name_leaders(job.broker.partitions, job.context, response) if job.failed else response


class _Job:
    """The state that all partitions of one request share, and their joint results."""

    __slots__ = (
        "acks",
        "appended",
        "broker",
        "context",
        "failed",
        "now_ms",
        "refusals",
        "timeout_ms",
        "to_flush",
        "to_replicate",
        "transaction_version",
        "verdicts",
    )

    def __init__(
        self,
        broker: ProducePort,
        context: RequestContext,
        request: ProduceRequest,
        refusals: Refusals | None,
        verdicts: Verdicts,
        transaction_version: int = 0,
    ) -> None:
        self.broker = broker
        self.context = context
        self.acks = request.acks
        self.timeout_ms = request.timeout_ms
        # Partitions that this producer's transaction may not write to; None for a request without transactional id.
        self.refusals = refusals
        # The results of the schema check, for partitions of topics that ask for the check.
        self.verdicts = verdicts
        self.now_ms = broker.clock.now_ms()
        self.transaction_version = transaction_version
        self.appended: list[tuple[Partition, PartitionProduceResponse]] = []
        self.to_flush: list[Partition] = []  # flush to disk before the answer goes out
        # Appends that must reach all in-sync replicas before the answer.
        self.to_replicate: list[tuple[Partition, PartitionProduceResponse, Awaitable[ErrorCode]]] = []
        self.failed = False


# ----------------------------------------------------------------------------------------------- transactions


def _produce_in_transaction(
    broker: ProducePort, context: RequestContext, request: ProduceRequest, transactional_id: str, verdicts: Verdicts
) -> ProduceResponse | Awaitable[ProduceResponse | None] | None:
    version = _ADDING_TRANSACTION_VERSION if context.api_version >= _FIRST_VERSION_THAT_ADDS else 0
    refusals = _admit(broker, context, request, transactional_id)
    if isinstance(refusals, dict):
        return _append_all(_Job(broker, context, request, refusals, verdicts, version), request)
    return _append_when_admitted(_Job(broker, context, request, None, verdicts, version), request, refusals)


async def _append_when_admitted(
    job: _Job, request: ProduceRequest, refusals: Awaitable[Refusals]
) -> ProduceResponse | None:
    job.refusals = await refusals
    job.now_ms = job.broker.clock.now_ms()
    response = _append_all(job, request)
    return response if response is None or isinstance(response, ProduceResponse) else await response


def _admit(
    broker: ProducePort, context: RequestContext, request: ProduceRequest, transactional_id: str
) -> Refusals | Awaitable[Refusals]:
    producers: dict[TopicPartition, tuple[int, int]] = {}
    for topic in request.topic_data:
        name = topic.name
        if context.api_version >= FIRST_VERSION_WITH_TOPIC_IDS:
            name = broker.partitions.topic_name(topic.topic_id) or ""
        if _refuse_topic(broker, context, name, request.acks) is not None:
            continue
        for data in topic.partition_data:
            records = data.records
            if records is None or len(records) < HEADER_SIZE or not records[FLAGS_POSITION] & TRANSACTIONAL_FLAG:
                continue
            partition = broker.partitions.find(name, data.index)
            if partition is not None and partition.is_leader:  # the append refuses every other case
                header = read_header(records)
                producers[TopicPartition(name, data.index)] = header.producer_id, header.producer_epoch
    if not producers:
        return {}
    if len(set(producers.values())) != 1:  # a transactional id stands for one producer
        return dict.fromkeys(producers, ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    asked = Admission(
        transactional_id,
        *next(iter(producers.values())),
        tuple(producers),
        adds=context.api_version >= _FIRST_VERSION_THAT_ADDS,
        accepts_transaction_abortable=context.api_version >= _FIRST_VERSION_WITH_ABORTABLE,
    )
    return broker.admission.admit(asked)


# ----------------------------------------------------------------------------------------------- partitions


def _produce_topic(job: _Job, topic: TopicProduceData) -> TopicProduceResponse:
    name: str | None = topic.name
    if job.context.api_version >= FIRST_VERSION_WITH_TOPIC_IDS:
        name = job.broker.partitions.topic_name(topic.topic_id)
    refused = _refuse_topic(job.broker, job.context, name, job.acks)
    if refused is not None or name is None:
        code, message = refused or (ErrorCode.UNKNOWN_TOPIC_ID, None)
        job.failed = True
        answers = [refusal(data.index, code, message) for data in topic.partition_data]
    else:
        answers = [_produce_partition(job, name, topic, data) for data in topic.partition_data]
    if job.failed:
        for data, answer in zip(topic.partition_data, answers, strict=True):
            if answer.error_code:
                key = topic.name or topic.topic_id
                note_refusal(
                    job.context, key, data.index, data.records, answer.error_code, job.broker.clock.monotonic_ms()
                )
    return TopicProduceResponse(name=topic.name, topic_id=topic.topic_id, partition_responses=answers)


def _refuse_topic(
    broker: ProducePort, context: RequestContext, name: str | None, acks: int
) -> tuple[ErrorCode, str | None] | None:
    if name is None:
        return ErrorCode.UNKNOWN_TOPIC_ID, None
    if name in WRITTEN_BY_BROKERS_ALONE:
        return None if is_broker(broker, context) else _refuse_forgery(broker, context, name)
    if not broker.authorizer.is_allowed(context, Operation.WRITE, ResourceType.TOPIC, name):
        return ErrorCode.TOPIC_AUTHORIZATION_FAILED, None
    if acks not in _VALID_ACKS:
        return ErrorCode.INVALID_REQUIRED_ACKS, None
    if name in INTERNAL_TOPICS and context.client_id != _ADMIN_CLIENT_ID:
        return ErrorCode.INVALID_TOPIC_EXCEPTION, f"cannot append to the internal topic {name}"
    return None


def _refuse_forgery(broker: ProducePort, context: RequestContext, name: str) -> tuple[ErrorCode, str]:
    """Refuses the client whatever its rights are. The authorizer does not know of this refusal, so the audit event is
    made here.
    """
    rule = f"only brokers write to {name}"
    who, where = str(context.principal), context.client_host
    denial = AuditEvent(
        AuditKind.DENIAL, "Produce", False, who, where, context.client_id, f"Topic:{name}", "Write", rule
    )
    broker.auditor.record(denial)
    return ErrorCode.TOPIC_AUTHORIZATION_FAILED, rule


def _produce_partition(
    job: _Job, name: str, topic: TopicProduceData, data: PartitionProduceData
) -> PartitionProduceResponse:
    partition = job.broker.partitions.find(name, data.index)
    if partition is None:
        job.failed = True
        job.broker.metrics.topics.overflow.failed_produce_requests += 1
        code = job.broker.partitions.why_missing(name, data.index)
        return name_leader(job.broker.partitions, name, refusal(data.index, code))
    metrics, new_producers = partition.metrics, job.broker.quotas.new_producers
    metrics.produce_requests += 1
    try:
        records = only_batch(data.records)
        if records[FLAGS_POSITION] & SPECIAL_FLAGS:
            _check_flags(job, read_header(records), partition)
        if partition.log.settings.validates_schemas:
            _check_schemas(job, partition)
        refused = job.context.session.refused_writes
        if refused is not None and refused.kept:
            now_ms = job.broker.clock.monotonic_ms()
            refused.check(topic.name or topic.topic_id, data.index, records, partition.log.producers, now_ms)
        if new_producers.is_owed:
            new_producers.check_batch(job.context, partition.log.producers, records)
        result = partition.append(records, job.acks, job.now_ms, transaction_version=job.transaction_version)
    except ApiError as error:
        job.failed = True
        return refuse_append(job.broker.partitions, partition, data.index, error, data.records or b"")
    if result.is_first_of_producer:
        new_producers.charge(job.context)
    metrics.bytes_in += len(records)
    metrics.messages_in += result.last_offset - result.base_offset + 1
    answer = PartitionProduceResponse(
        index=data.index,
        base_offset=result.base_offset,
        log_append_time_ms=result.log_append_time_ms,
        log_start_offset=result.log_start_offset,
    )
    job.appended.append((partition, answer))
    if result.must_flush:
        job.to_flush.append(partition)
    if partition.leading is not None and job.acks == ALL_REPLICAS:
        end_offset = result.last_offset + 1
        if not partition.is_replicated(end_offset):
            waiting = partition.wait_until_replicated(end_offset, job.timeout_ms)
            job.to_replicate.append((partition, answer, waiting))
    return answer


def _check_schemas(job: _Job, partition: Partition) -> None:
    # The topic has just begun to ask for the check, or this broker has just become leader.
    if partition.topic_partition not in job.verdicts:
        raise ApiError(ErrorCode.NOT_ENOUGH_REPLICAS, "the schemas have not been checked yet")
    error = job.verdicts[partition.topic_partition]
    if error is not None:
        raise error


def _check_flags(job: _Job, header: BatchHeader, partition: Partition) -> None:
    if header.is_transactional:
        if job.refusals is None:
            raise ApiError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
        if partition.topic_partition in job.refusals:
            words = _REFUSALS if job.transaction_version == _ADDING_TRANSACTION_VERSION else _REFUSALS_OF_OLDER_CLIENTS
            raise ApiError(*words.get(code := job.refusals[partition.topic_partition], (code,)))
    if header.compression == Codec.ZSTD and job.context.api_version < _FIRST_VERSION_WITH_ZSTD:
        raise ApiError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)


# ----------------------------------------------------------------------------------------------- responses


async def _respond_when_safe(job: _Job, response: ProduceResponse) -> ProduceResponse:
    """Answers when the appended batches are on disk, where flush.messages was reached, and, with acks=all, on all
    in-sync replicas. A batch that the disk may have lost gets the answer of a failed write: no offset.
    """
    broker = job.broker
    if job.to_flush:
        not_durable = frozenset(await broker.flusher.flush(job.to_flush))
        for partition, answer in job.appended if not_durable else ():
            if partition in not_durable:
                _fail(answer, ErrorCode.KAFKA_STORAGE_ERROR)
    for partition, answer, waiting in job.to_replicate:
        code = await waiting
        if code and not answer.error_code:
            _fail(answer, code)
            name_leader(broker.partitions, partition.topic_partition.topic, answer)
            partition.metrics.failed_produce_requests += 1
    return name_leaders(broker.partitions, job.context, response)


def _fail(answer: PartitionProduceResponse, code: ErrorCode) -> None:
    answer.error_code, answer.base_offset, answer.log_start_offset = code, -1, -1
    answer.log_append_time_ms = -1
