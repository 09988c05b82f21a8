"""The cases run by Spark on a broker, exactly once: the topics have what Kafka Streams answers."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest
from confluent_kafka import Message, Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from pyspark.sql import SparkSession

from penstock.streams import Settings, Streams
from penstock.streams.runtime.application import open_run
from penstock.testing.processes import ServerProcess
from tests.interop.streams.applications import build
from tests.interop.streams.case_files import Case, Record, comparable, load_case
from tests.interop.streams.differences import expected
from tests.interop.streams.steps import WITHOUT_TIMES, timeless
from tests.pipelines.committed import read_committed

# Some of each kind: each takes some ten seconds. Not of the time 0, which a producer takes for now.
CASES = ("aggregates", "cogroup", "foreign-key-join-many", "repartition", "stream-table-join", "table-table-join")
PREFIX = "runs."
KEPT = {"retention.ms": "-1"}  # the records are of 1970


def write_inputs(bootstrap_servers: str, case: Case) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap_servers})
    topics = [case.topic(topic) for topic in (*case.inputs, *case.outputs)]
    for made in admin.create_topics([NewTopic(topic, 1, 1, config=KEPT) for topic in topics]).values():
        made.result(30)
    # A write that is refused, as Apache Kafka does right after a topic was made, is sent again behind later ones.
    producer = Producer({"bootstrap.servers": bootstrap_servers, "enable.idempotence": True})
    for record in case.records:
        value = None if record.value is None else json.dumps(record.value)
        producer.produce(case.topic(record.topic), value, record.key, timestamp=record.timestamp)
    assert producer.flush(30) == 0


def records_of(messages: Sequence[Message]) -> list[Record]:
    found = []
    for message in messages:
        key, value = message.key(), message.value()
        text = key.decode() if isinstance(key, bytes) else key
        found.append(Record(text, None if value is None else json.loads(value), message.timestamp()[1]))
    return found


@pytest.mark.parametrize("name", CASES)
def test_topics_have_the_answers_of_kafka_streams_when_an_application_runs_on_a_broker(
    spark: SparkSession, broker: ServerProcess, tmp_path: Path, name: str
) -> None:
    servers, case = broker.bootstrap_servers, load_case(name, PREFIX)
    write_inputs(servers, case)
    settings = Settings(bootstrap_servers=servers, checkpoint=str(tmp_path), parallelism=1, publish_runs=False)
    run = open_run(spark, build(case, Streams(f"runs-{name}", settings)), once=True)
    run.start()
    run.wait()
    found = {
        topic: comparable(output, records_of(read_committed(servers, case.topic(topic))))
        for topic, output in case.outputs.items()
    }
    kafka = expected(case)
    if name in WITHOUT_TIMES:
        found, kafka = timeless(found), timeless(kafka)
    assert found == kafka
