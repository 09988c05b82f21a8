"""The interface of a machine: the states that it keeps for a key, and its rows for a batch's rows of that key.

A machine sees a key's rows of a batch at once, in no particular order, and emits rows as tuples in the order of its
`columns`. It reads the time from the clock that it is given. A machine is pickled and sent to Spark's workers; what it
has to remember is in its states.

Keys and values are JSON text, written and read by Spark: most machines only hand them on, and text crosses between
Spark and Python several times faster than columns do. `values` makes Python's objects of it where a machine needs them.
Text of JSON has no line breaks, so that lines separate the parts of a message.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NamedTuple, Protocol


class MachineRecord(NamedTuple):
    """A row of a frame."""

    side: int  # of two inputs: 0 the left one (the stream), 1 the right one (the table)
    micros: int  # `_timestamp`, in microseconds since 1970
    partition: int
    offset: int
    value: str | None  # None: the record has no value; in a table, the key is deleted


class StateKind(StrEnum):
    VALUE = "value"
    LIST = "list"
    MAP = "map"


@dataclass(frozen=True, slots=True)
class StateSpec:
    """A state of a key. `columns` is the DDL of a value (of an element); `key` is the DDL of a map's key."""

    kind: StateKind
    columns: str
    key: str = ""
    ttl_ms: int | None = None  # after it was last written, by the machine's clock; None: for ever


class TimeMode(StrEnum):
    """The clock of a machine's timers. A time to live needs PROCESSING."""

    NONE = "None"
    EVENT = "EventTime"
    PROCESSING = "ProcessingTime"


class ValueState(Protocol):
    """One row of the columns that were declared, as a tuple."""

    def get(self) -> tuple[Any, ...] | None: ...
    def put(self, value: tuple[Any, ...]) -> None: ...
    def clear(self) -> None: ...


class ListState(Protocol):
    def get(self) -> list[tuple[Any, ...]]: ...
    def append(self, value: tuple[Any, ...]) -> None: ...
    def put(self, values: list[tuple[Any, ...]]) -> None: ...
    def clear(self) -> None: ...


class MapState(Protocol):
    def get(self, key: tuple[Any, ...]) -> tuple[Any, ...] | None: ...
    def put(self, key: tuple[Any, ...], value: tuple[Any, ...]) -> None: ...
    def remove(self, key: tuple[Any, ...]) -> None: ...
    def items(self) -> Iterator[tuple[tuple[Any, ...], tuple[Any, ...]]]: ...
    def clear(self) -> None: ...


class States(Protocol):
    """The states of the key at hand, by name."""

    def value(self, name: str) -> ValueState: ...
    def list(self, name: str) -> ListState: ...
    def map(self, name: str) -> MapState: ...


class Clock(Protocol):
    """The time of a batch. Timers are of the key at hand."""

    @property
    def watermark_ms(self) -> int | None:
        """No window that ends at or before this takes rows. None: there is no watermark, and nothing is late."""

    @property
    def processing_ms(self) -> int:
        """When the batch began, by the clock; of machines in TimeMode.PROCESSING alone."""

    @property
    def is_last(self) -> bool:
        """Whether these are all the rows there will ever be: a batch frame. No timer will ring."""

    def ring(self, at_ms: int) -> None:
        """Call `timer` once the machine's time has reached this."""

    def silence(self, at_ms: int) -> None: ...


class Machine(Protocol):
    @property
    def columns(self) -> str:
        """DDL of what comes out."""

    @property
    def time_mode(self) -> TimeMode: ...

    def states(self) -> Mapping[str, StateSpec]: ...

    def rows(
        self, key: str | None, rows: Iterable[MachineRecord], states: States, clock: Clock
    ) -> Iterator[tuple[Any, ...]]: ...

    def timer(self, key: str | None, at_ms: int, states: States, clock: Clock) -> Iterator[tuple[Any, ...]]: ...
