"""Topics as tables by `format("penstock")`: in SQL alone, with filters pushed down or not, and as streams."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from penstock.pipelines.data_source import register
from penstock.pipelines.tables.catalog import Catalog
from penstock.pipelines.tables.connection import KafkaConnection
from penstock.pipelines.tables.definition import read_table, write_table
from penstock.pipelines.tables.source import table_options
from tests.pipelines.committed import make_topic
from tests.pipelines.topics import Topics

pytestmark = pytest.mark.timeout(300)
PUSHDOWN = "spark.sql.python.filterPushdown.enabled"
FIRST_MS = 1_700_000_000_000


@pytest.fixture(scope="module")
def orders(spark: SparkSession, bootstrap: str) -> str:
    """20 orders in two partitions, a minute apart; key k0 to k3."""
    register(spark)
    topic = make_topic(bootstrap, "orders", 2, retention_ms="-1")
    producer = Topics(bootstrap).producer()
    for number in range(20):
        value = json.dumps({"id": number, "total": number * 1.5, "error": None})
        producer.produce(topic, value, f"k{number % 4}", partition=number % 2, timestamp=FIRST_MS + number * 60_000)
    assert producer.flush(30) == 0
    return topic


@contextmanager
def view(spark: SparkSession, bootstrap: str, topic: str, **options: str) -> Iterator[str]:
    given = {"table": topic, "kafka.bootstrap.servers": bootstrap} | options
    written = ", ".join(f"'{name}' '{text}'" for name, text in given.items())
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW t USING penstock OPTIONS ({written})")
    try:
        yield "t"
    finally:
        spark.catalog.dropTempView("t")


def test_a_topic_is_a_table_when_sql_alone_names_it(spark: SparkSession, bootstrap: str, orders: str) -> None:
    with view(spark, bootstrap, orders):
        columns = spark.table("t").columns
        assert sorted(columns[:-5]) == ["error", "id", "total"]
        assert columns[-5:] == ["_key", "_headers", "_partition", "_offset", "_timestamp"]
        found = spark.sql("SELECT _key, count(*) n, sum(id) s FROM t GROUP BY _key ORDER BY _key").collect()
    assert [tuple(row) for row in found] == [("k0", 5, 40), ("k1", 5, 45), ("k2", 5, 50), ("k3", 5, 55)]


@pytest.mark.parametrize("is_pushed", [True, False])
def test_questions_to_one_view_have_nothing_of_each_other_when_filters_are_pushed_down_and_when_not(
    spark: SparkSession, bootstrap: str, orders: str, is_pushed: bool
) -> None:
    """A question without a condition was answered with the rows of the question before."""
    spark.conf.set(PUSHDOWN, str(is_pushed).lower())
    try:
        with view(spark, bootstrap, orders):
            late = spark.sql("SELECT id FROM t WHERE _timestamp >= timestamp_millis(1700000900000)")
            assert sorted(row.id for row in late.collect()) == [15, 16, 17, 18, 19]
            one = spark.sql("SELECT id FROM t WHERE _partition = 1 AND _offset BETWEEN 2 AND 3")
            assert sorted(row.id for row in one.collect()) == [5, 7]
            assert spark.sql("SELECT id FROM t WHERE _offset > 1000").collect() == []
            assert spark.sql("SELECT id FROM t").count() == 20
    finally:
        spark.conf.unset(PUSHDOWN)


def test_the_latest_of_each_key_is_found_over_partitions_when_the_table_is_asked_for_it(
    spark: SparkSession, bootstrap: str, orders: str
) -> None:
    with view(spark, bootstrap, f"{orders}$latest"):
        found = spark.sql("SELECT _key, id FROM t ORDER BY _key").collect()
        assert [tuple(row) for row in found] == [("k0", 16), ("k1", 17), ("k2", 18), ("k3", 19)]
        # The latest record of k0 is not among them, and an older one is no answer.
        assert spark.sql("SELECT id FROM t WHERE _offset < 8").collect() == []


def test_no_outdated_row_comes_back_when_a_key_has_moved_and_its_old_partition_is_asked_for(
    spark: SparkSession, bootstrap: str
) -> None:
    topic = make_topic(bootstrap, "moved", 2, retention_ms="-1")
    producer = Topics(bootstrap).producer()
    for number, partition in enumerate((0, 1)):
        producer.produce(topic, json.dumps({"id": number}), "k", partition=partition, timestamp=FIRST_MS + number)
    assert producer.flush(30) == 0
    spark.conf.set(PUSHDOWN, "true")
    try:
        with view(spark, bootstrap, f"{topic}$latest"):
            assert spark.sql("SELECT id FROM t WHERE _partition = 0").collect() == []
            assert [row.id for row in spark.sql("SELECT id FROM t WHERE _partition = 1").collect()] == [1]
    finally:
        spark.conf.unset(PUSHDOWN)


def test_only_some_columns_are_read_when_the_reader_has_a_schema(
    spark: SparkSession, bootstrap: str, orders: str
) -> None:
    options = {"table": orders, "kafka.bootstrap.servers": bootstrap}
    rows = spark.read.format("penstock").options(**options).schema("id BIGINT, _offset BIGINT").load()
    assert sorted(map(tuple, rows.collect()))[:3] == [(0, 0), (1, 0), (2, 1)]
    wrong = spark.read.format("penstock").options(**options).schema("id STRING").load()
    with pytest.raises(PySparkException, match="is bigint, not string"):
        wrong.collect()


def test_nothing_is_looked_up_again_when_the_table_travels_in_its_options(
    spark: SparkSession, bootstrap: str, orders: str
) -> None:
    connection = KafkaConnection(bootstrap)
    with Catalog(connection) as catalog:
        table = catalog.table(orders)
    assert read_table(write_table(table), None) == table
    options = table_options(connection, table)
    before = spark.read.format("penstock").options(**options).load()
    assert before.schema == table.spark_schema()
    assert before.count() == 20


def test_offsets_of_the_source_hold_when_a_table_is_read_with_them(
    spark: SparkSession, bootstrap: str, orders: str
) -> None:
    ends = json.dumps({orders: {"0": 3, "1": 2}})
    with view(spark, bootstrap, orders, endingOffsets=ends):
        assert sorted(row.id for row in spark.sql("SELECT id FROM t").collect()) == [0, 1, 2, 3, 4]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"subscribe": "x"}, "option subscribe cannot be given together with table"),
        ({"tableDefinition": "{}"}, "the option tableDefinition cannot be read"),
        ({"badRows": "ignore"}, "option badRows is 'ignore'; it accepts one of fail, skip, null"),
    ],
)
def test_the_option_is_named_when_it_does_not_go_with_a_table(
    spark: SparkSession, bootstrap: str, orders: str, options: dict[str, str], said: str
) -> None:
    with pytest.raises(PySparkException) as raised, view(spark, bootstrap, orders, **options):
        spark.table("t").collect()
    assert said in str(raised.value)


def test_a_registry_is_refused_when_no_table_is_read(spark: SparkSession, bootstrap: str, orders: str) -> None:
    options = {"subscribe": orders, "kafka.bootstrap.servers": bootstrap, "registry.url": "http://localhost:1"}
    with pytest.raises(PySparkException, match=r"option registry\.url has a meaning only with the option table"):
        spark.read.format("penstock").options(**options).load().collect()


def test_a_stream_is_decoded_and_goes_on_when_it_is_started_again(
    spark: SparkSession, bootstrap: str, orders: str, tmp_path: Path
) -> None:
    topic = make_topic(bootstrap, "followed")
    topics, seen = Topics(bootstrap), []

    def produce(*numbers: int) -> None:
        producer = topics.producer()
        for number in numbers:
            producer.produce(topic, json.dumps({"id": number}), b"k")
        assert producer.flush(30) == 0

    def run() -> None:
        options = {"table": topic, "kafka.bootstrap.servers": bootstrap, "startingOffsets": "earliest"}
        rows = spark.readStream.format("penstock").options(**options).load()

        def keep(batch: DataFrame, _: int) -> None:
            seen.extend(sorted((row.id, row._key, row._offset) for row in batch.collect()))

        writer = rows.writeStream.foreachBatch(keep).option("checkpointLocation", str(tmp_path / "checkpoint"))
        query = writer.trigger(availableNow=True).start()
        deadline = time.monotonic() + 60
        while query.isActive and time.monotonic() < deadline:
            time.sleep(0.05)
        assert query.exception() is None

    produce(1, 2)
    run()
    produce(3)
    run()
    assert seen == [(1, "k", 0), (2, "k", 1), (3, "k", 2)]
