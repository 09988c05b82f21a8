"""Sends markers to other brokers: WriteTxnMarkers, one request at a time to each broker.

Markers that come during a request wait and go with the next request, so a slow broker gets few requests with many
markers. Answers are passed on unchanged; the caller decides about retries.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, NamedTuple

from penstock.broker.peers.peer_requests import Ask, PeerUnavailableError
from penstock.core.types import TopicPartition
from penstock.protocol.errors import ApiError, ErrorCode
from penstock.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from penstock.transactions.outcome import Markers

# Some 60 ms of the other broker's time, in slices.
_PARTITIONS_PER_REQUEST = 1_000
# The other broker waits for its replicas for up to 1 s. A broker that is silent for longer hangs, or is gone.
_TIMEOUT_SECONDS = 5.0
_CHANNEL = "markers"

Errors = Mapping[TopicPartition, ErrorCode]


class Sent(NamedTuple):
    markers: Markers
    failures: int  # consecutive failed attempts


class RemoteMarkers:
    def __init__(
        self,
        ask: Ask,
        begin: Callable[[Coroutine[Any, Any, None]], None],
        answered: Callable[[Sent, Errors], None],
        failed: Callable[[Exception], None],
    ) -> None:
        """`answered` gets the error of each partition; a partition that is missing there was not answered. `failed`
        gets unforeseen errors, which count as no answer.
        """
        self._ask = ask
        self._begin = begin
        self._answered = answered
        self._failed = failed
        self._queues: dict[int, deque[Sent]] = {}  # by broker; present while a marker is on its way
        self._under_way: dict[int, list[Sent]] = {}

    @property
    def waiting_count(self) -> int:
        waiting = (*self._queues.values(), *self._under_way.values())
        return sum(len(sent.markers.partitions) for each in waiting for sent in each)

    def send(self, node_id: int, sent: Sent) -> None:
        queue = self._queues.get(node_id)
        if queue is not None:
            queue.append(sent)
            return
        self._queues[node_id] = queue = deque((sent,))
        self._begin(self._send_all(node_id, queue))

    async def _send_all(self, node_id: int, queue: deque[Sent]) -> None:
        try:
            while queue:
                some = self._under_way[node_id] = _take(queue)
                errors = await self._write(node_id, some)
                self._under_way[node_id] = []
                for sent in some:
                    keys = {each: (sent.markers.producer_id, each) for each in sent.markers.partitions}
                    self._answered(sent, {each: errors[key] for each, key in keys.items() if key in errors})
        finally:
            del self._queues[node_id]
            self._under_way.pop(node_id, None)

    async def _write(self, node_id: int, some: list[Sent]) -> dict[tuple[int, TopicPartition], ErrorCode]:
        """By producer and partition; empty if there was no answer."""
        request = WriteTxnMarkersRequest(markers=[_encode(sent.markers) for sent in some])
        try:
            response: WriteTxnMarkersResponse = await self._ask(
                node_id, request, timeout_s=_TIMEOUT_SECONDS, channel=_CHANNEL
            )
            return {
                (marker.producer_id, TopicPartition(topic.name, each.partition_index)): ErrorCode(each.error_code)
                for marker in response.markers
                for topic in marker.topics
                for each in topic.partitions
            }
        except (PeerUnavailableError, ApiError):
            return {}
        except Exception as error:  # noqa: BLE001  # otherwise the transactions of all that waits here would hang
            self._failed(error)
            return {}

    def forget(self, state_partition: int) -> None:
        """Requests in flight go on: nobody uses their answers."""
        for queue in self._queues.values():
            kept = [sent for sent in queue if sent.markers.state_partition != state_partition]
            queue.clear()
            queue.extend(kept)


def _take(queue: deque[Sent]) -> list[Sent]:
    some, room = [queue.popleft()], _PARTITIONS_PER_REQUEST
    room -= len(some[0].markers.partitions)
    while queue and len(queue[0].markers.partitions) <= room:
        some.append(queue.popleft())
        room -= len(some[-1].markers.partitions)
    return some


def _encode(markers: Markers) -> WritableTxnMarker:
    topics: dict[str, list[int]] = {}
    for topic, index in markers.partitions:
        topics.setdefault(topic, []).append(index)
    return WritableTxnMarker(
        producer_id=markers.producer_id,
        producer_epoch=markers.producer_epoch,
        transaction_result=markers.is_commit,
        topics=[WritableTxnMarkerTopic(name=name, partition_indexes=indexes) for name, indexes in topics.items()],
        coordinator_epoch=markers.coordinator_epoch,
        transaction_version=markers.transaction_version,
    )
