"""Rows of any columns are read as the same values by others when their schema was derived from the columns."""

from __future__ import annotations

import base64
import datetime as dt
import io
import json
import math
from decimal import Context, Decimal
from typing import Any

import fastavro
import jsonschema
import pyarrow as pa
from google.protobuf import message_factory
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from pyspark.sql import types as spark

from penstock.pipelines.payloads.schema_derivation import arrow_type, check_fits, derive_schema
from penstock.schemas.avro.schema import AvroSchema
from penstock.schemas.parsing import parse
from penstock.schemas.protobuf.schema import ProtobufSchema
from penstock.schemas.schema import SchemaType
from penstock.serdes.columns.avro.decoder import AvroColumns
from penstock.serdes.columns.decoding import decode_batch
from penstock.serdes.columns.encoding.open_encoding import open_encoding
from penstock.serdes.framing import prefix

_QUICK = settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck))
_WIDE = Context(prec=60)
_TIMES = st.datetimes()
_SCALARS: list[tuple[spark.DataType, st.SearchStrategy[Any]]] = [
    (spark.BooleanType(), st.booleans()),
    (spark.ByteType(), st.integers(-128, 127)),
    (spark.ShortType(), st.integers(-(2**15), 2**15 - 1)),
    (spark.IntegerType(), st.integers(-(2**31), 2**31 - 1)),
    (spark.LongType(), st.integers(-(2**63), 2**63 - 1)),
    (spark.FloatType(), st.floats(width=32, allow_nan=False, allow_infinity=False)),
    (spark.DoubleType(), st.floats(allow_nan=False, allow_infinity=False)),
    (spark.StringType(), st.text(max_size=4)),
    (spark.BinaryType(), st.binary(max_size=4)),
    (spark.DateType(), st.dates()),
    (spark.TimestampType(), _TIMES.map(lambda at: at.replace(tzinfo=dt.UTC))),
    (spark.TimestampNTZType(), _TIMES),
    (spark.DecimalType(38, 10), st.integers(-(10**38) + 1, 10**38 - 1).map(lambda at: Decimal(at).scaleb(-10, _WIDE))),
    (spark.DecimalType(5, 0), st.integers(-99999, 99999).map(Decimal)),
]
_NAMES = st.sampled_from(["a", "b", "c", "Ab", "_x"])


@st.composite
def types(draw: Any, depth: int) -> Any:
    shape = draw(st.sampled_from(["scalar", "scalar", "array", "map", "struct"] if depth else ["scalar"]))
    if shape == "scalar":
        return draw(st.sampled_from(_SCALARS))
    if shape == "struct":
        return draw(structs(depth - 1))
    inner, values = draw(types(depth - 1))
    has_null = draw(st.booleans())
    values = st.none() | values if has_null else values
    if shape == "array":
        return spark.ArrayType(inner, has_null), st.lists(values, max_size=3)
    return spark.MapType(spark.StringType(), inner, has_null), st.dictionaries(st.text(max_size=2), values, max_size=3)


@st.composite
def structs(draw: Any, depth: int) -> tuple[spark.StructType, st.SearchStrategy[Any]]:
    fields, values = [], {}
    for name in draw(st.lists(_NAMES, min_size=1, max_size=4, unique=True)):
        kind, of_kind = draw(types(depth))
        is_nullable = draw(st.booleans())
        fields.append(spark.StructField(name, kind, is_nullable))
        values[name] = st.none() | of_kind if is_nullable else of_kind
    return spark.StructType(fields), st.fixed_dictionaries(values)


@st.composite
def tables(draw: Any) -> tuple[spark.StructType, list[Any]]:
    columns, values = draw(structs(2))
    return columns, draw(st.lists(values, min_size=1, max_size=4))


def _arrow(value: Any) -> Any:
    if isinstance(value, dict) and not isinstance(value, _Row):
        return [(key, _arrow(each)) for key, each in value.items()]
    if isinstance(value, _Row):
        return {key: _arrow(each) for key, each in value.items()}
    return [_arrow(each) for each in value] if isinstance(value, list) else value


class _Row(dict[str, Any]):
    """A struct, which Arrow takes as a dictionary, where it takes a map as pairs."""


def _typed(value: Any, kind: spark.DataType) -> Any:
    if value is None:
        return None
    match kind:
        case spark.StructType():
            return _Row({each.name: _typed(value[each.name], each.dataType) for each in kind.fields})
        case spark.ArrayType():
            return [_typed(each, kind.elementType) for each in value]
        case spark.MapType():
            return {key: _typed(each, kind.valueType) for key, each in value.items()}
    return value


def encoded(
    columns: spark.StructType, values: list[Any], schema_type: SchemaType
) -> tuple[str, Any, pa.Array, pa.Array]:
    text = derive_schema(columns, schema_type, "Row", "shop")
    schema = parse(schema_type, text)
    assert check_fits(columns, schema) == []
    rows = pa.array([_arrow(_typed(each, columns)) for each in values], arrow_type(columns))
    found = open_encoding(schema).encode(rows)
    assert found.errors == {}
    return text, schema, rows, found.payloads


@given(table=tables())
@_QUICK
def test_avro_has_the_values_of_rows_when_its_schema_was_derived(table: Any) -> None:
    columns, values = table
    text, schema, rows, payloads = encoded(columns, values, SchemaType.AVRO)
    parsed = fastavro.parse_schema(json.loads(text))
    read = [fastavro.schemaless_reader(io.BytesIO(each), parsed, None) for each in payloads.to_pylist()]
    assert read == values
    assert isinstance(schema, AvroSchema)
    decoder = AvroColumns(schema)
    framed = pa.array([prefix(1) + each for each in payloads.to_pylist()], pa.binary())
    assert repr(decode_batch(framed, {1: decoder}, decoder.type).values.to_pylist()) == repr(rows.to_pylist())


def _in_json(value: Any, kind: spark.DataType) -> Any:
    if value is None:
        return None
    match kind:
        case spark.StructType():
            return {each.name: _in_json(value[each.name], each.dataType) for each in kind.fields}
        case spark.ArrayType():
            return [_in_json(each, kind.elementType) for each in value]
        case spark.MapType():
            return {key: _in_json(each, kind.valueType) for key, each in value.items()}
        case spark.BinaryType():
            return base64.b64encode(value).decode()
        case spark.DateType():
            return value.isoformat()
        case spark.TimestampType() | spark.TimestampNTZType():
            return value.isoformat(timespec="microseconds").replace("+00:00", "Z")
    return value


def _is_same(found: Any, expected: Any) -> bool:
    if isinstance(expected, dict):
        return found.keys() == expected.keys() and all(_is_same(found[key], expected[key]) for key in expected)
    if isinstance(expected, list):
        return len(found) == len(expected) and all(map(_is_same, found, expected))
    if isinstance(expected, float):
        # Shortest digits: those of four bytes mean another number of eight.
        return math.isclose(float(found), expected, rel_tol=1e-7, abs_tol=1e-45)
    return bool(found == expected)


@given(table=tables())
@_QUICK
def test_json_has_the_values_of_rows_when_its_schema_was_derived(table: Any) -> None:
    columns, values = table
    text, _, _, payloads = encoded(columns, values, SchemaType.JSON)
    for payload, value in zip(payloads.to_pylist(), values, strict=True):
        jsonschema.Draft7Validator(json.loads(text)).validate(json.loads(payload))
        assert _is_same(json.loads(payload, parse_float=Decimal), _in_json(value, columns))


def _of_message(found: Any, kind: spark.DataType) -> Any:
    match kind:
        case spark.StructType():
            return {
                each.name: _of_message(getattr(found, each.name), each.dataType)
                if isinstance(each.dataType, spark.ArrayType | spark.MapType) or found.HasField(each.name)
                else None
                for each in kind.fields
            }
        case spark.ArrayType():
            return [_of_message(each, kind.elementType) for each in found]
        case spark.MapType():
            return {key: _of_message(found[key], kind.valueType) for key in found}
        case spark.DecimalType():
            return Decimal(found)
        case spark.DateType():
            return dt.date.fromisoformat(found)
        case spark.TimestampType():
            return found.ToDatetime(dt.UTC)
        case spark.TimestampNTZType():
            return dt.datetime.fromisoformat(found)
    return found


def _in_message(value: Any, kind: spark.DataType) -> Any:
    """Lists and maps are never null, and never have nulls."""
    match kind:
        case spark.StructType() if value is not None:
            return {each.name: _in_message(value[each.name], each.dataType) for each in kind.fields}
        case spark.ArrayType():
            return [_in_message(each, kind.elementType) for each in value or ()]
        case spark.MapType():
            return {key: _in_message(each, kind.valueType) for key, each in (value or {}).items()}
    return value


def _has_null_inside(value: Any) -> bool:
    if isinstance(value, list):
        return any(each is None or _has_null_inside(each) for each in value)
    if isinstance(value, _Row):
        return any(_has_null_inside(each) for each in value.values())
    return isinstance(value, dict) and any(each is None or _has_null_inside(each) for each in value.values())


def _nests_lists(kind: spark.DataType) -> bool:
    """Protobuf has no lists of lists."""
    match kind:
        case spark.StructType():
            return any(_nests_lists(each.dataType) for each in kind.fields)
        case spark.ArrayType() | spark.MapType():
            inner = kind.elementType if isinstance(kind, spark.ArrayType) else kind.valueType
            return isinstance(inner, spark.ArrayType | spark.MapType) or _nests_lists(inner)
    return False


@given(table=tables())
@_QUICK
def test_protobuf_has_the_values_of_rows_when_its_schema_was_derived(table: Any) -> None:
    columns, values = table
    assume(not any(_has_null_inside(_typed(each, columns)) for each in values))
    assume(not _nests_lists(columns))
    _, schema, _, payloads = encoded(columns, values, SchemaType.PROTOBUF)
    assert isinstance(schema, ProtobufSchema)
    pool, _ = schema.described()
    kind = message_factory.GetMessageClass(pool.FindMessageTypeByName("shop.Row"))
    read = [_of_message(kind.FromString(each), columns) for each in payloads.to_pylist()]
    assert read == [_in_message(each, columns) for each in values]
