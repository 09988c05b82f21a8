"""Columns have the values that readers of single records find, and rows that do not decode spoil no others."""

from __future__ import annotations

import io
import json
from typing import Any

import fastavro
import numpy as np
import pyarrow as pa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from penstock.schemas.avro.schema import AvroSchema
from penstock.schemas.parsing import parse
from penstock.schemas.protobuf.schema import ProtobufSchema
from penstock.schemas.schema import Policy, SchemaType
from penstock.serdes.codec import Codec
from penstock.serdes.columns.avro.column_types import column_of
from penstock.serdes.columns.avro.decoder import AvroColumns
from penstock.serdes.columns.avro.scalars import Column
from penstock.serdes.columns.decoding import decode_batch
from penstock.serdes.columns.protobuf import ProtobufColumns
from penstock.serdes.errors import PayloadError
from penstock.serdes.framing import prefix
from tests.properties import test_schemas_avro, test_schemas_protobuf
from tests.properties.test_serdes import AvroValues, compiled

_QUICK = settings(max_examples=12, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much])
_WIDENED = [{"int", "long"}, {"float", "double"}]
# What stands for a value that is text here, because its record contains itself.
_TEXT = "a record within itself"


class Plain:
    """Values of columns as fastavro has them."""

    def __init__(self, schema: Any) -> None:
        self._named = {
            each["name"]: each
            for each in test_schemas_avro.walk(schema)
            if isinstance(each, dict) and each.get("type") in ("record", "enum", "fixed")
        }

    def of(self, schema: Any, value: Any) -> Any:
        if isinstance(schema, list):
            return self._union([each for each in schema if each != "null"], value)
        kind = schema["type"] if isinstance(schema, dict) else schema
        if kind in self._named and not isinstance(schema, dict):
            return self.of(self._named[kind], value)
        if kind == "record":
            if isinstance(value, str):
                return _TEXT
            return {field["name"]: self.of(field["type"], value[field["name"]]) for field in schema["fields"]}
        if kind == "array":
            return [self.of(schema["items"], each) for each in value]
        if kind == "map":
            return {key: self.of(schema["values"], each) for key, each in value}
        return np.float32(value) if kind == "float" else value

    def _union(self, branches: list[Any], value: Any) -> Any:
        if value is None:
            return None
        names = {each["type"] if isinstance(each, dict) else each for each in branches}
        if len(branches) == 1:
            return self.of(branches[0], value)
        if names in _WIDENED:
            return np.float32(value) if "float" in names and np.float32(value) == value else value
        ((position, member),) = [(at, each) for at, each in enumerate(value.values()) if each is not None]
        return self.of(branches[position], member)


def _same(found: Any, expected: Any) -> bool:
    """NaN is not equal to itself, a record within itself is text, fastavro does not round an int read as a float."""
    if found is _TEXT:
        return True
    if isinstance(found, np.float32):
        return repr(found) == repr(np.float32(expected))
    if isinstance(found, bytes) and isinstance(expected, str):  # fastavro leaves the default of bytes as it is written
        return found == expected.encode("latin-1")
    if isinstance(found, dict):
        return found.keys() == expected.keys() and all(_same(found[key], expected[key]) for key in found)
    if isinstance(found, list):
        return len(found) == len(expected) and all(map(_same, found, expected))
    return repr(found) == repr(expected)


def avro(schema: Any) -> AvroSchema:
    parsed = parse(SchemaType.AVRO, json.dumps(schema))
    assert isinstance(parsed, AvroSchema)
    return parsed


@given(schema=test_schemas_avro.schemas(), data=st.data())
@_QUICK
def test_columns_have_the_values_that_another_library_reads(schema: Any, data: st.DataObject) -> None:
    codec, decoder = compiled(json.dumps(schema)), AvroColumns(avro(schema))
    drawn = AvroValues(data.draw, schema)
    payloads = [codec.encode(drawn.value(schema)[0], None) for _ in range(data.draw(st.integers(1, 5)))]
    batch = pa.array([prefix(1) + payload for payload in payloads], pa.binary())
    columns = decode_batch(batch, {1: decoder}, decoder.type)
    columns.values.validate(full=True)
    assert columns.errors.null_count == len(payloads)
    plain = Plain(schema)
    for payload, value in zip(payloads, columns.values.to_pylist(), strict=True):
        read = fastavro.schemaless_reader(io.BytesIO(payload), fastavro.parse_schema(schema), None)
        assert _same(plain.of(schema, value), read)


@given(schema=test_schemas_avro.schemas(), data=st.data())
@_QUICK
def test_each_row_has_its_value_or_its_error_when_payloads_are_damaged(schema: Any, data: st.DataObject) -> None:
    codec, decoder, column = compiled(json.dumps(schema)), AvroColumns(avro(schema)), column_of(avro(schema).root)
    whole = codec.encode(AvroValues(data.draw, schema).value(schema)[0], None)
    damaged = [
        data.draw(st.binary(max_size=20)),
        whole[: data.draw(st.integers(0, len(whole)))],
        whole + data.draw(st.binary(max_size=2)),
        *([_changed(whole, data)] if whole else []),
    ]
    payloads = data.draw(st.permutations([whole, whole, *damaged]))
    batch = pa.array([prefix(1) + payload for payload in payloads], pa.binary())
    columns = decode_batch(batch, {1: decoder}, decoder.type)
    columns.values.validate(full=True)
    for payload, value, error in zip(payloads, columns.values, columns.errors.to_pylist(), strict=True):
        expected, refusal = _read_singly(codec, column, payload)
        assert error == (None if refusal is None else f"schema 1: {refusal}")
        assert repr(value) == repr(pa.array([expected], decoder.type)[0])


def _read_singly(codec: Codec, column: Column, payload: bytes) -> tuple[Any, str | None]:
    try:
        return column.of(codec.decode(payload, None)), None
    except PayloadError as refusal:
        return None, str(refusal)


def _changed(payload: bytes, data: st.DataObject) -> bytes:
    at = data.draw(st.integers(0, len(payload) - 1))
    return payload[:at] + bytes((data.draw(st.integers(0, 255)),)) + payload[at + 1 :]


def test_an_int_that_no_float_has_is_rounded_when_the_reader_wants_floats() -> None:
    decoder = AvroColumns(avro("int"), avro("float"))
    batch = pa.array([prefix(1) + compiled('"int"').encode(16_777_217, None)], pa.binary())
    assert decode_batch(batch, {1: decoder}, decoder.type).values.to_pylist() == [16_777_216.0]


@given(pair=test_schemas_avro.pairs(), data=st.data())
@_QUICK
def test_columns_of_a_readers_schema_have_the_values_that_another_library_resolves(
    pair: tuple[str, str], data: st.DataObject
) -> None:
    older, newer = map(json.loads, pair)
    writer, reader = avro(older), avro(newer)
    if reader.differences_from(writer, Policy.STRICT):
        return
    codec, decoder = compiled(pair[0]), AvroColumns(writer, reader)
    payloads = [codec.encode(AvroValues(data.draw, older).value(older)[0], None) for _ in range(3)]
    batch = pa.array([prefix(1) + payload for payload in [*payloads, b"\xff"]], pa.binary())
    columns = decode_batch(batch, {1: decoder}, decoder.type)
    columns.values.validate(full=True)
    assert columns.values.type == AvroColumns(reader).type
    plain = Plain(newer)
    parsed = fastavro.parse_schema(older), fastavro.parse_schema(newer)
    for payload, value, error in zip(payloads, columns.values.to_pylist(), columns.errors.to_pylist(), strict=False):
        if error is not None:  # fastavro puts a mark in the place of such bytes
            assert "no UTF-8" in error
            assert payload.decode(errors="ignore").encode() != payload
            continue
        try:
            expected = fastavro.schemaless_reader(io.BytesIO(payload), *parsed)
        except fastavro.read.SchemaResolutionError:  # it gives a field of the writer to one field of the reader alone
            continue
        assert _same(plain.of(newer, value), expected)


@given(pair=test_schemas_protobuf.pairs(), data=st.data())
@_QUICK
def test_messages_are_the_same_columns_by_both_readers_when_payloads_are_damaged(
    pair: Any, data: st.DataObject
) -> None:
    schema = parse(SchemaType.PROTOBUF, pair[0].text)
    assert isinstance(schema, ProtobufSchema)
    message = test_schemas_protobuf.message_class(pair[0].text)()
    test_schemas_protobuf.fill(message, data)
    whole = message.SerializeToString()
    damaged = [data.draw(st.binary(max_size=20)), *([_changed(whole, data), whole[:-1]] if whole else [])]
    batch = pa.array([prefix(1) + b"\0" + payload for payload in [whole, *damaged, whole]], pa.binary())
    quick, singly = ProtobufColumns(schema), ProtobufColumns(schema, is_quick=False)
    columns, expected = (decode_batch(batch, {1: each}, each.type) for each in (quick, singly))
    columns.values.validate(full=True)
    assert columns.errors[0].as_py() is None
    assert columns.errors.to_pylist() == expected.errors.to_pylist()
    assert repr(columns.values.to_pylist()) == repr(expected.values.to_pylist())
