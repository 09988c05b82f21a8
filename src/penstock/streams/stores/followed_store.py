"""One store's state in memory: how far it was read, how far its changelog goes, and the requests that wait for it.

The state follows the file: it changes when a transaction has ended, on the loop alone.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from penstock.streams.stores.positions import is_reached
from penstock.streams.stores.storage import Applied, ChangelogBatch, Saved

_SUFFIX = "-changelog"
APPLICATION = re.compile(r"[A-Za-z0-9._-]{1,200}")
_TOPIC = re.compile(r"[A-Za-z0-9._-]{1,249}")  # what Kafka allows
# Kafka's default of delete.retention.ms, for brokers that do not return it.
RETENTION_MS = 86_400_000
# Brokers compact a segment some time after it was closed, so that no deletion goes within a minute.
_LEAST_RETENTION_MS = 60_000


def is_topic(name: str) -> bool:
    """Whether brokers could have it."""
    return _TOPIC.fullmatch(name) is not None


def topic_of(application: str, store: str) -> str:
    return f"{application}-{store}{_SUFFIX}"


def store_of(application: str, topic: str) -> str | None:
    """None for a topic that is no changelog of the application."""
    beginning = f"{application}-"
    if not topic.startswith(beginning) or not topic.endswith(_SUFFIX):
        return None
    return topic[len(beginning) : -len(_SUFFIX)] or None


@dataclass(slots=True, eq=False)
class Followed:
    number: int
    name: str
    topic: str
    topic_id: bytes
    position: dict[int, int]
    restoring: set[int]
    rows: int
    skipped: int
    at_end_ms: int  # nothing of the changelog was missing then
    saved_at_end_ms: int
    retention_ms: int = RETENTION_MS
    partitions: int = 0  # that the topic has
    ends: dict[int, int] = field(default_factory=dict)  # behind what is committed, as brokers said last
    applying: set[int] = field(default_factory=set)  # partitions whose records are on their way into the file
    _probes: dict[int, tuple[int, int]] = field(default_factory=dict)  # by partition: an end, and when it was read
    _complete: dict[int, int] = field(default_factory=dict)  # by partition: when nothing was missing
    _waiting: dict[asyncio.Future[None], Callable[[], bool]] = field(default_factory=dict)

    @classmethod
    def of(cls, saved: Saved, topic: str) -> Followed:
        return cls(
            saved.id,
            saved.name,
            topic,
            saved.topic_id,
            dict(saved.position),
            set(saved.restoring),
            saved.rows,
            saved.skipped,
            saved.at_end_ms,
            saved.at_end_ms,
        )

    @property
    def is_ready(self) -> bool:
        """Every partition was read to its end once."""
        return bool(self.position) and not self.restoring

    @property
    def lag(self) -> int | None:
        """In offsets; None while the end of a partition is unknown."""
        if not self.position or self.position.keys() - self.ends.keys():
            return None
        return sum(max(0, self.ends[partition] - offset) for partition, offset in self.position.items())

    @property
    def is_waited_for(self) -> bool:
        return bool(self._waiting)

    def is_outdated(self, now_ms: int) -> bool:
        """True if deletions since the last read may be compacted away, so that no record shows them any more."""
        return bool(self.position) and now_ms - self.at_end_ms > max(self.retention_ms, _LEAST_RETENTION_MS)

    def started_anew(self, starts: Mapping[int, int], rows: int) -> None:
        self.position.update(starts)
        for partition in starts:
            self._probes.pop(partition, None)
        self.restoring.update(starts)
        self.rows = rows

    def applied(self, changes: list[ChangelogBatch], result: Applied) -> None:
        for change in changes:
            self.position[change.partition] = change.next_offset
            if change.is_at_end:
                self.restoring.discard(change.partition)
            self._note_position(change.partition)
        self.rows, self.skipped = result
        for waiter, is_over in self._waiting.items():
            if not waiter.done() and is_over():
                waiter.set_result(None)

    def note_end(self, partition: int, end: int, now_ms: int) -> None:
        """A broker has returned the partition's present end. When the store has come there, it was complete at this
        time, however many records were written since."""
        self.ends[partition] = end
        self._probes.setdefault(partition, (end, now_ms))
        self._note_position(partition)

    def _note_position(self, partition: int) -> None:
        probe = self._probes.get(partition)
        if probe is None or self.position[partition] < probe[0]:
            return
        self._complete[partition] = self._probes.pop(partition)[1]
        if len(self._complete) == len(self.position):
            self.at_end_ms = min(self._complete.values())

    async def wait_for(self, wanted: Mapping[int, int]) -> None:
        """Until the store is ready, and has everything before `wanted`."""

        def is_over() -> bool:
            return self.is_ready and is_reached(self.position, wanted)

        if is_over():
            return
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting[waiter] = is_over
        try:
            await waiter
        finally:
            del self._waiting[waiter]
