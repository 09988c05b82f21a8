"""Files in a directory: on this machine, on HDFS or whatever else Hadoop reaches, or in S3.

Lake("hdfs://name:8020/lake/requests", format="parquet", date_column="event_time", partition_by=("status",))
Lake("s3://bucket/requests?region=eu-west-1", format="orc")
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, Protocol

from penstock.pipelines.errors import PipelineError
from penstock.pipelines.pipeline import DEFAULT_SETTINGS, NO_SESSION_SETTINGS, Batch, Settings
from penstock.pipelines.sinks.files import compaction
from penstock.pipelines.sinks.files.batch_files import BatchOfSink, write_batch
from penstock.pipelines.sinks.files.compaction import Compacted
from penstock.pipelines.sinks.files.operations import Files
from penstock.pipelines.sinks.files.partition_names import directory_of
from penstock.pipelines.sinks.files.spark import SPARK_FORMATS, FileSizes
from penstock.pipelines.sql_identifiers import quote

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

LakeFormat = Literal["parquet", "orc", "avro", "json", "csv"]
# Made from `date_column`; the first of the directories.
DATE = "date"


class _Store(Protocol):
    @property
    def files(self) -> Files: ...

    def stage(
        self, rows: DataFrame, partition_by: Sequence[str], staging: str, small_size: int | None = None
    ) -> Sequence[str]: ...

    def rewrite(self, paths: Sequence[str], staging: str, count: int) -> Sequence[str]: ...


@dataclass(slots=True)
class Lake:
    """Each batch adds its files exactly once. A checkpoint that is reset begins anew: empty the lake as well."""

    path: str = field(repr=False)  # may hold credentials
    format: LakeFormat = "parquet"
    date_column: str = ""  # its day becomes the partition column `date`
    partition_by: tuple[str, ...] = ()  # further partition columns, below `date`
    target_bytes: int = 64 * 1024 * 1024  # about so much per file, before compression
    max_rows_per_file: int = 0  # 0: as many as there are
    gather: bool = True  # False: no shuffle, and a file from each task
    options: Mapping[str, str] = field(default_factory=dict)  # as Spark's writer of the format takes them
    name: str = ""  # default: the last part of the path

    def __post_init__(self) -> None:
        if not self.path:
            raise PipelineError("Lake needs a path")
        if self.format not in SPARK_FORMATS:
            raise PipelineError(f"format of a Lake is one of {', '.join(SPARK_FORMATS)}, not {self.format!r}")
        if self.target_bytes < 1:
            raise PipelineError(f"target_bytes of a Lake is at least 1, not {self.target_bytes}")
        if self.max_rows_per_file < 0:
            raise PipelineError(f"max_rows_per_file of a Lake is 0 or more, not {self.max_rows_per_file}")
        if self.options and self.path.startswith("s3://"):
            raise PipelineError("options of a Lake are those of Spark's writers, which do not write to S3")
        if not self.name:
            self.name = self._shown.rstrip("/").rpartition("/")[2] or "lake"

    @property
    def session_settings(self) -> Mapping[str, str]:
        return NO_SESSION_SETTINGS

    @property
    def partition_columns(self) -> tuple[str, ...]:
        return ((DATE,) if self.date_column else ()) + self.partition_by

    def describe(self, settings: Settings = DEFAULT_SETTINGS) -> str:
        by = f" by {', '.join(self.partition_columns)}" if self.partition_columns else ""
        return f"{self.format} files in {self._shown}{by}, exactly once"

    def open(self, spark: SparkSession, settings: Settings) -> OpenLake:
        store = self._store(spark)
        compaction.finish_compactions(store.files)
        return OpenLake(self, store)

    def compact(self, spark: SparkSession, **partition: object) -> Compacted:
        """Rewrites the small files of each directory into few; `partition` names the first directories, for example
        date="2024-05-01". May run while batches are written, but only once at a time."""
        wanted = self.partition_columns[: len(partition)]
        if set(partition) != set(wanted):
            known = ", ".join(self.partition_columns) or "none"
            raise PipelineError(f"compact takes the first partition columns ({known}), not {', '.join(partition)}")
        values = [None if partition[name] is None else str(partition[name]) for name in wanted]
        store = self._store(spark)
        return compaction.compact(store.files, directory_of(wanted, values), self.target_bytes, store.rewrite)

    @property
    def _shown(self) -> str:
        return self.path.partition("?")[0]

    def _store(self, spark: SparkSession) -> _Store:
        sizes = FileSizes(self.target_bytes, self.max_rows_per_file, self.gather)
        if self.path.startswith("s3://"):
            from penstock.pipelines.sinks.files.object_store import ObjectStore, parse_location

            return ObjectStore(parse_location(self.path), self.format, sizes)
        from penstock.pipelines.sinks.files.hadoop import HadoopFiles
        from penstock.pipelines.sinks.files.spark import SparkFiles

        return SparkFiles(spark, HadoopFiles(spark, self.path), self.format, sizes, self.options)


@dataclass(frozen=True, slots=True)
class OpenLake:
    sink: Lake
    store: _Store

    def write(self, rows: DataFrame, batch: Batch) -> None:
        this = BatchOfSink(self.sink.name, batch.query_id, batch.id)
        dated, partition_by = self._with_date(rows), self.sink.partition_columns
        size = batch.size if batch.is_small else None
        write_batch(self.store.files, this, lambda staging: self.store.stage(dated, partition_by, staging, size))

    def close(self) -> None:
        pass

    def _with_date(self, rows: DataFrame) -> DataFrame:
        sink = self.sink
        wanted = [name for name in (sink.date_column, *sink.partition_by) if name]
        missing = [name for name in wanted if name not in rows.columns]
        if missing:
            raise PipelineError(f"the lake {sink.name} is partitioned by {', '.join(missing)}, which the rows lack")
        if not sink.date_column:
            return rows
        if sink.date_column != DATE and DATE in rows.columns:
            raise PipelineError(
                f"the rows have a column {DATE}, which the lake {sink.name} makes from {sink.date_column}",
                "Rename the column in a step before.",
            )
        return rows.withColumn(DATE, rows[quote(sink.date_column)].cast("date"))
