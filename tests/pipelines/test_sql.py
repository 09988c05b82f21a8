from __future__ import annotations

import datetime
import decimal
import json
import threading
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import sqlalchemy as sa
from pyspark.errors import PythonException
from pyspark.sql import Observation, SparkSession
from pyspark.sql import functions as F

from penstock.pipelines import Batch, Settings
from penstock.pipelines.errors import PipelineError
from penstock.pipelines.sinks.columns.sql import make_table, plan_columns
from penstock.pipelines.sinks.sql import SqlTable
from penstock.pipelines.sinks.sql_writing.database import Database, create_if_missing, engine_for, marks_table
from penstock.pipelines.sinks.sql_writing.task import SqlTask
from tests.pipelines import database_servers
from tests.pipelines.database_servers import PASSWORD, DatabaseProcess

AT = datetime.datetime(2024, 5, 1, 12, 30, 0, 250_000, datetime.UTC)
COLUMNS = (
    "id string, n bigint, small smallint, ratio double, price decimal(10,2), ok boolean, at timestamp, day date, "
    "raw binary, tags array<string>"
)
FULL = ("é'\"", 2**60, -3, 0.5, decimal.Decimal("12.30"), True, AT, AT.date(), b"\x00\xff", ["a", "b"])
EMPTY = ("none", *[None] * 9)


@dataclass(frozen=True)
class Place:
    url: str
    server: DatabaseProcess | None = None

    def read(self, query: str) -> list[Any]:
        with engine_for(self.url).connect() as connection:
            return [tuple(row) for row in connection.execute(sa.text(query))]

    def run(self, statement: str) -> None:
        with Database(self.url).transaction() as connection:
            connection.execute(sa.text(statement))


_SERVERS = {"postgresql": database_servers.postgresql, "mariadb": database_servers.mariadb}


@pytest.fixture(scope="module", params=["sqlite", *_SERVERS])
def place(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    if request.param == "sqlite":
        yield Place(f"sqlite:///{tmp_path_factory.mktemp('sql')}/rows.db")
        return
    opened: AbstractContextManager[tuple[DatabaseProcess, str]] = _SERVERS[request.param]()
    with opened as (server, url):
        yield Place(url, server)
        engine_for(url).dispose()


@pytest.fixture
def table() -> str:
    return f"t_{uuid.uuid4().hex[:8]}"


def batch(number: int, query_id: str = "") -> Batch:
    return Batch(query_id or "query", "sql/main", number)


def test_rows_are_there_once_when_appended_again(spark: SparkSession, place: Place, table: str) -> None:
    table_sink = SqlTable(place.url, table, batch_size=7)
    sink = table_sink.open(spark, Settings())
    rows = spark.createDataFrame([FULL, EMPTY, EMPTY], COLUMNS).repartition(2)
    counted = Observation()
    sink.write(rows.observe(counted, F.count(F.lit(1)).alias("rows")), batch(0))
    assert counted.get == {"rows": 3}
    again = replace(table_sink).open(spark, Settings())
    again.write(rows, batch(0))
    again.write(rows.where("id = 'none'"), batch(1))
    assert place.read(f"SELECT count(*), count(n) FROM {table}") == [(5, 1)]
    (found,) = place.read(f"SELECT id, n, small, ratio, price, ok, raw, tags FROM {table} WHERE n IS NOT NULL")
    assert (*found[:4], decimal.Decimal(str(found[4])), bool(found[5]), bytes(found[6])) == (*FULL[:6], FULL[8])
    assert json.loads(found[7]) == ["a", "b"]
    with engine_for(place.url).connect() as connection:
        made = make_table(table, plan_columns({"n": "bigint", "at": "timestamp", "day": "date"}, (), table), "any")
        at, day = connection.execute(sa.select(made.c.at, made.c.day).where(made.c.n.is_not(None))).one()
    assert (at.replace(tzinfo=datetime.UTC) if at.tzinfo is None else at, day) == (AT, AT.date())


def test_the_last_row_of_a_key_wins_when_several_are_in_a_batch(spark: SparkSession, place: Place, table: str) -> None:
    sink = SqlTable(place.url, table, mode="upsert", key=("id", "part"), order_by=("version",), tasks=2).open(
        spark, Settings()
    )

    def write(number: int, rows: list[tuple[Any, ...]]) -> None:
        frame = spark.createDataFrame(rows, "id int, part string, version int, text string").repartition(3)
        sink.write(frame, batch(number))

    first = [(n, "x", version, f"{n}-{version}") for n in range(20) for version in (3, 1, 2)]
    write(0, [*first, (1, "y", None, "null is first"), (1, "y", 0, "a"), (1, "y", 0, "b")])
    assert place.read(f"SELECT count(*) FROM {table}") == [(21,)]
    assert place.read(f"SELECT DISTINCT version FROM {table} WHERE part = 'x'") == [(3,)]
    assert place.read(f"SELECT text FROM {table} WHERE part = 'y'") == [("b",)]
    write(1, [(1, "x", 1, "newer batch"), (50, "x", 1, None)])
    write(0, first)
    query = f"SELECT id, version, text FROM {table} WHERE id IN (1, 50) AND part = 'x' ORDER BY id"
    assert place.read(query) == [(1, 1, "newer batch"), (50, 1, None)]


def test_one_of_many_attempts_writes_when_they_come_at_once(place: Place, table: str) -> None:
    columns = plan_columns({"n": "int"}, (), table)
    database = Database(place.url)
    with database.transaction() as connection:
        create_if_missing(connection, marks_table())
        create_if_missing(connection, make_table(table, columns, database.dialect))
    rows = [pa.RecordBatch.from_pydict({"n": pa.array([1, 2], pa.int32())})]
    for number in range(3):
        task = SqlTask(database, table, columns, "append", 1, "query", table, number, 1)
        with ThreadPoolExecutor(4) as pool:
            written = list(pool.map(lambda _, task=task: task.write(0, rows), range(4)))
        assert sorted(written) == [0, 0, 0, 2]
    assert place.read(f"SELECT count(*) FROM {table}") == [(6,)]


def test_tables_are_refused_when_rows_do_not_fit_them(spark: SparkSession, place: Place, table: str) -> None:
    place.run(f"CREATE TABLE {table} (id int, must int NOT NULL)")
    rows = spark.createDataFrame([(1, 2)], "id int, fresh int")
    sink = SqlTable(place.url, table)
    with pytest.raises(PipelineError, match="fresh is not in the table; must is missing from the rows"):
        sink.open(spark, Settings()).write(rows, batch(0))
    upsert = replace(sink, mode="upsert", key=("id",)).open(spark, Settings())
    with pytest.raises(PipelineError, match="unique index over exactly id"):
        upsert.write(rows.withColumnRenamed("fresh", "must"), batch(0))
    other = replace(sink, table=f"{table}_other", name="other", create=False).open(spark, Settings())
    with pytest.raises(PipelineError, match="there is no table"):
        other.write(rows, batch(0))


def test_rows_are_written_when_the_database_comes_back_in_time(spark: SparkSession, place: Place, table: str) -> None:
    if place.server is None:
        pytest.skip("SQLite has no server to stop")
    server = place.server
    table_sink = SqlTable(place.url, table)
    sink = table_sink.open(spark, Settings())
    impatient = replace(table_sink, wait_s=0.3).open(spark, Settings())
    rows = spark.createDataFrame([(1,), (2,)], "n int")
    sink.write(rows, batch(0))
    server.stop()
    with pytest.raises(PipelineError, match="could not be written to") as raised:
        impatient.write(rows, batch(1))
    assert PASSWORD not in str(raised.value) + str(raised.value.__cause__)
    restart = threading.Timer(1.0, server.start)
    restart.start()
    sink.write(rows, batch(1))
    restart.join()
    sink.write(rows, batch(1))
    assert place.read(f"SELECT count(*) FROM {table}") == [(4,)]


def test_a_wrong_password_is_told_at_once_when_a_sink_is_opened(place: Place) -> None:
    if place.server is None:
        pytest.skip("SQLite knows no passwords")
    pauses: list[float] = []
    database = Database(place.url.replace(PASSWORD, "wrong"))

    def connect() -> None:
        with database.transaction():
            pass

    with pytest.raises(PipelineError, match=r"authentication failed|Access denied") as raised:
        database.patiently(connect, sleep=pauses.append)
    assert not pauses
    assert "wrong" not in raised.value.message


def test_the_rest_is_written_when_some_tasks_had_failed(spark: SparkSession, tmp_path: Path) -> None:
    place = Place(f"sqlite:///{tmp_path}/rows.db")
    table_sink = SqlTable(place.url, "t", tasks=3)
    sink = table_sink.open(spark, Settings())
    rows = spark.range(0, 60, 1, 4).withColumnRenamed("id", "n")
    sink.write(rows.limit(0), batch(0))
    place.run("CREATE TRIGGER no BEFORE INSERT ON t WHEN NEW.n = 7 BEGIN SELECT RAISE(ABORT, 'not seven'); END")
    with pytest.raises(PythonException, match="not seven"):
        sink.write(rows, batch(1))
    assert place.read("SELECT count(*) FROM t")[0][0] < 60
    place.run("DROP TRIGGER no")
    if place.read("SELECT count(*) FROM t") != [(0,)]:
        with pytest.raises(PipelineError, match="batch 1 was begun with 3 tasks and cannot be finished with 2"):
            replace(table_sink, tasks=2).open(spark, Settings()).write(rows, batch(1))
    # Cut otherwise by the source, dealt out as before.
    sink.write(rows.repartition(5), batch(1))
    assert place.read("SELECT count(*), count(DISTINCT n) FROM t") == [(60, 60)]
