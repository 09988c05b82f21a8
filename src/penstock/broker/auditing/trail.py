"""The auditor of a broker: takes events, merges repeats, numbers the rest and gives them to every sink."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence

from penstock.broker.auditing.event_numbers import Numbering
from penstock.broker.auditing.sink_queue import Sink, SinkQueue
from penstock.core.clock import Clock
from penstock.core.config.sections import AuditSection
from penstock.core.metrics.counters import AuditMetrics
from penstock.security.audit.cloud_events import Numbered, bounded
from penstock.security.audit.events import AuditEvent, AuditKind, Detail
from penstock.security.audit.repeats import WINDOW_MS, Merging
from penstock.security.audit.trail_check import STARTED, STOPPED

logger = logging.getLogger(__name__)

# The time that a stopping broker waits for its sinks.
_STOP_PATIENCE_S = 5.0
_EXCLUDABLE = frozenset({AuditKind.READ, AuditKind.WRITE})


class AuditTrail:
    """Takes events from its creation on; `start` gives it its numbers and sinks."""

    def __init__(self, settings: AuditSection, clock: Clock, metrics: AuditMetrics) -> None:
        self._kinds = frozenset(AuditKind(kind) for kind in settings.penstock_audit_kinds)
        self._excluded = frozenset(settings.penstock_audit_excluded_principals)
        self._most = settings.penstock_audit_queue_max_events
        self._may_refuse = settings.penstock_audit_full == "refuse"
        self._clock = clock
        self._metrics = metrics
        self._merging = Merging()
        self._early: list[AuditEvent] = []  # events before the start
        self._queues: list[SinkQueue] = []
        self._numbering: Numbering | None = None
        self._reserving = asyncio.Lock()
        self._minutes: asyncio.Task[None] | None = None

    # -------------------------------------------------------------------------------------------- recording

    @property
    def kinds(self) -> frozenset[AuditKind]:
        return self._kinds

    @property
    def refuses(self) -> bool:
        return self._may_refuse and any(queue.is_full for queue in self._queues)

    def record(self, event: AuditEvent) -> None:
        kind = event.kind
        if kind not in self._kinds or (kind in _EXCLUDABLE and event.principal in self._excluded):
            return
        self._metrics.count(kind)
        if self._merging.is_full:
            self._tell_repeats()
        told = self._merging.add(bounded(event), self._clock.now_ms())
        if told is not None:
            self._tell(told)

    def _tell(self, event: AuditEvent) -> None:
        if self._numbering is None:
            if len(self._early) < self._most:
                self._early.append(event)
            else:
                self._metrics.count_dropped("early")
            return
        numbered = Numbered(self._numbering.take(), self._clock.now_ms(), event)
        for queue in self._queues:
            queue.put(numbered)

    def _tell_repeats(self) -> None:
        for event in self._merging.take_all():
            self._tell(event)

    @property
    def waiting(self) -> int:
        return max((len(queue) for queue in self._queues), default=0)

    # -------------------------------------------------------------------------------------------- its life

    async def start(self, numbering: Numbering, sinks: Sequence[Sink], last_number: int) -> None:
        """`last_number` is the number of the last event in a sink. Raises OSError where the trail cannot reserve a
        number.
        """
        beginning = await asyncio.to_thread(numbering.begin, last_number + 1)
        self._numbering = numbering
        self._queues = [SinkQueue(sink, self._most, self._metrics, self._reserve) for sink in sinks]
        self._tell_about_itself(STARTED, {"clean": beginning.was_clean})
        early, self._early = self._early, []
        for event in early:
            self._tell(event)
        for queue in self._queues:
            queue.start()
        self._minutes = asyncio.get_running_loop().create_task(self._end_minutes(), name="audit minutes")

    async def _end_minutes(self) -> None:
        while True:
            await asyncio.sleep(WINDOW_MS / 1000)
            self._tell_repeats()

    async def _reserve(self, number: int) -> None:
        assert self._numbering is not None
        if self._numbering.is_reserved(number):
            return
        async with self._reserving:
            await asyncio.to_thread(self._numbering.reserve, number)

    async def stop(self) -> None:
        """Stops the trail. Safe to call twice, and on a trail that never started."""
        if self._minutes is None:
            return
        self._minutes.cancel()
        await asyncio.gather(self._minutes, return_exceptions=True)
        self._minutes = None
        self._tell_repeats()
        self._tell_about_itself(STOPPED, {})
        written = await asyncio.gather(*(queue.stop(_STOP_PATIENCE_S) for queue in self._queues))
        if all(written):
            assert self._numbering is not None
            try:
                await asyncio.to_thread(self._numbering.end)
            except OSError as error:  # the next start leaves a gap, as after a kill; the broker has more to close
                logger.error("the end of the audit trail cannot be written down", extra={"reason": str(error)})

    def _tell_about_itself(self, what: str, details: dict[str, Detail]) -> None:
        kinds = ",".join(sorted(self._kinds))
        self._tell(AuditEvent(AuditKind.TRAIL, what, is_allowed=True, details={**details, "kinds": kinds}))
