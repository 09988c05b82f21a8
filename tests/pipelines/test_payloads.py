"""What Spark sees of decoded payloads: the values that fastavro, protobuf and json have, of every type."""

from __future__ import annotations

import datetime
import io
import json
import uuid
from collections.abc import Iterable, Iterator
from decimal import Decimal
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from google.protobuf import json_format, message_factory
from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import to_arrow_type
from pyspark.sql.types import StructField, StructType

from penstock.client.registry import NewSchema, ReferencedSchema, RegisteredSchema
from penstock.pipelines.payloads.decoding import open_decoder
from penstock.pipelines.payloads.formats import PayloadFormat, PayloadKind, ReaderSchema, RegistryAddress
from penstock.pipelines.payloads.spark_types import as_spark, spark_type
from penstock.schemas.parsing import parse
from penstock.schemas.protobuf.schema import ProtobufSchema
from penstock.schemas.schema import SchemaType
from penstock.serdes.framing import prefix

UTC = datetime.UTC
ADDRESS = RegistryAddress.of({"schema.registry.url": "http://127.0.0.1:1"})  # the reader's own id is not asked for


def of_schema(text: str, kind: str, others: tuple[ReferencedSchema, ...] = ()) -> PayloadFormat:
    return PayloadFormat(
        PayloadKind.REGISTRY, ADDRESS, "t-value", ReaderSchema(RegisteredSchema(NewSchema(text, kind), id=7), others)
    )


def rows_of(spark: SparkSession, payload_format: PayloadFormat, payloads: list[bytes]) -> list[dict[str, Any]]:
    """As Spark collects them after a shuffle, so that its own formats have held the values."""

    def decode(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        decoder = open_decoder(payload_format, is_key=False)
        for batch in batches:
            decoded = decoder.decode(batch.column(0))
            assert decoded.errors.null_count == len(batch), decoded.errors.to_pylist()
            yield pa.RecordBatch.from_arrays(decoded.values.flatten(), names=[each.name for each in decoder.type])

    columns = payload_format.spark_type
    assert isinstance(columns, StructType)
    framed = spark.createDataFrame([(bytearray(prefix(7) + each),) for each in payloads], "value binary").coalesce(1)
    found = framed.mapInArrow(decode, columns).repartition(1).collect()
    return [row.asDict(recursive=True) for row in found]


FIELDS: dict[str, tuple[Any, Any]] = {
    "a_null": ("null", None),
    "a_boolean": ("boolean", True),
    "an_int": ("int", -7),
    "a_long": ("long", 1 << 60),
    "a_float": ("float", 0.5),
    "a_double": ("double", 0.1),
    "a_text": ("string", "é"),
    "some_bytes": ("bytes", b"\x00\xff"),
    "a_fixed": ({"type": "fixed", "name": "F", "size": 3}, b"abc"),
    "an_enum": ({"type": "enum", "name": "E", "symbols": ["A", "B"]}, "B"),
    "a_decimal": ({"type": "bytes", "logicalType": "decimal", "precision": 38, "scale": 9}, Decimal("-1.500000000")),
    "a_date": ({"type": "int", "logicalType": "date"}, datetime.date(2024, 2, 29)),
    "a_time_ms": ({"type": "int", "logicalType": "time-millis"}, datetime.time(1, 2, 3, 4000)),
    "a_time_us": ({"type": "long", "logicalType": "time-micros"}, datetime.time(1, 2, 3, 4)),
    "a_timestamp_ms": (
        {"type": "long", "logicalType": "timestamp-millis"},
        datetime.datetime(2024, 1, 2, 3, 4, 5, 6000, tzinfo=UTC),
    ),
    "a_timestamp_us": (
        {"type": "long", "logicalType": "timestamp-micros"},
        datetime.datetime(1924, 1, 2, 3, 4, 5, 6, tzinfo=UTC),
    ),
    "a_local_ms": (
        {"type": "long", "logicalType": "local-timestamp-millis"},
        datetime.datetime(2024, 1, 2, 3, 4, 5),  # noqa: DTZ001
    ),
    "a_uuid": ({"type": "string", "logicalType": "uuid"}, uuid.UUID(int=5)),
    "a_maybe": (["null", "string"], None),
    "a_wide": (["int", "long"], 9),
    "a_list": ({"type": "array", "items": ["null", "int"]}, [1, None, 3]),
    "a_map": ({"type": "map", "values": {"type": "array", "items": "string"}}, {"k": ["v"], "e": []}),
    "a_record": (
        {
            "type": "record",
            "name": "Inner",
            "fields": [
                {"name": "at", "type": {"type": "long", "logicalType": "timestamp-nanos"}},
                {"name": "days", "type": {"type": "array", "items": {"type": "int", "logicalType": "time-millis"}}},
            ],
        },
        {"at": 1_700_000_000_123_456_789, "days": [datetime.time(23, 59, 59)]},
    ),
    "a_union": (["null", "string", "double"], "text"),
}


def test_spark_has_the_values_of_fastavro_when_payloads_are_avro(spark: SparkSession) -> None:
    schema = {
        "type": "record",
        "name": "All",
        "fields": [{"name": name, "type": kind} for name, (kind, _) in FIELDS.items()],
    }
    value = {name: each for name, (_, each) in FIELDS.items()}
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), value)
    expected: Any = fastavro.schemaless_reader(io.BytesIO(out.getvalue()), fastavro.parse_schema(schema), None)
    # Spark's own rules: nanoseconds are cut off, times with a zone are collected in the session's (UTC), a union is a
    # struct of its members, a uuid and a time of day are text.
    expected["a_time_ms"], expected["a_time_us"] = "01:02:03.004000", "01:02:03.000004"
    expected["a_record"]["days"] = ["23:59:59.000000"]
    expected["a_record"]["at"] = datetime.datetime(2023, 11, 14, 22, 13, 20, 123456)  # noqa: DTZ001
    expected["a_union"] = {"member0": "text", "member1": None}
    expected["a_uuid"] = str(expected["a_uuid"])
    (found,) = rows_of(spark, of_schema(json.dumps(schema), "AVRO"), [out.getvalue()])
    for name, each in found.items():
        wanted = expected[name]
        if isinstance(wanted, datetime.datetime) and wanted.tzinfo is not None:
            wanted = wanted.astimezone().replace(tzinfo=None)
        if name == "a_record":
            each["at"] = datetime.datetime.fromtimestamp(each["at"].timestamp(), UTC).replace(tzinfo=None)
        assert each == wanted, name


PROTO = """
syntax = "proto3";
import "google/protobuf/timestamp.proto";
import "google/protobuf/duration.proto";
import "google/protobuf/wrappers.proto";
message All {
  int32 a = 1; uint32 b = 2; uint64 c = 3; sint64 d = 4; fixed64 e = 5; float f = 6; double g = 7; bool h = 8;
  string i = 9; bytes j = 10; Kind k = 11; Inner l = 12; repeated Inner m = 13; map<string, int64> n = 14;
  google.protobuf.Timestamp o = 15; google.protobuf.Duration p = 16; google.protobuf.Int64Value q = 17;
  optional string r = 18; oneof s { string t = 19; int32 u = 20; } repeated uint64 v = 21;
  map<int32, Inner> w = 22;
}
message Inner { uint64 x = 1; repeated google.protobuf.Duration y = 2; }
enum Kind { NONE = 0; SOME = 1; }
"""


def test_spark_has_the_values_of_protobuf_when_payloads_are_messages(spark: SparkSession) -> None:
    schema = parse(SchemaType.PROTOBUF, PROTO)
    assert isinstance(schema, ProtobufSchema)
    message = message_factory.GetMessageClass(schema.described()[0].FindMessageTypeByName("All"))()
    json_format.ParseDict(
        {
            "a": -1,
            "b": 4294967295,
            "c": str((1 << 64) - 1),
            "d": "-5",
            "e": "6",
            "f": 0.5,
            "g": 0.1,
            "h": True,
            "i": "é",
            "j": "AP8=",
            "k": "SOME",
            "l": {"x": "18446744073709551615", "y": ["1.5s"]},
            "m": [{}, {"x": "2"}],
            "n": {"key": "3"},
            "o": "2024-01-02T03:04:05.000006Z",
            "p": "-1.000002s",
            "q": "8",
            "u": 9,
            "v": ["1", "18446744073709551615"],
            "w": {"4": {"x": "1"}},
        },
        message,
    )
    (found,) = rows_of(spark, of_schema(PROTO, "PROTOBUF"), [b"\0" + message.SerializeToString()])
    second, most = datetime.timedelta(seconds=1), Decimal((1 << 64) - 1)
    assert found.pop("o").timestamp() == datetime.datetime(2024, 1, 2, 3, 4, 5, 6, tzinfo=UTC).timestamp()
    assert found == {
        "a": -1,
        "b": 4294967295,
        "c": most,
        "d": -5,
        "e": Decimal(6),
        "f": 0.5,
        "g": 0.1,
        "h": True,
        "i": "é",
        "j": b"\x00\xff",
        "k": "SOME",
        "l": {"x": most, "y": [1.5 * second]},
        "n": {"key": 3},
        "m": [{"x": Decimal(0), "y": []}, {"x": Decimal(2), "y": []}],
        "q": 8,
        "r": None,
        "t": None,
        "u": 9,
        "p": -second - datetime.timedelta(microseconds=2),
        "v": [Decimal(1), most],
        "w": {4: {"x": Decimal(1), "y": []}},
    }


def test_spark_has_the_values_of_json_when_payloads_are_documents(spark: SparkSession) -> None:
    schema = {
        "type": "object",
        "properties": {
            "whole": {"type": "integer"},
            "number": {"type": "number"},
            "text": {"type": ["string", "null"]},
            "is_it": {"type": "boolean"},
            "list": {"type": "array", "items": {"type": "object", "properties": {"x": {"type": "integer"}}}},
            "map": {"type": "object", "additionalProperties": {"type": "number"}},
            "any": {},
        },
    }
    value = {"whole": 1, "number": 2.5, "text": None, "is_it": False, "list": [{"x": 1}], "map": {"k": 0.5}}
    payloads = [json.dumps({**value, "any": [1]}).encode(), b"{}"]
    found = rows_of(spark, of_schema(json.dumps(schema), "JSON"), payloads)
    assert found == [{**value, "any": "[1]"}, {**dict.fromkeys(value), "any": None}]


OTHERS = [
    pa.array([1, None], pa.uint8()),
    pa.array([1, None], pa.uint16()),
    pa.array([(1 << 32) - 1, None], pa.uint32()),
    pa.array([(1 << 64) - 1, None], pa.uint64()),
    pa.array(["a", None], pa.large_string()),
    pa.array([b"a", None], pa.large_binary()),
    pa.array([b"abc", None], pa.binary(3)),
    pa.array(["a", None]).dictionary_encode(),
    pa.array([[1], None], pa.large_list(pa.uint8())),
    pa.array([[1, 2], None], pa.list_(pa.int64(), 2)),
    pa.array([Decimal(10) ** 50, None], pa.decimal256(60, 2)),
    pa.array([1, None], pa.duration("ns")),
    pa.array([1, None], pa.time64("us")),
    pa.array([0, None], pa.date64()),
    pa.array([{"x": 1}, None], pa.struct([pa.field("x", pa.uint32(), nullable=False)])),
    pa.array([[("k", 1)], None], pa.map_(pa.large_string(), pa.uint32())),
    pa.array([[{"x": [1, None]}], None], pa.list_(pa.struct([("x", pa.list_(pa.uint64()))]))),
    pa.array([{}, None], pa.struct([])),
    pa.nulls(2),
]


def test_spark_takes_every_type_of_arrow(spark: SparkSession) -> None:
    taken = [as_spark(pa.concat_arrays([each, each]).slice(1, 2)) for each in OTHERS]
    columns = StructType([StructField(f"c{number}", spark_type(each.type)) for number, each in enumerate(OTHERS)])
    for values, field in zip(taken, columns, strict=True):
        values.validate(full=True)
        assert values.type == to_arrow_type(field.dataType, timezone="UTC")

    def give(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in batches:
            yield pa.RecordBatch.from_arrays(taken, names=columns.names)

    empty, row = spark.range(1).coalesce(1).mapInArrow(give, columns).collect()
    assert set(empty) == {None}
    assert [str(each) for each in (row.c3, row.c10)] == [str((1 << 64) - 1), "1" + "0" * 50 + ".00"]
    assert (row.c2, row.c4, row.c6, row.c7, row.c8, row.c9) == ((1 << 32) - 1, "a", b"abc", "a", [1], [1, 2])
    assert (row.c15, row.c16[0].x) == ({"k": 1}, [Decimal(1), None])


@pytest.mark.parametrize("unit", ["s", "ms", "ns"])
def test_times_beyond_microseconds_are_at_the_edge(unit: str) -> None:
    edges = as_spark(pa.array([(1 << 63) - 1, -(1 << 63), -1, None], pa.int64()).view(pa.timestamp(unit, "UTC")))
    least, most = -(1 << 63), (1 << 63) - 1
    found = edges.view(pa.int64()).to_pylist()
    factor = {"s": 1_000_000, "ms": 1_000}.get(unit)
    if factor is None:
        assert found == [most // 1000, least // 1000, -1, None]
    else:
        assert found == [most // factor * factor, -(most // factor * factor), -factor, None]
