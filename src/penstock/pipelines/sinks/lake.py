"""Files in a directory: on this machine, on HDFS or whatever else Hadoop reaches, or in S3.

Lake("hdfs://name:8020/lake/requests", format="parquet", date_column="event_time", partition_by=("status",))
Lake("s3://bucket/requests?region=eu-west-1", format="orc")
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, Protocol

from penstock.pipelines.errors import PipelineError
from penstock.pipelines.pipeline import Batch, Settings
from penstock.pipelines.sinks.files import compaction
from penstock.pipelines.sinks.files.batch_files import BatchOfSink, write_batch
from penstock.pipelines.sinks.files.compaction import Compacted
from penstock.pipelines.sinks.files.operations import Files
from penstock.pipelines.sinks.files.partition_names import directory_of
from penstock.pipelines.sinks.files.spark import SPARK_FORMATS, FileSizes

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

LakeFormat = Literal["parquet", "orc", "avro", "json", "csv"]
# Made from `date_column`; the first of the directories.
DATE = "date"


class _Store(Protocol):
    @property
    def files(self) -> Files: ...

    def stage(self, rows: DataFrame, partition_by: Sequence[str], staging: str) -> Sequence[str]: ...

    def rewrite(self, paths: Sequence[str], staging: str, count: int) -> Sequence[str]: ...


@dataclass(frozen=True, slots=True)
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
            object.__setattr__(self, "name", self._shown.rstrip("/").rpartition("/")[2] or "lake")

    def describe(self) -> str:
        by = f" by {', '.join(self._partition_columns)}" if self._partition_columns else ""
        return f"{self.format} files in {self._shown}{by}, exactly once"

    def prepare(self, spark: SparkSession, settings: Settings) -> None:
        compaction.finish_compactions(self._store(spark).files)

    def write(self, rows: DataFrame, batch: Batch) -> None:
        store = self._store(rows.sparkSession)
        dated = self._with_date(rows)
        this = BatchOfSink(self.name, batch.query_id, batch.id)
        write_batch(store.files, this, lambda staging: store.stage(dated, self._partition_columns, staging))

    def compact(self, spark: SparkSession, **partition: object) -> Compacted:
        """Rewrites the small files of each directory into few; `partition` names the first directories, for example
        date="2024-05-01". May run while batches are written, but only once at a time."""
        wanted = self._partition_columns[: len(partition)]
        if set(partition) != set(wanted):
            known = ", ".join(self._partition_columns) or "none"
            raise PipelineError(f"compact takes the first partition columns ({known}), not {', '.join(partition)}")
        values = [None if partition[name] is None else str(partition[name]) for name in wanted]
        store = self._store(spark)
        return compaction.compact(store.files, directory_of(wanted, values), self.target_bytes, store.rewrite)

    @property
    def _shown(self) -> str:
        return self.path.partition("?")[0]

    @property
    def _partition_columns(self) -> tuple[str, ...]:
        return ((DATE,) if self.date_column else ()) + self.partition_by

    def _with_date(self, rows: DataFrame) -> DataFrame:
        wanted = [name for name in (self.date_column, *self.partition_by) if name]
        missing = [name for name in wanted if name not in rows.columns]
        if missing:
            raise PipelineError(f"the lake {self.name} is partitioned by {', '.join(missing)}, which the rows lack")
        if not self.date_column:
            return rows
        if self.date_column != DATE and DATE in rows.columns:
            raise PipelineError(
                f"the rows have a column {DATE}, which the lake {self.name} makes from {self.date_column}",
                "Rename the column in a step before.",
            )
        return rows.withColumn(DATE, rows[f"`{self.date_column}`"].cast("date"))

    def _store(self, spark: SparkSession) -> _Store:
        sizes = FileSizes(self.target_bytes, self.max_rows_per_file, self.gather)
        if self.path.startswith("s3://"):
            from penstock.pipelines.sinks.files.object_store import ObjectStore, parse_location

            return ObjectStore(parse_location(self.path), self.format, sizes)
        from penstock.pipelines.sinks.files.hadoop import HadoopFiles
        from penstock.pipelines.sinks.files.spark import SparkFiles

        return SparkFiles(spark, HadoopFiles(spark, self.path), self.format, sizes, self.options)
