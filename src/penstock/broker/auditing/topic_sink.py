"""The trail in the topic `__penstock_audit`, which only brokers write.

A broker writes to a partition that it leads, so that its trail does not depend on the network. The broker searches from
the partition with its own number on, so that the brokers spread. A broker that leads no partition sends its events to
the leader of the first. An event may appear twice where the answer to a write was lost: its number shows that.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from penstock.broker.partitions.durability_wait import Appended, settle
from penstock.broker.partitions.partition import Partition
from penstock.core.internal_topics import AUDIT
from penstock.core.types import TopicPartition
from penstock.log.state.origin import Origin
from penstock.protocol.errors import ApiError, ErrorCode
from penstock.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from penstock.protocol.records import Record, build_batch
from penstock.replication.in_sync import ALL_REPLICAS
from penstock.security.audit.cloud_events import CONTENT_TYPE, NO_CHAIN, Numbered, encode

if TYPE_CHECKING:
    from penstock.broker.broker import Broker

# Half of a topic's default max.message.bytes.
_BATCH_BYTES = 512 * 1024
_TIMEOUT_MS = 10_000
# A channel apart from requests for which other work waits.
_CHANNEL = "audit"
_HEADERS = (("content-type", CONTENT_TYPE.encode()),)


class TopicSink:
    name = "topic"

    def __init__(self, broker: Broker, source: str) -> None:
        self._broker = broker
        self._source = source
        self._chain = NO_CHAIN
        self._last = 0  # the number of the last event in the topic

    async def write(self, events: Sequence[Numbered]) -> None:
        for piece, chain in await asyncio.to_thread(self._encode, events):
            await self._append(build_batch(piece))
            self._last = int(piece[-1].key or 0)
            self._chain = chain

    def close(self) -> None:
        """Nothing to close: the broker closes its own connections."""

    def _encode(self, events: Sequence[Numbered]) -> list[tuple[list[Record], str]]:
        return list(_split(self._records(events)))

    def _records(self, events: Sequence[Numbered]) -> Iterator[tuple[Record, str]]:
        chain = self._chain
        for numbered in events:
            if numbered.number > self._last:
                line, chain = encode(numbered, self._source, chain)
                yield Record(str(numbered.number).encode(), line, _HEADERS, numbered.time_ms), chain

    async def _append(self, batch: bytes) -> None:
        """Raises ApiError or PeerUnavailableError."""
        broker = self._broker
        await broker.topic_creation.ensure(AUDIT)
        topic = broker.metadata.image.topics.get(AUDIT)
        if topic is None:
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"{AUDIT} could not be created yet")
        count = len(topic.partitions)
        indexes = [(broker.node_id + step) % count for step in range(count)]
        for index in indexes:
            partition = broker.partitions.find(AUDIT, index)
            if partition is not None and partition.is_leader:
                await self._append_here(partition, batch)
                return
        await self._append_there(indexes[0], batch)

    async def _append_here(self, partition: Partition, batch: bytes) -> None:
        partition.append(batch, ALL_REPLICAS, self._broker.clock.now_ms(), Origin.COORDINATOR)
        errors = await settle(self._broker.flusher, (Appended.now(partition),), _TIMEOUT_MS)
        for code in errors.values():
            raise ApiError(code)

    async def _append_there(self, index: int, batch: bytes) -> None:
        leader = self._broker.metadata.find_leader(TopicPartition(AUDIT, index))
        if leader is None or leader < 0:
            raise ApiError(ErrorCode.LEADER_NOT_AVAILABLE, f"{AUDIT} has no leader")
        data = TopicProduceData(
            name=AUDIT,
            topic_id=self._broker.metadata.image.topics[AUDIT].topic_id,
            partition_data=[PartitionProduceData(index=index, records=batch)],
        )
        request = ProduceRequest(acks=ALL_REPLICAS, timeout_ms=_TIMEOUT_MS, topic_data=[data])
        response = await self._broker.ask(leader, request, timeout_s=_TIMEOUT_MS / 500, channel=_CHANNEL)
        for topic in response.responses:
            for answer in topic.partition_responses:
                if answer.error_code:
                    raise ApiError(ErrorCode(answer.error_code), answer.error_message)


def _split(records: Iterator[tuple[Record, str]]) -> Iterator[tuple[list[Record], str]]:
    piece: list[Record] = []
    size, last = 0, NO_CHAIN
    for record, chain in records:
        length = len(record.value or b"")
        if piece and size + length > _BATCH_BYTES:
            yield piece, last
            piece, size = [], 0
        piece.append(record)
        size, last = size + length, chain
    if piece:
        yield piece, last
