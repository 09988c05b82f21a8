"""The sink through Spark: batches, streams and a pipeline's TopicSink, each read back by a read_committed consumer."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Literal

import pytest
from confluent_kafka import TIMESTAMP_CREATE_TIME, Consumer, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, ResourceType
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from penstock.pipelines.errors import PipelineError
from penstock.pipelines.pipeline import Batch, OpenSink, Settings, Sink
from penstock.pipelines.sinks.topic import ALL_AS_JSON, OpenTopic, TopicSettings, TopicSink
from penstock.pipelines.topic_writing.errors import RefusedError, WriteError
from penstock.pipelines.topic_writing.librdkafka import RawProducer
from penstock.pipelines.topic_writing.marker import DRIVER, Marker, TaskOfBatch, group_of, transactional_id_of
from penstock.pipelines.topic_writing.markers import read_markers_of_sink
from tests.pipelines.committed import committed_values, make_topic, read_committed, unique

RETRYING_JOB = Path(__file__).with_name("retrying_job.py")
# Key -> where Java's murmur2 puts it among a thousand partitions; the hashes are those of Kafka's own tests.
JAVA_HASHES = {"21": -973932308, "foobar": -790332482, "a-little-bit-long-string": -985981536, "abc": 479470107}

ONE_OF_EACH = """
    SELECT * FROM VALUES
      ('{a}', 1, 'k1', 'v1', array(named_struct('key', 'h', 'value', X'01'), named_struct('key', 'h', 'value', NULL)),
       7L),
      ('{b}', NULL, NULL, 'v2', NULL, NULL),
      ('{a}', 0, 'k3', NULL, array(), 1700000000123L)
    AS rows(topic, partition, key, value, headers, timestamp)
"""


def save(rows: DataFrame, bootstrap: str, **options: str) -> None:
    writer = rows.write.format("penstock").mode("append").option("kafka.bootstrap.servers", bootstrap)
    writer.options(**{name.replace("__", "."): value for name, value in options.items()}).save()


def test_every_column_arrives_when_rows_say_where_they_go(spark: SparkSession, bootstrap: str) -> None:
    a, b = make_topic(bootstrap, "a", 2), make_topic(bootstrap, "b")
    save(spark.sql(ONE_OF_EACH.format(a=a, b=b)), bootstrap, includeTimestamp="true")
    before_ms = time.time() * 1000 - 60_000
    found = [(m.partition(), m.key(), m.value(), m.headers(), m.timestamp()[1]) for m in read_committed(bootstrap, a)]
    assert found == [
        (0, b"k3", None, None, 1_700_000_000_123),
        (1, b"k1", b"v1", [("h", b"\x01"), ("h", None)], 7),
    ]
    (other,) = read_committed(bootstrap, b)
    assert (other.key(), other.value()) == (None, b"v2")
    assert other.timestamp()[1] > before_ms  # now


@pytest.mark.parametrize("guarantee", ["exactly-once", "at-least-once"])
@pytest.mark.parametrize("size", [100, None], ids=["by the driver", "by tasks"])
def test_records_have_the_rows_times_when_they_are_asked_for(
    spark: SparkSession, bootstrap: str, guarantee: Literal["exactly-once", "at-least-once"], size: int | None
) -> None:
    """The partition is asked where a time begins, too: brokers answer by the times that batches say they have."""
    sink = TopicSink(make_topic(bootstrap, "timed"), guarantee=guarantee, timestamp="timestamp")
    times = (1_700_000_000_000, 1_600_000_000_000, 1_750_000_000_000)  # neither first nor last is the smallest
    rows = spark.sql(
        f"SELECT CAST(t AS STRING) AS value, timestamp_millis(t) AS timestamp FROM (SELECT explode(array{times}) t)"
    )
    opened = sink.open(spark, Settings(bootstrap_servers=bootstrap))
    for _ in range(2):
        opened.write(rows.coalesce(1), Batch(query_id := "timed" + sink.topic, query_id, 0, size=size))
    opened.close()
    found = [(int(m.value() or 0), m.timestamp()) for m in read_committed(bootstrap, sink.topic)]
    written = times if guarantee == "exactly-once" else times * 2
    assert found == [(t, (TIMESTAMP_CREATE_TIME, t)) for t in written]
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": unique("times")})
    (place,) = consumer.offsets_for_times([TopicPartition(sink.topic, 0, 1_700_000_000_001)], 30)
    assert place.offset == 2
    consumer.close()


def test_a_column_timestamp_is_left_out_when_nobody_asks_for_it(spark: SparkSession) -> None:
    """Rows as a topic gives them have one, and nobody expects records of old times in another topic."""
    rows = spark.sql("SELECT 1L AS timestamp, 'x' AS note")
    assert TopicSink("t").records(rows.withColumnRenamed("note", "value")).columns == ["value"]
    assert TopicSink("t", value=ALL_AS_JSON).records(rows).columns == ["value"]
    assert TopicSink("t", value="note", timestamp="timestamp + 1").records(rows).columns == ["value", "timestamp"]


def test_the_option_names_the_topic_and_keys_go_as_in_java_when_nothing_else_is_said(
    spark: SparkSession, bootstrap: str
) -> None:
    topic = make_topic(bootstrap, "keys", 7)
    rows = spark.createDataFrame(
        [(key, key.encode(), "ignored") for key in JAVA_HASHES], "key string, value binary, note string"
    )
    save(rows, bootstrap, topic=topic)
    found = {(m.key() or b"").decode(): m.partition() for m in read_committed(bootstrap, topic)}
    assert found == {key: (value & 0x7FFFFFFF) % 7 for key, value in JAVA_HASHES.items()}


def test_a_write_fails_and_says_which_row_when_a_record_cannot_be_placed(spark: SparkSession, bootstrap: str) -> None:
    topic = make_topic(bootstrap, "errors", max_message_bytes="3000")
    cases: list[tuple[str, str, dict[str, str]]] = [
        ("SELECT 1L AS value", "column value is of type bigint; it accepts string or binary", {"topic": topic}),
        ("SELECT 'x' AS value", "set the option topic, or add a column topic", {}),
        ("SELECT CAST(NULL AS STRING) AS topic, 'k' AS key, 'x' AS value", "column topic is null in the row with", {}),
        ("SELECT 'x' AS value, 5 AS partition", f"topic {topic}, partition 5 names a partition", {"topic": topic}),
        (
            "SELECT repeat('x', 5000) AS value",
            f"a record for topic {topic}, partition 0 is too large",
            {"topic": topic},
        ),
        ("SELECT 'x' AS value", "option guarantee is 'twice'", {"topic": topic, "guarantee": "twice"}),
        ("SELECT 'x' AS value", "also needs queryId, batchId, sinkName", {"topic": topic, "guarantee": "exactly-once"}),
        ("SELECT 'x' AS value", "whose name is not valid", {"topic": "no such/topic"}),
    ]
    for query, message, options in cases:
        with pytest.raises(PySparkException) as failure:
            save(spark.sql(query), bootstrap, **options)
        assert message in str(failure.value)
        assert "xxxx" not in str(failure.value).partition("SELECT")[0]  # values are nobody's business
    assert committed_values(bootstrap, topic) == []


def lines_of(spark: SparkSession, folder: Path) -> DataFrame:
    """A stream with one batch per file."""
    return spark.readStream.format("text").option("maxFilesPerTrigger", 1).load(str(folder))


def add_file(folder: Path, name: str, *lines: str) -> None:
    folder.mkdir(exist_ok=True)
    (folder / name).write_text("\n".join(lines))


def forget_last_commit(checkpoint: Path) -> None:
    """As if the driver had died after the sink and before the checkpoint was done: the last batch comes again."""
    commits = checkpoint / "commits"
    last = max(int(each.name) for each in commits.iterdir() if each.name.isdecimal())
    for each in (commits / str(last), commits / f".{last}.crc"):
        each.unlink()


def test_a_stream_leaves_every_row_once_when_its_last_batch_comes_again(
    spark: SparkSession, bootstrap: str, tmp_path: Path
) -> None:
    topic, folder, checkpoint = make_topic(bootstrap, "stream", 2), tmp_path / "in", tmp_path / "checkpoint"

    def run(guarantee: str) -> None:
        writer = lines_of(spark, folder).writeStream.format("penstock").option("checkpointLocation", str(checkpoint))
        writer = (
            writer.option("kafka.bootstrap.servers", bootstrap).option("topic", topic).option("guarantee", guarantee)
        )
        query = writer.trigger(availableNow=True).start()
        assert query.awaitTermination(100)

    add_file(folder, "1", "a", "b")
    add_file(folder, "2", "c")
    run("exactly-once")
    forget_last_commit(checkpoint)
    add_file(folder, "3", "d")
    run("exactly-once")
    assert committed_values(bootstrap, topic) == ["a", "b", "c", "d"]
    forget_last_commit(checkpoint)
    run("at-least-once")
    assert committed_values(bootstrap, topic) == ["a", "b", "c", "d", "d"], "which is what at-least-once means"


def run_batches(
    rows: DataFrame, checkpoint: Path, *sinks: OpenSink, then: Callable[[int], None] = lambda _: None
) -> None:
    def write(batch_rows: DataFrame, batch_id: int) -> None:
        query_id = batch_rows.sparkSession.sparkContext.getLocalProperty("sql.streaming.queryId")
        assert query_id is not None
        for sink in sinks:
            sink.write(batch_rows, Batch(query_id, "test", batch_id))
        then(batch_id)

    query = rows.writeStream.foreachBatch(write).option("checkpointLocation", str(checkpoint))
    assert query.trigger(availableNow=True).start().awaitTermination(100)


def test_two_sinks_of_a_batch_are_written_once_each_when_the_batch_fails_behind_them(
    spark: SparkSession, bootstrap: str, tmp_path: Path
) -> None:
    settings = Settings(bootstrap_servers=bootstrap)
    plain, as_json = (
        TopicSink(make_topic(bootstrap, "plain")),
        TopicSink(
            unique("as-json"),
            key="value",
            value=ALL_AS_JSON,
            create=TopicSettings(3, config={"cleanup.policy": "compact"}),
        ),
    )
    same_topic = TopicSink(plain.topic, name="again", value="upper(value)")
    sinks = (plain, as_json, same_topic)
    opened = [sink.open(spark, settings) for sink in sinks]
    add_file(tmp_path / "in", "1", "a", "b", "c")
    # A shuffle, whose tasks Spark would otherwise number as it likes.
    rows = lines_of(spark, tmp_path / "in").where("value > ''").repartition(2, "value")

    def fail(batch_id: int) -> None:
        raise ArithmeticError(f"after batch {batch_id}")

    with pytest.raises(PySparkException, match="after batch 0"):
        run_batches(rows, tmp_path / "checkpoint", *opened, then=fail)
    opened = [sink.open(spark, settings) for sink in sinks]  # as a new run does
    add_file(tmp_path / "in", "2", "d")
    run_batches(rows, tmp_path / "checkpoint", *opened)
    assert committed_values(bootstrap, plain.topic) == ["A", "B", "C", "D", "a", "b", "c", "d"]
    found = {(m.key() or b"").decode(): json.loads(m.value() or b"") for m in read_committed(bootstrap, as_json.topic)}
    assert found == {each: {"value": each} for each in "abcd"}
    assert len(read_committed(bootstrap, as_json.topic)) == 4
    asked = ConfigResource(ResourceType.TOPIC, as_json.topic)
    admin = AdminClient({"bootstrap.servers": bootstrap})
    described = admin.describe_configs([asked])[asked].result(30)
    assert described["cleanup.policy"].value == "compact"


def test_a_batch_is_refused_when_it_comes_again_cut_into_other_tasks(spark: SparkSession, bootstrap: str) -> None:
    sink, batch = TopicSink(make_topic(bootstrap, "recut")), Batch(unique("query"), "test", 4)
    opened = sink.open(spark, Settings(bootstrap_servers=bootstrap))
    rows = spark.range(0, 10, 1, 2).selectExpr("CAST(id AS STRING) AS value")
    opened.write(rows, batch)
    with pytest.raises(WriteError, match=r"batch 4 .* by 2 tasks and comes again with 3; only 2 tasks can finish it"):
        opened.write(rows.repartition(3), batch)
    opened.write(rows, batch)
    opened.write(rows.where("value > '8'").repartition(3), Batch(batch.query_id, "test", 5))
    assert committed_values(bootstrap, sink.topic) == [*"01234567899"]


@pytest.mark.parametrize("guarantee", ["exactly-once", "at-least-once"])
def test_a_small_batch_is_written_as_promised_when_it_comes_again(
    spark: SparkSession, bootstrap: str, guarantee: Literal["exactly-once", "at-least-once"]
) -> None:
    sink = TopicSink(make_topic(bootstrap, "small"), guarantee=guarantee)
    query_id, settings = unique("query"), Settings(bootstrap_servers=bootstrap)
    rows = spark.range(0, 5, 1, 3).selectExpr("CAST(id AS STRING) AS value")
    opened = sink.open(spark, settings)
    for _ in range(2):
        opened.write(rows, Batch(query_id, "test", 0, size=100))
    opened.close()
    times = 1 if guarantee == "exactly-once" else 2
    assert committed_values(bootstrap, sink.topic) == sorted("01234" * times)


def test_a_batch_is_there_once_when_it_comes_again_small_or_no_longer_small(
    spark: SparkSession, bootstrap: str
) -> None:
    sink, query_id = TopicSink(make_topic(bootstrap, "resized")), unique("query")
    rows = spark.range(0, 5, 1, 3).selectExpr("CAST(id AS STRING) AS value")
    sizes = ((100, None), (None, 100))  # the first was written in one piece, the second by three tasks
    for number, both in enumerate(sizes):
        for size in both:
            opened = sink.open(spark, Settings(bootstrap_servers=bootstrap))  # as a new run does
            opened.write(rows, Batch(query_id, "test", number, size=size))
            opened.close()
    assert committed_values(bootstrap, sink.topic) == sorted("01234" * 2)


def test_rows_are_there_once_when_a_batch_that_tasks_wrote_fails_and_comes_again_small(
    spark: SparkSession, bootstrap: str
) -> None:
    sink, query_id = TopicSink(make_topic(bootstrap, "failed")), unique("query")
    opened, tasks = (sink.open(spark, Settings(bootstrap_servers=bootstrap)) for _ in range(2))
    opened.write(spark.sql("SELECT 'a' AS value"), Batch(query_id, "test", 0, size=100))
    # Task 0 has no rows, and so no marker.
    rows = spark.range(0, 6, 1, 3).where("id > 2").selectExpr("CAST(id AS STRING) AS value")
    tasks.write(rows, Batch(query_id, "test", 1))  # stands for what the tasks of a failed job have written
    again = Batch(query_id, "test", 1, size=100)
    with pytest.raises(PySparkException, match="out of order"):
        opened.write(rows.selectExpr("CAST(raise_error('out of order') AS STRING) AS value"), again)
    opened.write(rows, again)
    opened.close()
    assert committed_values(bootstrap, sink.topic) == ["3", "4", "5", "a"]


def test_a_task_of_a_dead_driver_cannot_commit_when_its_batch_comes_again_small(
    spark: SparkSession, bootstrap: str
) -> None:
    """The dead driver was of a version that did not claim the batches of its tasks."""
    sink, query_id, settings = (
        TopicSink(make_topic(bootstrap, "left")),
        unique("query"),
        Settings(bootstrap_servers=bootstrap),
    )
    rows = spark.range(0, 4, 1, 2).selectExpr("CAST(id AS STRING) AS value")
    sink.open(spark, settings).write(rows, Batch(query_id, "test", 0))
    claims = group_of(transactional_id_of(query_id, sink.name, DRIVER))
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.delete_consumer_groups([claims])[claims].result(30)
    work = TaskOfBatch(query_id, sink.name, 1, task=1, tasks=2)
    left = RawProducer({"bootstrap.servers": bootstrap, "transactional.id": work.transactional_id}, lambda _: None)
    left.init_transactions(30)
    opened = sink.open(spark, settings)  # as a new run does
    for number in (1, 2):  # steady batches are the driver's
        opened.write(rows, Batch(query_id, "test", number, size=100))
    opened.close()
    left.begin_transaction()
    with pytest.raises(KafkaException) as refused:
        left.send_offset_to_transaction(work.group, sink.topic, 0, work.marker.next_batch, "tasks=2", 30)
    left.close()
    assert refused.value.args[0].fatal()
    assert committed_values(bootstrap, sink.topic) == sorted("0123" * 3)


def test_a_small_batch_is_refused_when_any_task_has_written_newer_ones(spark: SparkSession, bootstrap: str) -> None:
    sink, query_id = TopicSink(make_topic(bootstrap, "newer")), unique("query")
    settings = Settings(bootstrap_servers=bootstrap)
    rows = spark.range(0, 4, 1, 2).selectExpr("CAST(id AS STRING) AS value")
    sink.open(spark, settings).write(rows.where("value > '1'"), Batch(query_id, "test", 5))  # task 0 has no rows
    with pytest.raises(RefusedError, match=r"batch 3 of sink .* batches up to 5 already, so the checkpoint is older"):
        sink.open(spark, settings).write(rows, Batch(query_id, "test", 3, size=100))
    assert committed_values(bootstrap, sink.topic) == ["2", "3"]


@pytest.mark.parametrize(("count", "tasks"), [(3, 1), (4, 2), (1000, 2)])
def test_tasks_write_a_small_batch_when_a_branch_made_too_many_rows_of_it(
    spark: SparkSession, bootstrap: str, count: int, tasks: int
) -> None:
    sink, query_id, settings = TopicSink(make_topic(bootstrap, "many")), unique("query"), Settings(bootstrap)
    sink.open(spark, settings)
    rows = spark.range(0, 2, 1, 2).selectExpr(f"explode(sequence(1, {count} - id)) AS number")
    opened = OpenTopic(sink, settings, most_rows_here=5)
    opened.write(rows.selectExpr("CAST(number AS STRING) AS value"), Batch(query_id, "test", 0, size=100))
    opened.close()
    assert len(committed_values(bootstrap, sink.topic)) == 2 * count - 1
    markers = read_markers_of_sink(
        AdminClient({"bootstrap.servers": bootstrap}), {"bootstrap.servers": bootstrap}, query_id, sink.name, sink.topic
    )
    assert markers == {task: Marker(1, tasks) for task in range(tasks)}


def test_tasks_write_a_small_batch_when_spark_refuses_to_bring_it_to_the_driver(
    spark: SparkSession, bootstrap: str
) -> None:
    sink, query_id = TopicSink(make_topic(bootstrap, "wide")), unique("query")
    opened = sink.open(spark, Settings(bootstrap_servers=bootstrap))
    rows = spark.range(0, 4, 1, 2).selectExpr("repeat(CAST(id AS STRING), 100000) AS value")
    conf = spark.sparkContext._jsc.sc().conf()
    conf.set("spark.driver.maxResultSize", "100k")
    try:
        opened.write(rows, Batch(query_id, "test", 0, size=100))
    finally:
        conf.remove("spark.driver.maxResultSize")
    opened.close()
    assert committed_values(bootstrap, sink.topic) == [number * 100_000 for number in "0123"]


def test_a_task_that_failed_after_its_commit_leaves_its_rows_once_when_spark_tries_it_again(bootstrap: str) -> None:
    topic = make_topic(bootstrap, "retried", 2)
    job = subprocess.run(
        [sys.executable, str(RETRYING_JOB), bootstrap, topic], capture_output=True, text=True, check=False
    )
    assert job.returncode == 0, job.stderr[-3000:]
    assert json.loads(job.stdout.splitlines()[-1]) == {"attempts": [1, 1], "was_there": [True, True]}
    assert committed_values(bootstrap, topic) == sorted(str(number) for number in range(100))


def test_a_sink_says_what_it_promises_and_what_it_misses_when_opened(spark: SparkSession, bootstrap: str) -> None:
    assert TopicSink("t").describe() == "topic t, exactly once"
    assert TopicSink("t", guarantee="at-least-once").describe() == "topic t, at least once"
    assert (TopicSink("t").name, TopicSink("t", name="n").name) == ("t", "n")
    assert isinstance(TopicSink("t"), Sink)
    with pytest.raises(PipelineError, match="does not exist"):
        TopicSink(unique("missing")).open(spark, Settings(bootstrap_servers=bootstrap))
    with pytest.raises(PipelineError, match="guarantee is"):
        TopicSink("t", guarantee="maybe")  # type: ignore[arg-type]
    official = TopicSink(make_topic(bootstrap, "jvm"))
    settings = Settings(bootstrap_servers=bootstrap, engine="jvm")
    official.open(spark, settings).close()
    assert official.describe(settings) == f"topic {official.topic}, at least once (Spark's own connector knows no more)"
