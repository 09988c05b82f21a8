"""Sees to it that every marker of a decided transaction is written, durably, to every partition that took part.

A partition that cannot take its marker now is tried again until it does, or until the coordinator's partition is no
longer ours. What is written is reported, so that the transaction counts as complete.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from penstock.broker.partitions.flusher import Flusher
from penstock.broker.runtimes.transaction_markers import MarkerWriter, WrittenMarkers
from penstock.transactions.outcome import Markers

# A partition that does not take its marker is mostly one that comes back with its disk or after a restart: soon at
# first, then rarely enough not to matter.
_FIRST_RETRY_MS = 100
_LAST_RETRY_MS = 5_000


class MarkerDelivery:
    def __init__(
        self,
        writer: MarkerWriter,
        flusher: Flusher,
        begin: Callable[[Coroutine[Any, Any, None]], None],
        report: Callable[[Markers], None],
    ) -> None:
        """`begin` runs what has to wait; `report` hears which markers are written, some partitions at a time."""
        self.writer = writer
        self._flusher = flusher
        self._begin = begin
        self._report = report
        self._retries: dict[Markers, asyncio.TimerHandle] = {}

    @property
    def waiting_count(self) -> int:
        """Partitions that have not taken their marker yet."""
        return sum(len(markers.partitions) for markers in self._retries)

    def deliver(self, markers: Markers, retry_ms: int = _FIRST_RETRY_MS) -> None:
        written = self.writer.write(markers)
        if written.left:
            left = markers._replace(partitions=tuple(written.left))
            loop = asyncio.get_running_loop()
            self._retries[left] = loop.call_later(retry_ms / 1000, self._retry, left, min(retry_ms * 2, _LAST_RETRY_MS))
        if written.to_flush:
            self._begin(self._report_when_durable(markers, written, retry_ms))
        elif written.done or not markers.partitions:
            self._report(markers._replace(partitions=tuple(written.done)))

    def _retry(self, markers: Markers, retry_ms: int) -> None:
        if self._retries.pop(markers, None) is not None:
            self.deliver(markers, retry_ms)

    async def _report_when_durable(self, markers: Markers, written: WrittenMarkers, retry_ms: int) -> None:
        """The transaction must not count as complete while a power cut could still take a marker away."""
        failed = {partition.topic_partition for partition in await self._flusher.flush(written.to_flush)}
        done = [partition for partition in written.done if partition not in failed]
        if done:
            self._report(markers._replace(partitions=tuple(done)))
        if failed:
            self.deliver(markers._replace(partitions=tuple(sorted(failed))), retry_ms)

    def forget(self) -> None:
        for timer in self._retries.values():
            timer.cancel()
        self._retries.clear()
