"""The log of the registry: ordered, with keys, and the last value of a key counts.

The node's log is the topic `_schemas`, written in transactions. `MemoryLog` is a list.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

# Called for every record in the order of the log: key, value (None: the key is gone), offset.
Replay: TypeAlias = Callable[[bytes, bytes | None, int], None]


@dataclass(frozen=True, slots=True)
class LogRecord:
    key: bytes
    # None removes the key.
    value: bytes | None


class Log(Protocol):
    """Writes all records of one call, or none."""

    async def write(self, records: Sequence[LogRecord]) -> None:
        """Returns when the records are committed and were replayed into this instance's state.

        Raises `NotLeaderError` (nothing was written), `StoreError` or `StoreTimeoutError` (unknown).
        """
        ...


class MemoryLog:
    """A log without a broker, for tests and for a registry that forgets."""

    def __init__(self, replay: Replay) -> None:
        self._replay = replay
        self.records: list[LogRecord] = []

    async def write(self, records: Sequence[LogRecord]) -> None:
        for record in records:
            self.records.append(record)
            self._replay(record.key, record.value, len(self.records) - 1)

    def compacted(self) -> list[LogRecord]:
        """A result of the log cleaner: the last value of every key, in its place, without removed keys."""
        last = {record.key: position for position, record in enumerate(self.records)}
        kept = sorted(last.values())
        return [self.records[position] for position in kept if self.records[position].value is not None]
