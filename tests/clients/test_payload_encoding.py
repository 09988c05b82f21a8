"""Rows that we encode are read by confluent-kafka's deserializers; the registry has been asked before the first row."""

from __future__ import annotations

import datetime as dt
import json
import pickle
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient, dual_schema_id_deserializer
from confluent_kafka.schema_registry.avro import AvroDeserializer
from confluent_kafka.schema_registry.json_schema import JSONDeserializer
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from grpc_tools import protoc
from pyspark.sql.types import StructType

from penstock.client.registry import NewSchema, RegistryClient, RegistrySettings, SchemaReference
from penstock.embedded_registry import Registry
from penstock.pipelines.errors import PipelineError
from penstock.pipelines.payloads.encoding import Framing, SchemaRequest, SinkSchema, open_encoder, register_schema
from penstock.pipelines.payloads.schema_derivation import arrow_type
from penstock.schemas.schema import SchemaType
from penstock.serdes.errors import PayloadError
from tests.unit.pipelines.ddl import struct_of

DDL = (
    "id bigint not null, customer string, price decimal(12,2), day date, at timestamp, raw binary, ok boolean, "
    "weight float, tags array<string>, lines array<struct<sku: string, count: int>>, counts map<string, bigint>, "
    "home struct<street: string, geo: struct<x: double>>"
)
AT = dt.datetime(2026, 1, 31, 10, 0, 0, 123456, tzinfo=dt.UTC)
FULL: dict[str, Any] = {
    "id": 2**40,
    "customer": 'Ann "A" \\ Ümläut\n',
    "price": Decimal("-12345.60"),
    "day": dt.date(2026, 1, 31),
    "at": AT,
    "raw": b"\x00\xff",
    "ok": True,
    "weight": 0.5,
    "tags": ["a", "b"],
    "lines": [{"sku": "x", "count": 3}, {"sku": None, "count": -1}],
    "counts": {"a": 1},
    "home": {"street": "High", "geo": {"x": 1.25}},
}
EMPTY: dict[str, Any] = dict.fromkeys(FULL) | {"id": -1}


@pytest.fixture(scope="module")
def columns() -> StructType:
    return struct_of(DDL)


@pytest.fixture(scope="module")
def theirs(schema_registry: Registry) -> Iterator[SchemaRegistryClient]:
    with SchemaRegistryClient({"url": schema_registry.url}) as client:
        yield client


@pytest.fixture(scope="module")
def ours(schema_registry: Registry) -> Iterator[RegistryClient]:
    with RegistryClient(RegistrySettings.of_url(schema_registry.url)) as client:
        yield client


def rows_of(values: list[Any], columns: StructType) -> pa.Array:
    kind = arrow_type(columns)
    return pa.array([None if each is None else _entries(each) for each in values], kind)


def _entries(row: dict[str, Any]) -> dict[str, Any]:
    return {name: list(each.items()) if name == "counts" and each is not None else each for name, each in row.items()}


def context_of(topic: str, header: tuple[str, bytes] | None) -> SerializationContext:
    return SerializationContext(topic, MessageField.VALUE, [header] if header is not None else [])


def encoded(schema: SinkSchema, framing: Framing, columns: StructType) -> tuple[Any, list[bytes]]:
    """As a task does it: the schema comes by pickle."""
    encoder = open_encoder(pickle.loads(pickle.dumps(schema)), framing)
    return encoder.header, encoder.encode(rows_of([FULL, EMPTY, None], columns)).to_pylist()


@pytest.mark.parametrize("framing", Framing)
def test_avro_is_read_by_their_deserializer_when_the_schema_was_derived(
    ours: RegistryClient, theirs: SchemaRegistryClient, columns: StructType, framing: Framing
) -> None:
    schema = register_schema(ours, SchemaRequest("avro-rows-value", namespace="shop"), columns)
    header, payloads = encoded(schema, framing, columns)
    read = AvroDeserializer(theirs, conf={"schema.id.deserializer": dual_schema_id_deserializer})
    context = context_of("avro-rows", header)
    assert [read(each, context) for each in payloads] == [FULL, EMPTY, None]


@pytest.mark.parametrize("framing", Framing)
def test_json_is_read_and_validated_by_their_deserializer_when_the_schema_was_derived(
    ours: RegistryClient, theirs: SchemaRegistryClient, columns: StructType, framing: Framing
) -> None:
    schema = register_schema(ours, SchemaRequest("json-rows-value", SchemaType.JSON), columns)
    header, payloads = encoded(schema, framing, columns)
    conf = {"schema.id.deserializer": dual_schema_id_deserializer, "validate": True}
    read = JSONDeserializer(None, schema_registry_client=theirs, conf=conf)
    context = context_of("json-rows", header)
    full = FULL | {"price": -12345.60, "day": "2026-01-31", "at": "2026-01-31T10:00:00.123456Z", "raw": "AP8="}
    assert [read(each, context) for each in payloads] == [full, EMPTY, None]


def message_class(text: str, folder: Path, name: str) -> Any:
    """As protoc understands the text."""
    (folder / "rows.proto").write_text(text)
    out = folder / "set"
    include = Path(protoc.__file__).parent / "_proto"
    arguments = ["", f"-I{folder}", f"-I{include}", "--include_imports", f"--descriptor_set_out={out}", "rows.proto"]
    assert protoc.main(arguments) == 0
    pool = descriptor_pool.DescriptorPool()
    for file in descriptor_pb2.FileDescriptorSet.FromString(out.read_bytes()).file:
        pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(name))


@pytest.mark.parametrize("framing", Framing)
def test_protobuf_is_read_by_their_deserializer_when_the_schema_was_derived(
    ours: RegistryClient, theirs: SchemaRegistryClient, columns: StructType, framing: Framing, tmp_path: Path
) -> None:
    request = SchemaRequest("proto-rows-value", SchemaType.PROTOBUF, name="Order", namespace="shop")
    schema = register_schema(ours, request, columns)
    header, payloads = encoded(schema, framing, columns)
    kind = message_class(schema.text, tmp_path, "shop.Order")
    conf = {"schema.id.deserializer": dual_schema_id_deserializer, "use.deprecated.format": False}
    read = ProtobufDeserializer(kind, conf, theirs)
    full, empty, tombstone = (read(each, context_of("proto-rows", header)) for each in payloads)
    assert tombstone is None
    assert empty == kind(id=-1)
    expected = kind(
        id=2**40, customer=FULL["customer"], price="-12345.60", day="2026-01-31", raw=FULL["raw"], ok=True, weight=0.5,
        tags=["a", "b"], lines=[{"sku": "x", "count": 3}, {"count": -1}], counts={"a": 1},
        home={"street": "High", "geo": {"x": 1.25}},
    )  # fmt: skip
    expected.at.FromDatetime(AT)
    assert full == expected


def test_columns_that_fit_the_latest_version_are_written_with_it_when_no_schema_is_given(ours: RegistryClient) -> None:
    text = json.dumps(
        {
            "type": "record",
            "name": "Order",
            "fields": [
                {"name": "id", "type": "long"},
                {"name": "state", "type": {"type": "enum", "name": "State", "symbols": ["NEW", "DONE"]}},
                {"name": "note", "type": "string", "default": "none"},
            ],
        }
    )
    registered = ours.register("fits-value", NewSchema(text))
    columns = struct_of("ID bigint, state string")
    schema = register_schema(ours, SchemaRequest("fits-value"), columns)
    assert schema.schema_id == registered.id
    payloads = open_encoder(schema).encode(rows_of([{"ID": 1, "state": "DONE"}], columns))
    assert payloads[0].as_py()[5:] == b"\x02\x02\x08none"


def test_a_version_with_the_same_names_is_registered_when_a_column_is_new(ours: RegistryClient) -> None:
    first = register_schema(
        ours, SchemaRequest("grows-value", name="Row", namespace="shop"), struct_of("id bigint, home struct<x: int>")
    )
    second = register_schema(
        ours, SchemaRequest("grows-value"), struct_of("id bigint, home struct<x: int, y: int>, more string")
    )
    assert second.version == (first.version or 0) + 1
    assert json.loads(second.text)["name"] == "Row"
    assert json.loads(second.text)["namespace"] == "shop"
    again = register_schema(ours, SchemaRequest("grows-value"), struct_of("id bigint, home struct<x: int>"))
    assert again.schema_id == second.schema_id


def test_numbers_of_protobuf_are_kept_when_columns_change_their_order(ours: RegistryClient) -> None:
    request = SchemaRequest("numbers-value", SchemaType.PROTOBUF)
    first = register_schema(ours, request, struct_of("a bigint, b string"))
    second = register_schema(ours, request, struct_of("c double, b string, a bigint"))
    assert second.schema_id != first.schema_id
    (row,) = open_encoder(second).encode(
        rows_of([{"c": 1.0, "b": "x", "a": 1}], struct_of("c double, b string, a bigint"))
    )
    kept = open_encoder(first).encode(rows_of([{"a": 1, "b": "x"}], struct_of("a bigint, b string")))[0].as_py()
    assert row.as_py()[6:].startswith(kept[6:])


@pytest.mark.parametrize("schema_type", SchemaType)
def test_nothing_is_registered_when_the_schema_is_not_compatible(ours: RegistryClient, schema_type: SchemaType) -> None:
    subject = f"breaks-{schema_type}-value"
    register_schema(ours, SchemaRequest(subject, schema_type), struct_of("id bigint not null, a int not null"))
    with pytest.raises(
        PipelineError, match=r"not compatible with the versions of subject breaks.*\n.*errorType"
    ) as caught:
        register_schema(ours, SchemaRequest(subject, schema_type), struct_of("id bigint not null, a string not null"))
    assert "Nothing was registered" in caught.value.hint
    assert ours.administration.versions(subject) == [1]


def test_a_given_schema_is_refused_when_columns_do_not_fit(ours: RegistryClient) -> None:
    text = json.dumps({"type": "record", "name": "R", "fields": [{"name": "a", "type": "int"}]})
    with pytest.raises(PipelineError, match="no column for the field a") as caught:
        register_schema(ours, SchemaRequest("refused-value", text=text), struct_of("b int"))
    assert "record R has no field for the column b" in caught.value.message
    assert "refused-value" not in ours.administration.subjects()


def test_the_latest_version_is_wanted_when_there_is_none(ours: RegistryClient) -> None:
    with pytest.raises(PipelineError, match="subject nothing-value has no schema"):
        register_schema(ours, SchemaRequest("nothing-value", is_latest=True), struct_of("a int"))


def test_a_schema_is_not_registered_when_that_is_not_allowed(ours: RegistryClient) -> None:
    with pytest.raises(PipelineError, match="does not have the schema"):
        register_schema(ours, SchemaRequest("closed-value", auto_register=False), struct_of("a int"))
    assert "closed-value" not in ours.administration.subjects()


def test_a_schema_that_refers_to_another_is_written_when_its_id_is_given(
    ours: RegistryClient, theirs: SchemaRegistryClient
) -> None:
    customer = json.dumps({"type": "record", "name": "shop.Customer", "fields": [{"name": "name", "type": "string"}]})
    ours.register("customers-by-id", NewSchema(customer))
    order = json.dumps(
        {"type": "record", "name": "Order", "fields": [{"name": "customer", "type": ["null", "shop.Customer"]}]}
    )
    reference = SchemaReference("shop.Customer", "customers-by-id", 1)
    registered = ours.register("by-id-value", NewSchema(order, references=(reference,)))
    columns = struct_of("customer struct<name: string>")
    schema = register_schema(ours, SchemaRequest("by-id-value", schema_id=registered.id), columns)
    payloads = open_encoder(schema).encode(rows_of([{"customer": {"name": "Ann"}}], columns))
    read = AvroDeserializer(theirs)(payloads[0].as_py(), context_of("by-id", None))
    assert read == {"customer": {"name": "Ann"}}


def test_the_row_and_the_field_are_named_when_a_row_does_not_fit(ours: RegistryClient) -> None:
    text = json.dumps({"type": "record", "name": "R", "fields": [{"name": "a", "type": "int"}]})
    columns = struct_of("a bigint")
    schema = register_schema(ours, SchemaRequest("named-value", text=text), columns)
    rows = rows_of([{"a": 1}, None, {"a": 2**31}, {"a": None}], columns)
    encoder = open_encoder(schema)
    with pytest.raises(PayloadError, match=r"row 2 .*2147483648 is not between.*, at a \(1 more rows of 4"):
        encoder.encode(rows)
    found = encoder.encode_rows(rows)
    assert list(found.errors) == [2, 3]
    assert found.payloads.is_valid().to_pylist() == [True, False, False, False]


def test_a_registry_that_is_not_there_is_named_when_a_schema_is_wanted() -> None:
    settings = RegistrySettings.of_url("http://localhost:1")
    with pytest.raises(PipelineError, match="cannot be asked about a-value"):
        register_schema(settings, SchemaRequest("a-value"), struct_of("a int"))
