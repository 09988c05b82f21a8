"""Columns of some fields are those that columns of all fields have, whatever else payloads hold."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import jsonschema
import pyarrow as pa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from penstock.schemas.json_schema.schema import JsonSchema
from penstock.schemas.parsing import parse
from penstock.schemas.schema import Policy, SchemaType
from penstock.serdes.columns.avro.decoder import AvroColumns
from penstock.serdes.columns.decoding import ColumnDecoder, Columns, decode_batch
from penstock.serdes.columns.json_schema import JsonColumns
from penstock.serdes.framing import prefix
from tests.properties import test_schemas_avro
from tests.properties.test_columns import avro
from tests.properties.test_serdes import AvroValues, compiled

_QUICK = settings(max_examples=12, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much])


def _record(schemas: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """A record whose fields are of schemas that were drawn."""
    return schemas.map(
        lambda inner: {
            "type": "record",
            "name": "Outermost",
            "fields": [
                {"name": "before", "type": ["null", "string"]},
                {"name": "drawn", "type": inner},
                {"name": "fixed", "type": "double"},
                {"name": "flag", "type": "boolean"},
                {"name": "texts", "type": {"type": "map", "values": "string"}},
                {"name": "last", "type": "long"},
            ],
        }
    )


def _decoded(payloads: list[bytes], decoder: ColumnDecoder) -> Columns:
    columns = decode_batch(pa.array([prefix(1) + each for each in payloads], pa.binary()), {1: decoder}, decoder.type)
    columns.values.validate(full=True)
    return columns


def _picked(value: dict[str, Any] | None, names: Sequence[str]) -> dict[str, Any] | None:
    return None if value is None else {name: value[name] for name in names}


@given(schema=_record(test_schemas_avro.schemas()), data=st.data())
@_QUICK
def test_some_fields_are_those_of_the_whole_record(schema: Any, data: st.DataObject) -> None:
    names = [each["name"] for each in schema["fields"]]
    wanted = data.draw(st.frozensets(st.sampled_from(names)))
    whole, some = AvroColumns(avro(schema)), AvroColumns(avro(schema), fields=wanted)
    picked = [name for name in names if name in wanted]
    assert [each.name for each in some.type] == picked
    drawn = AvroValues(data.draw, schema)
    payloads = [compiled(json.dumps(schema)).encode(drawn.value(schema)[0], None) for _ in range(4)]
    at = data.draw(st.integers(0, len(payloads[0]) - 1))
    payloads.append(payloads[0][:at])
    payloads.append(payloads[0][:at] + bytes((data.draw(st.integers(0, 255)),)) + payloads[0][at + 1 :])
    full, pruned = _decoded(payloads, whole), _decoded(payloads, some)
    for value, error, found, refusal in zip(
        full.values.to_pylist(),
        full.errors.to_pylist(),
        pruned.values.to_pylist(),
        pruned.errors.to_pylist(),
        strict=True,
    ):
        if error is None:
            assert refusal is None
            assert repr(found) == repr(_picked(value, picked))
        else:  # a field that nobody wants is not looked at
            assert (found is None) == (refusal is not None)


@given(pair=test_schemas_avro.pairs(), data=st.data())
@_QUICK
def test_some_fields_of_a_readers_schema_are_those_of_the_whole(pair: tuple[str, str], data: st.DataObject) -> None:
    older, newer = (
        {
            "type": "record",
            "name": "Outermost",
            "fields": [{"name": "before", "type": "string"}, {"name": "drawn", "type": json.loads(each)}, *more],
        }
        for each, more in zip(pair, ([], [{"name": "added", "type": "int", "default": 7}]), strict=True)
    )
    writer, reader = avro(older), avro(newer)
    if reader.differences_from(writer, Policy.STRICT):
        return
    wanted = data.draw(st.frozensets(st.sampled_from(["before", "drawn", "added"])))
    payloads = [
        compiled(json.dumps(older)).encode(AvroValues(data.draw, older).value(older)[0], None) for _ in range(3)
    ]
    full, pruned = (_decoded(payloads, AvroColumns(writer, reader, each)) for each in (None, wanted))
    names = [name for name in ("before", "drawn", "added") if name in wanted]
    for value, error, found in zip(
        full.values.to_pylist(), full.errors.to_pylist(), pruned.values.to_pylist(), strict=True
    ):
        if error is None:
            assert repr(found) == repr(_picked(value, names))


_PROPERTIES: dict[str, Any] = {
    "id": {"type": "integer", "minimum": -(1 << 63), "maximum": (1 << 63) - 1},
    "name": {"type": "string"},
    "ratio": {"type": ["number", "null"]},
    "is_open": {"type": "boolean"},
    "tags": {"type": "array", "items": {"type": "string"}},
    "place": {"type": "object", "properties": {"city": {"type": "string"}}},
    "any": {},
}
_JSON: dict[str, Any] = {"type": "object", "properties": _PROPERTIES}
_TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=5)
_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(1 << 70), 1 << 70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | _TEXTS,
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from([*_PROPERTIES, "city"]), inner, max_size=4)
    ),
    max_leaves=6,
)


@given(
    values=st.lists(st.dictionaries(st.sampled_from([*_PROPERTIES, "more"]), _VALUES) | _VALUES, max_size=6),
    data=st.data(),
)
@_QUICK
def test_json_values_that_fit_the_schema_are_columns_of_it(values: list[Any], data: st.DataObject) -> None:
    schema = parse(SchemaType.JSON, json.dumps(_JSON))
    assert isinstance(schema, JsonSchema)
    wanted = data.draw(st.none() | st.frozensets(st.sampled_from(sorted(_PROPERTIES))))
    names = [name for name in _PROPERTIES if wanted is None or name in wanted]
    columns = _decoded([json.dumps(each).encode() for each in values], JsonColumns(schema, fields=wanted))
    judge = jsonschema.Draft202012Validator(_JSON)
    for value, found, error in zip(values, columns.values.to_pylist(), columns.errors.to_pylist(), strict=True):
        if not judge.is_valid(value):
            continue
        assert error is None
        for name in names:
            if name == "any":
                if name in value:
                    assert value[name] is None or json.loads(found[name]) == value[name]
            elif name == "place" and name in value:
                assert found[name] == {"city": value[name].get("city")}
            else:
                assert found[name] == value.get(name)
