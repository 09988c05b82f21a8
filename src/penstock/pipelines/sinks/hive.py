"""A table in a Hive metastore: Spark's own, embedded one unless the session is told of another.

HiveTable("fraud_requests", partition_by=("status",))
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, Literal

from penstock.pipelines.errors import PipelineError
from penstock.pipelines.pipeline import Batch, Settings
from penstock.pipelines.sinks.columns.hive import (
    TableColumns,
    add_partitions_statement,
    check_fit,
    create_statement,
    plan_columns,
    quoted_table,
)
from penstock.pipelines.sinks.files.batch_files import BatchOfSink, write_batch
from penstock.pipelines.sinks.files.partition_names import values_of
from penstock.pipelines.sinks.files.spark import FileSizes, SparkFiles

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_CATALOG = "spark.sql.catalogImplementation"
_FORMATS = ("parquet", "orc")
# A statement of thousands of partitions is more than a metastore likes.
_PARTITIONS_PER_STATEMENT = 200


@dataclass(frozen=True, slots=True)
class _Table:
    columns: TableColumns
    location: str


@dataclass(frozen=True, slots=True)
class HiveTable:
    """Each batch adds its rows exactly once. A missing table is created from the first batch's columns; one that is
    there is checked against each batch and never changed."""

    # For whoever opens the session: the metastore cannot be switched on later.
    session_settings: ClassVar[Mapping[str, str]] = {_CATALOG: "hive"}

    table: str  # "name" or "database.name"
    partition_by: tuple[str, ...] = ()
    format: Literal["parquet", "orc"] = "parquet"
    target_bytes: int = 64 * 1024 * 1024  # about so much per file, before compression
    max_rows_per_file: int = 0
    gather: bool = True  # False: no shuffle, and a file from each task
    name: str = ""  # default: the table's
    # What the metastore said, and the partitions known to be there: asked for once, and again after a failure.
    _known: dict[str, _Table] = field(default_factory=dict, init=False, repr=False, compare=False)
    _partitions: set[str] = field(default_factory=set, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not self.table or not all(self.table.split(".")) or self.table.count(".") > 1:
            raise PipelineError(f"a Hive table is named `name` or `database.name`, not {self.table!r}")
        if self.format not in _FORMATS:
            raise PipelineError(f"format of a HiveTable is one of {', '.join(_FORMATS)}, not {self.format!r}")
        object.__setattr__(self, "name", self.name or self.table)

    def describe(self) -> str:
        by = f" by {', '.join(self.partition_by)}" if self.partition_by else ""
        return f"Hive table {self.table} ({self.format}){by}, exactly once"

    def prepare(self, spark: SparkSession, settings: Settings) -> None:
        self._forget()
        if spark.conf.get(_CATALOG) != "hive":
            raise PipelineError(
                f"the Hive table {self.table} needs a Spark session with a metastore",
                f"Start the session with {_CATALOG}=hive.",
            )
        database, dot, _ = self.table.partition(".")
        if dot and not spark.catalog.databaseExists(database):
            raise PipelineError(f"there is no database {database}", f"CREATE DATABASE {database}, then start again.")
        spark.catalog.tableExists(quoted_table(self.table))  # a metastore takes seconds to open: not in the first batch

    def write(self, rows: DataFrame, batch: Batch) -> None:
        is_done = False
        try:
            self._write(rows, batch)
            is_done = True
        finally:
            if not is_done:
                self._forget()

    def _write(self, rows: DataFrame, batch: Batch) -> None:
        from penstock.pipelines.sinks.files.hadoop import HadoopFiles

        spark = rows.sparkSession
        table = self._table(rows)
        columns = table.columns
        chosen = rows.select(*[rows[f"`{name}`"].alias(name) for name in columns.in_order])
        files = HadoopFiles(spark, table.location)
        store = SparkFiles(spark, files, self.format, FileSizes(self.target_bytes, self.max_rows_per_file, self.gather))
        is_new = write_batch(
            files,
            BatchOfSink(self.name, batch.query_id, batch.id),
            stage=lambda staging: store.stage(chosen, columns.partition_by, staging),
            publish=lambda directories: self._add_partitions(spark, files.root, directories),
        )
        if is_new:
            spark.catalog.refreshTable(quoted_table(self.table))  # or this session's readers keep the old list of files

    def _table(self, rows: DataFrame) -> _Table:
        spark = rows.sparkSession
        given = {column.name: column.dataType.simpleString() for column in rows.schema.fields}
        if self.table not in self._known:
            if not spark.catalog.tableExists(quoted_table(self.table)):
                created = plan_columns(given, self.partition_by, self.table)
                spark.sql(create_statement(self.table, created, self.format.upper()))
            self._known[self.table] = _read_table(spark, self.table)
        known = self._known[self.table]
        check_fit(given, known.columns, self.partition_by, self.table)
        return known

    def _add_partitions(self, spark: SparkSession, root: str, directories: Sequence[str]) -> None:
        new = [directory for directory in directories if directory and directory not in self._partitions]
        for start in range(0, len(new), _PARTITIONS_PER_STATEMENT):
            some = new[start : start + _PARTITIONS_PER_STATEMENT]
            values = {f"{root}/{directory}": values_of(directory) for directory in some}
            spark.sql(add_partitions_statement(self.table, values))
        self._partitions.update(new)

    def _forget(self) -> None:
        self._known.clear()
        self._partitions.clear()


def _read_table(spark: SparkSession, table: str) -> _Table:
    """Names and types as Spark's own reader sees them, so that they compare with those of rows."""
    described = spark.sql(f"DESCRIBE TABLE EXTENDED {quoted_table(table)} AS JSON").collect()[0][0]
    details = json.loads(described)
    types = {column.name: column.dataType.simpleString() for column in spark.table(quoted_table(table)).schema.fields}
    return _Table(TableColumns(types, tuple(details.get("partition_columns") or ())), details["location"])
