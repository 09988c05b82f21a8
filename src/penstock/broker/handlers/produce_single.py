"""The shortcut for a produce request with one partition: from the frame to the log and back without message objects.

For an unusual request the shortcut returns None before any effect, and `produce` serves the request. This module
answers a refused append itself, by the general codec, in the words of `produce`.

The ready-made answers belong to partitions: a topic that does not exist has none, whatever clients send.
"""

from __future__ import annotations

from typing import Protocol

from penstock.broker.authorizer import Authorizer, Operation, ResourceType
from penstock.broker.handlers.current_leaders import KnownLeaders
from penstock.broker.handlers.produce_refusals import SPECIAL_FLAGS, name_leaders, note_refusal, refuse_append
from penstock.broker.partitions.partition import Partition
from penstock.broker.quotas.new_producers import NewProducers, is_new
from penstock.broker.session import RequestContext
from penstock.core.clock import Clock
from penstock.protocol.batch import FLAGS_POSITION, HEADER_SIZE, read_batch_size
from penstock.protocol.errors import ApiError
from penstock.protocol.message import Buffer
from penstock.protocol.messages.produce import ProduceResponse, TopicProduceResponse
from penstock.protocol.single_produce import LAST_VERSION, AnswerTemplate, parse_single_produce
from penstock.replication.in_sync import ALL_REPLICAS

_WAITED_FOR = (-1, 1)
_WRITE, _TOPIC = Operation.WRITE, ResourceType.TOPIC  # a lookup of an enum's member costs a call


class HostedPartitions(KnownLeaders, Protocol):
    def find(self, topic: str, partition: int) -> Partition | None: ...


class Quotas(Protocol):
    @property
    def new_producers(self) -> NewProducers: ...


class SingleProducePort(Protocol):
    """The parts of the broker that the shortcut uses. The shortcut loads nothing else of the broker; `tools/tidy.py`
    counts.
    """

    @property
    def authorizer(self) -> Authorizer: ...

    @property
    def clock(self) -> Clock: ...

    @property
    def partitions(self) -> HostedPartitions: ...

    @property
    def quotas(self) -> Quotas: ...


def produce_single(
    port: SingleProducePort, context: RequestContext, frame: Buffer, position: int, correlation_id: int
) -> bytearray | ProduceResponse | None:
    """Appends the one batch of versions 3 to 12. Later versions name topics by id and take the usual way.

    Costs about 6.5 us, 3.5 of them in the log; the usual way costs 25. Bench: one record at a time; small requests.
    """
    version = context.api_version
    if version > LAST_VERSION:
        return None
    request = parse_single_produce(frame, version, position)
    if request is None:
        return None
    topic, index, acks, records = request
    partition = port.partitions.find(topic, index)
    if partition is None or partition.is_internal or partition.may_wait or acks not in _WAITED_FOR:
        return None
    refused = context.session.refused_writes
    if refused is not None and refused.kept:
        return None  # a batch before this one may be missing
    if partition.leading is not None and acks == ALL_REPLICAS:
        return None  # the answer has to wait for the followers
    size = len(records)
    if size < HEADER_SIZE or records[FLAGS_POSITION] & SPECIAL_FLAGS or read_batch_size(records) != size:
        return None
    new_producers = port.quotas.new_producers
    if new_producers.is_owed and is_new(partition.log.producers, records):
        return None  # a quota may delay the user
    if not port.authorizer.is_allowed(context, _WRITE, _TOPIC, topic):
        return None
    metrics = partition.metrics
    metrics.produce_requests += 1
    try:
        base_offset, last_offset, append_time_ms, _, _, log_start, is_first_of_producer = partition.append(
            records, acks, port.clock.now_ms()
        )
    except ApiError as error:
        note_refusal(context, topic, index, records, error.code, port.clock.monotonic_ms())
        answer = refuse_append(port.partitions, partition, index, error, records)
        response = ProduceResponse(responses=[TopicProduceResponse(name=topic, partition_responses=[answer])])
        return name_leaders(port.partitions, context, response)
    if is_first_of_producer:
        new_producers.charge(context)
    metrics.bytes_in += size
    metrics.messages_in += last_offset - base_offset + 1
    template = partition.produce_answers.get(version)
    if template is None:
        template = partition.produce_answers[version] = AnswerTemplate(topic, version)
    return template.fill(correlation_id, index, base_offset, append_time_ms, log_start)
