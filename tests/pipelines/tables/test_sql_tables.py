"""Topics as tables of a session: what questions answer, what they read, and what they leave as it was."""

from __future__ import annotations

import json
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from penstock.pipelines.errors import PipelineError, SqlError
from penstock.pipelines.sql import Tables, register
from penstock.pipelines.sql.refusals import refusal_of
from penstock.pipelines.tables.source import table_options
from tests.pipelines.topics import Topics

_FIRST_MS = 1_700_000_000_000  # 2023-11-14 22:13:20 UTC
_COUNT = 200


@pytest.fixture(scope="module")
def suffix() -> str:
    return uuid.uuid4().hex[:8]


@pytest.fixture(scope="module")
def orders(bootstrap: str, suffix: str) -> str:
    """Record n: partition n % 2, key k<n % 10>, one second after the one before."""
    name = Topics(bootstrap).create(2, f"orders_{suffix}")
    producer = Producer({"bootstrap.servers": bootstrap})
    for number in range(_COUNT):
        order = {"id": number, "customer": number % 7, "address": {"zip": str(number), "a-b": 1}}
        producer.produce(name, json.dumps(order), f"k{number % 10}", number % 2, timestamp=_FIRST_MS + number * 1000)
    assert producer.flush(30) == 0
    return name


@pytest.fixture(scope="module")
def tables(spark: SparkSession, bootstrap: str, orders: str) -> Iterator[Tables]:
    with register(spark, bootstrap, has_views=False) as tables:
        yield tables


@pytest.fixture(scope="module")
def answer(tables: Tables, orders: str) -> Callable[[str], list[tuple[Any, ...]]]:
    """The rows of a question, in which `orders` is the topic."""

    def rows(text: str) -> list[tuple[Any, ...]]:
        return [tuple(row) for row in tables.sql(_named(text, orders)).collect()]

    return rows


def _named(text: str, orders: str) -> str:
    return text.replace("ORDERS", f"`{orders}`").replace("LATEST", f"`{orders}$latest`")


def _read(tables: Tables, text: str, orders: str) -> tuple[int, tuple[str, ...], int | None]:
    """The offsets, columns and limit of the only topic that a question reads."""
    (read,) = tables.ask(_named(text, orders), is_run=False).reads
    return read.offsets, read.columns, read.limit


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        ("SELECT count(*) FROM ORDERS", [(200,)]),
        ("SELECT id, address.zip FROM ORDERS WHERE _partition = 1 AND _offset = 3", [(7, "7")]),
        ("SELECT customer, count(*) FROM ORDERS WHERE customer < 2 GROUP BY customer ORDER BY 1", [(0, 29), (1, 29)]),
        ("WITH x AS (SELECT id, _offset o FROM ORDERS) SELECT max(id) FROM x WHERE o < 5", [(9,)]),
        ("SELECT id FROM ORDERS ORDER BY _offset DESC, id LIMIT 2", [(198,), (199,)]),
        ("SELECT count(*) FROM ORDERS a JOIN ORDERS b ON a.id = b.id + 1 AND a._offset < 3 AND b._offset > 0", [(3,)]),
        ("SELECT max(id) FROM ORDERS o WHERE EXISTS (SELECT * FROM ORDERS p WHERE p.id = o.id + 198)", [(1,)]),
        ("SELECT id FROM ORDERS WHERE id > (SELECT max(id) - 1 FROM ORDERS)", [(199,)]),
        ("SELECT id FROM ORDERS WHERE id = 1 UNION SELECT customer FROM ORDERS WHERE id = 9 ORDER BY 1", [(1,), (2,)]),
        ("SELECT id FROM (SELECT id, row_number() OVER (ORDER BY id DESC) n FROM ORDERS) WHERE n = 3", [(197,)]),
        ("SELECT count(*) FROM (SELECT upper(_key), id + 1 FROM ORDERS LIMIT 7)", [(7,)]),
        ("SELECT count(*) FROM (SELECT * FROM ORDERS WHERE customer = 3 LIMIT 5)", [(5,)]),
        ("SELECT count(*) FROM (SELECT * FROM ORDERS LIMIT 5 OFFSET 3)", [(5,)]),
        ("SELECT id FROM ORDERS WHERE _key = 'k3' AND id < 20 ORDER BY 1", [(3,), (13,)]),
        ("SELECT count(*) FROM ORDERS WHERE _timestamp BETWEEN '2023-11-14 22:14:00' AND '2023-11-14 22:14'", [(1,)]),
        ("SELECT count(*), sum(id) FROM LATEST", [(10, 1945)]),
        ("SELECT id FROM LATEST WHERE _offset < 97 ORDER BY 1", [(190,), (191,), (192,), (193,)]),
        ("SELECT count(*) FROM ORDERS WHERE 1 = 0", [(0,)]),
        ("SELECT count(_headers) FROM ORDERS", [(0,)]),
        ("SELECT 1 + 1", [(2,)]),
    ],
)  # fmt: skip
def test_a_question_is_answered_as_if_all_were_read(
    answer: Callable[[str], list[tuple[Any, ...]]], question: str, expected: list[tuple[Any, ...]]
) -> None:
    assert answer(question) == expected


@pytest.mark.parametrize(
    ("question", "offsets", "columns", "limit"),
    [
        ("SELECT count(*) FROM ORDERS", 200, (), None),
        ("SELECT id FROM ORDERS LIMIT 10", 200, ("id",), 10),
        ("SELECT id FROM ORDERS WHERE customer = 1 LIMIT 10", 200, ("id", "customer"), None),
        ("SELECT id FROM ORDERS WHERE _offset >= 90", 20, ("id", "_offset"), None),
        ("SELECT id FROM ORDERS WHERE _partition = 1 AND _offset IN (1, 5)", 5, ("id", "_partition", "_offset"), None),
        ("SELECT id FROM ORDERS WHERE _timestamp >= '2023-11-14 22:16:20'", 20, ("id", "_timestamp"), None),
        ("SELECT id FROM ORDERS WHERE _timestamp > now() - INTERVAL 1 HOUR", 0, ("id", "_timestamp"), None),
        ("SELECT _offset FROM LATEST WHERE _offset > 90 LIMIT 1", 200, ("_offset",), None),
    ],
)
def test_only_what_is_needed_is_read(
    tables: Tables, orders: str, question: str, offsets: int, columns: tuple[str, ...], limit: int | None
) -> None:
    assert _read(tables, question, orders) == (offsets, columns, limit)


def test_rows_that_came_later_are_not_seen_when_a_question_has_been_asked(tables: Tables, bootstrap: str) -> None:
    topics = Topics(bootstrap)
    name = topics.create(1)
    topics.produce(name, range(5), 1)
    asked = tables.ask(f"SELECT count(*) FROM `{name}`")
    topics.produce(name, range(5), 1)

    assert asked.frame.collect()[0][0] == 5
    assert tables.sql(f"SELECT count(*) FROM `{name}`").collect()[0][0] == 10
    assert tables.ask(f"SELECT count(*) FROM `{name}`", ends=asked.ends).frame.collect()[0][0] == 5


def test_topics_are_joined_with_files_and_views_when_the_session_has_them(
    spark: SparkSession, tables: Tables, orders: str, tmp_path: Path
) -> None:
    spark.range(3).selectExpr("id AS customer", "concat('n', id) AS name").write.parquet(str(tmp_path / "names"))
    spark.range(2).createOrReplaceTempView("two")
    question = f"""SELECT n.name, count(*) FROM `{orders}` o JOIN parquet.`{tmp_path}/names` n USING (customer)
        JOIN two ON two.id = o.customer GROUP BY 1 ORDER BY 1"""

    assert [tuple(row) for row in tables.sql(question).collect()] == [("n0", 29), ("n1", 29)]


def test_no_view_is_left_and_results_are_the_user_s_when_a_question_was_asked(
    spark: SparkSession, tables: Tables, orders: str
) -> None:
    before = {table.name for table in spark.catalog.listTables()}
    rows = tables.sql(f"SELECT id FROM `{orders}` WHERE _offset = 0")

    assert {table.name for table in spark.catalog.listTables()} == before
    rows.createOrReplaceTempView("kept_rows")
    assert spark.sql("SELECT count(*) FROM kept_rows").collect()[0][0] == 2
    assert tables.sql(f"SELECT count(*) FROM kept_rows k JOIN `{orders}` o ON k.id < o.id").collect()[0][0] == 199 + 198
    spark.catalog.dropTempView("kept_rows")


def test_the_view_of_the_user_wins_when_a_topic_has_its_name(spark: SparkSession, tables: Tables, orders: str) -> None:
    spark.range(3).createOrReplaceTempView(orders)
    try:
        assert tables.sql(f"SELECT count(*) FROM `{orders}`").collect()[0][0] == 3
    finally:
        spark.catalog.dropTempView(orders)


def test_questions_do_not_meet_when_several_threads_ask(tables: Tables, orders: str) -> None:
    answers: dict[int, int] = {}

    def ask(number: int) -> None:
        question = f"SELECT count(*) FROM `{orders}` WHERE _offset < {number}"
        answers[number] = tables.sql(question).collect()[0][0]

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(1, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)

    assert answers == {number: 2 * number for number in range(1, 5)}


@pytest.mark.parametrize("name", ["my.topic", "my-topic", "My_Topic"])
def test_a_topic_is_one_table_when_its_name_needs_quotes(
    tables: Tables, bootstrap: str, suffix: str, name: str
) -> None:
    topic = Topics(bootstrap).create(1, f"{name}{suffix}")

    assert tables.sql(f"SELECT count(*) FROM `{topic}`").collect()[0][0] == 0
    assert tables.sql(f"SELECT count(*) FROM `{topic}$latest`").collect()[0][0] == 0
    with pytest.raises(SqlError, match="backticks" if "." in name else "(?s)."):
        tables.sql(f"SELECT count(*) FROM {topic}" if "." in name else "SELECT no FROM nowhere.at_all")


def test_both_are_reached_and_not_at_once_when_topics_differ_in_case(
    tables: Tables, bootstrap: str, suffix: str
) -> None:
    topics = Topics(bootstrap)
    lower, upper = topics.create(1, f"case{suffix}"), topics.create(1, f"CASE{suffix}")
    topics.produce(upper, range(3), 1)

    assert tables.sql(f"SELECT count(*) FROM {lower}").collect()[0][0] == 0
    assert tables.sql(f"SELECT count(*) FROM {upper}").collect()[0][0] == 3
    with pytest.raises(SqlError, match="differ in case alone"):
        tables.sql(f"SELECT * FROM {lower} JOIN {upper} USING (value)")


@pytest.mark.parametrize(
    ("question", "message", "hint"),
    [
        ("SELECT custmer FROM ORDERS", "there is no column custmer", "customer of orders"),
        ("SELECT id FROM ordrs", "there is no topic ordrs", ""),
        ("SELEC 1", "Syntax error at or near 'SELEC'", ""),
        ("SELECT * FROM orders$latest", "Syntax error", "backticks"),
        ("SELECT sum(customer), id FROM ORDERS", "id", ""),
    ],
)
def test_a_refusal_says_what_is_missing(
    tables: Tables, orders: str, capfd: pytest.CaptureFixture[str], question: str, message: str, hint: str
) -> None:
    with pytest.raises(PipelineError) as refused:
        tables.sql(_named(question, orders))

    assert message in refused.value.message
    assert hint in refused.value.hint
    assert "\n" not in refused.value.message
    assert "at org.apache" not in str(refused.value) + capfd.readouterr().err


def test_a_row_that_does_not_decode_is_named_when_it_is_read(spark: SparkSession, bootstrap: str) -> None:
    topics = Topics(bootstrap)
    name = topics.create(1)
    producer = Producer({"bootstrap.servers": bootstrap})
    for value in (*[b'{"id": 1}'] * 3, b"\xff\xfe no JSON", *[b'{"id": 1}'] * 1_500):  # tasks read, not the driver
        producer.produce(name, value, timestamp=_FIRST_MS)
    producer.flush(30)
    with register(spark, bootstrap, has_views=False) as tables, pytest.raises(PySparkException) as failed:
        tables.sql(f"SELECT sum(id) FROM `{name}`").collect()

    refused = refusal_of(failed.value)
    assert f"{name}" in refused.message
    assert "offset 3" in refused.message
    assert "at org.apache" not in refused.message


def test_the_plan_says_what_is_read_when_a_question_is_explained(tables: Tables, orders: str) -> None:
    said = tables.explain(f"SELECT id FROM `{orders}` WHERE _timestamp < '2023-11-14 22:14:00' AND _partition = 0")

    assert "columns: id, _partition, _timestamp (3 of 8)" in said
    assert "reads 100 of 200 offsets, 50 %, in 1 of 2 partitions" in said
    assert "10 minutes of late records, which is an allowance" in said
    assert any("late" in notice for notice in tables.notices)


def test_records_are_found_when_one_before_them_has_a_clock_that_is_ahead(tables: Tables, bootstrap: str) -> None:
    """`_timestamp < now()` was true of no record."""
    name, now = Topics(bootstrap).create(2), time.time_ns() // 1_000_000
    producer = Producer({"bootstrap.servers": bootstrap})
    for number in range(200):
        at = now + 58 * 60_000 if number < 2 else now - 7_200_000 + number
        producer.produce(name, f'{{"id": {number}}}', None, number % 2, timestamp=at)
    assert producer.flush(30) == 0

    for condition in ("_timestamp < now()", "_timestamp BETWEEN now() - INTERVAL 3 HOURS AND now()"):
        assert tables.sql(f"SELECT count(*) FROM `{name}` WHERE {condition}").collect()[0][0] == 198
    options = table_options(tables.catalog.connection, tables.catalog.table(name))
    spark = tables.spark
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    try:
        rows = spark.read.format("penstock").options(**options).load()
        assert rows.where("_timestamp < now()").count() == 198
    finally:
        spark.conf.unset("spark.sql.python.filterPushdown.enabled")


def test_the_note_is_repeated_when_a_column_is_missing_because_values_are_bytes(tables: Tables, bootstrap: str) -> None:
    topics = Topics(bootstrap)
    name = topics.create(1)
    topics.produce(name, range(2), 1)

    with pytest.raises(SqlError) as failed:
        tables.sql(f"SELECT customer FROM `{name}`")

    assert f"{name} is bytes: partition 0 offset 0 is no JSON object, nor are 1 more of 2" in failed.value.hint


def test_tables_are_described_when_asked(tables: Tables, orders: str) -> None:
    described = tables.describe(orders)

    assert orders in tables.names()
    assert (described.partitions, described.records) == (2, 200)
    assert "inferred" in described.note
    assert [(column.name, column.type) for column in described.columns[:2]] == [
        ("id", "bigint"),
        ("customer", "bigint"),
    ]


def test_plain_spark_knows_the_topics_when_they_are_registered(
    spark: SparkSession, bootstrap: str, orders: str, suffix: str
) -> None:
    dotted = Topics(bootstrap).create(1, f"dotted.{suffix}")
    with register(spark, bootstrap, topics=[orders, dotted, f"{orders}$latest"]) as tables:
        try:
            assert spark.sql(f"SELECT count(*) FROM {orders} WHERE _offset >= 95").collect()[0][0] == 10
            assert spark.sql(f"SELECT count(*) FROM `{dotted}`").collect()[0][0] == 0
            assert spark.sql(f"SELECT sum(id) FROM `{orders}$latest`").collect()[0][0] == 1945
            assert tables.ask(f"SELECT id FROM {orders} LIMIT 1", is_run=False).reads[0].limit == 1
        finally:
            for name in (orders, f"`{dotted}`", f"`{orders}$latest`"):
                spark.sql(f"DROP VIEW IF EXISTS {name}")


def test_a_column_is_found_when_its_name_has_quotes_and_backticks(
    spark: SparkSession, bootstrap: str, tables: Tables, suffix: str
) -> None:
    """One such record broke every question about its topic."""
    topic = Topics(bootstrap).create(1, f"odd_names_{suffix}")
    producer = Producer({"bootstrap.servers": bootstrap})
    producer.produce(topic, json.dumps({'a"b': 1, "c`d": {"e`f": 2}, "g\\h": "x", "plain": 3}))
    assert producer.flush(30) == 0
    assert [tuple(row) for row in tables.sql(f'SELECT `a"b`, `c``d`.`e``f`, plain FROM `{topic}`').collect()] == [
        (1, 2, 3)
    ]
    assert [tuple(row) for row in tables.sql(f"SELECT plain FROM `{topic}` WHERE `c``d`.`e``f` = 2").collect()] == [
        (3,)
    ]
