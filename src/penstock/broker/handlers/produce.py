"""Produce: record batches into partitions."""

from __future__ import annotations

from collections.abc import Awaitable, Iterator

from penstock.broker.authorizer import Operation, ResourceType
from penstock.broker.broker import Broker
from penstock.broker.handlers.brokers.forwarding import is_broker
from penstock.broker.handlers.current_leaders import current_leader, leader_nodes
from penstock.broker.handlers.produced_batches import FIRST_VERSION_WITH_TOPIC_IDS, batches_to_check, only_batch
from penstock.broker.partitions.partition import Partition
from penstock.broker.schema_checks.checks import BadSchemasError, Verdicts
from penstock.broker.session import RequestContext, Settling, UnanswerableError
from penstock.broker.transaction_admission import Admission, Refusals, admit
from penstock.core.internal_topics import INTERNAL_TOPICS, WRITTEN_BY_BROKERS_ALONE
from penstock.core.metrics.counters import TopicMetrics
from penstock.core.types import TopicId, TopicPartition
from penstock.log.state.refused_writes import RefusedWrites
from penstock.protocol.batch import (
    FLAGS_POSITION,
    HEADER_SIZE,
    MAGIC,
    MAGIC_POSITION,
    TRANSACTIONAL_FLAG,
    BatchHeader,
    read_header,
)
from penstock.protocol.compression import Codec
from penstock.protocol.errors import ApiError, ErrorCode
from penstock.protocol.message import Buffer
from penstock.protocol.messages.produce import (
    BatchIndexAndErrorMessage,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from penstock.replication.in_sync import ALL_REPLICAS
from penstock.security.audit.events import AuditEvent, Kind

_FIRST_VERSION_WITH_ZSTD = 7
_FIRST_VERSION_WITH_ABORTABLE = 11
_FIRST_VERSION_THAT_ADDS = 12
_ADDING_TRANSACTION_VERSION = 2
_VALID_ACKS = (-1, 0, 1)
# Batches that need a second look: transactional ones and zstd.
SPECIAL_FLAGS = TRANSACTIONAL_FLAG | Codec.ZSTD
# What the coordinator says, in words that producers know. Those that pass by themselves become the one error that makes
# any producer try again without looking for another leader.
_NOT_NOW = (ErrorCode.NOT_ENOUGH_REPLICAS, "the transaction could not be verified yet")
_REFUSALS = {
    ErrorCode.INVALID_TXN_STATE: (ErrorCode.INVALID_TXN_STATE, "the partition was not added to the transaction"),
    ErrorCode.NETWORK_EXCEPTION: _NOT_NOW,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: _NOT_NOW,
    ErrorCode.COORDINATOR_NOT_AVAILABLE: _NOT_NOW,
    ErrorCode.NOT_COORDINATOR: _NOT_NOW,
}
# Producers that add partitions by writing know this one, too.
_REFUSALS_OF_OLDER_CLIENTS = {**_REFUSALS, ErrorCode.CONCURRENT_TRANSACTIONS: _NOT_NOW}
# Kafka's own tools write to internal topics under this client id; nobody else may.
_ADMIN_CLIENT_ID = "__admin_client"
# Partitions of one request that are appended in one turn of the loop: some 2 ms, and 5 ms where each append is the
# first of its partition and opens the log.
_PIECE = 100


def produce(
    broker: Broker, context: RequestContext, request: ProduceRequest
) -> ProduceResponse | Awaitable[ProduceResponse | None] | None:
    """Appends one batch to each partition that the request names.

    Version 7 is the first that may carry zstd. Version 11 is the first whose clients know TRANSACTION_ABORTABLE. From
    version 12 on a write adds its partition to the transaction. From version 13 on topics have ids instead of names.
    With acks=0 there is no response, and a failure closes the connection. With acks=all the response waits until all
    in-sync replicas have the records. From version 10 on a refusal names the partition's leader (KIP-951).

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
    broker: Broker, context: RequestContext, request: ProduceRequest, verdicts: Verdicts
) -> ProduceResponse | Awaitable[ProduceResponse | None] | None:
    if request.transactional_id is None:
        return _append_all(_Job(broker, context, request, None, verdicts), request)
    return _produce_in_transaction(broker, context, request, request.transactional_id, verdicts)


async def _produce_when_checked(
    broker: Broker, context: RequestContext, request: ProduceRequest, verdicts: Awaitable[Verdicts]
) -> ProduceResponse | None:
    response = _produce_checked(broker, context, request, await verdicts)
    return response if response is None or isinstance(response, ProduceResponse) else await response


def _may_write_in_transaction(broker: Broker, context: RequestContext, transactional_id: str | None) -> bool:
    """A transactional batch without an id is refused also where everything is allowed (CVE-2018-17196)."""
    return transactional_id is not None and broker.authorizer.is_allowed(
        context, Operation.WRITE, ResourceType.TRANSACTIONAL_ID, transactional_id
    )


def _refuse_all(request: ProduceRequest, code: ErrorCode) -> ProduceResponse:
    """Nothing is appended, also not what would be allowed."""
    if request.acks == 0:
        raise UnanswerableError("produce without acks", "a produce request with acks=0 failed")
    return ProduceResponse(
        responses=[
            TopicProduceResponse(
                name=topic.name,
                topic_id=topic.topic_id,
                partition_responses=[_error(data.index, code) for data in topic.partition_data],
            )
            for topic in request.topic_data
        ]
    )


async def _produce_in_pieces(
    broker: Broker, context: RequestContext, request: ProduceRequest
) -> ProduceResponse | None:
    """As if the client had sent several requests: what is asked and appended in one turn stays in one turn."""
    responses: list[TopicProduceResponse] = []
    async for piece in broker.slices.each(_pieces(request)):
        answer = produce(broker, context, piece)
        response = answer if answer is None or isinstance(answer, ProduceResponse) else await answer
        for topic in () if response is None else response.responses:
            if responses and (responses[-1].name, responses[-1].topic_id) == (topic.name, topic.topic_id):
                responses[-1].partition_responses += topic.partition_responses
            else:
                responses.append(topic)
    return None if request.acks == 0 else name_leaders(broker, context, ProduceResponse(responses=responses))


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
        if job.failed:  # the only sign that a client without acknowledgements can see
            raise UnanswerableError("produce without acks", "a produce request with acks=0 failed")
        return None
    if job.to_flush or job.to_replicate:
        return Settling(_respond_when_safe(job, response))
    return name_leaders(job.broker, job.context, response) if job.failed else response


class _Job:
    """What all partitions of one request share, and what became of them together."""

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
        broker: Broker,
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
        # What was found out about schemas, for partitions of topics that ask for it.
        self.verdicts = verdicts
        self.now_ms = broker.clock.now_ms()
        self.transaction_version = transaction_version
        self.appended: list[tuple[Partition, PartitionProduceResponse]] = []
        self.to_flush: list[Partition] = []  # must be on the disk before the answers go out
        # What must be on all in-sync replicas before.
        self.to_replicate: list[tuple[Partition, PartitionProduceResponse, Awaitable[ErrorCode]]] = []
        self.failed = False


# ----------------------------------------------------------------------------------------------- transactions


def _produce_in_transaction(
    broker: Broker, context: RequestContext, request: ProduceRequest, transactional_id: str, verdicts: Verdicts
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
    broker: Broker, context: RequestContext, request: ProduceRequest, transactional_id: str
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
            if partition is not None and partition.is_leader:  # else the append refuses it
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
    return admit(broker, asked)


# ----------------------------------------------------------------------------------------------- partitions


def _produce_topic(job: _Job, topic: TopicProduceData) -> TopicProduceResponse:
    name: str | None = topic.name
    if job.context.api_version >= FIRST_VERSION_WITH_TOPIC_IDS:
        name = job.broker.partitions.topic_name(topic.topic_id)
    refusal = _refuse_topic(job.broker, job.context, name, job.acks)
    if refusal is not None or name is None:
        code, message = refusal or (ErrorCode.UNKNOWN_TOPIC_ID, None)
        job.failed = True
        answers = [_error(data.index, code, message) for data in topic.partition_data]
    else:
        answers = [_produce_partition(job, name, topic, data) for data in topic.partition_data]
    if job.failed:
        for data, answer in zip(topic.partition_data, answers, strict=True):
            if answer.error_code:
                key = topic.name or topic.topic_id
                note_refusal(job.broker, job.context, key, data.index, data.records, answer.error_code)
    return TopicProduceResponse(name=topic.name, topic_id=topic.topic_id, partition_responses=answers)


def _refuse_topic(
    broker: Broker, context: RequestContext, name: str | None, acks: int
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


def _refuse_forgery(broker: Broker, context: RequestContext, name: str) -> tuple[ErrorCode, str]:
    """Whatever rights the client has, so the authorizer does not know of it."""
    rule = f"only brokers write to {name}"
    who, where = str(context.principal), context.client_host
    denial = AuditEvent(Kind.DENIAL, "Produce", False, who, where, context.client_id, f"Topic:{name}", "Write", rule)
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
        return _name_leader(job.broker, name, _error(data.index, code))
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
        return refuse_append(job.broker, partition, data.index, error, data.records or b"")
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
    if partition.topic_partition not in job.verdicts:  # the topic asks for it since a moment ago, or this broker leads
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


def _count_failure(metrics: TopicMetrics, error: ApiError, records: Buffer) -> None:
    metrics.failed_produce_requests += 1
    if error.code == ErrorCode.MESSAGE_TOO_LARGE:
        metrics.bytes_rejected += len(records)
    elif error.code == ErrorCode.CORRUPT_MESSAGE:
        if records[MAGIC_POSITION] == MAGIC:
            metrics.invalid_crc_records += 1
        else:
            metrics.invalid_magic_records += 1
    elif error.code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER:
        metrics.invalid_sequence_records += 1
    if not isinstance(error, BadSchemasError):
        metrics.no_key_compacted_records += len(error.record_errors)


def refuse_append(
    broker: Broker, partition: Partition, index: int, error: ApiError, records: Buffer
) -> PartitionProduceResponse:
    """Counts an append that the partition refused, and answers it."""
    _count_failure(partition.metrics, error, records)
    answer = _error(index, error.code, error.message)
    answer.log_start_offset = partition.log_start_offset
    answer.record_errors = [
        BatchIndexAndErrorMessage(batch_index=record, batch_index_error_message=text)
        for record, text in error.record_errors
    ]
    return _name_leader(broker, partition.topic_partition.topic, answer)


def note_refusal(
    broker: Broker, context: RequestContext, topic: TopicId | str, index: int, records: Buffer | None, code: int
) -> None:
    """What this client's producer has in flight behind the batch is not to be out of order."""
    refused = context.session.refused_writes
    if refused is None:
        refused = context.session.refused_writes = RefusedWrites()
    refused.note(topic, index, records, code, broker.clock.monotonic_ms())


def _error(index: int, code: ErrorCode, message: str | None = None) -> PartitionProduceResponse:
    return PartitionProduceResponse(
        index=index, error_code=code, base_offset=-1, log_start_offset=-1, error_message=message
    )


# ----------------------------------------------------------------------------------------------- responses


async def _respond_when_safe(job: _Job, response: ProduceResponse) -> ProduceResponse:
    """The acknowledgement waits until what was appended is on the disk, where flush.messages was reached, and on all
    in-sync replicas, with acks=all. A batch that the disk may have lost is answered like one that could not be written:
    without an offset.
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
            _name_leader(broker, partition.topic_partition.topic, answer)
            partition.metrics.failed_produce_requests += 1
    return name_leaders(broker, job.context, response)


def _fail(answer: PartitionProduceResponse, code: ErrorCode) -> None:
    answer.error_code, answer.base_offset, answer.log_start_offset = code, -1, -1
    answer.log_append_time_ms = -1


# ----------------------------------------------------------------------------------------------- leaders


def _name_leader(broker: Broker, topic: str, answer: PartitionProduceResponse) -> PartitionProduceResponse:
    if answer.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER:
        leader = current_leader(broker, topic, answer.index)
        if leader is not None:
            answer.current_leader = LeaderIdAndEpoch(leader_id=leader[0], leader_epoch=leader[1])
    return answer


def name_leaders(broker: Broker, context: RequestContext, response: ProduceResponse) -> ProduceResponse:
    """Where to find the leaders that the answers name."""
    leaders = [
        answer.current_leader.leader_id
        for topic in response.responses
        for answer in topic.partition_responses
        if answer.current_leader is not None
    ]
    if leaders:
        response.node_endpoints = [
            NodeEndpoint(node_id=node.node_id, host=node.host, port=node.port, rack=node.rack)
            for node in leader_nodes(broker, context.listener, leaders)
        ]
    return response
