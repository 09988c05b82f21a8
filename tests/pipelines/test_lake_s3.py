"""A lake in S3, against moto's server: the real protocol over HTTP."""

from __future__ import annotations

import datetime
import importlib.util
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyarrow import dataset, fs
from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F

from penstock.pipelines import Batch, Settings
from penstock.pipelines.sinks.files.object_store import S3Location, parse_location
from penstock.pipelines.sinks.files.operations import ArrowFiles
from penstock.pipelines.sinks.lake import Lake
from penstock.testing.processes import ServerProcess, find_free_port

DAY = datetime.datetime(2024, 5, 1, 12, tzinfo=datetime.UTC)


class MotoProcess(ServerProcess):
    # It does not care for signals, and ends by them.
    clean_exit_codes = frozenset({0, -15})


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The query of a URL."""
    if importlib.util.find_spec("moto") is None or importlib.util.find_spec("flask") is None:
        pytest.skip("moto's server is not installed (pip install 'moto[server]')")
    port = find_free_port()
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    with MotoProcess("moto", command, port=port, log_path=tmp_path_factory.mktemp("moto") / "log").start() as server:
        query = f"endpoint=http://127.0.0.1:{server.port}&region=us-east-1&access_key=me&secret_key=hush"
        given = dict(parse_location(f"s3://lake?{query}").options)
        file_system = fs.S3FileSystem(
            access_key=given["access_key"],
            secret_key=given["secret_key"],
            region="us-east-1",
            scheme="http",
            endpoint_override=f"127.0.0.1:{server.port}",
            allow_bucket_creation=True,
        )
        file_system.create_dir("lake")
        yield query


def batch(number: int) -> Batch:
    return Batch("query", "lake/main", number)


def made(spark: SparkSession, first: int, last: int) -> DataFrame:
    rows = [(n, None if n % 2 else "a/b", DAY + datetime.timedelta(days=n % 2)) for n in range(first, last)]
    return spark.createDataFrame(rows, "n int, city string, at timestamp").repartition(3)


def data_files(location: S3Location) -> list[str]:
    found = ArrowFiles(location.open(), location.root).walk("")
    return [file.path for file in found if not file.path.startswith("_penstock/")]


def numbers(location: S3Location, kind: str) -> list[Any]:
    """Read by Arrow, which Spark's wheel leaves as the only way."""
    rows = dataset.dataset(location.root, filesystem=location.open(), format=kind, partitioning="hive").to_table()
    return sorted(rows["n"].to_pylist())


@pytest.mark.parametrize("kind", ["parquet", "orc", "json", "csv", "avro"])
def test_rows_are_there_once_when_batches_come_again(spark: SparkSession, store: str, kind: Any) -> None:
    url = f"s3://lake/{uuid.uuid4().hex}?{store}"
    lake = Lake(url, format=kind, date_column="at", partition_by=("city",))
    location = parse_location(url)
    opened = lake.open(spark, Settings())
    counted = Observation()
    opened.write(made(spark, 0, 10).observe(counted, F.count(F.lit(1)).alias("rows")), batch(0))
    assert counted.get == {"rows": 10}
    opened.write(made(spark, 0, 10), batch(0))
    opened.write(made(spark, 10, 14), batch(1))
    directories = {path.rpartition("/")[0] for path in data_files(location)}
    assert directories == {"date=2024-05-01/city=a%2Fb", "date=2024-05-02/city=__HIVE_DEFAULT_PARTITION__"}
    assert len(data_files(location)) == 4
    if kind in ("parquet", "orc"):
        assert numbers(location, kind) == list(range(14))
        assert lake.compact(spark).files_after == 2
        assert numbers(location, kind) == list(range(14))
        assert len(data_files(location)) == 2


def test_operations_do_what_the_plan_relies_on_when_s3_does_them(store: str, tmp_path: Path) -> None:
    location = parse_location(f"s3://lake/{uuid.uuid4().hex}?{store}")
    files = ArrowFiles(location.open(), location.root)
    assert (files.names("none"), files.walk("none")) == ([], [])
    files.delete("none")
    files.write("x/1.plan", "first")
    files.write("x/1.plan", "second é")
    files.write("x/y/deep", "1")
    assert files.names("x") == ["1.plan"]
    files.move("x/1.plan", "z/a=%2F é/1.done")
    assert not files.exists("x/1.plan")
    assert files.read("z/a=%2F é/1.done") == "second é"
    files.delete("x")
    assert [(file.path, file.size) for file in files.walk("")] == [("z/a=%2F é/1.done", 9)]
