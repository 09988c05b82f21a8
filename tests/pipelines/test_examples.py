"""The examples, run as their first lines say."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

from confluent_kafka.schema_registry import SchemaRegistryClient
from pyspark.sql import SparkSession

import penstock
from penstock.pipelines import Batch
from penstock.pipelines.runtime.pipeline_loader import load_pipeline
from penstock.pipelines.runtime.query_plan import sinks_of
from penstock.pipelines.runtime.runner import Run
from tests.pipelines.committed import make_topic, produce, read_committed, unique
from tests.pipelines.schema_writers import OrderWriter, read_value

EXAMPLES = Path(__file__).parents[2] / "examples"


def run_example(spark: SparkSession, bootstrap: str, name: str, directory: Path, **parameters: str) -> None:
    given = parameters | {"bootstrap_servers": bootstrap, "checkpoint": str(directory / name)}
    pipeline = load_pipeline(str(EXAMPLES / f"{name}.py"), given)
    run = Run(spark, replace(pipeline, name=unique(pipeline.name)), once=True)
    run.start()
    run.wait()


def test_the_newest_counts_are_right_when_words_are_counted_in_two_runs(
    spark: SparkSession, bootstrap: str, tmp_path: Path
) -> None:
    lines, counts = make_topic(bootstrap, "lines", 2), unique("word-counts")
    produce(bootstrap, lines, "To be, or not to be", "that is the question:")
    run_example(spark, bootstrap, "word_count", tmp_path, source=lines, target=counts)
    produce(bootstrap, lines, "is it?", "")
    run_example(spark, bootstrap, "word_count", tmp_path, source=lines, target=counts)
    newest = {message.key(): message.value() for message in read_committed(bootstrap, counts)}
    expected = {"to": 2, "be": 2, "or": 1, "not": 1, "that": 1, "is": 2, "the": 1, "question": 1, "it": 1}
    assert newest == {word.encode(): str(count).encode() for word, count in expected.items()}


def test_orders_meet_their_payments_when_they_come_in_time(spark: SparkSession, bootstrap: str, tmp_path: Path) -> None:
    orders, payments, paid = make_topic(bootstrap, "orders"), make_topic(bootstrap, "payments"), unique("paid")
    given = {"orders": orders, "payments": payments, "target": paid}
    produce(bootstrap, orders, *(order(number, "10:00:00") for number in (1, 2, 3)), "not an order")
    produce(bootstrap, payments, payment(1, "10:20:00"), payment(2, "11:00:01"))
    run_example(spark, bootstrap, "paid_orders", tmp_path, **given)
    # A payment that comes in a later run finds its order in the state.
    produce(bootstrap, payments, payment(3, "10:59:59"))
    run_example(spark, bootstrap, "paid_orders", tmp_path, **given)
    found = {message.key(): json.loads(message.value() or b"{}") for message in read_committed(bootstrap, paid)}
    assert {key: (row["item"], row["amount"]) for key, row in found.items()} == {
        b"1": ("pump", 9.5),
        b"3": ("pump", 9.5),
    }


def test_large_orders_are_read_by_confluent_s_deserializer_when_they_came_by_schema(
    spark: SparkSession, bootstrap: str, tmp_path: Path
) -> None:
    orders, large = make_topic(bootstrap, "orders"), unique("large-orders")
    names = {"kafkastore.topic": unique("_schemas"), "schema.registry.group.id": unique("registries")}
    with penstock.Registry(bootstrap, config=names) as registry:
        client = SchemaRegistryClient({"url": registry.url})
        writer = OrderWriter(client, bootstrap, orders, "PROTOBUF", tmp_path)
        writer.write(0, *({"id": number, "customer": "ann", "total": 60.0 * number} for number in (1, 2, 3)))
        given = {"source": orders, "target": large, "registry.url": registry.url}
        run_example(spark, bootstrap, "registry_orders", tmp_path, **given)
        messages = read_committed(bootstrap, large)
        found = {message.key(): read_value(client, "AVRO", message, tmp_path)["total"] for message in messages}
    assert found == {b"2": 120.0, b"3": 180.0}


def order(number: int, time: str) -> str:
    return json.dumps({"order": number, "item": "pump", "ordered_at": f"2026-05-01T{time}Z"})


def payment(number: int, time: str) -> str:
    return json.dumps({"order": number, "amount": 9.5, "paid_at": f"2026-05-01T{time}Z"})


def test_a_batch_is_there_once_when_it_is_written_again_to_a_sink_of_ones_own(
    spark: SparkSession, tmp_path: Path
) -> None:
    pipeline = load_pipeline(str(EXAMPLES / "own_sink.py"), {"directory": str(tmp_path / "lines")})
    (sink,) = sinks_of(pipeline)
    rows = spark.createDataFrame([("a", 1), ("b", 2)], "key string, n int")
    for _ in range(2):
        opened = sink.open(spark, pipeline.settings)
        opened.write(rows, Batch("query", "line-files/main", 7))
        opened.close()
    (file,) = (tmp_path / "lines").iterdir()
    assert sorted(map(json.loads, file.read_text().splitlines()), key=str) == [
        {"key": "a", "n": 1},
        {"key": "b", "n": 2},
    ]
