"""Delivers every marker of a decided transaction, durably, to every partition of the transaction.

Partitions that this broker leads get their markers at once, others by their leaders (`remote_markers`). A partition
that cannot take its marker now is tried again until it does, or until this broker does not lead the coordinator's
partition any more; each attempt looks up the leader. The delivery reports written markers, so that the transaction
counts as complete. An unforeseen error is logged, and the markers are tried again. A second marker is harmless, and a
transaction without its markers would hang for ever.

A transaction may have thousands of partitions. Each turn of the loop writes some of their markers.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Coroutine
from typing import Any

from penstock.broker.partitions.durability_wait import settle
from penstock.broker.partitions.flusher import Flusher
from penstock.broker.peers.peer_requests import Ask
from penstock.broker.runtimes.remote_markers import Errors, RemoteMarkers, Sent
from penstock.broker.runtimes.transaction_markers import MarkerWriter, WrittenMarkers
from penstock.broker.slices import pieces
from penstock.cluster.image import NO_LEADER
from penstock.core.time.backoff import Backoff
from penstock.core.types import TopicPartition
from penstock.protocol.errors import ErrorCode
from penstock.transactions.outcome import Markers

# A partition that does not take its marker mostly has no leader, is a group coordinator's partition that is loading, or
# returns with its disk: the retries come soon at first, then rarely enough not to matter. The producer waits for the
# last retry, too, and a refusal costs 5 us.
_BACKOFF = Backoff(0.1, 1.0)
# The time that a marker may wait for its replicas before it is written again: Kafka's request.timeout.ms.
SETTLE_TIMEOUT_MS = 30_000
# The same where another broker asks, for markers or for a producer's permission to write. The other broker has one
# request in flight, and all other transactions wait for the answer: a hanging replica held them up for 30 s.
ANSWER_TIMEOUT_MS = 1_000
# A marker takes some 60 us: 3 ms in all.
MARKERS_PER_TURN = 50
# The decision on a transaction takes some 0.7 us for each of its partitions.
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
        """`begin` runs coroutines that wait; `report` gets the written markers, some partitions at a time; `is_wanted`
        tells whether the coordinator that decided is still the coordinator.
        """
        self.writer = writer
        self._is_wanted = is_wanted
        self._remote = RemoteMarkers(ask, begin, self._on_answer, self._note_failure)
        self._flusher = flusher
        self._begin = begin
        self._report = report
        self._retries: dict[Markers, asyncio.TimerHandle] = {}
        self._later: deque[tuple[Markers, int]] = deque()  # with the number of failures until now; for the next turns
        self._next_turn: asyncio.Handle | None = None

    @property
    def waiting_count(self) -> int:
        """Partitions that have not taken their marker yet."""
        waiting = (*self._retries, *(markers for markers, _ in self._later))
        return sum(len(markers.partitions) for markers in waiting) + self._remote.waiting_count

    def deliver(self, markers: Markers, failures: int = 0) -> None:
        """Writes some markers in this turn of the loop, the others in the turns after it. None in this turn, if there
        are so many that the decision has used the turn up.
        """
        is_turn_used_up = len(markers.partitions) > _MANY_MARKERS
        for index, piece in enumerate(pieces(markers.partitions, MARKERS_PER_TURN)):
            some = markers._replace(partitions=tuple(piece))
            if index or is_turn_used_up:
                self._put_off(some, failures)
        if not is_turn_used_up:
            self._deliver(markers._replace(partitions=markers.partitions[:MARKERS_PER_TURN]), failures)

    def _put_off(self, markers: Markers, failures: int) -> None:
        self._later.append((markers, failures))
        if self._next_turn is None:
            self._next_turn = asyncio.get_running_loop().call_soon(self._go_on)

    def _go_on(self) -> None:
        markers, failures = self._later.popleft()
        self._next_turn = asyncio.get_running_loop().call_soon(self._go_on) if self._later else None
        self._deliver(markers, failures)

    def _deliver(self, markers: Markers, failures: int) -> None:
        if not self._is_wanted(markers):
            return
        try:
            self._write_or_send(markers, failures)
        except Exception as error:  # noqa: BLE001  # see above
            self._note_failure(error)
            self._retry_later(markers, failures)

    def _note_failure(self, error: Exception) -> None:
        fields = {"reason": str(error) or repr(error)}
        self.writer.limited_log.once_per("failure", logging.ERROR, _FAILED, fields, error)

    def _write_or_send(self, markers: Markers, failures: int) -> None:
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
            self._write_here(markers._replace(partitions=tuple(here)), failures)
        for leader, partitions in elsewhere.items():
            theirs = markers._replace(partitions=tuple(partitions))
            if leader == NO_LEADER:
                self._retry_later(theirs, failures)
            else:
                self._remote.send(leader, Sent(theirs, failures))

    def _write_here(self, markers: Markers, failures: int) -> None:
        written = self.writer.write(markers)
        if written.left:
            self._retry_later(markers._replace(partitions=tuple(written.left)), failures)
        if written.to_settle:
            self._begin(self._report_when_durable(markers, written, failures))
        elif written.done or not markers.partitions:
            self._report(markers._replace(partitions=tuple(written.done)))

    def _on_answer(self, sent: Sent, errors: Errors) -> None:
        """Takes the answer of another broker. Without an answer its partitions are tried again."""
        try:
            self._take_answer(sent.markers, errors, sent.failures)
        except Exception as error:  # noqa: BLE001  # see above
            self._note_failure(error)
            self._retry_later(sent.markers, sent.failures)

    def _take_answer(self, markers: Markers, errors: Errors, failures: int) -> None:
        done: list[TopicPartition] = []
        left: list[TopicPartition] = []
        for partition in markers.partitions:
            code = errors.get(partition, ErrorCode.NETWORK_EXCEPTION)
            is_done = not code or self.writer.is_settled(partition, code, markers)
            (done if is_done else left).append(partition)
        if done:
            self._report(markers._replace(partitions=tuple(done)))
        if left:
            self._retry_later(markers._replace(partitions=tuple(left)), failures)

    def _retry_later(self, markers: Markers, failures: int) -> None:
        if self._is_wanted(markers):
            pause_s = _BACKOFF.pause_s(failures + 1, self.writer.chance)
            loop = asyncio.get_running_loop()
            self._retries[markers] = loop.call_later(pause_s, self._retry, markers, failures + 1)

    def look_again(self) -> None:
        """Partitions have new leaders: a pause that was meant for the former leaders ends at once."""
        waiting, self._retries = self._retries, {}
        for markers, timer in waiting.items():
            timer.cancel()
            self._put_off(markers, 0)

    def _retry(self, markers: Markers, failures: int) -> None:
        if self._retries.pop(markers, None) is not None:
            self._put_off(markers, failures)  # many timers may end in one turn

    async def _report_when_durable(self, markers: Markers, written: WrittenMarkers, failures: int) -> None:
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
            self._retry_later(markers._replace(partitions=tuple(sorted(failed))), failures)

    def forget(self, state_partition: int) -> None:
        """Another coordinator has the transactions of this partition, and asks for their markers again."""
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
