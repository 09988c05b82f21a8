"""Schemas of columns: what they say, what is refused, and what stays when columns change."""

from __future__ import annotations

import json

import pytest

from penstock.pipelines.errors import PipelineError
from penstock.pipelines.payloads.schema_derivation import check_fits, derive_schema
from penstock.pipelines.payloads.sink_schemas import name_for
from penstock.schemas.parsing import parse
from penstock.schemas.schema import Policy, SchemaType
from tests.unit.pipelines.ddl import struct_of


def test_avro_has_unions_with_null_and_unique_names_when_it_is_derived() -> None:
    columns = struct_of("id bigint not null, at timestamp, home struct<x: struct<y: int>>, home_x struct<z: int>")
    derived = json.loads(derive_schema(columns, SchemaType.AVRO, "Row", "shop"))
    fields = {each["name"]: each for each in derived["fields"]}
    assert (derived["name"], derived["namespace"]) == ("Row", "shop")
    assert fields["id"] == {"name": "id", "type": "long"}
    timestamp = {"type": "long", "logicalType": "timestamp-micros"}
    assert fields["at"] == {"name": "at", "type": ["null", timestamp], "default": None}
    inner = fields["home"]["type"][1]["fields"][0]["type"][1]
    assert [inner["name"], fields["home_x"]["type"][1]["name"]] == ["Row_home_x", "Row_home_x_"]


def test_objects_are_closed_when_json_is_derived() -> None:
    derived = json.loads(derive_schema(struct_of("a int not null, b string"), SchemaType.JSON, "Row"))
    assert derived == {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "Row",
        "type": "object",
        "properties": {"a": {"type": "integer"}, "b": {"oneOf": [{"type": "null"}, {"type": "string"}]}},
        "additionalProperties": False,
        "required": ["a"],
    }


def test_protobuf_keeps_numbers_and_reserves_those_of_columns_that_are_gone() -> None:
    first = derive_schema(struct_of("a int, b string, home struct<x: int, y: int>"), SchemaType.PROTOBUF, "Row")
    second = derive_schema(struct_of("c int, home struct<y: int>, a int"), SchemaType.PROTOBUF, "Row", earlier=first)
    third = derive_schema(struct_of("b string, a int"), SchemaType.PROTOBUF, "Row", earlier=second)
    lines = [line.strip() for line in second.splitlines()]
    assert {"optional int32 c = 4;", "Home home = 3;", "optional int32 y = 2;", "optional int32 a = 1;"} < set(lines)
    assert "reserved 2;" in lines
    assert [line.strip() for line in third.splitlines()][-5:] == [
        "message Row {",
        "reserved 2, 3, 4;",
        "optional string b = 5;",
        "optional int32 a = 1;",
        "}",
    ]


@pytest.mark.parametrize("schema_type", SchemaType)
def test_a_schema_with_one_more_nullable_column_reads_the_old_rows(schema_type: SchemaType) -> None:
    first = derive_schema(struct_of("id bigint not null, home struct<x: int>"), schema_type, "Row")
    columns = struct_of("more string, id bigint not null, home struct<y: double, x: int>, far array<string>")
    second = derive_schema(columns, schema_type, "Row", earlier=first)
    old, new = parse(schema_type, first), parse(schema_type, second)
    assert list(new.differences_from(old, Policy.STRICT)) == []


@pytest.mark.parametrize(
    ("schema_type", "ddl", "reason"),
    [
        (SchemaType.AVRO, "`a-b` int", "the column 'a-b' has a name that Avro does not take"),
        (SchemaType.AVRO, "a struct<`b-c`: int>", "the column 'a.b-c' has a name that Avro does not take"),
        (SchemaType.PROTOBUF, "`1a` int", "the column '1a' has a name that Protobuf does not take"),
        (SchemaType.AVRO, "a int, a string", "there are two columns 'a'"),
        (SchemaType.JSON, "a int, a string", "there are two columns 'a'"),
        (SchemaType.AVRO, "a map<int, int>", "Avro has nothing for the column a of type map<int,int>"),
        (SchemaType.JSON, "a array<interval>", r"JSON has nothing for the column a\[\] of type interval"),
        (SchemaType.AVRO, "a struct<b: variant>", "Avro has nothing for the column a.b of type variant"),
        (SchemaType.PROTOBUF, "a array<array<int>>", r"Protobuf has nothing for the column a\[\] of type array<int>"),
        (SchemaType.PROTOBUF, "a map<double, int>", "Protobuf has nothing for the column a of type map<double,int>"),
    ],
)
def test_a_column_is_named_when_no_schema_can_be_made_of_it(schema_type: SchemaType, ddl: str, reason: str) -> None:
    with pytest.raises(PipelineError, match=reason) as caught:
        derive_schema(struct_of(ddl), schema_type, "Row")
    assert caught.value.hint


def test_what_is_missing_and_what_is_wrong_is_said_when_columns_do_not_fit() -> None:
    schema = {
        "type": "record",
        "name": "R",
        "fields": [
            {"name": "a", "type": "int"},
            {"name": "b", "type": {"type": "record", "name": "B", "fields": [{"name": "c", "type": "string"}]}},
            {"name": "d", "type": "int", "default": 1},
        ],
    }
    parsed = parse(SchemaType.AVRO, json.dumps(schema))
    assert check_fits(struct_of("A bigint, b struct<c: string>"), parsed) == []
    assert check_fits(struct_of("b struct<c: int>, e int"), parsed) == [
        "no column for the field a, which has no default and takes no null",
        "b.c: a column of int32 cannot be written as string",
        "record R has no field for the column e",
    ]


@pytest.mark.parametrize(
    ("subject", "name"),
    [("orders-value", "orders"), (":.ctx:shop.orders-key", "shop_orders"), ("2024-value", "_2024"), ("-value", "_")],
)
def test_a_record_is_named_by_its_subject(subject: str, name: str) -> None:
    assert name_for(subject) == name
