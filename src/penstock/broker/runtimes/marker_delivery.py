"""Sees to it that every marker of a decided transaction is written, durably, to every partition that took part.

Partitions that this broker leads are written to at once, others by their leaders (`remote_markers`). A partition that
cannot take its marker now is tried again until it does, or until the coordinator's partition is no longer ours; its
leader is looked up each time. What is written is reported, so that the transaction counts as complete. So it is with an
error that nobody foresaw: it is logged, and the markers are tried again. A second marker is harmless, and a transaction
without its markers would hang for ever.

A transaction may have thousands of partitions. Each turn of the loop writes some of their markers.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Coroutine
from typing import Any

from penstock.broker.partitions.flusher import Flusher
from penstock.broker.partitions.settling import settle
from penstock.broker.peers.asking import Ask
from penstock.broker.runtimes.remote_markers import Errors, RemoteMarkers, Sent
from penstock.broker.runtimes.transaction_markers import MarkerWriter, WrittenMarkers
from penstock.broker.slices import pieces
from penstock.cluster.image import NO_LEADER
from penstock.core.types import TopicPartition
from penstock.protocol.errors import ErrorCode
from penstock.transactions.outcome import Markers

# A partition that does not take its marker is mostly one without a leader, whose coordinator of groups is loading, or
# that comes back with its disk: soon at first, then rarely enough not to matter. Its producer waits for the last retry,
# too, and to be refused costs 5 us.
_FIRST_RETRY_MS = 100
_LAST_RETRY_MS = 1_000
# How long a marker may wait for its replicas before it is written again: Kafka's request.timeout.ms.
SETTLE_TIMEOUT_MS = 30_000
# The same where another broker asks, for markers or whether a producer may write. It has one request under way, and all
# other transactions wait for the answer: a replica that hung held them up for 30 s.
ANSWER_TIMEOUT_MS = 1_000
# A marker takes some 60 us: 3 ms in all.
MARKERS_PER_TURN = 50
# To decide on a transaction takes some 0.7 us for each of its partitions.
_MANY_MARKERS = 1_000
_FAILED = "markers of transactions could not be written, and are tried again"


class MarkerDelivery:
    def __init__(
        self,
        writer: MarkerWriter,
        flusher: Flusher,
        begin: Callable[[Coroutine[Any, Any, None]], None],
        report: Callable[[Markers], None],
        is_wanted: Callable[[Markers], bool],
        ask: Ask,
    ) -> None:
        """`begin` runs what has to wait; `report` hears which markers are written, some partitions at a time;
        `is_wanted` says whether the coordinator that decided is still the coordinator.
        """
        self.writer = writer
        self._is_wanted = is_wanted
        self._remote = RemoteMarkers(ask, begin, self._on_answer, self._note_failure)
        self._flusher = flusher
        self._begin = begin
        self._report = report
        self._retries: dict[Markers, asyncio.TimerHandle] = {}
        self._later: deque[tuple[Markers, int]] = deque()  # with the pause before a retry; for the next turns
        self._next_turn: asyncio.Handle | None = None

    @property
    def waiting_count(self) -> int:
        """Partitions that have not taken their marker yet."""
        waiting = (*self._retries, *(markers for markers, _ in self._later))
        return sum(len(markers.partitions) for markers in waiting) + self._remote.waiting_count

    def deliver(self, markers: Markers, retry_ms: int = _FIRST_RETRY_MS) -> None:
        """Some markers in this turn of the loop, the others in the turns after it. None in this turn, if there are so
        many that the decision has used the turn up.
        """
        is_turn_used_up = len(markers.partitions) > _MANY_MARKERS
        for index, piece in enumerate(pieces(markers.partitions, MARKERS_PER_TURN)):
            some = markers._replace(partitions=tuple(piece))
            if index or is_turn_used_up:
                self._put_off(some, retry_ms)
        if not is_turn_used_up:
            self._deliver(markers._replace(partitions=markers.partitions[:MARKERS_PER_TURN]), retry_ms)

    def _put_off(self, markers: Markers, retry_ms: int) -> None:
        self._later.append((markers, retry_ms))
        if self._next_turn is None:
            self._next_turn = asyncio.get_running_loop().call_soon(self._go_on)

    def _go_on(self) -> None:
        markers, retry_ms = self._later.popleft()
        self._next_turn = asyncio.get_running_loop().call_soon(self._go_on) if self._later else None
        self._deliver(markers, retry_ms)

    def _deliver(self, markers: Markers, retry_ms: int) -> None:
        if not self._is_wanted(markers):
            return
        try:
            self._write_or_send(markers, retry_ms)
        except Exception as error:  # noqa: BLE001  # see above
            self._note_failure(error)
            self._retry_later(markers, retry_ms)

    def _note_failure(self, error: Exception) -> None:
        fields = {"reason": str(error) or repr(error)}
        self.writer.limited_log.once_per("failure", logging.ERROR, _FAILED, fields, error)

    def _write_or_send(self, markers: Markers, retry_ms: int) -> None:
        leaders = self.writer.leaders
        elsewhere: dict[int, list[TopicPartition]] = {}
        here = []
        for partition in markers.partitions:
            leader = leaders.find(partition)
            if leader is None or leader == leaders.node_id:
                here.append(partition)
            else:
                elsewhere.setdefault(leader, []).append(partition)
        if here or not markers.partitions:
            self._write_here(markers._replace(partitions=tuple(here)), retry_ms)
        for leader, partitions in elsewhere.items():
            theirs = markers._replace(partitions=tuple(partitions))
            if leader == NO_LEADER:
                self._retry_later(theirs, retry_ms)
            else:
                self._remote.send(leader, Sent(theirs, retry_ms))

    def _write_here(self, markers: Markers, retry_ms: int) -> None:
        written = self.writer.write(markers)
        if written.left:
            self._retry_later(markers._replace(partitions=tuple(written.left)), retry_ms)
        if written.to_settle:
            self._begin(self._report_when_durable(markers, written, retry_ms))
        elif written.done or not markers.partitions:
            self._report(markers._replace(partitions=tuple(written.done)))

    def _on_answer(self, sent: Sent, errors: Errors) -> None:
        """Of another broker. Without an answer its partitions are tried again."""
        try:
            self._take_answer(sent.markers, errors, sent.retry_ms)
        except Exception as error:  # noqa: BLE001  # see above
            self._note_failure(error)
            self._retry_later(sent.markers, sent.retry_ms)

    def _take_answer(self, markers: Markers, errors: Errors, retry_ms: int) -> None:
        done: list[TopicPartition] = []
        left: list[TopicPartition] = []
        for partition in markers.partitions:
            code = errors.get(partition, ErrorCode.NETWORK_EXCEPTION)
            is_done = not code or self.writer.is_settled(partition, code, markers)
            (done if is_done else left).append(partition)
        if done:
            self._report(markers._replace(partitions=tuple(done)))
        if left:
            self._retry_later(markers._replace(partitions=tuple(left)), retry_ms)

    def _retry_later(self, markers: Markers, retry_ms: int) -> None:
        if self._is_wanted(markers):
            loop, longer_ms = asyncio.get_running_loop(), min(retry_ms * 2, _LAST_RETRY_MS)
            self._retries[markers] = loop.call_later(retry_ms / 1000, self._retry, markers, longer_ms)

    def look_again(self) -> None:
        """Partitions have other leaders: nobody waits for the end of a pause that was meant for the former ones."""
        waiting, self._retries = self._retries, {}
        for markers, timer in waiting.items():
            timer.cancel()
            self._put_off(markers, _FIRST_RETRY_MS)

    def _retry(self, markers: Markers, retry_ms: int) -> None:
        if self._retries.pop(markers, None) is not None:
            self._put_off(markers, retry_ms)  # many timers may end in one turn

    async def _report_when_durable(self, markers: Markers, written: WrittenMarkers, retry_ms: int) -> None:
        """The transaction must not count as complete while a power cut or a new leader could take a marker away."""
        try:
            errors = await settle(self._flusher, written.to_settle, SETTLE_TIMEOUT_MS)
            failed = {partition.topic_partition for partition in errors}
            done = [partition for partition in written.done if partition not in failed]
            if done:
                self._report(markers._replace(partitions=tuple(done)))
        except Exception as error:  # noqa: BLE001  # see above
            self._note_failure(error)
            failed = set(written.done)
        if failed:
            self._retry_later(markers._replace(partitions=tuple(sorted(failed))), retry_ms)

    def forget(self, state_partition: int) -> None:
        """The transactions of this partition are another coordinator's, which asks for their markers anew."""
        self._remote.forget(state_partition)
        for markers in [each for each in self._retries if each.state_partition == state_partition]:
            self._retries.pop(markers).cancel()
        self._later = deque(each for each in self._later if each[0].state_partition != state_partition)
        if not self._later:
            self._cancel_turn()

    def forget_all(self) -> None:
        for timer in self._retries.values():
            timer.cancel()
        self._retries.clear()
        self._later.clear()
        self._cancel_turn()

    def _cancel_turn(self) -> None:
        if self._next_turn is not None:
            self._next_turn.cancel()
            self._next_turn = None
