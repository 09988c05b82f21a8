"""A table in a Hive metastore: Spark's own, embedded one unless the session's settings name another.

HiveTable("fraud_requests", partition_by=("status",))
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal

from penstock.pipelines.errors import PipelineError
from penstock.pipelines.pipeline import DEFAULT_SETTINGS, Batch, Settings
from penstock.pipelines.sinks.columns.hive import (
    TableColumns,
    add_partitions_statement,
    check_fit,
    create_statement,
    plan_columns,
    quoted_table,
)
from penstock.pipelines.sinks.files.batch_files import BatchOfSink, write_batch
from penstock.pipelines.sinks.files.hadoop import HadoopFiles
from penstock.pipelines.sinks.files.partition_names import values_of
from penstock.pipelines.sinks.files.spark import FileSizes, SparkFiles
from penstock.pipelines.sql_identifiers import quote

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_CATALOG = "spark.sql.catalogImplementation"
# The metastore cannot be switched on later.
_SESSION_SETTINGS = MappingProxyType({_CATALOG: "hive"})
_FORMATS = ("parquet", "orc")
# A statement of thousands of partitions is more than a metastore likes.
_PARTITIONS_PER_STATEMENT = 200


@dataclass(slots=True)
class HiveTable:
    """Each batch adds its rows exactly once. A missing table is created from the first batch's columns; one that is
    there is checked against each batch and never changed."""

    table: str  # "name" or "database.name"
    partition_by: tuple[str, ...] = ()
    format: Literal["parquet", "orc"] = "parquet"
    target_bytes: int = 64 * 1024 * 1024  # about so much per file, before compression
    max_rows_per_file: int = 0
    gather: bool = True  # False: no shuffle, and a file from each task
    name: str = ""  # default: the table's

    def __post_init__(self) -> None:
        if not self.table or not all(self.table.split(".")) or self.table.count(".") > 1:
            raise PipelineError(f"a Hive table is named `name` or `database.name`, not {self.table!r}")
        if self.format not in _FORMATS:
            raise PipelineError(f"format of a HiveTable is one of {', '.join(_FORMATS)}, not {self.format!r}")
        self.name = self.name or self.table

    @property
    def session_settings(self) -> Mapping[str, str]:
        return _SESSION_SETTINGS

    def describe(self, settings: Settings = DEFAULT_SETTINGS) -> str:
        by = f" by {', '.join(self.partition_by)}" if self.partition_by else ""
        return f"Hive table {self.table} ({self.format}){by}, exactly once"

    def open(self, spark: SparkSession, settings: Settings) -> OpenHiveTable:
        if spark.conf.get(_CATALOG) != "hive":
            raise PipelineError(
                f"the Hive table {self.table} needs a Spark session with a metastore",
                f"Start the session with {_CATALOG}=hive.",
            )
        database, dot, _ = self.table.partition(".")
        if dot and not spark.catalog.databaseExists(database):
            raise PipelineError(f"there is no database {database}", f"CREATE DATABASE {database}, then start again.")
        spark.catalog.tableExists(quoted_table(self.table))  # a metastore takes seconds to open: not in the first batch
        return OpenHiveTable(self, spark)


@dataclass(frozen=True, slots=True)
class _KnownTable:
    columns: TableColumns
    files: HadoopFiles


@dataclass(slots=True)
class OpenHiveTable:
    """Remembers the metastore's description of the table, and the partitions that are known to be there. After a
    failure the sink reads the metastore again."""

    sink: HiveTable
    spark: SparkSession
    _known: _KnownTable | None = field(default=None, init=False)
    _partitions: set[str] = field(default_factory=set, init=False)

    def write(self, rows: DataFrame, batch: Batch) -> None:
        is_done = False
        try:
            self._write(rows, batch)
            is_done = True
        finally:
            if not is_done:
                self._forget()

    def close(self) -> None:
        self._forget()

    def _write(self, rows: DataFrame, batch: Batch) -> None:
        sink, table = self.sink, self._table(rows)
        columns = table.columns
        chosen = rows.selectExpr(*[f"{quote(name)} AS {quote(name)}" for name in columns.in_order])
        sizes = FileSizes(sink.target_bytes, sink.max_rows_per_file, sink.gather)
        store = SparkFiles(self.spark, table.files, sink.format, sizes)
        size = batch.size if batch.is_small else None
        is_new = write_batch(
            table.files,
            BatchOfSink(sink.name, batch.query_id, batch.id),
            stage=lambda staging: store.stage(chosen, columns.partition_by, staging, size),
            publish=lambda directories: self._add_partitions(table.files.root, directories),
        )
        if is_new:
            # Or this session's readers keep the old list of files.
            self.spark.catalog.refreshTable(quoted_table(sink.table))

    def _table(self, rows: DataFrame) -> _KnownTable:
        sink, spark = self.sink, self.spark
        given = {column.name: column.dataType.simpleString() for column in rows.schema.fields}
        if self._known is None:
            if not spark.catalog.tableExists(quoted_table(sink.table)):
                created = plan_columns(given, sink.partition_by, sink.table)
                spark.sql(create_statement(sink.table, created, sink.format.upper()))
            self._known = _read_table(spark, sink.table)
        check_fit(given, self._known.columns, sink.partition_by, sink.table)
        return self._known

    def _add_partitions(self, root: str, directories: Sequence[str]) -> None:
        new = [directory for directory in directories if directory and directory not in self._partitions]
        for start in range(0, len(new), _PARTITIONS_PER_STATEMENT):
            some = new[start : start + _PARTITIONS_PER_STATEMENT]
            values = {f"{root}/{directory}": values_of(directory) for directory in some}
            self.spark.sql(add_partitions_statement(self.sink.table, values))
        self._partitions.update(new)

    def _forget(self) -> None:
        self._known = None
        self._partitions.clear()


def _read_table(spark: SparkSession, table: str) -> _KnownTable:
    """Names and types as Spark's own reader sees them, so that they compare with those of rows."""
    described = spark.sql(f"DESCRIBE TABLE EXTENDED {quoted_table(table)} AS JSON").collect()[0][0]
    details = json.loads(described)
    types = {column.name: column.dataType.simpleString() for column in spark.table(quoted_table(table)).schema.fields}
    columns = TableColumns(types, tuple(details.get("partition_columns") or ()))
    return _KnownTable(columns, HadoopFiles(spark, details["location"]))
