from __future__ import annotations

import datetime
import json
import uuid
from collections.abc import Iterator
from dataclasses import replace

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from penstock.pipelines import Batch, Settings
from penstock.pipelines.errors import PipelineError
from penstock.pipelines.sinks.files.batch_files import BatchOfSink
from penstock.pipelines.sinks.files.hadoop import HadoopFiles
from penstock.pipelines.sinks.hive import HiveTable

COLUMNS = "n int, status int, City string, at timestamp"
ODD = "a/b=c: é%'\"\\ ,"
AT = datetime.datetime(2024, 5, 1, 12, tzinfo=datetime.UTC)


def batch(number: int) -> Batch:
    return Batch("query", "hive/main", number)


@pytest.fixture
def table(spark: SparkSession) -> Iterator[str]:
    name = f"t_{uuid.uuid4().hex[:8]}"
    yield name
    spark.sql(f"DROP TABLE IF EXISTS {name}")


def rows(spark: SparkSession, first: int, last: int) -> DataFrame:
    cities = ("Ulm", ODD, None)
    made = [(n, None if n % 4 == 3 else 200 + n % 4, cities[n % 3], AT) for n in range(first, last)]
    return spark.createDataFrame(made, COLUMNS).repartition(3)


def listed(frame: DataFrame) -> list[tuple[object, ...]]:
    chosen = frame.select("n", "status", "City", F.col("at").cast("long"))
    return sorted((tuple(row) for row in chosen.collect()), key=lambda row: row[0])


@pytest.mark.parametrize("kind", ["parquet", "orc"])
def test_rows_are_there_once_and_by_partition_when_batches_come_again(
    spark: SparkSession, table: str, kind: str
) -> None:
    sink = HiveTable(table, partition_by=("status", "City"), format=kind)  # type: ignore[arg-type]
    opened = sink.open(spark, Settings())
    opened.write(rows(spark, 0, 24), batch(0))
    assert listed(spark.table(table)) == listed(rows(spark, 0, 24))
    # Another process, which knows nothing of this one.
    opened = replace(sink).open(spark, Settings())
    opened.write(rows(spark, 0, 24), batch(0))
    opened.write(rows(spark, 24, 30), batch(1))
    assert listed(spark.table(table)) == listed(rows(spark, 0, 30))
    assert spark.sql(f"SHOW PARTITIONS {table}").count() == 12
    assert spark.table(table).where("status IS NULL AND City = 'Ulm'").count() == 3
    # The plain layout is enough to find every partition again.
    spark.sql(f"MSCK REPAIR TABLE {table}")
    assert spark.sql(f"SHOW PARTITIONS {table}").count() == 12


def test_partitions_are_known_when_killed_before_the_metastore_was_told(spark: SparkSession, table: str) -> None:
    sink = HiveTable(table, partition_by=("status",))
    frame = rows(spark, 0, 8)
    opened = sink.open(spark, Settings())
    opened.write(frame.where("status = 200"), batch(0))
    opened.write(frame.where("status = 201"), batch(1))
    # As if killed after the files of batch 1 were moved: no mark yet, and no partition either.
    described = spark.sql(f"DESCRIBE TABLE EXTENDED {table} AS JSON").collect()[0][0]
    files = HadoopFiles(spark, json.loads(described)["location"])
    marks = BatchOfSink(sink.name, "query", 1).marks
    files.move(f"{marks}/1.done", f"{marks}/1.plan")
    kept = files.walk("status=201")
    for file in kept:
        files.move(f"status=201/{file.path}", f"_kept/{file.path}")
    spark.sql(f"ALTER TABLE {table} DROP PARTITION (status = 201)")
    for file in kept:
        files.move(f"_kept/{file.path}", f"status=201/{file.path}")
    assert listed(spark.table(table)) == listed(frame.where("status = 200"))
    replace(sink).open(spark, Settings()).write(frame.where("status = 201"), batch(1))
    assert listed(spark.table(table)) == listed(frame.where("status IN (200, 201)"))


def test_columns_are_named_when_the_schema_no_longer_fits(spark: SparkSession, table: str) -> None:
    sink = HiveTable(table).open(spark, Settings())
    sink.write(rows(spark, 0, 4), batch(0))
    changed = rows(spark, 4, 8).withColumn("status", F.col("status").cast("string")).withColumnRenamed("at", "time")
    with pytest.raises(PipelineError) as raised:
        sink.write(changed, batch(1))
    assert raised.value.message == (
        f"the rows no longer fit the table {table}: time is not in the table; at is missing from the rows; "
        "status is string and in the table int"
    )
    sink.write(rows(spark, 4, 8), batch(1))
    assert listed(spark.table(table)) == listed(rows(spark, 0, 8))
    with pytest.raises(PipelineError, match="is partitioned by nothing, and the sink by status"):
        HiveTable(table, partition_by=("status",)).open(spark, Settings()).write(rows(spark, 8, 9), batch(2))


def test_a_database_is_asked_for_when_it_is_missing(spark: SparkSession) -> None:
    with pytest.raises(PipelineError, match="no database nowhere"):
        HiveTable("nowhere.t").open(spark, Settings())
