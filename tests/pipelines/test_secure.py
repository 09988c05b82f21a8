"""Spark's source and sink and a pipeline on a broker that asks for TLS and a login, each with its client file.

Logins last 1.5 s: connections that live longer log in again.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer
from pyspark.sql import SparkSession

import penstock
from penstock.client.addresses import parse_servers
from penstock.client.connection import BlockingConnection
from penstock.client.security import client_security
from penstock.client.versioned_client import VersionedClient
from penstock.core.properties import read_properties
from penstock.pipelines.runtime.pipeline_loader import load_pipeline
from penstock.pipelines.runtime.runner import Run
from penstock.protocol.messages.metadata import MetadataRequest, MetadataResponse
from tests.clients.cli_runner import Cli
from tests.clients.support import eventually, is_cut_off

PIPELINE = """
from penstock.pipelines import Pipeline, Topic
from penstock.pipelines.sinks.topic import TopicSink

copying = Pipeline("secure-copying", sources=(Topic("original"),), sinks=(TopicSink("copy"),))
"""
LOGIN_MS = 1_500
COUNT = 20
VALUES = sorted(str(number).encode() for number in range(COUNT))


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[penstock.Broker]:
    data = tmp_path_factory.mktemp("secure") / "data"
    config = {"connections.max.reauth.ms": LOGIN_MS, "group.initial.rebalance.delay.ms": 0}
    with penstock.Broker(data, config=config, secure=True) as running:
        running.create_topic("original", 2)
        running.create_topic("copy", 2)
        yield running


@pytest.fixture(scope="module")
def client_file(broker: penstock.Broker, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The one that the start made, with the port of the moment."""
    assert broker.client_file is not None
    file = tmp_path_factory.mktemp("client") / "client.properties"
    file.write_text(f"{broker.client_file.read_text()}\nbootstrap.servers={broker.bootstrap_servers}\n")
    return file


def produce(broker: penstock.Broker, topic: str) -> None:
    producer = Producer({**broker.client_config, "log_level": 0})
    for value in VALUES:
        producer.produce(topic, value)
    assert producer.flush(60) == 0


def read_values(broker: penstock.Broker, topic: str, count: int) -> list[bytes]:
    consumer = Consumer(
        {**broker.client_config, "log_level": 0, "group.id": f"of-{topic}", "auto.offset.reset": "earliest"}
    )
    consumer.subscribe([topic])
    try:
        return sorted(message.value() or b"" for message in consumer.consume(count, timeout=60))
    finally:
        consumer.close()


@pytest.mark.parametrize("fetcher", ["direct", "librdkafka"])
def test_rows_are_read_when_the_source_gets_a_client_file(
    spark: SparkSession, broker: penstock.Broker, client_file: Path, fetcher: str
) -> None:
    topic = f"read-{fetcher}"
    broker.create_topic(topic, 2)
    produce(broker, topic)
    reader = spark.read.format("penstock").options(kafkaConfigFile=str(client_file), subscribe=topic, fetcher=fetcher)
    assert sorted(bytes(row.value) for row in reader.load().collect()) == VALUES


def test_rows_arrive_when_the_sink_gets_a_client_file(
    spark: SparkSession, broker: penstock.Broker, client_file: Path
) -> None:
    broker.create_topic("written")
    rows = spark.range(COUNT).selectExpr("cast(id as string) as value")
    rows.write.format("penstock").mode("append").options(kafkaConfigFile=str(client_file), topic="written").save()
    assert read_values(broker, "written", COUNT) == VALUES


def test_client_of_ours_goes_on_when_its_login_has_ended(client_file: Path) -> None:
    properties = read_properties(client_file)
    (address,) = parse_servers(properties["bootstrap.servers"])
    security = client_security(properties)
    with VersionedClient.open(address, client_id="long", software="long", security=security) as client:
        with BlockingConnection(*address, security=security) as later:
            eventually(lambda: is_cut_off(later), "the end of a login that is newer")
        assert client.request(MetadataRequest(topics=[]), MetadataResponse).brokers


def test_pipeline_copies_when_it_gets_what_is_in_a_client_file(
    spark: SparkSession, broker: penstock.Broker, client_file: Path, tmp_path: Path
) -> None:
    produce(broker, "original")
    module = tmp_path / "secure_copying.py"
    module.write_text(PIPELINE)
    # What the command makes of the file; `describe` starts no Spark.
    described = Cli("").run("pipeline", "describe", str(module), "--command-config", str(client_file)).text
    assert f"bootstrap servers  {broker.bootstrap_servers}" in described
    settings = {f"kafka.{name}": value for name, value in read_properties(client_file).items()}
    given = {**settings, "bootstrap_servers": settings.pop("kafka.bootstrap.servers")}
    pipeline = load_pipeline(str(module), {**given, "checkpoint": str(tmp_path / "checkpoint")})
    run = Run(spark, pipeline, once=True)
    run.start()
    run.wait()
    assert read_values(broker, "copy", COUNT) == VALUES
