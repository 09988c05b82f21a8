"""The proxy beside the registry of this package, in both versions: confluent-kafka's deserializers read its records."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer
from confluent_kafka.schema_registry.json_schema import JSONDeserializer
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

import penstock
from tests.clients.confluent import create_topic
from tests.clients.conftest import RunningBroker
from tests.clients.rest.talking import Rest, running_rest
from tests.clients.rest.test_v2_produce import read
from tests.clients.support import new_name

AVRO = json.dumps({"type": "record", "name": "Order", "fields": [{"name": "id", "type": "int"}]})
JSON_SCHEMA = json.dumps({"type": "object", "title": "Order", "properties": {"id": {"type": "integer"}}})
PROTOBUF = 'syntax = "proto3"; message Order { int32 id = 1; }'
SCHEMAS = [("avro", AVRO), ("jsonschema", JSON_SCHEMA), ("protobuf", PROTOBUF)]


class Serving(NamedTuple):
    rest: Rest
    client: SchemaRegistryClient
    broker: RunningBroker

    def read(self, topic: str, form: str, count: int) -> list[Any]:
        """By Confluent's deserializers, with their registry client."""
        context = SerializationContext(topic, MessageField.VALUE)
        payloads = [each.value() for each in read(self.broker, topic, count)]
        if form == "avro":
            avro = AvroDeserializer(self.client)
            return [avro(each, context) for each in payloads]
        if form == "jsonschema":
            json_schema = JSONDeserializer(None, schema_registry_client=self.client)
            return [json_schema(each, context) for each in payloads]
        protobuf = ProtobufDeserializer(_order_class(), {"use.deprecated.format": False}, self.client)
        return [{"id": protobuf(each, context).id} for each in payloads]


def _order_class() -> Any:
    file = descriptor_pb2.FileDescriptorProto(name="rest_order.proto", syntax="proto3")
    field = file.message_type.add(name="Order").field.add(name="id", number=1)
    field.type, field.label = field.TYPE_INT32, field.LABEL_OPTIONAL
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("Order"))


@pytest.fixture(scope="module")
def serving(broker: RunningBroker) -> Iterator[Serving]:
    with (
        penstock.Registry(broker.bootstrap_servers) as registry,
        running_rest(broker.bootstrap_servers, schema_registry_url=registry.url) as rest,
        SchemaRegistryClient({"url": registry.url}) as client,
    ):
        yield Serving(rest, client, broker)


@pytest.mark.parametrize(("form", "schema"), SCHEMAS)
def test_confluents_deserializers_read_what_version_2_writes(serving: Serving, form: str, schema: str) -> None:
    topic = create_topic(serving.broker.bootstrap_servers)
    first = serving.rest.produce(topic, [{"value": {"id": 1}}], form, value_schema=schema)
    assert first.status == 200, first
    schema_id = first.json["value_schema_id"]
    assert serving.client.get_latest_version(f"{topic}-value").schema_id == schema_id
    again = serving.rest.produce(topic, [{"value": {"id": 2}}], form, value_schema_id=schema_id)
    assert again.json["offsets"][0]["offset"] == 1
    assert serving.read(topic, form, 2) == [{"id": 1}, {"id": 2}]

    path = serving.rest.instance(new_name("group"), format=form)
    serving.rest.post(f"{path}/assignments", {"partitions": [{"topic": topic, "partition": 0}]})
    answer = serving.rest.get(f"{path}/records?timeout=20000")
    assert [each["value"] for each in answer.json] == [{"id": 1}, {"id": 2}]
    serving.rest.delete(path)


@pytest.mark.parametrize(("form", "schema"), SCHEMAS)
def test_confluents_deserializers_read_what_version_3_writes(serving: Serving, form: str, schema: str) -> None:
    topic = create_topic(serving.broker.bootstrap_servers)
    cluster_id = serving.rest.get("/v3/clusters").json["data"][0]["cluster_id"]
    path = f"/v3/clusters/{cluster_id}/topics/{topic}/records"
    by_text = {"type": form.upper(), "schema": schema, "data": {"id": 1}}
    first = serving.rest.post(path, {"value": by_text}, "application/json")
    assert first.code == 200, first
    schema_id = first.json["value"]["schema_id"]
    choices: list[dict[str, Any]] = [{"schema_id": schema_id}, {"schema_version": 1}, {}]
    for number, choice in enumerate(choices, start=2):
        again = serving.rest.post(path, {"value": {**choice, "data": {"id": number}}}, "application/json")
        assert again.code == 200, again
        assert again.json["value"]["schema_id"] == schema_id
    assert serving.read(topic, form, 4) == [{"id": each} for each in (1, 2, 3, 4)]


OTHER = json.dumps({"type": "record", "name": "Order", "fields": [{"name": "other", "type": "int"}]})
NOTHING = json.dumps({"type": "record", "name": "Order", "fields": []})


@pytest.mark.parametrize("version", [2, 3])
def test_no_schema_is_registered_when_the_registry_finds_that_of_the_value_incompatible(
    serving: Serving, version: int
) -> None:
    topic = create_topic(serving.broker.bootstrap_servers)
    assert serving.rest.produce(topic, [{"value": {"id": 1}}], "avro", value_schema=AVRO).status == 200
    if version == 2:
        record, schemas = {"key": "k", "value": {"other": 1}}, {"key_schema": '"string"', "value_schema": OTHER}
        refused = serving.rest.produce(topic, [record], "avro", **schemas)
    else:
        cluster_id = serving.rest.get("/v3/clusters").json["data"][0]["cluster_id"]
        key = {"type": "AVRO", "schema": '"string"', "data": "k"}
        value = {"type": "AVRO", "schema": OTHER, "data": {"other": 1}}
        path = f"/v3/clusters/{cluster_id}/topics/{topic}/records"
        refused = serving.rest.post(path, {"key": key, "value": value}, "application/json")
    assert refused.code == 42205, refused
    assert f"incompatible with an earlier one of the subject {topic}-value" in refused.json["message"]
    assert serving.client.get_versions(f"{topic}-value") == [1]
    assert f"{topic}-key" not in serving.client.get_subjects()


def test_a_record_is_written_when_its_schema_is_there_and_could_not_follow_the_latest(serving: Serving) -> None:
    topic = create_topic(serving.broker.bootstrap_servers)
    for text in (AVRO, NOTHING):
        serving.client.register_schema(f"{topic}-value", Schema(text, "AVRO"))
    answer = serving.rest.produce(topic, [{"value": {"id": 1}}], "avro", value_schema=AVRO)
    assert answer.status == 200, answer
    assert serving.client.get_versions(f"{topic}-value") == [1, 2]
