"""Spark's own writers put a batch into a staging directory, in as few files as its size needs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from penstock.pipelines.observed_rows import count_rows, rows_counted
from penstock.pipelines.sinks.files.hadoop import HadoopFiles
from penstock.pipelines.spark_settings import ADAPTIVE, temporary_settings
from penstock.pipelines.sql_identifiers import quote

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

# Spark takes the short name for a package that the wheel lacks; the class itself is there.
SPARK_FORMATS: Mapping[str, str] = {
    "parquet": "parquet",
    "orc": "orc",
    "avro": "org.apache.spark.sql.avro.AvroFileFormat",
    "json": "json",
    "csv": "csv",
}
DEFAULT_OPTIONS: Mapping[str, Mapping[str, str]] = {"csv": {"header": "true"}}
# For reading again what was written: all columns of all files, and no guesses about what a text means.
_READING: Mapping[str, Mapping[str, str]] = {
    "parquet": {"mergeSchema": "true"},
    "orc": {"mergeSchema": "true"},
    "csv": {"header": "true", "multiLine": "true", "inferSchema": "false"},
}
_COUNT_WAIT_S = 1.0
_DROPS_EMPTY = "org.apache.spark.sql.execution.adaptive.AQEPropagateEmptyRelation"


@dataclass(frozen=True, slots=True)
class FileSizes:
    """`target_bytes`: a task, and so a file of a directory, gets about so many bytes of rows (as Spark shuffles them; a
    Parquet file of them is smaller). `gather`: rows are shuffled first, so that each directory gets one file unless
    the batch is large; without it each task writes a file of its own into each directory it has rows for."""

    target_bytes: int
    max_rows_per_file: int
    gather: bool


@dataclass(frozen=True, slots=True)
class SparkFiles:
    """Files in any file system that Hadoop reaches."""

    spark: SparkSession
    files: HadoopFiles
    format: str
    sizes: FileSizes
    options: Mapping[str, str] = field(default_factory=dict)

    def stage(
        self, rows: DataFrame, partition_by: Sequence[str], staging: str, small_size: int | None = None
    ) -> Sequence[str]:
        # The runner counts the rows, too, for its figures. This count decides whether the files are dropped, so it
        # counts this very write and nothing that a sink does with the rows before.
        counted, observed = count_rows(rows)
        with gathered(counted, partition_by, self.sizes, small_size) as few:
            writer = few.write.format(SPARK_FORMATS[self.format]).mode("overwrite").options(**self._write_options())
            writer.partitionBy(*partition_by).save(f"{self.files.root}/{staging}")
        if rows_counted(observed, _COUNT_WAIT_S) == 0:
            return []  # Spark writes a file without rows, to keep the columns
        return [file.path for file in self.files.walk(staging)]

    def rewrite(self, paths: Sequence[str], staging: str, count: int) -> Sequence[str]:
        full = [f"{self.files.root}/{path}" for path in paths]
        # JSON as lines: what is not read cannot change.
        reading, writing = ("text", "text") if self.format == "json" else (SPARK_FORMATS[self.format],) * 2
        options = {**_READING.get(self.format, {}), **self.options}
        read = self.spark.read.format(reading).options(**options).load(full)
        writer = read.coalesce(count).write.format(writing).mode("overwrite").options(**self._write_options())
        writer.save(f"{self.files.root}/{staging}")
        written = [file.path for file in self.files.walk(staging)]
        return [self._as_json(path, staging) for path in written] if self.format == "json" else written

    def _as_json(self, path: str, staging: str) -> str:
        """The file of lines, named as others of its format are."""
        named = path.replace(".txt", ".json", 1)
        self.files.move(f"{staging}/{path}", f"{staging}/{named}")
        return named

    def _write_options(self) -> dict[str, str]:
        limit = {"maxRecordsPerFile": str(self.sizes.max_rows_per_file)} if self.sizes.max_rows_per_file else {}
        return {**DEFAULT_OPTIONS.get(self.format, {}), **limit, **self.options}


@contextmanager
def gathered(
    rows: DataFrame, partition_by: Sequence[str], sizes: FileSizes, small_size: int | None = None
) -> Iterator[DataFrame]:
    """Spark's rebalancing brings the rows of a directory together and cuts large ones; it is a part of adaptive
    execution, which pipelines switch off elsewhere, where a repeated batch must be cut into the same tasks.

    A small batch, whose size is known, mostly goes through one task: one job and no shuffle, where rebalancing takes
    three jobs and plans each of them anew. Sinks write it side by side, in one session, so that none of them may
    change the session's settings."""
    if not sizes.gather:
        yield rows
        return
    from pyspark.sql import functions as F

    # By name: the hint knows nothing of columns that already belong to a frame.
    columns: list[Column] = [F.col(quote(name)) for name in partition_by]
    if small_size is not None:
        tasks = -(-small_size // sizes.target_bytes)
        yield rows.repartition(tasks, *columns) if tasks > 1 else rows.coalesce(1)
        return
    settings = {
        ADAPTIVE: "true",
        "spark.sql.adaptive.advisoryPartitionSizeInBytes": str(sizes.target_bytes),
        # Spark would keep a task for each core however small the batch.
        "spark.sql.adaptive.coalescePartitions.parallelismFirst": "false",
        # Of a batch that turns out to be empty Spark would drop the part of the plan that counts its rows.
        "spark.sql.adaptive.optimizer.excludedRules": _DROPS_EMPTY,
    }
    with temporary_settings(rows.sparkSession, settings):
        yield rows.hint("rebalance", *columns)
