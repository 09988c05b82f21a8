"""Confluent's Avro serializers for Java use our registry; they and those of Python read what the others write."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

import penstock
from apache_kafka.jars import TOOL_OPTIONS, find_java
from confluent_serializers.jars import fetch_serializers

SCENARIO = Path(__file__).with_name("AvroScenario.java")
COUNT = 5
SCHEMA = json.dumps(
    {
        "type": "record",
        "name": "Numbered",
        "namespace": "tests",
        "fields": [{"name": "number", "type": "int"}, {"name": "name", "type": "string"}],
    }
)


class Servers:
    def __init__(self, broker: penstock.Broker, registry: penstock.Registry) -> None:
        self.broker = broker
        self.registry = registry

    def run_java(self, what: str, topic: str, *arguments: str) -> str:
        servers = (self.broker.bootstrap_servers, self.registry.url)
        command = [find_java(), *TOOL_OPTIONS, "-cp", f"{fetch_serializers()}/*", str(SCENARIO), what, *servers, topic]
        ended = subprocess.run([*command, str(COUNT), *arguments], capture_output=True, timeout=150, check=False)
        assert ended.returncode == 0, ended.stderr.decode()
        return ended.stdout.decode()

    def client(self) -> SchemaRegistryClient:
        return SchemaRegistryClient({"url": self.registry.url})


@pytest.fixture(scope="module")
def servers() -> Iterator[Servers]:
    with penstock.Broker() as broker, penstock.Registry(broker) as registry:
        yield Servers(broker, registry)


def read_with_python(servers: Servers, topic: str) -> list[dict[str, Any]]:
    decode = cast("Any", AvroDeserializer)(servers.client())
    settings = {"bootstrap.servers": servers.broker.bootstrap_servers, "group.id": topic}
    consumer = Consumer({**settings, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    records = consumer.consume(COUNT, timeout=30)
    consumer.close()
    context = SerializationContext(topic, MessageField.VALUE)
    return [decode(record.value(), context) for record in records]


def test_python_reads_what_java_has_written(servers: Servers) -> None:
    servers.broker.create_topic("from-java")
    assert "written" in servers.run_java("write", "from-java", SCHEMA)
    expected = [{"number": number, "name": f"java {number}"} for number in range(COUNT)]
    assert read_with_python(servers, "from-java") == expected
    assert servers.client().get_latest_version("from-java-value").version == 1


def test_java_reads_what_python_has_written(servers: Servers) -> None:
    servers.broker.create_topic("from-python")
    encode = cast("Any", AvroSerializer)(servers.client(), SCHEMA)
    context = SerializationContext("from-python", MessageField.VALUE)
    producer = Producer({"bootstrap.servers": servers.broker.bootstrap_servers})
    for number in range(COUNT):
        value = encode({"number": number, "name": f"python {number}"}, context)
        producer.produce("from-python", value, f"k{number}")
    assert producer.flush(30) == 0
    lines = servers.run_java("read", "from-python").splitlines()
    assert lines == [f'k{number} {{"number": {number}, "name": "python {number}"}}' for number in range(COUNT)]


def test_java_is_refused_a_schema_that_cannot_read_the_last_one(servers: Servers) -> None:
    servers.broker.create_topic("evolved")
    servers.run_java("write", "evolved", SCHEMA)
    changed = SCHEMA.replace('"type": "int"', '"type": "string"')
    with pytest.raises(AssertionError, match="incompatible with an earlier schema"):
        servers.run_java("write", "evolved", changed)
