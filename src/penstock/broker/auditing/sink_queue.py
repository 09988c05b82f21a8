"""A bounded queue with one writer, between the loop and a sink. The queue never lets the loop wait.

The writer retries a failed sink until the sink works. Meanwhile the queue fills; events that do not fit are dropped and
counted, and their numbers are missing in the trail for ever.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

from penstock.core.metrics.counters import AuditMetrics
from penstock.security.audit.cloud_events import Numbered

logger = logging.getLogger(__name__)

# The number of events that one write brings to disk.
_BATCH = 500
_RETRY_S = 1.0
# The log has a line for the first of consecutive failures, and then one per minute.
_FAILURES_PER_LINE = 60


class Sink(Protocol):
    @property
    def name(self) -> str: ...

    async def write(self, events: Sequence[Numbered]) -> None:
        """Writes all events or raises. Waits for disks and brokers outside of the loop."""
        ...

    def close(self) -> None:
        """Ends the sink: no write follows."""
        ...


class SinkQueue:
    def __init__(self, sink: Sink, most: int, metrics: AuditMetrics, reserve: Callable[[int], Awaitable[None]]) -> None:
        """`reserve` makes a number unusable for later events, before the sink gets the number."""
        self._sink = sink
        self._most = most
        self._metrics = metrics
        self._reserve = reserve
        self._events: deque[Numbered] = deque()
        self._arrived = asyncio.Event()
        self._is_ending = False
        self._task: asyncio.Task[None] | None = None

    def __len__(self) -> int:
        return len(self._events)

    @property
    def is_full(self) -> bool:
        return len(self._events) >= self._most

    def put(self, numbered: Numbered) -> None:
        if self.is_full:
            self._metrics.count_dropped(self._sink.name)
            return
        self._events.append(numbered)
        self._arrived.set()

    def start(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._run(), name=f"audit {self._sink.name}")

    async def stop(self, patience_s: float) -> bool:
        """Writes the queued events, as long as the patience lasts. False where events are left; these are lost."""
        self._is_ending = True
        self._arrived.set()
        if self._task is not None:
            await asyncio.wait((self._task,), timeout=patience_s)
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        left = len(self._events)
        if not left:  # otherwise a thread may still be writing
            self._sink.close()
        else:
            self._metrics.count_dropped(self._sink.name, left)
            logger.error(
                "audit events are lost: the sink did not take them", extra={"sink": self._sink.name, "events": left}
            )
        return not left

    async def _run(self) -> None:
        failures = 0
        while self._events or not self._is_ending:
            if not self._events:
                self._arrived.clear()
                await self._arrived.wait()
                continue
            batch = [self._events[index] for index in range(min(len(self._events), _BATCH))]
            try:
                await self._reserve(batch[-1].number)
                await self._sink.write(batch)
            except Exception as error:  # noqa: BLE001  # the writer's supervisor: logged, counted, tried again
                self._metrics.failures += 1
                if failures % _FAILURES_PER_LINE == 0:
                    fields = {"sink": self._sink.name, "waiting": len(self._events), "reason": str(error)}
                    logger.error("the audit trail cannot be written and will be tried again", extra=fields)
                failures += 1
                await asyncio.sleep(_RETRY_S)
                continue
            failures = 0
            for _ in batch:
                self._events.popleft()
