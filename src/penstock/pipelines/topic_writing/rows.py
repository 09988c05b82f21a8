"""From the columns of an Arrow batch to what a producer takes. The same columns as Spark's own connector, and
`timestamp`, which that one does not look at."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from penstock.pipelines.topic_writing.errors import ColumnError
from penstock.pipelines.topic_writing.layout import HeaderColumn

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray

HEADERS_TYPE = "array<struct<key:string,value:binary>>"
# Column -> the types it may have, as Spark writes them.
ACCEPTED_TYPES = {
    "key": ("string", "binary"),
    "value": ("string", "binary"),
    "headers": (HEADERS_TYPE,),
    "topic": ("string",),
    "partition": ("int",),
    "timestamp": ("timestamp", "bigint"),  # the latter in milliseconds since 1970
}
# What librdkafka calls "choose one".
ANY_PARTITION = -1
_FIRST_MS = 1


@dataclass(frozen=True, slots=True)
class ColumnPlan:
    """Where in a batch each column is; None where it is not."""

    value: int
    key: int | None = None
    headers: int | None = None
    topic: int | None = None
    partition: int | None = None
    timestamp: int | None = None
    # For every row; the topic column is then not looked at.
    fixed_topic: str | None = None


def plan_columns(
    fields: Iterable[tuple[str, str]], fixed_topic: str | None, *, includes_timestamp: bool = False
) -> ColumnPlan:
    """`fields` are names and types as Spark writes them. Other columns are left alone, as by Spark's own connector,
    which does not look at `timestamp`, either."""
    positions: dict[str, int] = {}
    names = []
    for index, (name, data_type) in enumerate(fields):
        names.append(name)
        column = name.lower()
        accepted = ACCEPTED_TYPES.get(column)
        if accepted is None or (column == "timestamp" and not includes_timestamp):
            continue
        if column in positions:
            raise ColumnError(f"column {column} is there twice; rename or drop one of them")
        if data_type.replace(" ", "") not in accepted:
            raise ColumnError(f"column {column} is of type {data_type}; it accepts {' or '.join(accepted)}")
        positions[column] = index
    if "value" not in positions:
        raise ColumnError(f"column value is missing; it accepts string or binary. There are: {', '.join(names)}")
    if fixed_topic is None and "topic" not in positions:
        raise ColumnError("no topic is given: set the option topic, or add a column topic of type string")
    return ColumnPlan(fixed_topic=fixed_topic, **positions)


@dataclass(frozen=True, slots=True)
class Places:
    """Where each row goes."""

    topics: list[str]
    topic_of: NDArray[np.intp]  # index in `topics`
    partition_of: NDArray[np.int32]

    @property
    def is_mixed(self) -> bool:
        """Some rows name their partition and others do not, so that they may meet in one, in the order of the rows."""
        is_any = self.partition_of == ANY_PARTITION
        return bool(is_any.any()) and not bool(is_any.all())

    def groups(self) -> Iterator[tuple[str, int, NDArray[np.intp] | slice]]:
        """Topic, partition, and which rows go there, in their order."""
        if not len(self.topic_of):
            return
        codes = self.topic_of.astype(np.int64) << 32 | (self.partition_of.astype(np.int64) - ANY_PARTITION)
        if (codes == codes[0]).all():
            yield self.topics[self.topic_of[0]], int(self.partition_of[0]), slice(None)
            return
        order = np.argsort(codes, kind="stable")
        for rows in np.split(order, np.flatnonzero(np.diff(codes[order])) + 1):
            yield self.topics[self.topic_of[rows[0]]], int(self.partition_of[rows[0]]), rows


def find_places(batch: pa.RecordBatch, plan: ColumnPlan) -> Places:
    """ColumnError for rows that no producer could place."""
    return Places(*_topics(batch, plan), _partitions(batch, plan))


def find_headers(batch: pa.RecordBatch, plan: ColumnPlan) -> HeaderColumn | None:
    """The headers of the rows; None where no row has any."""
    import pyarrow.compute as pc

    if plan.headers is None:
        return None
    column = batch.column(plan.headers)
    each = column.flatten()  # without what null rows may hide
    if not len(each):
        return None
    names, values = each.flatten()
    if names.null_count:
        raise ColumnError("column headers holds a header without a key; every header needs one")
    if pc.any(pc.match_substring(names, "\0")).as_py():
        raise ColumnError("column headers holds a key with a null character; no header can have one")
    counts = column.value_lengths().fill_null(0).to_numpy(zero_copy_only=False)
    return HeaderColumn(counts.astype(np.int64), names, values)


def find_timestamps(batch: pa.RecordBatch, plan: ColumnPlan) -> NDArray[np.int64] | None:
    """In milliseconds since 1970, as librdkafka takes them: 0 is the time of the call, so that the first millisecond of
    1970 becomes the second one. None where no row has a time of its own."""
    import pyarrow as pa

    if plan.timestamp is None:
        return None
    column = batch.column(plan.timestamp)
    if column.null_count == len(column):
        return None
    per_ms = 1000 if pa.types.is_timestamp(column.type) else 1  # Spark's timestamps have microseconds
    times: NDArray[np.int64] = column.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False) // per_ms
    is_null = column.is_null().to_numpy(zero_copy_only=False)
    if (times < 0).any():
        row = _describe_row(batch, plan, int(np.argmax(times < 0)))
        raise ColumnError(f"column timestamp is before 1970 in {row}; no record can have that time")
    return np.where(is_null, 0, np.maximum(times, _FIRST_MS))


def first_topic(batch: pa.RecordBatch, plan: ColumnPlan) -> str:
    topics, topic_of = _topics(batch, plan)
    return topics[int(topic_of[0])]


def _topics(batch: pa.RecordBatch, plan: ColumnPlan) -> tuple[list[str], NDArray[np.intp]]:
    if plan.fixed_topic is not None:
        return [plan.fixed_topic], np.zeros(batch.num_rows, np.intp)
    assert plan.topic is not None, "plan_columns sees to one of the two"
    column = batch.column(plan.topic)
    if column.null_count:
        row = _describe_row(batch, plan, column.is_null().index(True).as_py())
        raise ColumnError(f"column topic is null in {row}; set the option topic, or give every row a topic")
    encoded = column.dictionary_encode()
    topics: list[str] = encoded.dictionary.to_pylist()
    topic_of = encoded.indices.to_numpy().astype(np.intp)
    if "" in topics:
        row = _describe_row(batch, plan, int(np.argmax(topic_of == topics.index(""))))
        raise ColumnError(f"column topic is empty in {row}")
    return topics, topic_of


def _partitions(batch: pa.RecordBatch, plan: ColumnPlan) -> NDArray[np.int32]:
    if plan.partition is None:
        return np.full(batch.num_rows, ANY_PARTITION, np.int32)
    column = batch.column(plan.partition)
    partitions: NDArray[np.int32] = column.fill_null(ANY_PARTITION).to_numpy(zero_copy_only=False)
    is_wrong = column.fill_null(0).to_numpy(zero_copy_only=False) < 0
    if is_wrong.any():
        index = int(np.argmax(is_wrong))
        row = _describe_row(batch, plan, index)
        raise ColumnError(f"column partition is {partitions[index]} in {row}; it accepts 0 and above, or null for any")
    return partitions


def _describe_row(batch: pa.RecordBatch, plan: ColumnPlan, index: int) -> str:
    """Enough to find the row again, not enough to fill a log."""
    cells = {"topic": plan.topic, "partition": plan.partition, "key": plan.key, "value": plan.value}
    cells["timestamp"] = plan.timestamp
    shown = (f"{name} {_shorten(batch.column(at)[index].as_py())}" for name, at in cells.items() if at is not None)
    return f"the row with {', '.join(shown)}"


def _shorten(value: object, limit: int = 40) -> str:
    text = repr(value)
    return text if len(text) <= limit else text[:limit] + "..."
