from __future__ import annotations

import datetime
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F

from penstock.pipelines import Batch, Settings
from penstock.pipelines.errors import PipelineError
from penstock.pipelines.sinks.files.batch_files import BatchOfSink, write_batch
from penstock.pipelines.sinks.files.hadoop import HadoopFiles
from penstock.pipelines.sinks.files.operations import StoredFile
from penstock.pipelines.sinks.files.spark import SPARK_FORMATS, FileSizes, SparkFiles
from penstock.pipelines.sinks.lake import Lake, LakeFormat

DAY = datetime.datetime(2024, 5, 1, 12, tzinfo=datetime.UTC)
COLUMNS = "n int, city string, at timestamp, note string"
ODD = "a/b=c: é%'\"\\"


def batch(number: int) -> Batch:
    return Batch("3f0c-query", "lake/main", number)


def made(spark: SparkSession, first: int, last: int, tasks: int = 4) -> DataFrame:
    """Rows of two days, and of one whose time is unknown."""
    cities = (ODD, "Ulm", None)
    rows = [
        (n, cities[n % 3], None if n % 5 == 4 else DAY + datetime.timedelta(days=n % 2), None if n % 2 else f"{n},\n x")
        for n in range(first, last)
    ]
    return spark.createDataFrame(rows, COLUMNS).repartition(tasks)


def data_files(path: Path) -> list[Path]:
    return sorted(
        file for file in path.rglob("*") if file.is_file() and file.name[0] != "." and "_penstock" not in file.parts
    )


def read(spark: SparkSession, path: Path, kind: str) -> list[Any]:
    """As anybody would, who knows nothing of pipelines."""
    reader = spark.read.format(SPARK_FORMATS[kind]).option("basePath", str(path))
    if kind in ("json", "csv"):
        reader = reader.schema(f"{COLUMNS}, date date").option("header", "true").option("multiLine", kind == "csv")
    found = reader.load(str(path)).select("n", "city", F.col("at").cast("long").alias("at"), "note", "date")
    return sorted(found.collect(), key=lambda row: row["n"])


def expected(rows: DataFrame) -> list[Any]:
    chosen = rows.select("n", "city", F.col("at").cast("long").alias("at"), "note", F.to_date("at").alias("date"))
    return sorted(chosen.collect(), key=lambda row: row["n"])


@pytest.mark.parametrize("kind", sorted(SPARK_FORMATS))
def test_rows_are_there_once_and_in_few_files_when_batches_come_again(
    spark: SparkSession, tmp_path: Path, kind: LakeFormat
) -> None:
    path = tmp_path / "a lake" / kind
    lake = Lake(str(path), format=kind, date_column="at", partition_by=("city",))
    opened = lake.open(spark, Settings())
    counted = Observation()
    opened.write(made(spark, 0, 30).observe(counted, F.count(F.lit(1)).alias("rows")), batch(0))
    opened.write(made(spark, 0, 30), batch(0))
    opened.write(made(spark, 30, 40), batch(1))
    opened.write(made(spark, 0, 40).where("false"), batch(2))
    opened.write(made(spark, 30, 40), batch(1))
    assert counted.get == {"rows": 30}
    assert read(spark, path, kind) == expected(made(spark, 0, 40))
    # Nine directories, each with a file of each of the two batches that had rows for it.
    directories = {file.parent for file in data_files(path)}
    assert len(directories) == 9
    assert len(data_files(path)) <= 18
    assert not list((path / "_penstock" / "staging").rglob("*.*"))


def test_files_have_the_wanted_size_when_a_lake_is_told_it(spark: SparkSession, tmp_path: Path) -> None:
    rows = spark.range(0, 20_000, 1, 4).select("id", F.sha2(F.col("id").cast("string"), 256).alias("text"))
    counts = {}
    for name, sizes in {
        "default": {},
        "rows": {"max_rows_per_file": 5_000},
        "bytes": {"target_bytes": 400_000},
        "as they come": {"gather": False},
    }.items():
        path = tmp_path / name
        lake = Lake(str(path), **sizes)  # type: ignore[arg-type]
        lake.open(spark, Settings()).write(rows, batch(0))
        assert spark.read.parquet(str(path)).agg(F.count_distinct("id"), F.count("id")).collect() == [(20_000, 20_000)]
        counts[name] = len(data_files(path))
    assert counts.pop("bytes") > 1
    assert counts == {"default": 1, "rows": 4, "as they come": 4}


@pytest.mark.parametrize("kind", ["parquet", "csv", "json", "avro"])
def test_small_files_become_one_when_compacted(spark: SparkSession, tmp_path: Path, kind: LakeFormat) -> None:
    path = tmp_path / "lake"
    lake = Lake(str(path), format=kind, date_column="at")
    opened = lake.open(spark, Settings())
    for number in range(3):
        opened.write(made(spark, 10 * number, 10 * number + 10), batch(number))
    before = len(data_files(path))
    endings = {file.suffix for file in data_files(path)}
    done = lake.compact(spark, date="2024-05-01")
    assert (done.directories, done.files_before, done.files_after) == (1, 3, 1)
    assert len(data_files(path)) == before - 2
    lake.compact(spark)
    assert len(data_files(path)) == 3
    assert {file.suffix for file in data_files(path)} == endings
    assert read(spark, path, kind) == expected(made(spark, 0, 30))
    opened.write(made(spark, 20, 30), batch(2))
    assert len(data_files(path)) == 3
    with pytest.raises(PipelineError, match=r"first partition columns \(date\), not day"):
        lake.compact(spark, day="2024-05-01")


class KilledError(Exception):
    pass


class Fused(HadoopFiles):
    """Dies at the given write, move or delete; `late`: having done it."""

    def __init__(self, spark: SparkSession, root: str, changes_left: int, late: bool) -> None:
        super().__init__(spark, root)
        self._left = changes_left
        self._late = late

    def write(self, path: str, text: str) -> None:
        self._burn()
        super().write(path, text)
        self._burn(done=True)

    def move(self, source: str, target: str) -> None:
        self._burn()
        super().move(source, target)
        self._burn(done=True)

    def delete(self, path: str) -> None:
        self._burn()
        super().delete(path)
        self._burn(done=True)

    def _burn(self, done: bool = False) -> None:
        if self._left == 0 and done == self._late:
            raise KilledError
        if done:
            self._left -= 1


@pytest.mark.parametrize("late", [False, True])
def test_rows_are_there_once_when_killed_at_any_change_of_files(
    spark: SparkSession, tmp_path: Path, late: bool
) -> None:
    """All steps are gone through without Spark elsewhere; here each change is made by Hadoop's classes."""
    rows = made(spark, 0, 9, tasks=1).cache()
    sizes = FileSizes(1 << 20, 0, gather=False)
    for changes in range(7):
        path = tmp_path / f"{late}-{changes}"

        def write(files: HadoopFiles) -> None:
            store = SparkFiles(spark, files, "parquet", sizes)
            write_batch(files, BatchOfSink("s", "q", 0), lambda staging: store.stage(rows, ("city",), staging))

        with pytest.raises(KilledError):
            write(Fused(spark, str(path), changes, late))
        write(HadoopFiles(spark, str(path)))
        assert sorted(row["n"] for row in spark.read.parquet(str(path)).collect()) == list(range(9)), changes
        assert len(data_files(path)) == 3
    rows.unpersist()


def test_operations_do_what_the_plan_relies_on_when_hadoop_does_them(spark: SparkSession, tmp_path: Path) -> None:
    files = HadoopFiles(spark, str(tmp_path))
    assert (files.names("none"), files.walk("none")) == ([], [])
    files.delete("none")
    files.write("x/1.plan", "second é")
    files.write("x/1.plan", "second é")
    assert files.names("x") == ["1.plan"]
    files.move("x/1.plan", "z/a=%2F é/1.done")
    assert files.read("z/a=%2F é/1.done") == "second é"
    assert files.walk("") == [StoredFile("z/a=%2F é/1.done", 9)]
    assert not files.exists("x/1.plan")
    files.delete("z")
    assert files.walk("") == []


def refused(lake: Lake, rows: DataFrame) -> str:
    with pytest.raises(PipelineError) as raised:
        lake.open(rows.sparkSession, Settings()).write(rows, batch(0))
    return raised.value.message


def test_columns_are_named_when_a_lake_cannot_be_partitioned_by_them(spark: SparkSession, tmp_path: Path) -> None:
    rows: DataFrame = made(spark, 0, 1)
    wrong: Sequence[tuple[Lake, DataFrame, str]] = (
        (Lake(str(tmp_path), date_column="when"), rows, "partitioned by when, which the rows lack"),
        (Lake(str(tmp_path), date_column="at"), rows.withColumn("date", F.lit(1)), "have a column date"),
    )
    for lake, given, said in wrong:
        assert said in refused(lake, given)
