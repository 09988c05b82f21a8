"""What is written is read back as the same value, by us and by other libraries, for generated schemas and values."""

from __future__ import annotations

import io
import json
import math
import struct
from typing import Any

import fastavro
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from penstock.client.registry import NewSchema
from penstock.serdes.codec import Codec
from penstock.serdes.compilation import CodecOptions, compile_codec
from penstock.serdes.errors import FramingError, PayloadError
from tests.properties import test_schemas_avro, test_schemas_json, test_schemas_protobuf

Drawn = Any

_QUICK = settings(max_examples=25, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much])
_NUMBERS = st.floats(allow_nan=False, allow_infinity=False)
_TEXT = st.text(max_size=5)
_FLOAT = struct.Struct("<f")
# What JSON has no numbers for, as Avro's JSON encoding has it.
_NO_NUMBERS = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
_PRIMITIVES: dict[str, st.SearchStrategy[Any]] = {
    "null": st.none(),
    "boolean": st.booleans(),
    "int": st.integers(-(2**31), 2**31 - 1),
    "long": st.integers(-(2**63), 2**63 - 1),
    # Few digits: of more of them come back those that mean the same four bytes.
    "float": st.integers(-(10**5), 10**5).map(lambda number: number / 100) | st.sampled_from(list(_NO_NUMBERS)),
    "double": _NUMBERS | st.sampled_from(list(_NO_NUMBERS)),
    "bytes": st.binary(max_size=5).map(lambda data: data.decode("latin-1")),
    "string": _TEXT,
}


def compiled(text: str, schema_type: str = "AVRO", *, is_lenient: bool = False) -> Codec:
    return compile_codec(NewSchema(text, schema_type), (), CodecOptions(is_lenient=is_lenient))


class AvroValues:
    """Draws a value in Avro's JSON encoding, and the same value as fastavro reads it."""

    def __init__(self, draw: Drawn, schema: Any) -> None:
        self._draw = draw
        self._named = {
            each["name"]: each
            for each in test_schemas_avro.walk(schema)
            if isinstance(each, dict) and each.get("type") in ("record", "enum", "fixed")
        }

    def value(self, schema: Any, depth: int = 0) -> tuple[Any, Any]:
        assume(depth < 9)  # a record that needs itself has no value
        if isinstance(schema, list):
            return self._branch(schema, depth)
        kind = schema["type"] if isinstance(schema, dict) else schema
        if kind in _PRIMITIVES:
            drawn = self._draw(_PRIMITIVES[kind])
            if kind == "bytes":
                return drawn, drawn.encode("latin-1")
            if kind == "float":
                return drawn, _FLOAT.unpack(_FLOAT.pack(_NO_NUMBERS.get(drawn, drawn)))[0]
            return drawn, _NO_NUMBERS[drawn] if kind == "double" and drawn in _NO_NUMBERS else drawn
        if not isinstance(schema, dict):
            return self.value(self._named[kind], depth + 1)
        if kind == "enum":
            return (self._draw(st.sampled_from(schema["symbols"])),) * 2
        if kind == "fixed":
            data = self._draw(st.binary(min_size=schema["size"], max_size=schema["size"]))
            return data.decode("latin-1"), data
        return self._several(schema, depth)

    def _several(self, schema: Any, depth: int) -> tuple[Any, Any]:
        if schema["type"] == "record":
            parts = {field["name"]: self.value(field["type"], depth + 1) for field in schema["fields"]}
        else:
            count = self._draw(st.integers(0, 2)) if depth < 5 else 0
            if schema["type"] == "array":
                items = [self.value(schema["items"], depth + 1) for _ in range(count)]
                return [item for item, _ in items], [item for _, item in items]
            keys = self._draw(st.lists(_TEXT, min_size=count, max_size=count, unique=True))
            parts = {key: self.value(schema["values"], depth + 1) for key in keys}
        return {key: part for key, (part, _) in parts.items()}, {key: part for key, (_, part) in parts.items()}

    def _branch(self, schema: list[Any], depth: int) -> tuple[Any, Any]:
        simple = [each for each in schema if isinstance(each, str) and each in _PRIMITIVES] if depth > 4 else []
        branch = self._draw(st.sampled_from(simple or schema))
        tagged, plain = self.value(branch, depth + 1)
        if branch == "null":
            return None, None
        key = branch if isinstance(branch, str) else branch.get("name", branch["type"])
        return {key: tagged}, plain


@given(schema=test_schemas_avro.schemas(), data=st.data())
@_QUICK
def test_avro_comes_back_when_it_was_written_and_another_library_reads_the_same(
    schema: Any, data: st.DataObject
) -> None:
    value, plain = AvroValues(data.draw, schema).value(schema)
    codec = compiled(json.dumps(schema))
    payload = codec.encode(value, None)
    assert codec.decode(payload, None) == value
    # The branch of a union is named already, so a lenient writer has nothing to guess.
    assert compiled(json.dumps(schema), is_lenient=True).encode(value, None) == payload
    read = fastavro.schemaless_reader(io.BytesIO(payload), fastavro.parse_schema(schema), None)
    assert repr(read) == repr(plain)  # NaN is not equal to itself


@given(schema=test_schemas_avro.schemas(), payload=st.binary(max_size=60))
@_QUICK
def test_any_bytes_are_a_value_or_refused_when_they_are_read_as_avro(schema: Any, payload: bytes) -> None:
    codec = compiled(json.dumps(schema))
    try:
        value = codec.decode(payload, None)
    except PayloadError:
        return
    codec.encode(value, None)


@given(schema=test_schemas_json.schemas(), data=st.data())
@_QUICK
def test_json_comes_back_when_it_fits(schema: Any, data: st.DataObject) -> None:
    codec = compiled(json.dumps(schema), "JSON")
    value = data.draw(
        st.recursive(
            st.none() | st.booleans() | st.integers(-5, 5) | _NUMBERS | _TEXT,
            lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
            max_leaves=5,
        )
    )
    try:
        payload = codec.encode(value, None)
    except PayloadError:
        return
    assert codec.decode(payload, None) == value


@given(pair=test_schemas_protobuf.pairs(), data=st.data())
@_QUICK
def test_protobuf_comes_back_when_it_was_written(pair: Any, data: st.DataObject) -> None:
    message = test_schemas_protobuf.message_class(pair[0].text)()
    test_schemas_protobuf.fill(message, data)
    codec = compiled(pair[0].text, "PROTOBUF")
    value = codec.decode(message.SerializeToString(), b"\x00")
    assert codec.decode(codec.encode(value, None), b"\x00") == value


@given(pair=test_schemas_protobuf.pairs(), payload=st.binary(max_size=40))
@_QUICK
def test_any_bytes_are_a_message_or_refused_when_they_are_read_as_protobuf(pair: Any, payload: bytes) -> None:
    codec = compiled(pair[0].text, "PROTOBUF")
    try:
        value = codec.decode(payload, None)
    except (PayloadError, FramingError):
        return
    codec.encode(value, None)
