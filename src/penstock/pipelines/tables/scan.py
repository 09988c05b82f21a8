"""One read of a table: the columns, the offsets and the tasks.

    ranges = catalog.ranges(["orders"])
    scan = TableScan(table, ("customer", "_offset"), plan_tasks(ranges, cores=2), catalog.connection.fetch_options())
    frame(spark, scan).show()

Keys and values are fetched and decoded only where a wanted column is made of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from penstock.pipelines.payloads.decoding import KEY_SCHEMA_HEADER, VALUE_SCHEMA_HEADER
from penstock.pipelines.payloads.formats import PayloadKind
from penstock.pipelines.payloads.spark_types import spark_type
from penstock.pipelines.source.columns import HEADERS_TYPE
from penstock.pipelines.source.offset_ranges import OffsetRange, share_tasks, split
from penstock.pipelines.source.read_options import FetchOptions
from penstock.pipelines.source.tasks import read_range
from penstock.pipelines.tables.connection import BadRows
from penstock.pipelines.tables.latest import LastOfKeys, gather, merge_latest, pieces
from penstock.pipelines.tables.rows import RowDecoding
from penstock.pipelines.tables.table import ColumnSource, Table, TableColumn

if TYPE_CHECKING:
    from pyspark.accumulators import Accumulator
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

Task = tuple[OffsetRange, ...]
OnSkipped = Callable[[int], None]

# A task costs Spark some 20 ms and a worker of its own, which is what so many records take.
SMALL_RECORDS = 50_000
_TASKS_PER_CORE = 2
# A question with a limit is answered by one task, one partition after the other, unless it is as good as without.
_SMALL_LIMIT = 10_000
_LIMITED_BYTES = 64 * 1024
_RECORD_BYTES = 1024


@dataclass(frozen=True, slots=True)
class TableScan:
    """Travels to executors."""

    table: Table
    columns: tuple[str, ...]  # names of the table's columns in the order they come in; none: rows have `_partition`
    tasks: tuple[Task, ...]
    fetch: FetchOptions
    bad_rows: BadRows = "fail"
    limit: int | None = None  # rows of each task at most
    # Raw keys; rows with others are left out before anything is decoded.
    keys: frozenset[bytes] | None = None

    @property
    def wanted(self) -> tuple[TableColumn, ...]:
        return self.table.choose(self.columns or (ColumnSource.PARTITION.value,))

    @property
    def schema(self) -> pa.Schema:
        return self.table.arrow_schema(each.name for each in self.wanted)

    @property
    def is_merged(self) -> bool:
        """Whether tasks give candidates only, of which `frame` keeps the latest."""
        return self.table.is_latest and len(self.tasks) > 1

    def read(
        self, task_numbers: Iterable[pa.RecordBatch], on_skipped: OnSkipped | None = None
    ) -> Iterator[pa.RecordBatch]:
        """The function of mapInArrow: the rows of its only column are numbers of tasks. Rows have `schema`.

        Raises TableError for a row that does not decode, FetchError, and RegistryUnreachableError."""
        for numbers in task_numbers:
            for number in numbers.column(0).to_pylist():
                yield from self.read_task(number, on_skipped)

    def read_task(self, number: int, on_skipped: OnSkipped | None = None) -> Iterator[pa.RecordBatch]:
        if not self.table.is_latest:
            return self._decoded(self._records(number), on_skipped)
        if self.is_merged:
            raise ValueError("the tasks of this scan do not know the latest records; `frame` merges them")
        return self._decoded(self.merge(self.candidates(number)), on_skipped)

    def candidates(self, number: int) -> Iterator[pa.RecordBatch]:
        """Reads `$latest`: the last record of each key, of each partition that the task reads; columns of records."""
        partitions: dict[int, LastOfKeys] = {}
        needs_value = self._wants_value()
        for rows in self._records(number):
            keeper = partitions.setdefault(rows.column("partition")[0].as_py(), LastOfKeys())
            keeper.add(self._candidate(rows, needs_value))
        for keeper in partitions.values():
            kept = keeper.rows()
            if kept is not None:
                yield from pieces(kept)

    def read_candidates(self, task_numbers: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for numbers in task_numbers:
            for number in numbers.column(0).to_pylist():
                yield from self.candidates(number)

    def merge(self, candidates: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The latest records, of candidates that are all there are of their keys."""
        gathered = gather(candidates)
        return iter(()) if gathered is None else pieces(merge_latest(gathered))

    def read_merged(
        self, candidates: Iterable[pa.RecordBatch], on_skipped: OnSkipped | None = None
    ) -> Iterator[pa.RecordBatch]:
        return self._decoded(self.merge(candidates), on_skipped)

    @property
    def candidates_schema(self) -> pa.Schema:
        """Headers are there if they are wanted, or may name schemas."""
        has_headers = self._wants(ColumnSource.HEADERS) or self._header_names()
        return pa.schema([*_CANDIDATE, *([pa.field("headers", HEADERS_TYPE)] if has_headers else ())])

    def _candidate(self, rows: pa.RecordBatch, needs_value: bool) -> pa.RecordBatch:
        if not needs_value:
            rows = _without_values(rows)
        if "headers" not in rows.schema.names:
            rows = rows.append_column("headers", pa.nulls(rows.num_rows, HEADERS_TYPE))
        return rows.select(self.candidates_schema.names)

    def _wants(self, source: ColumnSource) -> bool:
        return any(each.source is source for each in self.wanted)

    def _header_names(self) -> frozenset[str]:
        of_value = self.table.value.kind is PayloadKind.REGISTRY and self._wants_value()
        of_key = self.table.key.kind is PayloadKind.REGISTRY and self._wants(ColumnSource.KEY)
        return frozenset(({VALUE_SCHEMA_HEADER} if of_value else set()) | ({KEY_SCHEMA_HEADER} if of_key else set()))

    def _wants_value(self) -> bool:
        return self._wants(ColumnSource.FIELD) or self._wants(ColumnSource.VALUE)

    def _fetch(self) -> FetchOptions:
        is_latest = self.table.is_latest
        max_bytes = self.fetch.max_bytes
        if self.limit is not None and not is_latest:
            max_bytes = min(max_bytes, max(_LIMITED_BYTES, self.limit * _RECORD_BYTES))
        return replace(
            self.fetch,
            include_headers=self._wants(ColumnSource.HEADERS),
            header_names=self._header_names(),
            include_keys=is_latest or self.keys is not None or self._wants(ColumnSource.KEY),
            include_values=is_latest or self._wants_value(),
            is_counted=not is_latest and self.keys is None and {each.source for each in self.wanted} == _COUNTED,
            max_bytes=max_bytes,
        )

    def _records(self, number: int) -> Iterator[pa.RecordBatch]:
        """With the wanted keys alone."""
        fetch = self._fetch()
        keys = None if self.keys is None else pa.array(sorted(self.keys), pa.binary())
        for part in self.tasks[number]:
            for rows in read_range(part, fetch):
                found = rows if keys is None else rows.filter(pc.is_in(rows.column("key"), value_set=keys))
                if found.num_rows:
                    yield found

    def _decoded(self, records: Iterable[pa.RecordBatch], on_skipped: OnSkipped | None) -> Iterator[pa.RecordBatch]:
        decoding = RowDecoding(self.table, self.wanted, self.bad_rows, on_skipped)
        left = self.limit
        for rows in records:
            # Rows may be skipped, so there may be more to decode than are wanted.
            while rows.num_rows and left != 0:
                some = rows if left is None else rows.slice(0, left)
                rows = rows.slice(some.num_rows)
                for made in decoding.decode(some):
                    left = None if left is None else left - made.num_rows
                    if made.num_rows:
                        yield made
            if left == 0:
                return


_COUNTED = {ColumnSource.PARTITION}
# The columns that are known before a record is decoded.
_CANDIDATE = [
    pa.field("key", pa.binary()),
    pa.field("value", pa.binary()),
    pa.field("partition", pa.int32()),
    pa.field("offset", pa.int64()),
    pa.field("timestamp", pa.timestamp("us", tz="UTC")),
]


def _without_values(rows: pa.RecordBatch) -> pa.RecordBatch:
    """Whether there is a value is all that counts."""
    values = rows.column("value")
    place = rows.schema.get_field_index("value")
    return rows.set_column(place, "value", pc.if_else(values.is_valid(), pa.scalar(b""), pa.scalar(None, pa.binary())))


def plan_tasks(ranges: Iterable[OffsetRange], cores: int, limit: int | None = None) -> tuple[Task, ...]:
    """One task for a small read, and at most about two for each core for a large one. A pure function."""
    whole = [each for each in ranges if each.size > 0]
    total = sum(each.size for each in whole)
    wanted = min(_TASKS_PER_CORE * cores, total // SMALL_RECORDS)
    if wanted <= 1 or (limit is not None and limit <= _SMALL_LIMIT):
        return (tuple(sorted(whole)),) if whole else ()
    return tuple(share_tasks(split(whole, wanted), total // wanted))


class _InTask:
    """Spark calls this. Plans show its name."""

    def __init__(
        self, scan: TableScan, read: Callable[..., Iterator[pa.RecordBatch]], skipped: Accumulator[int] | None
    ):
        self.__name__ = f"topic:{scan.table.name}"
        self._read = read
        self._skipped = skipped

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return self._read(batches) if self._skipped is None else self._read(batches, self._skipped.add)


def frame(spark: SparkSession, scan: TableScan, skipped: Accumulator[int] | None = None) -> DataFrame:
    """The rows of the scan; those of `$latest` are merged over its tasks. `skipped` counts rows that were left out."""
    count = len(scan.tasks)
    schema = scan.table.spark_schema(each.name for each in scan.wanted)
    if not count:
        return spark.createDataFrame([], schema)
    numbers = spark.range(0, count, 1, count)
    if not scan.is_merged:
        return numbers.mapInArrow(_InTask(scan, scan.read, skipped), schema)
    candidates = numbers.mapInArrow(_InTask(scan, scan.read_candidates, None), _spark_schema(scan.candidates_schema))
    return candidates.repartition(count, "key").mapInArrow(_InTask(scan, scan.read_merged, skipped), schema)


def _spark_schema(schema: pa.Schema) -> StructType:
    from pyspark.sql.types import StructField, StructType

    return StructType([StructField(each.name, spark_type(each.type)) for each in schema])
