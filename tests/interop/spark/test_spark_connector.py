"""Spark's own Kafka connector and our data source on the same topics: each reads what the other wrote.

Every test runs against Apache Kafka and against Penstock. The connector's jars are those of tools/spark_connector.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.streaming import StreamingQuery

from penstock.pipelines import Pipeline, Settings, Topic
from penstock.pipelines.data_source import register
from penstock.pipelines.runtime.runner import Run
from penstock.pipelines.sinks.topic import TopicSettings, TopicSink
from penstock.pipelines.steps import select
from penstock.testing.processes import ServerProcess
from penstock.testing.pytest_plugin import KafkaClusterFixture
from spark_connector.jars import fetch_connector_jars
from tests.clients.confluent import admin_of, consumer_of, produce, producer_of, values
from tests.interop.conftest import MakeTopic
from tests.pipelines.committed import committed_values

OURS, THEIRS = "penstock", "kafka"
COLUMNS = ("key", "value", "partition", "headers")
PATIENCE_S = 120.0


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # not whichever python3 comes first
    settings = {
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.memory": "1g",
        "spark.jars": ",".join(map(str, fetch_connector_jars())),
        "spark.local.dir": str(tmp_path_factory.mktemp("spark")),
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "2",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }
    builder = SparkSession.builder.master("local[2]").appName("interop")
    for key, value in settings.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    register(session)
    yield session
    session.stop()


@pytest.fixture
def options(broker: ServerProcess) -> dict[str, str]:
    return {"kafka.bootstrap.servers": broker.bootstrap_servers}


def sample(spark: SparkSession) -> DataFrame:
    """Null keys, null values, headers and chosen partitions among them."""
    return spark.sql("""
        SELECT IF(id % 3 = 0, NULL, CAST(CONCAT('key ', id) AS BINARY)) AS key,
               IF(id % 7 = 0, NULL, CAST(CONCAT('value ', id) AS BINARY)) AS value,
               CAST(id % 2 AS INT) AS partition,
               IF(id % 5 = 0, ARRAY(NAMED_STRUCT('key', 'n', 'value', CAST(id AS STRING)),
                                    NAMED_STRUCT('key', 'none', 'value', NULL)), NULL) AS headers
        FROM RANGE(0, 100, 1, 2)
    """).selectExpr(
        "key", "value", "partition", "CAST(headers AS ARRAY<STRUCT<key: STRING, value: BINARY>>) AS headers"
    )


def read(spark: SparkSession, connector: str, options: dict[str, str], topic: str) -> list[Row]:
    chosen = options | {"subscribe": topic, "includeHeaders": "true", "kafka.isolation.level": "read_committed"}
    frame = spark.read.format(connector).options(**chosen).load()
    return sorted(frame.collect(), key=lambda row: (row.partition, row.offset))


def without_offsets(rows: list[Row]) -> list[str]:
    return sorted(repr([row[column] for column in COLUMNS]) for row in rows)


@pytest.mark.parametrize("writer", [OURS, THEIRS])
def test_both_read_the_same_when_either_wrote(
    spark: SparkSession, options: dict[str, str], make_topic: MakeTopic, topic: str, writer: str
) -> None:
    make_topic(topic, 2)
    sample(spark).write.format(writer).mode("append").options(**options, topic=topic).save()
    ours, theirs = read(spark, OURS, options, topic), read(spark, THEIRS, options, topic)
    assert ours == theirs
    assert without_offsets(ours) == without_offsets(sample(spark).collect())


def test_the_connector_reads_each_row_once_when_we_wrote_a_batch_twice(
    spark: SparkSession, options: dict[str, str], make_topic: MakeTopic, topic: str
) -> None:
    make_topic(topic, 2)
    identity = {"guarantee": "exactly-once", "queryId": topic, "batchId": "0", "sinkName": "interop"}
    for _ in range(2):
        sample(spark).write.format(OURS).mode("append").options(**options, **identity, topic=topic).save()
    assert without_offsets(read(spark, THEIRS, options, topic)) == without_offsets(sample(spark).collect())


@pytest.mark.parametrize(("reader", "writer"), [(OURS, THEIRS), (THEIRS, OURS)])
def test_a_stream_copies_everything_when_one_reads_and_the_other_writes(
    spark: SparkSession,
    options: dict[str, str],
    make_topic: MakeTopic,
    topic: str,
    tmp_path: Path,
    reader: str,
    writer: str,
) -> None:
    make_topic(topic, 2)
    copy = f"{topic}-copy"
    make_topic(copy, 2)
    sample(spark).write.format(OURS).mode("append").options(**options, topic=topic).save()
    limits = {"startingOffsets": "earliest", "maxOffsetsPerTrigger": "30", "includeHeaders": "true"}
    frame = spark.readStream.format(reader).options(**options, **limits, subscribe=topic).load().select(*COLUMNS)
    into = {"topic": copy, "checkpointLocation": str(tmp_path)}
    query = frame.writeStream.format(writer).options(**options, **into).trigger(availableNow=True).start()
    query.awaitTermination()
    assert len(query.recentProgress) >= 3
    assert without_offsets(read(spark, THEIRS, options, copy)) == without_offsets(sample(spark).collect())


def test_a_stream_goes_on_with_ours_when_it_was_begun_with_the_connector(
    spark: SparkSession, options: dict[str, str], make_topic: MakeTopic, topic: str, tmp_path: Path
) -> None:
    make_topic(topic, 2)
    seen: list[int] = []

    def count(rows: DataFrame, _: int) -> None:
        seen.append(rows.count())

    for connector in (THEIRS, OURS):
        sample(spark).write.format(OURS).mode("append").options(**options, topic=topic).save()
        frame = (
            spark.readStream.format(connector).options(**options, subscribe=topic, startingOffsets="earliest").load()
        )
        writer = frame.writeStream.option("checkpointLocation", str(tmp_path)).foreachBatch(count)
        writer.trigger(availableNow=True).start().awaitTermination()
    assert seen == [100, 100]


def test_a_pipeline_runs_on_the_connector_when_its_engine_is_jvm(
    spark: SparkSession, broker: ServerProcess, make_topic: MakeTopic, topic: str, tmp_path: Path
) -> None:
    make_topic(topic, 2)
    copy = f"{topic}-copy"
    spark.sql("SELECT CAST(id AS STRING) AS value FROM RANGE(0, 100)").write.format(OURS).mode("append").options(
        **{"kafka.bootstrap.servers": broker.bootstrap_servers}, topic=topic
    ).save()
    sink = TopicSink(copy, create=TopicSettings(partitions=2))
    settings = Settings(
        bootstrap_servers=broker.bootstrap_servers, checkpoint=str(tmp_path), engine="jvm", max_records_per_batch=40
    )
    pipeline = Pipeline(
        "interop", (Topic(topic),), (sink,), steps=(select("CAST(value AS STRING) AS value"),), settings=settings
    )
    run = Run(spark, pipeline, once=True)
    run.start()
    run.wait()
    assert "at least once" in sink.describe(settings)
    assert committed_values(broker.bootstrap_servers, copy) == sorted(str(number) for number in range(100))


def test_records_come_back_when_the_connector_runs_in_real_time_mode(
    spark: SparkSession, options: dict[str, str], make_topic: MakeTopic, topic: str, tmp_path: Path
) -> None:
    make_topic(topic, 1)
    copy = f"{topic}-copy"
    make_topic(copy, 1)
    frame = spark.readStream.format(THEIRS).options(**options, subscribe=topic, startingOffsets="earliest").load()
    writer = frame.select("value").writeStream.format(THEIRS).outputMode("update").options(**options, topic=copy)
    query = writer.option("checkpointLocation", str(tmp_path)).trigger(realTime="5 seconds").start()  # type: ignore[call-overload]
    try:
        spark.sql("SELECT CAST(id AS STRING) AS value FROM RANGE(0, 10)").write.format(OURS).mode("append").options(
            **options, topic=topic
        ).save()
        deadline = time.monotonic() + PATIENCE_S
        while len(read(spark, OURS, options, copy)) < 10:
            assert query.isActive, query.exception()
            assert time.monotonic() < deadline, json.dumps(query.status)
            time.sleep(0.5)
    finally:
        query.stop()
    assert sorted(int(row.value) for row in read(spark, OURS, options, copy)) == list(range(10))


@contextmanager
def stopping(query: StreamingQuery) -> Iterator[None]:
    try:
        yield
    finally:
        query.stop()


@pytest.mark.timeout(600)  # a query and a cluster on two cores, beside other tests
def test_a_stream_goes_on_when_brokers_of_a_cluster_are_killed(
    spark: SparkSession, kafka_cluster: KafkaClusterFixture, tmp_path: Path
) -> None:
    """The connector alone, reading and writing: a task that fails ends the query, since it is tried once here."""
    cluster, servers = kafka_cluster.cluster, kafka_cluster.bootstrap_servers
    topic, copy = kafka_cluster.topic(partitions=3), kafka_cluster.topic(partitions=3)
    options = {"kafka.bootstrap.servers": servers}
    frame = spark.readStream.format(THEIRS).options(**options, subscribe=topic, startingOffsets="earliest").load()
    writer = frame.select("value").writeStream.format(THEIRS).options(**options, topic=copy)
    query = writer.option("checkpointLocation", str(tmp_path)).trigger(processingTime="100 milliseconds").start()
    copied: set[bytes | None] = set()
    sent = 0

    def copy_more(count: int) -> None:
        """Returns when the records that are written now have been copied."""
        nonlocal sent
        produce(producer_of(servers), topic, [b"%d" % number for number in range(sent, sent + count)])
        sent += count
        deadline = time.monotonic() + PATIENCE_S
        while len(copied) < sent:
            copied.update(values(consumer.consume(count, timeout=0.2)))
            assert query.isActive, query.exception()
            assert time.monotonic() < deadline, json.dumps(query.status)

    with consumer_of(servers) as consumer, stopping(query):
        consumer.subscribe([copy])
        copy_more(300)
        leader = admin_of(servers).list_topics(topic, timeout=PATIENCE_S).topics[topic].partitions[0].leader
        for victim in dict.fromkeys((leader, cluster.controller_id())):
            cluster.kill(victim)
            copy_more(300)
            cluster.start_broker(victim)
            cluster.wait_until_in_sync()
        copy_more(300)
        assert query.exception() is None
    assert copied == {b"%d" % number for number in range(sent)}
