"""From the columns of an Arrow batch to what a producer takes. The same columns as Spark's own connector."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import repeat
from typing import TYPE_CHECKING, Any

from penstock.pipelines.sink.errors import ColumnError

if TYPE_CHECKING:
    import pyarrow as pa

HEADERS_TYPE = "array<struct<key:string,value:binary>>"
# Column -> the types it may have, as Spark writes them.
ACCEPTED_TYPES = {
    "key": ("string", "binary"),
    "value": ("string", "binary"),
    "headers": (HEADERS_TYPE,),
    "topic": ("string",),
    "partition": ("int",),
}
# What librdkafka calls "choose one".
ANY_PARTITION = -1

# Topic, value, key, partition, headers: the order of Producer.produce, headers aside.
Record = tuple[str, bytes | None, bytes | None, int, list[tuple[str, str | bytes | None]]]


@dataclass(frozen=True, slots=True)
class ColumnPlan:
    """Where in a batch each column is; None where it is not."""

    value: int
    key: int | None = None
    headers: int | None = None
    topic: int | None = None
    partition: int | None = None
    # For every row; the topic column is then not looked at.
    fixed_topic: str | None = None

    @property
    def is_plain(self) -> bool:
        """One topic, no headers, no partitions: the tight loop will do."""
        return self.fixed_topic is not None and self.headers is None and self.partition is None


def plan_columns(fields: Iterable[tuple[str, str]], fixed_topic: str | None) -> ColumnPlan:
    """`fields` are names and types as Spark writes them. Other columns are left alone, as by Spark's own connector."""
    found: dict[str, int] = {}
    names = []
    for index, (name, data_type) in enumerate(fields):
        names.append(name)
        column = name.lower()
        accepted = ACCEPTED_TYPES.get(column)
        if accepted is None:
            continue
        if column in found:
            raise ColumnError(f"column {column} is there twice; rename or drop one of them")
        if data_type.replace(" ", "") not in accepted:
            raise ColumnError(f"column {column} is of type {data_type}; it accepts {' or '.join(accepted)}")
        found[column] = index
    if "value" not in found:
        raise ColumnError(f"column value is missing; it accepts string or binary. There are: {', '.join(names)}")
    if fixed_topic is None and "topic" not in found:
        raise ColumnError("no topic is given: set the option topic, or add a column topic of type string")
    return ColumnPlan(fixed_topic=fixed_topic, **found)


def to_pairs(batch: pa.RecordBatch, plan: ColumnPlan) -> Iterator[tuple[bytes | None, bytes | None]]:
    """Value and key of each row.

    Cost: about 30 ns a cell, a twentieth of produce(). Strings go as the bytes that Arrow holds, never as str."""
    keys = repeat(None) if plan.key is None else _bytes_of(batch, plan.key)
    return zip(_bytes_of(batch, plan.value), keys, strict=False)


def to_records(batch: pa.RecordBatch, plan: ColumnPlan) -> Iterator[Record]:
    """ColumnError for rows that no producer could place."""
    keys: Iterable[bytes | None] = repeat(None) if plan.key is None else _bytes_of(batch, plan.key)
    headers = repeat([]) if plan.headers is None else map(_header_pairs, batch.column(plan.headers).to_pylist())
    return zip(
        _topics(batch, plan), _bytes_of(batch, plan.value), keys, _partitions(batch, plan), headers, strict=False
    )


def first_topic(batch: pa.RecordBatch, plan: ColumnPlan) -> str:
    return plan.fixed_topic if plan.fixed_topic is not None else next(iter(_topics(batch, plan)))


def _bytes_of(batch: pa.RecordBatch, index: int) -> list[bytes | None]:
    import pyarrow as pa

    column = batch.column(index)
    if pa.types.is_large_string(column.type):
        column = column.cast(pa.large_binary())
    elif pa.types.is_string(column.type):
        column = column.cast(pa.binary())  # shares the buffers
    values: list[bytes | None] = column.to_pylist()
    return values


def _topics(batch: pa.RecordBatch, plan: ColumnPlan) -> Iterable[str]:
    if plan.fixed_topic is not None:
        return repeat(plan.fixed_topic, batch.num_rows)
    assert plan.topic is not None, "plan_columns sees to one of the two"
    topics: list[str | None] = batch.column(plan.topic).to_pylist()
    if None in topics:
        row = _describe_row(batch, plan, topics.index(None))
        raise ColumnError(f"column topic is null in {row}; set the option topic, or give every row a topic")
    if "" in topics:
        raise ColumnError(f"column topic is empty in {_describe_row(batch, plan, topics.index(''))}")
    return topics  # type: ignore[return-value]  # the nulls are out


def _partitions(batch: pa.RecordBatch, plan: ColumnPlan) -> Iterable[int]:
    if plan.partition is None:
        return repeat(ANY_PARTITION)
    partitions: list[int | None] = batch.column(plan.partition).to_pylist()
    for index, partition in enumerate(partitions):
        if partition is not None and partition < 0:
            row = _describe_row(batch, plan, index)
            raise ColumnError(f"column partition is {partition} in {row}; it accepts 0 and above, or null for any")
    return [ANY_PARTITION if partition is None else partition for partition in partitions]


def _header_pairs(headers: list[dict[str, Any] | None] | None) -> list[tuple[str, str | bytes | None]]:
    pairs: list[tuple[str, str | bytes | None]] = []
    for header in headers or ():
        if header is None or header["key"] is None:
            raise ColumnError("column headers holds a header without a key; every header needs one")
        pairs.append((header["key"], header["value"]))
    return pairs


def _describe_row(batch: pa.RecordBatch, plan: ColumnPlan, index: int) -> str:
    """Enough to find the row again, not enough to fill a log."""
    cells = {"topic": plan.topic, "partition": plan.partition, "key": plan.key, "value": plan.value}
    shown = (f"{name} {_shorten(batch.column(at)[index].as_py())}" for name, at in cells.items() if at is not None)
    return f"the row with {', '.join(shown)}"


def _shorten(value: object, limit: int = 40) -> str:
    text = repr(value)
    return text if len(text) <= limit else text[:limit] + "..."
