"""Payloads of ours and of confluent-kafka's serializers: each reads what the other wrote, in all three formats."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.schema_registry import (
    Schema,
    SchemaRegistryClient,
    dual_schema_id_deserializer,
    header_schema_id_serializer,
)
from confluent_kafka.schema_registry import SchemaReference as TheirReference
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer, ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from grpc_tools import protoc

from penstock.client.registry import NewSchema, RegistryClient, RegistrySettings, SchemaReference
from penstock.embedded_registry import Registry
from penstock.schemas.schema import SchemaType
from penstock.serdes.serializers import SchemaChoice, Serializers

TOPIC = "orders"
CONTEXT = SerializationContext(TOPIC, MessageField.VALUE)


@pytest.fixture(scope="module")
def theirs(schema_registry: Registry) -> Iterator[SchemaRegistryClient]:
    with SchemaRegistryClient({"url": schema_registry.url}) as client:
        yield client


@pytest.fixture(scope="module")
def ours(schema_registry: Registry) -> Iterator[RegistryClient]:
    with RegistryClient(RegistrySettings.of_url(schema_registry.url)) as client:
        yield client


@pytest.fixture(scope="module")
def serializers(ours: RegistryClient) -> Serializers:
    return Serializers(ours)


CUSTOMER = json.dumps(
    {"type": "record", "name": "Customer", "namespace": "shop", "fields": [{"name": "name", "type": "string"}]}
)
ORDER = json.dumps(
    {
        "type": "record",
        "name": "Order",
        "namespace": "shop",
        "fields": [
            {"name": "id", "type": "long"},
            {"name": "customer", "type": ["null", "shop.Customer"]},
            {"name": "note", "type": ["null", "string", "int"], "default": None},
            {"name": "weights", "type": {"type": "map", "values": "double"}},
            {"name": "hash", "type": {"type": "fixed", "name": "Hash", "size": 2}},
            {"name": "state", "type": {"type": "enum", "name": "State", "symbols": ["NEW", "DONE"]}},
            {"name": "raw", "type": "bytes"},
            {"name": "prices", "type": {"type": "array", "items": "float"}},
        ],
    }
)
ORDER_JSON = {
    "id": 2**40,
    "customer": {"shop.Customer": {"name": "Ann"}},
    "note": {"int": -7},
    "weights": {"a": 0.25},
    "hash": "\x00ÿ",
    "state": "DONE",
    "raw": "\x01þ",
    "prices": [0.1, 2.0],
}
ORDER_PLAIN = {
    "id": 2**40,
    "customer": {"name": "Ann"},
    "note": -7,
    "weights": {"a": 0.25},
    "hash": b"\x00\xff",
    "state": "DONE",
    "raw": b"\x01\xfe",
    "prices": [0.1, 2.0],
}
CUSTOMER_REFERENCE = ("shop.Customer", "customer", 1)


@pytest.fixture(scope="module")
def customer(ours: RegistryClient) -> None:
    ours.register("customer", NewSchema(CUSTOMER))


@pytest.mark.usefixtures("customer")
def test_avro_of_ours_is_read_when_the_schema_refers_to_another(
    serializers: Serializers, theirs: SchemaRegistryClient
) -> None:
    choice = SchemaChoice(ORDER, references=(SchemaReference(*CUSTOMER_REFERENCE),))
    payload = serializers.encode(TOPIC, False, choice, ORDER_JSON)
    read = AvroDeserializer(theirs)(payload, CONTEXT)
    assert isinstance(read, dict)
    assert read.pop("prices") == pytest.approx(ORDER_PLAIN["prices"])
    assert read == {name: value for name, value in ORDER_PLAIN.items() if name != "prices"}


@pytest.mark.usefixtures("customer")
@pytest.mark.parametrize("in_header", [False, True])
def test_avro_of_theirs_is_read_when_the_schema_refers_to_another(
    serializers: Serializers, theirs: SchemaRegistryClient, in_header: bool
) -> None:
    schema = Schema(ORDER, "AVRO", [TheirReference(*CUSTOMER_REFERENCE)])
    conf = {"schema.id.serializer": header_schema_id_serializer} if in_header else {}
    headers: list[Any] = []
    context = SerializationContext(TOPIC, MessageField.VALUE, headers)
    payload = AvroSerializer(theirs, schema, conf=conf)(ORDER_PLAIN, context)
    assert payload is not None
    assert bool(headers) is in_header
    decoded = serializers.decode(TOPIC, False, payload, headers)
    assert decoded.value == ORDER_JSON
    assert decoded.schema_type is SchemaType.AVRO
    again = serializers.peek_decode(TOPIC, False, payload, headers)
    assert again is not None
    assert again.value == ORDER_JSON


JSON_CUSTOMER = json.dumps(
    {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"], "additionalProperties": False}
)
JSON_ORDER = json.dumps(
    {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "Order",
        "type": "object",
        "properties": {"id": {"type": "integer"}, "customer": {"$ref": "customer.json"}},
    }
)
JSON_VALUE = {"id": 3, "customer": {"name": "Ünn"}}
JSON_REFERENCE = ("customer.json", "customer-json", 1)


@pytest.fixture(scope="module")
def json_customer(ours: RegistryClient) -> None:
    ours.register("customer-json", NewSchema(JSON_CUSTOMER, "JSON"))


@pytest.mark.usefixtures("json_customer")
def test_json_goes_both_ways_when_the_schema_refers_to_another(
    serializers: Serializers, theirs: SchemaRegistryClient
) -> None:
    choice = SchemaChoice(JSON_ORDER, schema_type=SchemaType.JSON, references=(SchemaReference(*JSON_REFERENCE),))
    payload = serializers.encode("json", False, choice, JSON_VALUE)
    schema = Schema(JSON_ORDER, "JSON", [TheirReference(*JSON_REFERENCE)])
    context = SerializationContext("json", MessageField.VALUE)
    assert JSONDeserializer(schema, schema_registry_client=theirs)(payload, context) == JSON_VALUE
    written = JSONSerializer(schema, theirs)(JSON_VALUE, context)
    assert written is not None
    assert written[:5] == payload[:5]
    assert serializers.decode("json", False, written).value == JSON_VALUE


PROTO_CUSTOMER = 'syntax = "proto3"; package shop; message Customer { string full_name = 1; }'
PROTO_ORDER = """
syntax = "proto3";
package shop;
import "customer.proto";
import "google/protobuf/timestamp.proto";
message Ignored { int32 x = 1; }
message Order {
  message Line { optional uint32 count = 1; }
  int64 id = 1;
  Customer customer = 2;
  google.protobuf.Timestamp at = 3;
  repeated sint32 deltas = 4;
  map<string, bytes> blobs = 5;
  enum State { NEW = 0; DONE = 1; }
  State state = 6;
  oneof how { string text = 7; double number = 8; }
  repeated Line lines = 9;
}
"""
PROTO_VALUE = {
    "id": "5",
    "customer": {"fullName": "Ann"},
    "at": "2026-01-02T03:04:05Z",
    "deltas": [-1, 2],
    "blobs": {"a": "AP8="},
    "state": "DONE",
    "number": 0.5,
    "lines": [{"count": 0}, {}],
}


@pytest.fixture(scope="module")
def their_messages(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The classes that protoc makes of the two files."""
    folder = tmp_path_factory.mktemp("protos")
    (folder / "customer.proto").write_text(PROTO_CUSTOMER)
    (folder / "order.proto").write_text(PROTO_ORDER)
    out = folder / "set"
    include = Path(protoc.__file__).parent / "_proto"
    arguments = ["", f"-I{folder}", f"-I{include}", "--include_imports", f"--descriptor_set_out={out}", "order.proto"]
    assert protoc.main(arguments) == 0
    pool = descriptor_pool.DescriptorPool()
    for file in descriptor_pb2.FileDescriptorSet.FromString(out.read_bytes()).file:
        pool.Add(file)
    return lambda name: message_factory.GetMessageClass(pool.FindMessageTypeByName(name))


def proto_choice(message: str) -> SchemaChoice:
    references = (SchemaReference("customer.proto", "customer.proto", 1),)
    return SchemaChoice(PROTO_ORDER, schema_type=SchemaType.PROTOBUF, references=references, message=message)


@pytest.mark.parametrize(("message", "value"), [("Order", PROTO_VALUE), ("shop.Order.Line", {"count": 3})])
def test_protobuf_goes_both_ways_when_files_import_each_other(
    serializers: Serializers,
    ours: RegistryClient,
    theirs: SchemaRegistryClient,
    their_messages: Any,
    message: str,
    value: Any,
) -> None:
    ours.register("customer.proto", NewSchema(PROTO_CUSTOMER, "PROTOBUF"))
    kind = their_messages(f"shop.{message.removeprefix('shop.')}")
    payload = serializers.encode("proto", False, proto_choice(message), value)
    context = SerializationContext("proto", MessageField.VALUE)
    read = ProtobufDeserializer(kind, {"use.deprecated.format": False}, theirs)(payload, context)
    expected = kind()
    expected.ParseFromString(payload[5 + len(indexes_of(message)) :])
    assert read == expected

    written = ProtobufSerializer(kind, theirs, {"use.deprecated.format": False})(read, context)
    assert written is not None
    decoded = serializers.decode("proto", False, written)
    assert decoded.value == serializers.decode("proto", False, payload).value
    for name, each in value.items():
        assert decoded.value[name] == each


def indexes_of(message: str) -> bytes:
    return {"Order": b"\x02\x02", "shop.Order.Line": b"\x04\x02\x00"}[message]


def test_their_reader_finds_our_guid_when_it_is_in_a_header(
    serializers: Serializers, ours: RegistryClient, theirs: SchemaRegistryClient
) -> None:
    ours.register("headers-value", NewSchema('"string"'))
    encoder = serializers.encoder("headers", False, SchemaChoice(is_latest=True))
    header, payload = encoder.encode_with_header("some text")
    context = SerializationContext("headers", MessageField.VALUE, [header])
    reader = AvroDeserializer(theirs, conf={"schema.id.deserializer": dual_schema_id_deserializer})
    assert reader(payload, context) == "some text"
    assert serializers.decode("headers", False, payload, [header]).value == "some text"
