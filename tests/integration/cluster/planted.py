"""A bug that stands in front of a broker, so that the simulation must find it whatever the broker itself does."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace

from penstock.broker.broker import Broker
from penstock.broker.partitions.partition import Partition
from penstock.broker.session import Outcome, Reply, Session, Settling
from penstock.core.types import Buffer
from penstock.protocol.batch import read_header
from penstock.protocol.codec import decode, encode
from penstock.protocol.errors import ErrorCode
from penstock.protocol.framing import RequestHeader, decode_client_id, decode_request_header, encode_response_header
from penstock.protocol.messages.produce import (
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from penstock.server.net.listener import Handle

_LOOK_S = 0.01


def refuse_what_was_appended(find_broker: Callable[[], Broker]) -> Callable[[Handle], Handle]:
    """A leader without a lease tells writers that it does not lead, also those whose records it has appended. And a
    broker does not remember whom it refused: when it takes writes again in the middle of a pipeline, the rest of the
    pipeline is out of order. For that every request seems to come on a connection of its own, and the first new batch
    after a suspension is refused, too: so writes are always taken again in the middle of a pipeline.
    """

    def stand_in_front(handle: Handle) -> Handle:
        late: set[Partition] = set()  # without a lease when they were last asked to write

        def serve(session: Session, frame: Buffer) -> Outcome | Awaitable[Outcome]:
            header = decode_request_header(frame)
            if header.api_key != ProduceRequest.API_KEY:
                return handle(session, frame)
            request = _decode(header, frame)
            partitions = _find(find_broker(), request)
            if _are_suspended(find_broker(), partitions):
                late.update(partitions)
            elif not late.isdisjoint(partitions) and _is_new(partitions, request):
                late.difference_update(partitions)
                return _refuse(header, request)
            reply = handle(replace(session, refused_writes=None), frame)
            if not isinstance(reply, Settling):
                return reply
            return Settling(_settle(find_broker(), partitions, reply.reply, _refuse(header, request)))

        return serve

    return stand_in_front


def _decode(header: RequestHeader, frame: Buffer) -> ProduceRequest:
    _, position = decode_client_id(frame, header.api_version >= ProduceRequest.FLEXIBLE_FROM)
    return decode(ProduceRequest, frame, header.api_version, position)


def _find(broker: Broker, request: ProduceRequest) -> list[Partition]:
    found = [
        broker.partitions.find(topic.name, data.index) for topic in request.topic_data for data in topic.partition_data
    ]
    return [each for each in found if each is not None]


def _is_new(partitions: list[Partition], request: ProduceRequest) -> bool:
    """Whether no batch is a copy of one that its log has."""
    batches = [read_header(data.records or b"") for topic in request.topic_data for data in topic.partition_data]
    return all(
        partition.log.producers.next_sequence(batch.producer_id, batch.producer_epoch) == batch.base_sequence
        for partition, batch in zip(partitions, batches, strict=True)
    )


def _are_suspended(broker: Broker, partitions: list[Partition]) -> bool:
    return any(each.state.leader == broker.node_id and not each.is_leader for each in partitions)


async def _settle(broker: Broker, partitions: list[Partition], reply: Awaitable[Outcome], refusal: Reply) -> Outcome:
    waiting = asyncio.ensure_future(reply)
    try:
        while not waiting.done():
            await asyncio.wait([waiting], timeout=_LOOK_S)
            if _are_suspended(broker, partitions):
                return refusal
        return waiting.result()
    finally:
        waiting.cancel()


def _refuse(header: RequestHeader, request: ProduceRequest) -> Reply:
    code = ErrorCode.NOT_LEADER_OR_FOLLOWER
    response = ProduceResponse(
        responses=[
            TopicProduceResponse(
                name=topic.name,
                partition_responses=[
                    PartitionProduceResponse(index=data.index, error_code=code) for data in topic.partition_data
                ],
            )
            for topic in request.topic_data
        ]
    )
    head = encode_response_header(header.correlation_id, header.api_version >= ProduceResponse.FLEXIBLE_FROM)
    frame = head + encode(response, header.api_version)
    return [len(frame).to_bytes(4, "big") + frame]
