"""confluent-kafka's serializers against the registry: what one of them writes, a deserializer of the format reads."""

from __future__ import annotations

import asyncio
import json
import struct
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka.schema_registry import AsyncSchemaRegistryClient, Schema, SchemaReference, SchemaRegistryClient
from confluent_kafka.schema_registry.avro import (
    AsyncAvroDeserializer,
    AsyncAvroSerializer,
    AvroDeserializer,
    AvroSerializer,
)
from confluent_kafka.schema_registry.json_schema import (
    AsyncJSONDeserializer,
    AsyncJSONSerializer,
    JSONDeserializer,
    JSONSerializer,
)
from confluent_kafka.schema_registry.protobuf import (
    AsyncProtobufDeserializer,
    AsyncProtobufSerializer,
    ProtobufDeserializer,
    ProtobufSerializer,
)
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from tests.integration.registry.serving import Served

USER = json.dumps(
    {
        "type": "record",
        "name": "User",
        "namespace": "shop",
        "fields": [{"name": "name", "type": "string"}, {"name": "age", "type": ["null", "int"], "default": None}],
    }
)
USER_JSON = json.dumps(
    {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "User",
        "type": "object",
        "properties": {"name": {"type": "string"}, "age": {"type": "integer"}},
        "required": ["name"],
    }
)
ALICE = {"name": "alice", "age": 30}


@pytest.fixture(scope="module")
def client(registry: Served) -> Iterator[SchemaRegistryClient]:
    with SchemaRegistryClient({"url": registry.url, "max.retries": 0}) as made:
        yield made


def value_of(topic: str) -> SerializationContext:
    return SerializationContext(topic, MessageField.VALUE)


def make_messages() -> tuple[Any, Any]:
    """A message that holds one of another file, and a timestamp."""
    from google.protobuf import timestamp_pb2

    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(timestamp_pb2.DESCRIPTOR.serialized_pb)
    field = descriptor_pb2.FieldDescriptorProto
    part = descriptor_pb2.FileDescriptorProto(name="shop/part.proto", package="shop", syntax="proto3")
    message = part.message_type.add(name="Part")
    message.field.add(name="number", number=1, type=field.TYPE_INT32, label=field.LABEL_OPTIONAL)
    whole = descriptor_pb2.FileDescriptorProto(name="shop/whole.proto", package="shop", syntax="proto3")
    whole.dependency.extend(["shop/part.proto", "google/protobuf/timestamp.proto"])
    whole.message_type.add(name="Unused")
    message = whole.message_type.add(name="Whole")
    message.field.add(name="name", number=1, type=field.TYPE_STRING, label=field.LABEL_OPTIONAL)
    message.field.add(
        name="parts", number=2, type=field.TYPE_MESSAGE, type_name=".shop.Part", label=field.LABEL_REPEATED
    )
    message.field.add(
        name="made",
        number=3,
        type=field.TYPE_MESSAGE,
        type_name=".google.protobuf.Timestamp",
        label=field.LABEL_OPTIONAL,
    )
    for file in (part, whole):
        pool.Add(file)
    whole_type, part_type = (
        message_factory.GetMessageClass(pool.FindMessageTypeByName(name)) for name in ("shop.Whole", "shop.Part")
    )
    return whole_type, part_type


WHOLE, PART = make_messages()


def test_record_comes_back_when_avro_wrote_it(client: SchemaRegistryClient, subject: str) -> None:
    data = AvroSerializer(client, USER)(ALICE, value_of(subject))
    assert data is not None
    schema_id = struct.unpack(">bI", data[:5])[1]
    assert client.get_latest_version(f"{subject}-value").schema_id == schema_id
    assert AvroDeserializer(client)(data, value_of(subject)) == ALICE


def test_record_comes_back_when_its_schema_refers_to_another(client: SchemaRegistryClient, subject: str) -> None:
    client.register_schema(f"{subject}-user", Schema(USER, "AVRO"))
    order = {"type": "record", "name": "Order", "namespace": "shop", "fields": [{"name": "user", "type": "shop.User"}]}
    schema = Schema(json.dumps(order), "AVRO", [SchemaReference("shop.User", f"{subject}-user", 1)])
    data = AvroSerializer(client, schema)({"user": ALICE}, value_of(subject))
    client.clear_caches()
    assert AvroDeserializer(client)(data, value_of(subject)) == {"user": ALICE}


def test_latest_version_is_used_when_nothing_may_be_registered(client: SchemaRegistryClient, subject: str) -> None:
    client.register_schema(f"{subject}-value", Schema(USER, "AVRO"))
    settings = {"auto.register.schemas": False, "use.latest.version": True}
    data = AvroSerializer(client, USER, conf=settings)(ALICE, value_of(subject))
    assert AvroDeserializer(client)(data, value_of(subject)) == ALICE


def test_schema_is_looked_up_when_nothing_may_be_registered(client: SchemaRegistryClient, subject: str) -> None:
    client.register_schema(f"{subject}-value", Schema(USER, "AVRO"), normalize_schemas=True)
    settings = {"auto.register.schemas": False, "normalize.schemas": True}
    data = AvroSerializer(client, USER, conf=settings)(ALICE, value_of(subject))
    assert AvroDeserializer(client)(data, value_of(subject)) == ALICE


def test_object_comes_back_when_json_wrote_it(client: SchemaRegistryClient, subject: str) -> None:
    data = JSONSerializer(USER_JSON, client)(ALICE, value_of(subject))
    assert JSONDeserializer(USER_JSON, schema_registry_client=client)(data, value_of(subject)) == ALICE
    assert JSONDeserializer(None, schema_registry_client=client)(data, value_of(subject)) == ALICE


def test_message_comes_back_when_protobuf_wrote_it(client: SchemaRegistryClient, subject: str) -> None:
    message = WHOLE(name="a", parts=[PART(number=1), PART(number=2)])
    serializer = ProtobufSerializer(WHOLE, client, {"use.deprecated.format": False})
    data = serializer(message, value_of(subject))
    assert data is not None
    registered = client.get_latest_version(f"{subject}-value").schema
    assert "shop/part.proto" in [each.name for each in registered.references or ()]
    client.clear_caches()
    deserializer = ProtobufDeserializer(WHOLE, {"use.deprecated.format": False}, client)
    assert deserializer(data, value_of(subject)) == message


def test_descriptors_come_as_bytes_when_protobuf_asks_for_them(client: SchemaRegistryClient, subject: str) -> None:
    """Serializers that do not register read the latest version in this form, and all that it refers to."""
    ProtobufSerializer(WHOLE, client, {"use.deprecated.format": False})(WHOLE(), value_of(subject))
    client.clear_caches()
    settings = {"use.deprecated.format": False, "auto.register.schemas": False, "use.latest.version": True}
    message = WHOLE(name="b")
    data = ProtobufSerializer(WHOLE, client, settings)(message, value_of(subject))
    deserializer = ProtobufDeserializer(WHOLE, {"use.deprecated.format": False, "use.latest.version": True}, client)
    assert deserializer(data, value_of(subject)) == message


def test_all_formats_come_back_when_the_client_is_asynchronous(registry: Served, subject: str) -> None:
    async def run() -> None:
        async with AsyncSchemaRegistryClient({"url": registry.url, "max.retries": 0}) as client:
            avro = await AsyncAvroSerializer(client, USER)
            data = await avro(ALICE, value_of(f"{subject}-avro"))
            assert await (await AsyncAvroDeserializer(client))(data, value_of(f"{subject}-avro")) == ALICE
            as_json = await AsyncJSONSerializer(USER_JSON, client)
            data = await as_json(ALICE, value_of(f"{subject}-json"))
            read_json = await AsyncJSONDeserializer(USER_JSON, schema_registry_client=client)
            assert await read_json(data, value_of(f"{subject}-json")) == ALICE
            message = WHOLE(name="c", parts=[PART(number=3)])
            protobuf = await AsyncProtobufSerializer(WHOLE, client, {"use.deprecated.format": False})
            data = await protobuf(message, value_of(f"{subject}-protobuf"))
            read = await AsyncProtobufDeserializer(WHOLE, {"use.deprecated.format": False}, client)
            assert await read(data, value_of(f"{subject}-protobuf")) == message

    asyncio.run(run())
