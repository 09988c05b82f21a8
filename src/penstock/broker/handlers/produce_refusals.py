"""Answers that refuse produce requests. A refusal counts in the metrics, marks the producer's next batches, and names
the leader where another broker leads.

`produce` and its shortcut, `produce_single`, share these answers.
"""

from __future__ import annotations

from penstock.broker.handlers.current_leaders import KnownLeaders, current_leader, leader_nodes
from penstock.broker.partitions.partition import Partition
from penstock.broker.schema_checks.verdicts import BadSchemasError
from penstock.broker.session import RequestContext
from penstock.core.metrics.counters import TopicMetrics
from penstock.core.types import TopicId
from penstock.log.state.refused_writes import RefusedWrites
from penstock.protocol.batch import MAGIC, MAGIC_POSITION, TRANSACTIONAL_FLAG
from penstock.protocol.compression import Codec
from penstock.protocol.errors import ApiError, ErrorCode
from penstock.protocol.message import Buffer
from penstock.protocol.messages.produce import (
    BatchIndexAndErrorMessage,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionProduceResponse,
    ProduceResponse,
)

# Flags of batches that need a further check: transactional batches and zstd.
SPECIAL_FLAGS = TRANSACTIONAL_FLAG | Codec.ZSTD


def refuse_append(
    leaders: KnownLeaders, partition: Partition, index: int, error: ApiError, records: Buffer
) -> PartitionProduceResponse:
    """Counts an append that the partition refused, and makes the answer."""
    _count_failure(partition.metrics, error, records)
    answer = refusal(index, error.code, error.message)
    answer.log_start_offset = partition.log_start_offset
    answer.record_errors = [
        BatchIndexAndErrorMessage(batch_index=record, batch_index_error_message=text)
        for record, text in error.record_errors
    ]
    return name_leader(leaders, partition.topic_partition.topic, answer)


def note_refusal(
    context: RequestContext, topic: TopicId | str, index: int, records: Buffer | None, code: int, now_ms: int
) -> None:
    """Remembers the refusal, so that this producer's batches in flight behind it do not fail as out of order."""
    refused = context.session.refused_writes
    if refused is None:
        refused = context.session.refused_writes = RefusedWrites()
    refused.note(topic, index, records, code, now_ms)


def refusal(index: int, code: ErrorCode, message: str | None = None) -> PartitionProduceResponse:
    return PartitionProduceResponse(
        index=index, error_code=code, base_offset=-1, log_start_offset=-1, error_message=message
    )


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


def name_leader(leaders: KnownLeaders, topic: str, answer: PartitionProduceResponse) -> PartitionProduceResponse:
    if answer.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER:
        leader = current_leader(leaders, topic, answer.index)
        if leader is not None:
            answer.current_leader = LeaderIdAndEpoch(leader_id=leader[0], leader_epoch=leader[1])
    return answer


def name_leaders(leaders: KnownLeaders, context: RequestContext, response: ProduceResponse) -> ProduceResponse:
    """Adds the endpoints of the leaders that the answers name."""
    named = [
        answer.current_leader.leader_id
        for topic in response.responses
        for answer in topic.partition_responses
        if answer.current_leader is not None
    ]
    if named:
        response.node_endpoints = [
            NodeEndpoint(node_id=node.node_id, host=node.host, port=node.port, rack=node.rack)
            for node in leader_nodes(leaders, context.listener, named)
        ]
    return response
