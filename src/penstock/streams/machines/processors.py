"""The class that an author writes for `process`: with named states per key, and timers.

class Alerts(Processor):
    columns = "user string, failures bigint"
    failed = value_state("n bigint", ttl="1 hour")

    def process(self, key, row, context):
        n = (self.failed.get() or {"n": 0})["n"] + 1
        self.failed.put(n=n)
        if n == 3:
            yield {"user": key, "failures": n}

There is one object of the class per task; it keeps what it remembers of a key in states. Rows of a key come in order of
their offsets, from several partitions the oldest first. A row is a dict, or an object of the dataclass that the
stream's columns came from; None where the record has no value. The class yields dicts or dataclasses with its columns,
with the key and the time of the row that they were made of, unless `context.row(..., key=, time=)` gives others.

Timers ring by the time of events, once the watermark has reached them, or with time = "processing" by the clock; on a
batch frame each rings once, behind the key's last row. A state with a time to live goes by the clock, so it cannot
stand beside timers that go by the time of events.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar

from penstock.core.time.durations import Duration
from penstock.streams.machines.machine import Clock, MachineRecord, StateKind, States, StateSpec, TimeMode
from penstock.streams.machines.processor_states import StateNames, StateSlot
from penstock.streams.machines.row_order import in_order
from penstock.streams.machines.values import ValueReader, write
from penstock.streams.machines.window_close import MICROS, NO_TIMER
from penstock.streams.topology.durations import duration_ms, positive_ms
from penstock.streams.topology.errors import StreamsError

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Processor:
    """`process` is called for each row, `on_timer` for each timer that rings. Either may return nothing, one row, or
    several (a generator will do)."""

    columns: str | type = ""  # DDL of what comes out, or a dataclass
    time: str = "event"  # what rings timers: "event" or "processing"

    def process(self, key: Any, row: Any, context: ProcessorContext) -> Any:
        raise NotImplementedError

    def on_timer(self, key: Any, at: datetime, context: ProcessorContext) -> Any:
        return None


def value_state(columns: str, *, ttl: Duration | None = None) -> Any:
    """One row per key. `get()` gives a dict or None; `put(n=1)` or `put({"n": 1})`; `clear()`."""
    return StateSlot(StateSpec(StateKind.VALUE, columns, ttl_ms=_ttl_ms(ttl)))


def list_state(columns: str, *, ttl: Duration | None = None) -> Any:
    """Rows per key. `get()` gives a list of dicts; `append(...)`, `put([...])`, `clear()`."""
    return StateSlot(StateSpec(StateKind.LIST, columns, ttl_ms=_ttl_ms(ttl)))


def map_state(key: str, columns: str, *, ttl: Duration | None = None) -> Any:
    """Rows by a key of their own. `key` is DDL: with one column, keys are plain values, with several they are tuples.
    `get(key)`, `put(key, ...)`, `remove(key)`, `items()`, `clear()`."""
    return StateSlot(StateSpec(StateKind.MAP, columns, key=key, ttl_ms=_ttl_ms(ttl)))


def _ttl_ms(ttl: Duration | None) -> int | None:
    return None if ttl is None else positive_ms(ttl, "`ttl` of a state")


@dataclass(frozen=True, slots=True)
class Emitted:
    """A row with a key or a time of its own. Without a value: the record has none."""

    value: Any
    key: Any = None
    has_key: bool = False
    time: datetime | None = None


@dataclass(frozen=True, slots=True)
class Timers:
    """The timers of the present key."""

    _clock: Clock
    _now_ms: int  # what `after` counts from: of events the row's time, else the clock's

    def at(self, when: datetime) -> None:
        self._clock.ring(_millis(when))

    def after(self, duration: Duration) -> datetime:
        """When it will ring: that much after the row's time or, with time = "processing", after now."""
        at_ms = self._now_ms + duration_ms(duration, "`after` of a timer")
        self._clock.ring(at_ms)
        return _moment(at_ms * MICROS)

    def cancel(self, when: datetime) -> None:
        self._clock.silence(_millis(when))


@dataclass(frozen=True, slots=True)
class ProcessorContext:
    time: datetime  # of the row, or what the timer was set for
    partition: int  # of the row's record, or of the last one before the timer; with
    offset: int
    watermark: datetime | None  # None: nothing is late
    _processing_time: datetime | None
    timers: Timers

    @property
    def processing_time(self) -> datetime:
        """When the batch began. Spark keeps it with the batch: one that is repeated sees the same time."""
        if self._processing_time is None:
            raise StreamsError(
                "only a class that goes by the clock has a processing time",
                'Say time = "processing" in the class. What the class does with the clock of a worker would differ if'
                " a batch were repeated.",
            )
        return self._processing_time

    def row(self, value: Any, *, key: Any = ..., time: datetime | None = None) -> Emitted:
        """A row that comes out with another key, of the same type, or another time."""
        return Emitted(value, None if key is ... else key, key is not ..., time)


@dataclass(slots=True)
class _Ringing:
    """A clock that notices the last timer of the key. If that one is cancelled, those before it are forgotten, too:
    they ring, with no position."""

    _clock: Clock
    until_ms: int

    @property
    def watermark_ms(self) -> int | None:
        return self._clock.watermark_ms

    @property
    def processing_ms(self) -> int:
        return self._clock.processing_ms

    @property
    def is_last(self) -> bool:
        return self._clock.is_last

    def ring(self, at_ms: int) -> None:
        self.until_ms = max(self.until_ms, at_ms)
        self._clock.ring(at_ms)

    def silence(self, at_ms: int) -> None:
        if at_ms == self.until_ms:
            self.until_ms = NO_TIMER
        self._clock.silence(at_ms)


@dataclass(frozen=True, slots=True)
class ProcessMachine:
    processor: type[Processor]
    names: tuple[str, ...]  # of the columns that come out
    state_names: Mapping[str, StateNames]
    read_key: ValueReader
    read_row: ValueReader
    make_row: Callable[[Any], Any] | None = None  # of the dict that is read; None: the row is the dict
    node: str = "process"
    # One per task: a worker unpickles the machine for each.
    _made: list[Processor] = field(default_factory=list, compare=False, repr=False)
    columns: ClassVar[str] = "key string, micros bigint, partition int, offset bigint, value string"

    @property
    def time_mode(self) -> TimeMode:
        return time_mode_of(self.processor)

    def states(self) -> Mapping[str, StateSpec]:
        held = {name: slot.spec for name, slot in slots_of(self.processor).items()}
        if self.time_mode is TimeMode.NONE:
            return held
        # What rows have that a timer makes: the position of the last row before. It goes with the last timer.
        return {**held, "_last": StateSpec(StateKind.VALUE, "partition int, offset bigint, until_ms bigint")}

    def rows(
        self, key: str | None, rows: Iterable[MachineRecord], states: States, clock: Clock
    ) -> Iterator[tuple[Any, ...]]:
        processor, of_key = self._processor(states), None if key is None else self.read_key(key)
        position = self._position(states)
        ringing = _Ringing(clock, position[2])
        for row in in_order(rows):
            value = None if row.value is None else self.read_row(row.value)
            if value is not None and self.make_row is not None:
                value = self.make_row(value)
            context = self._context(row.micros, row.partition, row.offset, ringing)
            place = f"key {of_key!r}, partition {row.partition}, offset {row.offset}"
            with self._told("process", place):
                made = processor.process(of_key, value, context)
                yield from self._emitted(made, key, row.micros, row.partition, row.offset)
            position = (row.partition, row.offset, ringing.until_ms)
        self._keep(position, states)

    def timer(self, key: str | None, at_ms: int, states: States, clock: Clock) -> Iterator[tuple[Any, ...]]:
        partition, offset, until_ms = self._position(states)
        ringing = _Ringing(clock, NO_TIMER if at_ms >= until_ms else until_ms)
        processor, of_key = self._processor(states), None if key is None else self.read_key(key)
        context = self._context(at_ms * MICROS, partition, offset, ringing)
        with self._told("on_timer", f"key {of_key!r}, timer of {context.time}"):
            made = processor.on_timer(of_key, context.time, context)
            yield from self._emitted(made, key, at_ms * MICROS, partition, offset)
        self._keep((partition, offset, ringing.until_ms), states)

    def _position(self, states: States) -> tuple[Any, ...]:
        held = None if self.time_mode is TimeMode.NONE else states.value("_last").get()
        return held or (0, 0, NO_TIMER)

    def _keep(self, position: tuple[Any, ...], states: States) -> None:
        if self.time_mode is TimeMode.NONE:
            return
        if position[2] == NO_TIMER:
            states.value("_last").clear()
        else:
            states.value("_last").put(position)

    @contextmanager
    def _told(self, method: str, place: str) -> Iterator[None]:
        """Errors of the class, with the node and the row."""
        try:
            yield
        except Exception as error:  # whatever the class does: its author needs to know where
            where = f"{self.node}: {self.processor.__qualname__}.{method} failed ({place})"
            hint = error.hint if isinstance(error, StreamsError) else ""
            raise StreamsError(f"{where}: {type(error).__name__}: {error}", hint) from error

    def _processor(self, states: States) -> Processor:
        if not self._made:
            self._made.append(self.processor())
        processor = self._made[0]
        # StateSlot finds them here.
        vars(processor).update(_states=states, _state_names=self.state_names)
        return processor

    def _context(self, micros: int, partition: int, offset: int, clock: Clock) -> ProcessorContext:
        now_ms = micros // MICROS if self.time_mode is TimeMode.EVENT else clock.processing_ms
        watermark = None if clock.watermark_ms is None else _moment(clock.watermark_ms * MICROS)
        now = _moment(clock.processing_ms * MICROS) if self.time_mode is TimeMode.PROCESSING else None
        return ProcessorContext(_moment(micros), partition, offset, watermark, now, Timers(clock, now_ms))

    def _emitted(
        self, made: Any, key: str | None, micros: int, partition: int, offset: int
    ) -> Iterator[tuple[Any, ...]]:
        for each in _several(made):
            row = each if isinstance(each, Emitted) else Emitted(each)
            text = None if row.value is None else write(self._named(row.value))
            at = micros if row.time is None else _micros(row.time)
            of_key = (None if row.key is None else write(row.key)) if row.has_key else key
            yield (of_key, at, partition, offset, text)

    def _named(self, value: Any) -> dict[str, Any]:
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            value = {each.name: getattr(value, each.name) for each in dataclasses.fields(value)}
        if not isinstance(value, Mapping):
            raise StreamsError(
                f"{self.processor.__name__} gave {value!r}, which is no row",
                "Give dicts or dataclasses with the columns that the class declares.",
            )
        unknown = [name for name in value if name not in self.names]
        if unknown:
            raise StreamsError(
                f"{self.processor.__name__} gave a column that it does not declare: {unknown[0]!r}",
                f"Its columns are {', '.join(self.names)}.",
            )
        return dict(value)


def slots_of(processor: type) -> dict[str, StateSlot]:
    found = {}
    for owner in reversed(processor.__mro__):
        found.update({name: slot for name, slot in vars(owner).items() if isinstance(slot, StateSlot)})
    return found


def time_mode_of(processor: type[Processor]) -> TimeMode:
    if processor.time not in ("event", "processing"):
        raise StreamsError(
            f"{processor.__name__}.time is {processor.time!r}", 'Timers go by "event" or by "processing" time.'
        )
    has_timers = processor.on_timer is not Processor.on_timer
    mortal = [name for name, slot in slots_of(processor).items() if slot.spec.ttl_ms is not None]
    if has_timers and processor.time == "event":
        if mortal:
            raise StreamsError(
                f"{processor.__name__}.{mortal[0]} has a time to live, which goes by the clock, and the class has"
                " timers that go by the time of events; Spark has one clock for both",
                'Say time = "processing", or clear the state in on_timer().',
            )
        return TimeMode.EVENT
    return TimeMode.PROCESSING if mortal or processor.time == "processing" else TimeMode.NONE


def _several(made: Any) -> Iterable[Any]:
    if made is None:
        return ()
    is_one = isinstance(made, Mapping | Emitted) or dataclasses.is_dataclass(made)
    return (made,) if is_one else made


def _moment(micros: int) -> datetime:
    return _EPOCH + timedelta(microseconds=micros)


def _micros(when: datetime) -> int:
    return ((when if when.tzinfo else when.replace(tzinfo=UTC)) - _EPOCH) // timedelta(microseconds=1)


def _millis(when: datetime) -> int:
    return -(-_micros(when) // MICROS)  # rounded up: a timer does not ring early
