"""A machine over a frame: one adapter for streams and for batch frames.

A machine takes messages: a frame of `side`, `key`, `micros`, `partition`, `offset` and `value`, as in `MachineRecord`.
On a stream they go through Spark's transformWithState. On a batch frame all rows of a key are there at once; no state
has to be stored, and the machine runs in mapInArrow with its states in memory.

On a stream, rows are grouped not by their key but into `KEY_BUCKETS` groups of keys, and the key of each state is named
by `state_access`. Spark calls Python once per group, makes a record batch of the returned rows, and reads cell by cell,
so each group and each cell costs time. So a row is one text, and a group is many keys.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from pyspark.sql.streaming.stateful_processor import StatefulProcessor

from penstock.streams.lowering.stateful.state_access import KeyStates, MachineStore
from penstock.streams.machines.machine import Machine, MachineRecord, TimeMode
from penstock.streams.machines.memory import by_key, run_once
from penstock.streams.planner.rules import KEY_BUCKETS

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

    from penstock.streams.lowering.context import Context

MESSAGE_COLUMNS = ("side", "key", "micros", "partition", "offset", "value")
ROWS_PER_BATCH = 10_000  # of Arrow, as Spark has it


def apply_machine(messages: DataFrame, machine: Machine, context: Context) -> DataFrame:
    """The machine's rows from the messages, in its columns."""
    from pyspark.sql import functions as F

    from penstock.pipelines.steps.kinds import columns_of

    columns = columns_of(machine.columns)
    if not messages.isStreaming:
        run = _BatchRun(machine, columns)
        return messages.select(*MESSAGE_COLUMNS).repartition("key").mapInArrow(run, columns)
    text = [F.col(name).cast("string") for name in ("side", "micros", "partition", "offset")]
    row = F.concat_ws("\n", *text, F.coalesce("key", F.lit("")), F.coalesce("value", F.lit("")))
    bucket = F.concat(F.lit("b"), F.pmod(F.xxhash64("key"), F.lit(KEY_BUCKETS)).cast("string"))
    grouped = messages.select(bucket.alias("bucket"), row.alias("row")).groupBy("bucket")
    mode = "update" if context.query is None else context.query.mode
    return grouped.transformWithState(_Adapter(machine), columns, mode, machine.time_mode.value)


class _BatchRun:
    def __init__(self, machine: Machine, columns: Any) -> None:
        self._machine, self._columns = machine, columns

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa
        from pyspark.sql.pandas.types import to_arrow_schema

        schema = to_arrow_schema(self._columns)
        made: list[dict[str, Any]] = []
        for values in run_once(self._machine, by_key(self._rows(batches))):
            made.append(dict(zip(schema.names, values, strict=True)))
            if len(made) == ROWS_PER_BATCH:
                yield pa.RecordBatch.from_pylist(made, schema=schema)
                made = []
        yield pa.RecordBatch.from_pylist(made, schema=schema)

    def _rows(self, batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[str | None, MachineRecord]]:
        for batch in batches:
            side, key, *rest = (batch.column(name).to_pylist() for name in MESSAGE_COLUMNS)
            for each_key, each_side, *others in zip(key, side, *rest, strict=True):
                yield each_key, MachineRecord(each_side, *others)


class _Clock:
    """The clock of a batch of a stream."""

    __slots__ = ("_states", "is_last", "processing_ms", "watermark_ms")

    def __init__(self, watermark_ms: int | None, processing_ms: int, states: KeyStates) -> None:
        self.watermark_ms, self.processing_ms, self.is_last = watermark_ms, processing_ms, False
        self._states = states

    def ring(self, at_ms: int) -> None:
        self._states.set_timer(at_ms)

    def silence(self, at_ms: int) -> None:
        self._states.delete_timer(at_ms)


class _Made:
    """Stands in for a Row: Spark uses nothing but this of it."""

    __slots__ = ("_values",)

    def __init__(self, values: dict[str, Any]) -> None:
        self._values = values

    def asDict(self, recursive: bool) -> dict[str, Any]:
        return self._values


class _Adapter(StatefulProcessor):
    def __init__(self, machine: Machine) -> None:
        from penstock.pipelines.steps.kinds import columns_of

        self._machine, self._has_watermark = machine, machine.time_mode is TimeMode.EVENT
        self._names = columns_of(machine.columns).names
        self._schemas = {
            name: (
                spec.kind,
                columns_of(spec.columns),
                columns_of(spec.key) if spec.key else None,
                spec.ttl_ms,
            )
            for name, spec in machine.states().items()
        }

    def init(self, handle: Any) -> None:
        self._store = MachineStore(handle, self._schemas)

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Any]:
        grouped = by_key(_record(row[1]) for row in rows)
        self._store.forget_name()
        for flight in self._store.flights([each or "" for each in grouped]):
            for states in flight:
                of_key = states.key or None
                # The list goes when it has been read: a key may have very many rows.
                records = iter(grouped.pop(of_key))
                yield from self._made(self._machine.rows(of_key, records, states, self._clock(timerValues, states)))
                states.flush()

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Any]:
        self._store.forget_name()
        (states,) = self._store.open([key[0]])
        at_ms = expiredTimerInfo.getExpiryTimeInMs()
        yield from self._made(self._machine.timer(key[0] or None, at_ms, states, self._clock(timerValues, states)))
        states.flush()
        self._store.wire.exchange()

    def close(self) -> None:
        pass

    def _clock(self, times: Any, states: KeyStates) -> _Clock:
        watermark = times.getCurrentWatermarkInMs() if self._has_watermark else None
        return _Clock(watermark, times.getCurrentProcessingTimeInMs(), states)

    def _made(self, rows: Iterable[tuple[Any, ...]]) -> Iterator[Any]:
        names = self._names
        for values in rows:
            yield _Made(dict(zip(names, values, strict=True)))


def _record(text: str) -> tuple[str | None, MachineRecord]:
    side, micros, partition, offset, key, value = text.split("\n", 5)
    return key or None, MachineRecord(int(side), int(micros), int(partition), int(offset), value or None)
