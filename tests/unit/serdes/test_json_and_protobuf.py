"""Values by JSON Schema and Protobuf: what fits, what does not and where, and which message is meant."""

from __future__ import annotations

import json
from typing import Any

import pytest

from penstock.client.registry import NewSchema, ReferencedSchema
from penstock.serdes.codec import Codec
from penstock.serdes.compilation import CodecOptions, compile_codec
from penstock.serdes.errors import ChoiceError, FramingError, PayloadError, UnusableSchemaError
from penstock.serdes.framing import write_indexes


def json_codec(schema: Any, *others: tuple[str, Any], checks_read: bool = False) -> Codec:
    referenced = [ReferencedSchema(name, json.dumps(text), "s", 1) for name, text in others]
    return compile_codec(NewSchema(json.dumps(schema), "JSON"), referenced, CodecOptions(checks_read=checks_read))


ORDER = {
    "title": "Order",
    "type": "object",
    "properties": {"lines": {"type": "array", "items": {"type": "object", "properties": {"n": {"minimum": 1}}}}},
    "additionalProperties": False,
}


def test_json_comes_back_when_it_fits() -> None:
    codec = json_codec(ORDER)
    assert codec.encode({"lines": [{"n": 1.5, "ü": None}]}, None) == '{"lines":[{"n":1.5,"ü":null}]}'.encode()
    assert codec.decode(b'{"lines": [{"n": 1.5}]}', None) == {"lines": [{"n": 1.5}]}
    assert codec.record_name(None) == "Order"


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"lines": [{"n": 1}, {"n": 0}]}, "0 is less than the minimum of 1, at lines[1].n"),
        ({"lines": {}}, 'is not of type "array", at lines'),
        (5, 'is not of type "object"'),
        ({"lines": [{"a": float("nan")}]}, "no JSON"),
        ({"lines": [{"a": object()}]}, "no JSON"),
    ],
)
def test_the_path_is_named_when_json_does_not_fit(value: Any, message: str) -> None:
    with pytest.raises(PayloadError) as refused:
        json_codec(ORDER).encode(value, None)
    assert message in str(refused.value)


def test_what_others_wrote_is_checked_when_that_is_wanted() -> None:
    assert json_codec(ORDER).decode(b'{"x": 1}', None) == {"x": 1}
    with pytest.raises(PayloadError, match="Additional properties"):
        json_codec(ORDER, checks_read=True).decode(b'{"x": 1}', None)
    with pytest.raises(PayloadError, match="no JSON"):
        json_codec(ORDER).decode(b"{", None)


@pytest.mark.parametrize(
    ("identifier", "reference", "name"),
    [
        (None, "other.json", "other.json"),
        (None, "http://shop/other.json", "http://shop/other.json"),
        ("http://shop/main.json", "other.json", "other.json"),
        ("http://shop/main.json", "other.json", "http://shop/other.json"),
        (None, "io.shop.Other", "io.shop.Other"),
        ("main.json", "other.json#/definitions/inner", "other.json"),
    ],
)
def test_a_reference_is_found_by_its_name(identifier: str | None, reference: str, name: str) -> None:
    main: dict[str, Any] = {"properties": {"a": {"$ref": reference}}}
    if identifier is not None:
        main["$id"] = identifier
    other = {"type": "integer", "definitions": {"inner": {"type": "integer"}}}
    codec = json_codec(main, (name, other))
    assert codec.encode({"a": 1}, None) == b'{"a":1}'
    with pytest.raises(PayloadError, match="at a"):
        codec.encode({"a": "x"}, None)


def test_a_value_is_refused_when_it_nests_deeper_than_the_branches_of_its_schema_allow() -> None:
    inner = {"properties": {"a": {"$ref": "#"}}}
    codec = json_codec({"anyOf": [{**inner, "required": ["b"]}, {**inner, "required": ["a"]}, {"type": "integer"}]})
    value: Any = 1
    for _ in range(5):
        value = {"a": value}
    assert codec.encode(value, None)
    for _ in range(60):
        value = {"a": value}
    with pytest.raises(PayloadError, match="the schema branches at each level"):
        codec.encode(value, None)
    with pytest.raises(PayloadError, match="does not fit the schema"):
        codec.encode({"c": 1}, None)


def test_nothing_is_fetched_when_a_reference_is_not_there() -> None:
    with pytest.raises(UnusableSchemaError, match="neither in the schema nor among its references"):
        json_codec({"$ref": "http://127.0.0.1:9/none.json"})


PROTO = """
syntax = "proto3"; package shop;
message Order {
  string some_id = 1; repeated Line lines = 2; map<string, Line> by = 3;
  message Line { int64 count = 1; }
}
message Other { bytes raw = 1; optional float f = 2; }
"""


def proto_codec(text: str = PROTO) -> Codec:
    return compile_codec(NewSchema(text, "PROTOBUF"), (), CodecOptions())


def test_protobuf_takes_both_names_of_a_field_and_gives_those_of_json() -> None:
    codec = proto_codec()
    value = {"some_id": "x", "lines": [{"count": 2**40}]}
    payload = codec.encode(value, None)
    assert payload == codec.encode({"someId": "x", "lines": [{"count": str(2**40)}]}, None)
    assert codec.decode(b"\x00" + payload, None) == {"someId": "x", "lines": [{"count": str(2**40)}], "by": {}}
    assert codec.decode(payload, b"\x00")["someId"] == "x"


def test_messages_are_chosen_by_name_and_found_by_their_indexes() -> None:
    codec = proto_codec()
    for message, indexes in (
        (None, b"\x00"),
        ("Order", b"\x00"),
        ("shop.Other", b"\x02\x02"),
        ("Order.Line", b"\x04\x00\x00"),
        (".shop.Order.Line", b"\x04\x00\x00"),
    ):
        assert codec.indexes(message) == indexes
        codec.decode(indexes + codec.encode({}, message), None)
    assert codec.record_name("Order.Line") == "shop.Order.Line"
    with pytest.raises(ChoiceError, match="no message 'Oder'"):
        codec.indexes("Oder")
    with pytest.raises(ChoiceError, match="only files of Protobuf"):
        json_codec(ORDER).indexes("Order")


@pytest.mark.parametrize("value", [5, None, [1], "x", {"nope": 1}, {"lines": [{"count": "x"}]}, {"by": 3}])
def test_a_value_is_refused_when_it_is_none_of_the_message(value: Any) -> None:
    with pytest.raises(PayloadError, match=r"does not fit shop\.Order"):
        proto_codec().encode(value, None)


@pytest.mark.parametrize(("payload", "error"), [(b"\x00\xff", PayloadError), (b"\x02\x08", FramingError),
                                                (b"\x04\x00\x04", FramingError), (b"", FramingError)])  # fmt: skip
def test_bytes_are_refused_when_they_are_no_message(payload: bytes, error: type[Exception]) -> None:
    with pytest.raises(error):
        proto_codec().decode(payload, None)


def test_a_message_is_found_when_python_counted_the_entries_of_the_maps_before_it() -> None:
    codec = proto_codec()
    line = codec.encode({"count": 3}, "Order.Line")
    assert codec.decode(write_indexes([0, 0]) + line, None) == codec.decode(write_indexes([0, 1]) + line, None)


def test_no_message_is_guessed_when_both_counts_lead_to_several() -> None:
    codec = proto_codec("""syntax = "proto3"; message M { map<string, int32> a = 1; map<string, int32> b = 2;
                           message X { int32 x = 1; } message Y { int32 y = 1; } message Z { int32 z = 1; } }""")
    values = [codec.decode(write_indexes([0, index]) + b"\x08\x05", None) for index in (0, 1, 2, 4)]
    assert values == [{"x": 5}, {"y": 5}, {"z": 5}, {"z": 5}]
    for index in (3, 5):
        with pytest.raises(FramingError, match="no message at"):
            codec.decode(write_indexes([0, index]), None)


def test_a_file_without_messages_is_refused() -> None:
    with pytest.raises(UnusableSchemaError, match="no message"):
        proto_codec('syntax = "proto3"; enum E { A = 0; }')


def test_a_required_field_is_missed() -> None:
    codec = proto_codec('syntax = "proto2"; message M { required int32 a = 1; }')
    with pytest.raises(PayloadError, match="required fields: a"):
        codec.encode({}, None)
