"""One read of a table: which columns, of which offsets, in which tasks.

scan = TableScan(table, ("customer", "_offset"), plan_tasks(catalog.ranges(["orders"]), cores=2), fetch)
frame(spark, scan).show()
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from penstock.pipelines.source.read_options import FetchOptions
from penstock.pipelines.source.splitting import OffsetRange
from penstock.pipelines.tables.connection import BadRows
from penstock.pipelines.tables.table import Table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Task = tuple[OffsetRange, ...]


@dataclass(frozen=True, slots=True)
class TableScan:
    """Travels to executors."""

    table: Table
    columns: tuple[str, ...]  # names of the table's columns, in the order they come in; may be none
    tasks: tuple[Task, ...]
    fetch: FetchOptions
    bad_rows: BadRows = "fail"
    limit: int | None = None  # rows of each task at most
    # Raw keys; rows with others are left out before anything is decoded.
    keys: frozenset[bytes] | None = None

    @property
    def schema(self) -> pa.Schema:
        return self.table.arrow_schema(self.columns)

    def read(self, task_numbers: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The function of mapInArrow: each row of its only column is the number of a task."""
        raise NotImplementedError

    def read_task(self, number: int) -> Iterator[pa.RecordBatch]:
        raise NotImplementedError


def plan_tasks(ranges: Iterable[OffsetRange], cores: int) -> tuple[Task, ...]:
    """One task for a small read, and about two for each core for a large one."""
    raise NotImplementedError


def frame(spark: SparkSession, scan: TableScan) -> DataFrame:
    """The rows of the scan; of `$latest`, merged over tasks and without tombstones."""
    raise NotImplementedError
