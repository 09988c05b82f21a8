"""Columns of Spark written as Spark writes them, read without the session that Spark's own reader needs."""

from __future__ import annotations

import re
from typing import Any

from pyspark.sql import types as spark

_PLAIN: dict[str, Any] = {
    "boolean": spark.BooleanType,
    "tinyint": spark.ByteType,
    "smallint": spark.ShortType,
    "int": spark.IntegerType,
    "bigint": spark.LongType,
    "float": spark.FloatType,
    "double": spark.DoubleType,
    "string": spark.StringType,
    "binary": spark.BinaryType,
    "date": spark.DateType,
    "timestamp": spark.TimestampType,
    "timestamp_ntz": spark.TimestampNTZType,
    "time": spark.TimeType,
    "interval": spark.DayTimeIntervalType,
    "variant": spark.VariantType,
}


def struct_of(text: str) -> spark.StructType:
    """`id bigint not null, home struct<street: string>`: names of letters alone."""
    return spark.StructType([_field(each) for each in _split(text)])


def _field(text: str) -> spark.StructField:
    found = re.fullmatch(r"\s*`?([^:`]+?)`?\s*[:\s]\s*(.+?)(\s+not null)?\s*", text, re.DOTALL)
    assert found is not None, text
    return spark.StructField(found[1].strip(), _type(found[2]), found[3] is None)


def _type(text: str) -> spark.DataType:
    name, _, inner = text.strip().partition("<")
    inner = inner.removesuffix(">")
    if name == "array":
        return spark.ArrayType(_type(inner))
    if name == "map":
        key, value = _split(inner)
        return spark.MapType(_type(key), _type(value))
    if name == "struct":
        return struct_of(inner)
    if name.startswith("decimal("):
        precision, scale = name.removeprefix("decimal(").removesuffix(")").split(",")
        return spark.DecimalType(int(precision), int(scale))
    kind: spark.DataType = _PLAIN[name]()
    return kind


def _split(text: str) -> list[str]:
    """At commas outside of brackets."""
    parts, depth, last = [], 0, 0
    for position, character in enumerate(text):
        depth += {"<": 1, "(": 1, ">": -1, ")": -1}.get(character, 0)
        if character == "," and not depth:
            parts.append(text[last:position])
            last = position + 1
    return [*parts, text[last:]]
