"""JSON as topics between queries have it: what is written is read back the same.

A key is the JSON text of `_key`, so that a text is in quotes; a value is an object of the value's columns, null fields
included. Times have microseconds and an offset from UTC, bytes are base64.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.pipelines.sql_identifiers import type_ddl
from penstock.streams.lowering.columns import ALWAYS, column, columns, value_names
from penstock.streams.topology.errors import StreamsError
from penstock.streams.topology.nodes import KEY, NULL, OFFSET, PARTITION, TIMESTAMP

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType, StructType

TIME_FORMAT = "yyyy-MM-dd'T'HH:mm:ss.SSSSSS"
_TIMES = {
    "timestampFormat": f"{TIME_FORMAT}XXX",
    "timestampNTZFormat": TIME_FORMAT,
    "timeZone": "UTC",
}
WRITE_OPTIONS = {**_TIMES, "ignoreNullFields": "false"}
# People write times in many ways; Spark's own reading takes all of ISO 8601.
READ_OPTIONS = {"timeZone": "UTC"}
_READ_BACK = {**_TIMES, "mode": "FAILFAST"}


def to_json(value: Column, kind: DataType) -> Column:
    """The JSON text of a value of any type; null for null."""
    from pyspark.sql import functions as F
    from pyspark.sql.types import StructType

    if isinstance(kind, StructType):
        return F.to_json(value, WRITE_OPTIONS)
    # Spark writes no bare values, so it writes the value as the only element of an array, whose brackets go.
    listed = F.to_json(F.array(value), WRITE_OPTIONS)
    return F.when(value.isNotNull(), F.substring(listed, 2, F.length(listed) - 2))


def value_json(rows: DataFrame) -> Column:
    """The object of the value's columns; null where there is no value."""
    from pyspark.sql import functions as F

    return F.when(~column(NULL), F.to_json(F.struct(*columns(value_names(rows))), WRITE_OPTIONS))


def to_records(rows: DataFrame) -> DataFrame:
    """Rows as a topic between queries has them: key, value, timestamp."""
    check_types(rows)
    kind = rows.schema[KEY].dataType
    return rows.select(
        to_json(column(KEY), kind).alias("key"), value_json(rows).alias("value"), column(TIMESTAMP).alias("timestamp")
    )


def from_records(records: DataFrame, schema: StructType) -> DataFrame:
    """The same rows again; `schema` is that of the rows that were written. Partition and offset are the topic's."""
    from pyspark.sql import functions as F
    from pyspark.sql.types import StructType

    values = StructType([each for each in schema.fields if each.name not in (*ALWAYS, "_headers")])
    key = F.concat(F.lit("["), F.col("key").cast("string"), F.lit("]"))
    parsed = records.select(
        F.from_json(F.col("value").cast("string"), values, _READ_BACK).alias("_parsed"),
        F.get(F.from_json(key, f"array<{type_ddl(schema[KEY].dataType)}>", _READ_BACK), 0).alias(KEY),
        F.col("timestamp").alias(TIMESTAMP),
        F.col("value").isNull().alias(NULL),
        F.col("partition").alias(PARTITION),
        F.col("offset").alias(OFFSET),
    )
    fields = [column("_parsed").getField(name).alias(name) for name in values.names]
    return parsed.select(*fields, *columns(ALWAYS))


def check_types(rows: DataFrame) -> None:
    for field in rows.schema.fields:
        unreadable = _unreadable(field.dataType)
        if unreadable is not None:
            raise StreamsError(
                f"the column {field.name!r} has the type {unreadable}, which JSON cannot hold",
                "Give it another type with map(), such as an array of entries instead of a map with such keys.",
            )


def _unreadable(kind: DataType) -> str | None:
    """The first type within `kind` that does not come back as it was written."""
    from pyspark.sql.types import ArrayType, MapType, StringType, StructType

    match kind:
        case MapType():
            return _unreadable(kind.valueType) if isinstance(kind.keyType, StringType) else kind.simpleString()
        case ArrayType():
            return _unreadable(kind.elementType)
        case StructType():
            return next((found for each in kind.fields if (found := _unreadable(each.dataType))), None)
    return None
