"""Orders as the serializers of confluent-kafka write them, in two versions of a schema, and as its readers see them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from confluent_kafka import Message, Producer
from confluent_kafka.schema_registry import (
    Schema,
    SchemaRegistryClient,
    dual_schema_id_deserializer,
    header_schema_id_serializer,
)
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer, ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.json_format import MessageToDict
from grpc_tools import protoc

Order = dict[str, Any]
_AVRO_KINDS = {"id": "long", "customer": "string", "total": "double", "note": ["null", "string"], "tags": "string"}
_JSON_KINDS = {"id": "integer", "customer": "string", "total": "number", "note": "string"}
_PROTO_KINDS = {"id": "int64", "customer": "string", "total": "double", "note": "string"}
VERSIONS = (("id", "customer", "total"), ("id", "customer", "total", "note"))


def avro_text(names: tuple[str, ...]) -> str:
    fields = [
        {"name": name, "type": _AVRO_KINDS[name]} | ({"default": None} if name == "note" else {}) for name in names
    ]
    return json.dumps({"type": "record", "name": "Order", "namespace": "shop", "fields": fields})


def json_text(names: tuple[str, ...]) -> str:
    properties = {name: {"type": _JSON_KINDS[name]} for name in names}
    return json.dumps({"title": "Order", "type": "object", "properties": properties, "additionalProperties": False})


def proto_text(names: tuple[str, ...]) -> str:
    fields = " ".join(f"{_PROTO_KINDS[name]} {name} = {number};" for number, name in enumerate(names, 1))
    return f'syntax = "proto3"; package shop; message Order {{ {fields} }}'


def message_class(text: str, name: str, directory: Path) -> Any:
    """The class that protoc makes of a message."""
    directory.mkdir(exist_ok=True)
    (directory / "order.proto").write_text(text)
    assert protoc.main(["", f"-I{directory}", f"--descriptor_set_out={directory / 'set'}", "order.proto"]) == 0
    pool = descriptor_pool.DescriptorPool()
    for file in descriptor_pb2.FileDescriptorSet.FromString((directory / "set").read_bytes()).file:
        pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(name))


@dataclass(frozen=True)
class OrderWriter:
    """Writes orders to a topic as one of the three formats has them."""

    client: SchemaRegistryClient
    bootstrap: str
    topic: str
    kind: str
    directory: Path

    def write(self, version: int, *orders: Order, in_header: bool = False) -> None:
        """`version` counts from 0."""
        conf: dict[str, Any] = {"schema.id.serializer": header_schema_id_serializer} if in_header else {}
        serialize: Any = self._serializer(VERSIONS[version], conf)
        producer = Producer({"bootstrap.servers": self.bootstrap})
        for order in orders:
            headers: list[Any] = [("trace", b"on")] if in_header else []
            context = SerializationContext(self.topic, MessageField.VALUE, headers)
            payload = serialize(order, context)
            producer.produce(self.topic, payload, str(order["id"]), headers=headers)
        assert producer.flush(30) == 0

    def _serializer(self, names: tuple[str, ...], conf: dict[str, Any]) -> Any:
        if self.kind == "AVRO":
            return AvroSerializer(self.client, Schema(avro_text(names), "AVRO"), conf=conf)
        if self.kind == "JSON":
            return JSONSerializer(Schema(json_text(names), "JSON"), self.client, conf=conf)
        made = message_class(proto_text(names), "shop.Order", self.directory / f"{len(names)}")
        serialize = ProtobufSerializer(made, self.client, {"use.deprecated.format": False} | conf)
        return lambda order, context: serialize(made(**order), context)


def read_value(client: SchemaRegistryClient, kind: str, message: Message, directory: Path) -> Order:
    """What confluent's deserializers make of a record's value. Of Protobuf: by the schema that the record names."""
    topic = message.topic()
    assert topic is not None
    context = SerializationContext(topic, MessageField.VALUE, message.headers() or [])
    conf: dict[str, Any] = {"schema.id.deserializer": dual_schema_id_deserializer}
    value = message.value()
    if kind == "AVRO":
        found: Any = AvroDeserializer(client, conf=conf)(value, context)
    elif kind == "JSON":
        found = JSONDeserializer(None, schema_registry_client=client, conf=conf)(value, context)
    else:
        latest = client.get_latest_version(f"{topic}-value").schema.schema_str
        assert latest is not None
        package = next((line.split()[1].strip(";") + "." for line in latest.splitlines() if "package " in line), "")
        name = latest.partition("message ")[2].split()[0]
        made = message_class(latest, package + name, directory / "sink")
        read = ProtobufDeserializer(made, {"use.deprecated.format": False} | conf, client)(value, context)
        assert read is not None
        found = MessageToDict(read, preserving_proto_field_name=True)
        found["id"] = int(found["id"])
    assert isinstance(found, dict)
    return found
