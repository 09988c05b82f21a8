"""INSERT INTO a topic: what records become of rows, and that each is there once, whatever happens to the driver."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer
from confluent_kafka.serialization import MessageField, SerializationContext
from pyspark.sql import SparkSession

import penstock
from penstock.pipelines.errors import PipelineError, SqlError
from penstock.pipelines.sql.insert import Inserted, InsertOptions, find_reasons, insert
from penstock.pipelines.sql.statements import Insert, parse_statement
from penstock.pipelines.sql.tables import Tables, register
from tests.pipelines.committed import make_topic, read_committed
from tests.pipelines.topics import Topics

pytestmark = pytest.mark.timeout(600)
TIMEOUT_S = 120.0
# One in each task. A driver is killed in the first, in the last and between; the soak has more between.
KILLS = 3
MORE_KILLS = 8
ROWS = 2000


@pytest.fixture(scope="module")
def tables(spark: SparkSession, bootstrap: str) -> Iterator[Tables]:
    with register(spark, bootstrap, has_views=False) as opened:
        yield opened


def produce(bootstrap: str, topic: str, *values: object) -> None:
    producer = Topics(bootstrap).producer()
    for number, value in enumerate(values):
        producer.produce(topic, json.dumps(value), f"k{number % 3}", headers=[("h", b"1")])
    assert producer.flush(30) == 0


def run(tables: Tables, text: str, tmp_path: Path, **options: object) -> Inserted:
    statement = parse_statement(text)
    assert isinstance(statement, Insert)
    return insert(tables, statement, InsertOptions(checkpoint=tmp_path / "jobs", **options))  # type: ignore[arg-type]


def values(bootstrap: str, topic: str) -> list[object]:
    return [json.loads(message.value() or b"null") for message in read_committed(bootstrap, topic)]


def test_rows_become_records_with_key_and_headers_when_a_topic_is_copied(
    tables: Tables, bootstrap: str, tmp_path: Path
) -> None:
    source, target = make_topic(bootstrap, "source"), make_topic(bootstrap, "target")
    produce(bootstrap, source, {"id": 1, "error": "e"}, {"id": 2, "error": None})
    done = run(tables, f"INSERT INTO {target} SELECT * FROM `{source}` ORDER BY id", tmp_path)
    assert (done.rows, done.is_continued) == (2, False)
    assert any("_offset and _timestamp are not written" in said for said in done.notices)
    assert any("because of ORDER BY" in said for said in done.notices)
    found = read_committed(bootstrap, target)
    assert [(message.key(), message.headers()) for message in found] == [(b"k0", [("h", b"1")]), (b"k1", [("h", b"1")])]
    assert values(bootstrap, target) == [{"id": 1, "error": "e"}, {"id": 2}]
    assert list((tmp_path / "jobs").glob("*.json")) == []
    # Done, so it is another insert.
    assert run(tables, f"INSERT INTO {target} SELECT * FROM `{source}` ORDER BY id", tmp_path).rows == 2
    assert len(read_committed(bootstrap, target)) == 4


def test_columns_are_named_by_the_statement_when_it_lists_them(tables: Tables, bootstrap: str, tmp_path: Path) -> None:
    target = make_topic(bootstrap, "target")
    text = f"INSERT INTO {target} (_key, a, b) VALUES (7, 1, 'x')"
    assert run(tables, text, tmp_path).rows == 1
    [message] = read_committed(bootstrap, target)
    assert (message.key(), message.value()) == (b"7", b'{"a":1,"b":"x"}')
    with pytest.raises(SqlError, match="names 2 columns and the question has 3"):
        run(tables, f"INSERT INTO {target} (a, b) VALUES (7, 1, 'x')", tmp_path)


def test_the_value_is_the_column_itself_when_it_is_the_only_one(tables: Tables, bootstrap: str, tmp_path: Path) -> None:
    target = make_topic(bootstrap, "target")
    run(tables, f"INSERT INTO {target} SELECT 'k' AS _key, 'plain' AS value", tmp_path)
    [message] = read_committed(bootstrap, target)
    assert message.value() == b"plain"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("INSERT INTO nowhere-at-all SELECT 1 AS a", "the topic nowhere-at-all does not exist"),
        ("INSERT INTO {target} SELECT 1 AS a, 2 AS A", "the column A is there twice"),
        ("INSERT INTO {target} SELECT 'k' AS _key", "nothing is left to be the value"),
        ("INSERT INTO {target} SELECT 1 AS a, 'x' AS _headers", "the column _headers is string"),
    ],
)
def test_what_is_missing_is_said_when_a_row_can_be_no_record(
    tables: Tables, bootstrap: str, tmp_path: Path, text: str, said: str
) -> None:
    target = make_topic(bootstrap, "target")
    with pytest.raises(SqlError) as raised:
        run(tables, text.format(target=target), tmp_path)
    assert said in raised.value.message


def test_a_missing_topic_is_created_when_its_partitions_are_given(
    tables: Tables, bootstrap: str, tmp_path: Path
) -> None:
    target = f"made-{time.time_ns()}"
    run(tables, f"INSERT INTO {target} SELECT id, 2 AS _partition FROM range(3)", tmp_path, create_partitions=3)
    assert [message.partition() for message in read_committed(bootstrap, target)] == [2, 2, 2]


def test_a_schema_is_registered_and_kept_to_when_there_is_a_registry(
    spark: SparkSession, bootstrap: str, tmp_path: Path
) -> None:
    target = make_topic(bootstrap, "target")
    with (
        penstock.Registry(bootstrap) as registry,
        register(spark, bootstrap, registry=registry.url, has_views=False) as tables,
    ):
        done = run(tables, f"INSERT INTO {target} SELECT 'k' AS _key, 1L AS id, 'x' AS name", tmp_path)
        assert any(f"version 1 of {target}-value" in said for said in done.notices)
        # A column that is missing is null.
        run(tables, f"INSERT INTO {target} SELECT 2L AS id", tmp_path)
        run(tables, f"INSERT INTO {target} SELECT 3L AS id, 'y' AS name, 1.5D AS total", tmp_path)
        with pytest.raises(PipelineError) as raised:
            run(tables, f"INSERT INTO {target} SELECT 'four' AS id", tmp_path)
        assert f"{target}-value" in raised.value.message
        deserialize = AvroDeserializer(SchemaRegistryClient({"url": registry.url}))
        context = SerializationContext(target, MessageField.VALUE)
        found = [deserialize(message.value(), context) for message in read_committed(bootstrap, target)]
    assert [(each["id"], each.get("name"), each.get("total")) for each in found] == [
        (1, "x", None),
        (2, None, None),
        (3, "y", 1.5),
    ]


@pytest.mark.parametrize(
    ("question", "reasons"),
    [
        ("SELECT id % 3 AS k, count(*) AS n FROM range(9) GROUP BY 1", []),
        ("SELECT a.id FROM range(9) a JOIN range(5) b ON a.id = b.id", []),
        ("SELECT id FROM range(9) LIMIT 3", ["LIMIT"]),
        ("SELECT id, rand() AS r FROM range(9)", ["a function such as rand()"]),
        ("SELECT id, now() AS t FROM range(9)", ["the current time"]),
        ("SELECT first(id) AS f FROM range(9) GROUP BY id % 2", ["the function First"]),
        ("SELECT id, row_number() OVER (ORDER BY id) AS n FROM range(9)", ["a window function"]),
        ("SELECT /*+ REPARTITION_BY_RANGE(3, id) */ id FROM range(9)", ["ranges that Spark finds by a sample"]),
    ],
)
def test_a_question_is_written_by_one_task_when_its_rows_may_be_others_next_time(
    spark: SparkSession, question: str, reasons: list[str]
) -> None:
    assert find_reasons(spark.sql(question)) == reasons


def test_a_question_is_written_by_one_task_when_it_uses_a_view_of_the_session(spark: SparkSession) -> None:
    spark.sql("CREATE OR REPLACE TEMPORARY VIEW few AS VALUES (1), (2) AS t(id)")
    reason = ["the view few of the session, which may change meanwhile"]
    assert find_reasons(spark.sql("SELECT id FROM few")) == reason
    assert find_reasons(spark.sql("SELECT id FROM range(9) WHERE id IN (SELECT id FROM few)")) == reason
    assert find_reasons(spark.sql("VALUES (1), (2)")) == []


class Driver:
    """Processes that run the statement, one after the other. Spark of the next starts while the one before works."""

    def __init__(self, bootstrap: str, directory: Path, statement: str) -> None:
        self.holds = directory / "holds"
        self.holds.mkdir()
        self.checkpoint = directory / "jobs"
        script = Path(__file__).with_name("inserting_job.py")
        given = (bootstrap, str(self.checkpoint), str(self.holds), "", statement)
        self.command = [sys.executable, str(script), *given]

    def kill_in_tasks(self, tasks: int) -> Iterator[int]:
        """Each task's number, when a driver was killed in it."""
        started = [self._start()]
        try:
            for task in range(tasks):
                if len(started) < tasks:
                    started.append(self._start())
                self._kill_in_task(started[task], task)
                yield task
        finally:
            for process in started:
                process.kill()
                process.communicate()

    def _kill_in_task(self, process: subprocess.Popen[str], task: int) -> None:
        (self.holds / "task").write_text(str(task))
        (self.holds / "reached").unlink(missing_ok=True)
        assert process.stdin is not None
        print("go", file=process.stdin, flush=True)
        deadline = time.monotonic() + TIMEOUT_S
        while not (self.holds / "reached").exists():
            assert process.poll() is None, process.communicate()
            assert time.monotonic() < deadline, "the task was not reached"
            time.sleep(0.05)
        os.kill(process.pid, signal.SIGKILL)
        process.wait()

    def _start(self) -> subprocess.Popen[str]:
        pipe = subprocess.PIPE
        return subprocess.Popen(self.command, stdin=pipe, stdout=pipe, stderr=pipe, text=True)


@pytest.mark.parametrize("kills", [KILLS, pytest.param(MORE_KILLS, marks=pytest.mark.soak)])
def test_each_row_is_there_once_when_the_driver_is_killed_in_every_task(
    spark: SparkSession, tables: Tables, bootstrap: str, tmp_path: Path, kills: int
) -> None:
    source, target = make_topic(bootstrap, "source", 2), make_topic(bootstrap, "target", 3)
    produce(bootstrap, source, *({"id": number} for number in range(ROWS)))
    statement = (
        f"INSERT INTO {target} SELECT CAST(id AS STRING) AS _key, hold(id) AS id"
        f" FROM (SELECT /*+ REPARTITION({kills}, id) */ id FROM `{source}`)"
    )
    driver = Driver(bootstrap, tmp_path, statement)
    for task in driver.kill_in_tasks(kills):
        assert len(list(driver.checkpoint.glob("*.json"))) == 1
        # Of another snapshot: no row of this insert.
        produce(bootstrap, source, {"id": ROWS + task})
    spark.udf.register("hold", lambda number: number, "bigint")
    done = run(tables, statement, tmp_path)  # this driver comes to the end
    assert (done.rows, done.is_continued) == (ROWS, True)
    found = read_committed(bootstrap, target)
    assert sorted(int(message.key() or b"") for message in found) == list(range(ROWS))
    assert {message.value() for message in found} == {f'{{"id":{number}}}'.encode() for number in range(ROWS)}
    assert list(driver.checkpoint.glob("*.json")) == []
