"""Columns that were encoded are read back, by other libraries as the same values and by ours as the same columns."""

from __future__ import annotations

import io
import json
from typing import Any

import fastavro
import jsonschema
import pyarrow as pa
from google.protobuf import message_factory
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from penstock.schemas.json_schema.schema import JsonSchema
from penstock.schemas.parsing import parse
from penstock.schemas.protobuf.schema import ProtobufSchema
from penstock.schemas.schema import SchemaType
from penstock.serdes.columns.avro.decoder import AvroColumns
from penstock.serdes.columns.decoding import decode_batch
from penstock.serdes.columns.encoding.avro.encoder import AvroEncoding
from penstock.serdes.columns.encoding.json_schema.encoder import JsonEncoding
from penstock.serdes.columns.encoding.protobuf.encoder import ProtobufEncoding
from penstock.serdes.columns.json_schema import JsonColumns
from penstock.serdes.columns.protobuf import ProtobufColumns
from penstock.serdes.framing import prefix
from tests.properties import test_schemas_avro, test_schemas_json, test_schemas_protobuf
from tests.properties.test_columns import Plain, _same, avro
from tests.properties.test_serdes import AvroValues, compiled

_QUICK = settings(max_examples=12, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much])


@given(schema=test_schemas_avro.schemas(), data=st.data())
@_QUICK
def test_avro_is_read_by_another_library_when_columns_were_encoded(schema: Any, data: st.DataObject) -> None:
    codec, decoder = compiled(json.dumps(schema)), AvroColumns(avro(schema))
    drawn = AvroValues(data.draw, schema)
    payloads = [codec.encode(drawn.value(schema)[0], None) for _ in range(data.draw(st.integers(1, 5)))]
    values = decode_batch(framed(payloads), {1: decoder}, decoder.type).values
    begin = data.draw(st.integers(0, len(payloads) - 1))
    encoded = AvroEncoding(avro(schema)).encode(values.slice(begin))
    encoded.payloads.validate(full=True)
    assert encoded.errors == {}
    again = decode_batch(framed(encoded.payloads.to_pylist()), {1: decoder}, decoder.type)
    assert repr(again.values.to_pylist()) == repr(values.slice(begin).to_pylist())
    plain = Plain(schema)
    for payload, value in zip(encoded.payloads.to_pylist(), values.slice(begin).to_pylist(), strict=True):
        read = fastavro.schemaless_reader(io.BytesIO(payload), fastavro.parse_schema(schema), None)
        assert _same(plain.of(schema, value), read)


def framed(payloads: list[bytes]) -> pa.Array:
    return pa.array([prefix(1) + each for each in payloads], pa.binary())


@given(pair=test_schemas_protobuf.pairs(), data=st.data())
@_QUICK
def test_protobuf_is_read_by_another_library_when_columns_were_encoded(pair: Any, data: st.DataObject) -> None:
    schema = protobuf(pair[0].text)
    of_message = test_schemas_protobuf.message_class(pair[0].text)
    messages = [of_message() for _ in range(data.draw(st.integers(1, 4)))]
    for message in messages:
        test_schemas_protobuf.fill(message, data)
    decoder = ProtobufColumns(schema)
    payloads = [b"\0" + message.SerializeToString() for message in messages]
    values = decode_batch(framed(payloads), {1: decoder}, decoder.type).values
    encoded = ProtobufEncoding(schema).encode(values)
    encoded.payloads.validate(full=True)
    assert encoded.errors == {}
    assert [of_message.FromString(payload) for payload in encoded.payloads.to_pylist()] == messages


_KINDS = """
syntax = "proto3";
import "google/protobuf/timestamp.proto";
import "google/protobuf/duration.proto";
import "google/protobuf/wrappers.proto";
message M {
  int32 a = 1; int64 b = 2; uint32 c = 3; uint64 d = 4; sint32 e = 5; sint64 f = 6; fixed32 g = 7; fixed64 h = 8;
  sfixed32 i = 9; sfixed64 j = 10; float k = 11; double l = 12; bool m = 13; string n = 14; bytes o = 15; E p = 16;
  optional int32 oa = 17; optional string on = 18; optional E op = 19; repeated sint64 rf = 20; repeated string rn = 21;
  repeated M.N rm = 22; map<string, M.N> mm = 23; map<int32, double> ml = 24; N inner = 25;
  google.protobuf.Timestamp at = 26; google.protobuf.Duration long = 27; google.protobuf.StringValue w = 28;
  google.protobuf.UInt64Value wd = 29; oneof one { int32 x = 30; string y = 31; N z = 32; } repeated E rp = 33;
  M again = 1000; repeated double rl = 35 [packed = false];
  message N { optional int64 a = 1; repeated bool b = 200000; map<bool, bytes> c = 3; }
}
enum E { ZERO = 0; ONE = 1; MINUS = -5; }
"""


def _drawn_field(each: Any, data: st.DataObject) -> Any:
    if each.enum_type is not None:
        return data.draw(st.sampled_from([0, 1, -5, 77]))
    if each.type in (each.TYPE_STRING, each.TYPE_BYTES):
        return data.draw(st.text(max_size=3) if each.type == each.TYPE_STRING else st.binary(max_size=3))
    if each.cpp_type in (each.CPPTYPE_FLOAT, each.CPPTYPE_DOUBLE):
        return data.draw(st.floats(width=32) | st.just(-0.0))
    if each.cpp_type == each.CPPTYPE_BOOL:
        return data.draw(st.booleans())
    bits = 32 if each.cpp_type in (each.CPPTYPE_INT32, each.CPPTYPE_UINT32) else 64
    is_unsigned = each.cpp_type in (each.CPPTYPE_UINT32, each.CPPTYPE_UINT64)
    return data.draw(
        st.integers(0, 2**bits - 1) if is_unsigned else st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    )


def _fill(message: Any, data: st.DataObject, depth: int = 0) -> None:
    """Any value in any field; about one in three."""
    for each in message.DESCRIPTOR.fields:
        if data.draw(st.integers(0, 2)):
            continue
        target = getattr(message, each.name)
        if each.message_type is not None and each.message_type.GetOptions().map_entry:
            key = _drawn_field(each.message_type.fields_by_name["key"], data)
            value = each.message_type.fields_by_name["value"]
            if value.message_type is None:
                target[key] = _drawn_field(value, data)
            else:
                _fill(target[key], data, depth + 1)
        elif each.message_type is not None and each.message_type.full_name in TIMES:
            target.SetInParent()
            target.seconds, target.nanos = TIMES[each.message_type.full_name](data)
        elif each.message_type is not None and depth < 3:
            inner = target.add() if each.is_repeated else target
            inner.SetInParent()
            _fill(inner, data, depth + 1)
        elif each.message_type is None and each.is_repeated:
            target.extend(_drawn_field(each, data) for _ in range(data.draw(st.integers(0, 3))))
        elif each.message_type is None:
            setattr(message, each.name, _drawn_field(each, data))


_MICROS = st.integers(0, 999_999)
TIMES: dict[str, Any] = {
    "google.protobuf.Timestamp": lambda data: (
        data.draw(st.integers(-62_135_596_800, 253_402_300_799)),
        data.draw(_MICROS) * 1000,
    ),
    "google.protobuf.Duration": lambda data: data.draw(
        st.tuples(st.integers(0, 9_000_000_000), _MICROS.map(lambda part: part * 1000)).flatmap(
            lambda pair: st.sampled_from([pair, (-pair[0], -pair[1])])
        )
    ),
}


@given(data=st.data())
@_QUICK
def test_every_kind_of_field_comes_back_when_protobuf_was_written_from_columns(data: st.DataObject) -> None:
    schema = protobuf(_KINDS)
    pool, _ = schema.described()
    of_message = message_factory.GetMessageClass(pool.FindMessageTypeByName("M"))
    messages = [of_message() for _ in range(3)]
    for message in messages:
        _fill(message, data)
    decoder = ProtobufColumns(schema)
    payloads = [b"\0" + message.SerializeToString() for message in messages]
    found = decode_batch(framed(payloads), {1: decoder}, decoder.type)
    assert found.errors.null_count == len(messages)
    begin = data.draw(st.integers(0, 2))
    encoded = ProtobufEncoding(schema).encode(found.values.slice(begin))
    assert encoded.errors == {}
    # As bytes: NaN is not equal to itself.
    again = [
        of_message.FromString(payload).SerializeToString(deterministic=True) for payload in encoded.payloads.to_pylist()
    ]
    assert again == [message.SerializeToString(deterministic=True) for message in messages[begin:]]


def protobuf(text: str) -> ProtobufSchema:
    parsed = parse(SchemaType.PROTOBUF, text)
    assert isinstance(parsed, ProtobufSchema)
    return parsed


@given(document=test_schemas_json.schemas(), samples=st.lists(test_schemas_json.values, min_size=5, max_size=10))
@_QUICK
def test_json_fits_its_schema_and_comes_back_when_columns_were_encoded(document: Any, samples: list[Any]) -> None:
    schema = parse(SchemaType.JSON, json.dumps(document), is_new=False)
    assert isinstance(schema, JsonSchema)
    decoder, encoding = JsonColumns(schema), JsonEncoding(schema)
    assume(not encoding.problems(decoder.type))
    decoded = decode_batch(framed([json.dumps(each).encode() for each in samples]), {1: decoder}, decoder.type)
    values = decoded.values.filter(decoded.errors.is_null())
    encoded = encoding.encode(values)
    validator = jsonschema.Draft7Validator(document)
    for row, payload in enumerate(encoded.payloads.to_pylist()):
        assert (payload is None) == (row in encoded.errors)
        if payload is not None:
            assert validator.is_valid(json.loads(payload))
            again = decode_batch(framed([payload]), {1: decoder}, decoder.type).values
            assert json.dumps(again.to_pylist()) == json.dumps(values.slice(row, 1).to_pylist())


_BOUNDED = {
    "type": "object",
    "properties": {"a": {"type": "integer", "minimum": 0}, "b": {"type": ["string", "null"], "maxLength": 2}},
    "required": ["a"],
}


@given(
    rows=st.lists(
        st.fixed_dictionaries({"a": st.none() | st.integers(-2, 2), "b": st.none() | st.text(max_size=3)}), max_size=5
    )
)
@_QUICK
def test_rows_have_an_error_if_and_only_if_another_library_refuses_them(rows: list[Any]) -> None:
    schema = parse(SchemaType.JSON, json.dumps(_BOUNDED))
    assert isinstance(schema, JsonSchema)
    values = pa.array(rows, pa.struct([("a", pa.int64()), ("b", pa.string())]))
    encoded = JsonEncoding(schema).encode(values)
    validator = jsonschema.Draft7Validator(_BOUNDED)
    assert sorted(encoded.errors) == [row for row, each in enumerate(rows) if not validator.is_valid(each)]
    good = [row for row in range(len(rows)) if row not in encoded.errors]
    assert [json.loads(encoded.payloads[row].as_py()) for row in good] == [rows[row] for row in good]
