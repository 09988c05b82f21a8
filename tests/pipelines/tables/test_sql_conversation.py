"""Statements through a conversation: what is said late, what is cancelled, and what a view is to an insert."""

from __future__ import annotations

import itertools
import json
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer
from confluent_kafka.serialization import MessageField, SerializationContext
from pyspark.sql import SparkSession

import penstock
from penstock.pipelines.errors import PipelineError, SqlError
from penstock.pipelines.sql.answers import Rows
from penstock.pipelines.sql.followed_query import FollowOptions
from penstock.pipelines.sql.insert import Inserted, InsertOptions, _write, insert, open_topic
from penstock.pipelines.sql.jobs import InsertJob, read_job
from penstock.pipelines.sql.sql_session import SqlSession
from penstock.pipelines.sql.statements import Insert, parse_statement
from penstock.pipelines.sql.tables import Tables, register
from penstock.pipelines.sql.views import Views
from tests.pipelines.committed import make_topic, read_committed
from tests.pipelines.topics import Topics

pytestmark = pytest.mark.timeout(600)
TIMEOUT_S = 120.0


@pytest.fixture(scope="module")
def tables(spark: SparkSession, bootstrap: str) -> Iterator[Tables]:
    with register(spark, bootstrap, has_views=False) as opened:
        yield opened


@pytest.fixture(scope="module")
def registry(bootstrap: str) -> Iterator[str]:
    with penstock.Registry(bootstrap) as started:
        yield started.url


@pytest.fixture(scope="module")
def typed(spark: SparkSession, bootstrap: str, registry: str) -> Iterator[Tables]:
    """Tables that have schemas."""
    with register(spark, bootstrap, registry=registry, has_views=False, bad_rows="skip") as opened:
        yield opened


@pytest.fixture
def conversation(spark: SparkSession, tables: Tables, tmp_path: Path) -> SqlSession:
    return SqlSession(spark, tables, Views.load(tmp_path / "views.sql"), InsertOptions(checkpoint=tmp_path / "jobs"))


@pytest.fixture
def topic(bootstrap: str) -> str:
    topic = make_topic(bootstrap, "source")
    produce(bootstrap, topic, *(json.dumps({"id": number}) for number in range(5)))
    return topic


def produce(bootstrap: str, topic: str, *values: str) -> None:
    producer = Topics(bootstrap).producer()
    for value in values:
        producer.produce(topic, value)
    assert producer.flush(30) == 0


def values(bootstrap: str, topic: str) -> list[object]:
    return [json.loads(message.value() or b"") for message in read_committed(bootstrap, topic)]


def on_a_thread(work: Callable[[], object]) -> list[object]:
    """As the shell runs statements: what is set for one belongs to its thread."""
    found: list[object] = []

    def run() -> None:
        try:
            found.append(work())
        except SqlError as error:
            found.append(error.message)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join(TIMEOUT_S)
    return found


def test_rows_that_were_skipped_are_told_when_all_were_read(
    conversation: SqlSession, typed: Tables, bootstrap: str
) -> None:
    topic, target = make_topic(bootstrap, "typed"), make_topic(bootstrap, "target")
    conversation.tables = typed
    conversation.run(f"INSERT INTO {topic} SELECT id FROM range(5)")
    produce(bootstrap, topic, "no such schema", "{")

    def ask() -> object:
        """Few records are read before the answer is there, and what is to be said is said with it or behind it."""
        answer = conversation.run(f"SELECT count(id) AS n FROM `{topic}`")
        assert answer.rows is not None
        assert answer.rows.head(1).to_pylist() == [{"n": 5}]
        first = (*answer.notices, *conversation.late_notices())
        again = conversation.run(f"SELECT id FROM `{topic}` WHERE id >= 0")
        assert again.rows is not None
        assert sum(batch.num_rows for batch in again.rows.batches()) == 5
        assert (*again.notices, *conversation.late_notices()) == first
        return first

    said = f"{topic}: 2 records do not decode and were left out"
    assert on_a_thread(ask) == [(said,)]
    assert said in conversation.run(f"INSERT INTO {target} SELECT id FROM `{topic}`").notices


def test_keys_have_the_schema_of_the_topic_when_there_is_one(
    typed: Tables, bootstrap: str, registry: str, tmp_path: Path
) -> None:
    target = make_topic(bootstrap, "target")
    client = SchemaRegistryClient({"url": registry})
    client.register_schema(f"{target}-key", Schema('"string"', "AVRO"))
    record = {"type": "record", "name": "Other", "fields": [{"name": "id", "type": "long"}]}
    client.register_schema(f"{target}-value", Schema(json.dumps(record), "AVRO"))
    run(typed, f"INSERT INTO {target} SELECT 'k' AS _key, 1L AS id", tmp_path)
    # Another version, of the same record.
    run(typed, f"INSERT INTO {target} SELECT CAST(NULL AS STRING) AS _key, 2L AS id, 'x' AS name", tmp_path)
    deserialize = AvroDeserializer(client)
    keys = [
        deserialize(message.key(), SerializationContext(target, MessageField.KEY))
        for message in read_committed(bootstrap, target)
    ]
    assert keys == ["k", None]
    latest = client.get_latest_version(f"{target}-value")
    assert (latest.version, json.loads(latest.schema.schema_str or "")["name"]) == (2, "Other")
    with pytest.raises(SqlError, match=f"the column _key is bigint and does not fit the latest schema of {target}-key"):
        run(typed, f"INSERT INTO {target} SELECT 1L AS _key, 1L AS id", tmp_path)


def run(tables: Tables, text: str, tmp_path: Path, is_cancelled: Callable[[], bool] = lambda: False) -> Inserted:
    statement = parse_statement(text)
    assert isinstance(statement, Insert)
    return insert(tables, statement, InsertOptions(checkpoint=tmp_path / "jobs"), is_cancelled)


def cancelled_at(check: int) -> Callable[[], bool]:
    numbers = itertools.count(1)
    return lambda: next(numbers) == check


def unfinished(tables: Tables, text: str, tmp_path: Path) -> tuple[Path, InsertJob]:
    """The job of an insert that ended just before its first row: it is cancelled there."""
    with pytest.raises(SqlError, match="cancelled"):
        run(tables, text, tmp_path, cancelled_at(CHECKS))
    [file] = (tmp_path / "jobs").glob("*.insert.json")
    job = read_job(file)
    assert job is not None
    return file, job


CHECKS = 4  # before anything, before a schema is registered, before the job is written, before rows are


def test_nothing_is_written_when_an_insert_is_cancelled_before_its_first_row(
    tables: Tables, bootstrap: str, topic: str, tmp_path: Path
) -> None:
    target = make_topic(bootstrap, "target")
    text = f"INSERT INTO {target} SELECT id FROM `{topic}`"
    for number in range(1, CHECKS):
        with pytest.raises(SqlError, match="cancelled"):
            run(tables, text, tmp_path, cancelled_at(number))
        assert list((tmp_path / "jobs").glob("*.json")) == []
    _, job = unfinished(tables, text, tmp_path)
    assert not job.is_one_task
    assert values(bootstrap, target) == []
    produce(bootstrap, topic, '{"id": 5}')  # of another snapshot
    done = run(tables, text, tmp_path)
    assert (done.rows, done.is_continued, done.is_all_there) == (5, True, False)


def test_no_row_is_sent_when_the_statement_is_cancelled_in_its_middle(
    conversation: SqlSession, spark: SparkSession, bootstrap: str, topic: str
) -> None:
    target = make_topic(bootstrap, "target")

    def slow(number: int) -> int:
        time.sleep(60)
        return number

    spark.udf.register("slow", slow, "bigint")

    def cancel() -> None:
        deadline = time.monotonic() + TIMEOUT_S
        while not spark.sparkContext.statusTracker().getActiveJobsIds() and time.monotonic() < deadline:
            time.sleep(0.05)
        conversation.cancel()

    canceller = threading.Thread(target=cancel)
    canceller.start()
    started = time.monotonic()
    [said] = on_a_thread(lambda: conversation.run(f"INSERT INTO {target} SELECT slow(id) AS id FROM `{topic}`"))
    canceller.join()
    assert isinstance(said, str)
    assert "cancel" in said.lower()
    assert time.monotonic() - started < 50
    assert values(bootstrap, target) == []
    # The next statement is not cancelled.
    [answer] = on_a_thread(lambda: conversation.run(f"INSERT INTO {target} SELECT id FROM `{topic}`").notices[-1])
    assert answer == f"5 rows into {target}"


def test_a_limit_is_written_by_one_task_when_few_rows_are_wanted(
    tables: Tables, bootstrap: str, topic: str, tmp_path: Path
) -> None:
    target = make_topic(bootstrap, "target")
    done = run(tables, f"INSERT INTO {target} SELECT id FROM `{topic}` LIMIT 3", tmp_path)
    assert any("because of LIMIT" in said for said in done.notices)
    assert len(values(bootstrap, target)) == 3


def test_an_insert_is_another_when_its_view_was_replaced(
    conversation: SqlSession, tables: Tables, bootstrap: str, topic: str, tmp_path: Path
) -> None:
    target = make_topic(bootstrap, "target")
    conversation.run(f"CREATE VIEW chosen AS SELECT id FROM `{topic}` WHERE id = 1")
    text = f"INSERT INTO {target} SELECT * FROM chosen"
    unfinished(tables, f"INSERT INTO {target} {conversation.views.expand('SELECT * FROM chosen')}", tmp_path)
    conversation.run(f"CREATE OR REPLACE VIEW chosen AS SELECT id FROM `{topic}` WHERE id > 2")
    on_a_thread(lambda: conversation.run(text))
    assert values(bootstrap, target) == [{"id": 3}, {"id": 4}]


def test_all_rows_are_said_to_be_there_when_the_driver_died_after_the_last_commit(
    tables: Tables, bootstrap: str, topic: str, tmp_path: Path
) -> None:
    target = make_topic(bootstrap, "target")
    text = f"INSERT INTO {target} SELECT id FROM `{topic}` ORDER BY id"
    file, job = unfinished(tables, text, tmp_path)
    assert job.is_one_task
    _write(tables, open_topic(tables, target, InsertOptions()), job, lambda: None)
    started = time.monotonic()
    done = run(tables, text, tmp_path)
    assert time.monotonic() - started < 8
    assert (done.rows, done.is_continued, done.is_all_there) == (0, True, True)
    assert len(values(bootstrap, target)) == 5
    assert not file.exists()
    assert on_a_thread(lambda: run(tables, text, tmp_path).rows) == [5]  # done, so it is another insert


def test_rows_are_counted_and_left_when_the_driver_died_after_the_last_of_several_commits(
    tables: Tables, bootstrap: str, tmp_path: Path
) -> None:
    target = make_topic(bootstrap, "target")
    text = f"INSERT INTO {target} SELECT /*+ REPARTITION(2, id) */ id FROM range(5)"
    _, job = unfinished(tables, text, tmp_path)
    assert not job.is_one_task
    _write(tables, open_topic(tables, target, InsertOptions()), job, lambda: None)
    done = run(tables, text, tmp_path)
    assert (done.rows, done.is_continued, done.is_all_there) == (5, True, False)
    assert len(values(bootstrap, target)) == 5


def test_views_are_known_when_an_insert_is_followed(
    conversation: SqlSession, bootstrap: str, topic: str, tmp_path: Path
) -> None:
    target = make_topic(bootstrap, "target")
    conversation.run(f"CREATE VIEW chosen AS SELECT id FROM `{topic}` WHERE id > 2")
    options = FollowOptions(start="earliest", once=True, checkpoint=tmp_path / "follow", trigger="50 milliseconds")
    text = f"WITH x AS (SELECT * FROM chosen) INSERT INTO {target} SELECT * FROM x;"
    conversation.follow(text, lambda rows: None, options, lambda said: None).wait(for_s=TIMEOUT_S)
    assert values(bootstrap, target) == [{"id": 3}, {"id": 4}]
    shown: list[object] = []

    def show(rows: Rows) -> None:
        shown.extend(rows.head(10).to_pylist())

    conversation.follow("SELECT * FROM chosen;", show, options, lambda said: None).wait(for_s=TIMEOUT_S)
    assert shown == [{"id": 3}, {"id": 4}]


def test_a_view_is_refused_when_its_question_does_not_analyse(conversation: SqlSession, topic: str) -> None:
    for wrong in (f"SELECT nothing_such FROM `{topic}`", "SELECT * FROM wrong"):
        with pytest.raises(PipelineError):
            conversation.run(f"CREATE VIEW wrong AS {wrong}")
    assert conversation.views.queries == {}


def test_a_notice_says_so_when_a_view_hides_a_topic(conversation: SqlSession, bootstrap: str) -> None:
    topic = Topics(bootstrap).create(name=f"hidden_{time.time_ns()}")
    produce(bootstrap, topic, '{"id": 1}')
    notices = conversation.run(f"CREATE VIEW {topic} AS SELECT id FROM {topic}").notices
    assert any("hides the topic" in each for each in notices)


def test_a_topic_is_not_dropped_when_it_is_taken_for_a_table(conversation: SqlSession, topic: str) -> None:
    with pytest.raises(SqlError, match="is a topic") as caught:
        conversation.run(f"DROP TABLE `{topic}`")
    assert f"penstock topics delete {topic}" in caught.value.hint


def test_rows_are_plain_json_when_the_topic_holds_json_and_has_no_subject(
    bootstrap: str, typed: Tables, topic: str, tmp_path: Path
) -> None:
    options = InsertOptions(checkpoint=tmp_path)
    done = insert(typed, parsed(f"INSERT INTO `{topic}` SELECT 5 AS id"), options)
    assert "those that the topic holds are so" in " ".join(done.notices)
    assert values(bootstrap, topic) == [{"id": number} for number in range(6)]
    assert typed.sql(f"SELECT count(id) FROM `{topic}`").collect()[0][0] == 6


def test_nothing_is_registered_when_the_topic_holds_text(
    bootstrap: str, typed: Tables, registry: str, tmp_path: Path
) -> None:
    topic = make_topic(bootstrap, "text")
    produce(bootstrap, topic, "no json", "at all")
    with pytest.raises(SqlError, match="neither JSON objects nor have a schema"):
        insert(typed, parsed(f"INSERT INTO `{topic}` SELECT 5 AS id"), InsertOptions(checkpoint=tmp_path))
    assert f"{topic}-value" not in SchemaRegistryClient({"url": registry}).get_subjects()
    assert len(read_committed(bootstrap, topic)) == 2


def parsed(text: str) -> Insert:
    statement = parse_statement(text)
    assert isinstance(statement, Insert)
    return statement
