"""Rows as the messages of machines, and what machines give as rows again. Texts are JSON, as topics between queries
have it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from penstock.pipelines.sql_identifiers import type_ddl
from penstock.streams.lowering.columns import column, expression, value_names
from penstock.streams.lowering.internal_json import TIME_FORMAT, WRITE_OPTIONS, check_types, to_json, value_json
from penstock.streams.topology.nodes import (
    KEY,
    NULL,
    OFFSET,
    PARTITION,
    TIMESTAMP,
    WINDOW_END,
    WINDOW_START,
    Expression,
)

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType, StructType

GROUP = "_group"
_UNREAD = "_unread"
# Authors' functions give times with a zone or, in UTC, without.
READ_OPTIONS = {**WRITE_OPTIONS, "timestampFormat": f"{TIME_FORMAT}[XXX]", "mode": "FAILFAST"}
_READ_MADE = {**READ_OPTIONS, "mode": "PERMISSIVE", "columnNameOfCorruptRecord": _UNREAD}
_SHOWN_CHARACTERS = 200  # of a row in an error


def messages(rows: DataFrame, side: int = 0, *, key: str = KEY, value: Column | None = None) -> DataFrame:
    """`value` is text, null where the row has no value; without it, the object of the value's columns."""
    from pyspark.sql import functions as F

    check_types(rows)
    return rows.select(
        F.lit(side).alias("side"),
        to_json(column(key), rows.schema[key].dataType).alias("key"),
        F.coalesce(F.unix_micros(column(TIMESTAMP)), F.lit(0)).alias("micros"),
        column(PARTITION).alias("partition"),
        column(OFFSET).alias("offset"),
        (value_json(rows) if value is None else value).alias("value"),
    )


def lines(*texts: Column) -> Column:
    """Null becomes an empty line."""
    from pyspark.sql import functions as F

    return F.concat_ws("\n", *(F.coalesce(each, F.lit("")) for each in texts))


def object_text(named: Sequence[tuple[str, Column]]) -> Column:
    from pyspark.sql import functions as F

    return F.to_json(F.struct(*(each.alias(name) for name, each in named)), WRITE_OPTIONS)


def read_text(text: Column, kind: DataType) -> Column:
    """A value of any type. What does not fit the type fails the query."""
    from pyspark.sql import functions as F
    from pyspark.sql.types import StructType

    if isinstance(kind, StructType):
        return F.from_json(text, kind, READ_OPTIONS)
    listed = F.concat(F.lit("["), text, F.lit("]"))
    return F.get(F.from_json(listed, f"array<{type_ddl(kind)}>", READ_OPTIONS), 0)


def read_made(made: DataFrame, into: str, kind: StructType, what: str) -> DataFrame:
    """With the result of the author's code, the text in `value`, as a struct. A result that does not fit the type fails
    the query, whose error names it."""
    from pyspark.sql import functions as F
    from pyspark.sql.types import StructType

    parsed = F.from_json(column("value"), StructType([*kind.fields]).add(_UNREAD, "string"), _READ_MADE)
    shown = F.substring(column("value"), 1, _SHOWN_CHARACTERS)
    reason = F.concat(F.lit(f"{what} does not fit {type_ddl(kind)}: "), shown)
    fits = F.when(column(into).getField(_UNREAD).isNull(), F.lit(True)).otherwise(F.raise_error(reason).cast("boolean"))
    return made.withColumn(into, parsed).where(fits)


def value_schema(rows: DataFrame) -> StructType:
    from pyspark.sql.types import StructType

    return StructType([rows.schema[name] for name in value_names(rows)])


def our_columns(key: Column, is_null: Column | None = None) -> list[Column]:
    """Our columns, from a machine's columns `micros`, `partition` and `offset`."""
    from pyspark.sql import functions as F

    return [
        key.alias(KEY),
        F.timestamp_micros(F.col("micros")).alias(TIMESTAMP),
        (F.lit(False) if is_null is None else is_null).alias(NULL),
        F.col("partition").alias(PARTITION),
        F.col("offset").alias(OFFSET),
    ]


def window_columns(key: Column) -> tuple[Column, list[Column]]:
    """The key of a windowed result, and the columns of its bounds, from a machine's `start` and `end`."""
    from pyspark.sql import functions as F

    bounds = [F.timestamp_millis(F.col(name)) for name in ("start", "end")]
    shown = [each.alias(name) for each, name in zip(bounds, (WINDOW_START, WINDOW_END), strict=True)]
    return F.struct(key.alias("key"), F.col("start"), F.col("end")), shown


def with_group(rows: DataFrame, group: Sequence[tuple[str, Expression]]) -> DataFrame:
    """With the column `_group`: the key as it is, the only group value, or a struct of them; null without a value."""
    from pyspark.sql import functions as F

    if not group:
        by = column(KEY)
    elif len(group) == 1:
        by = expression(group[0][1])
    else:
        by = F.struct(*(expression(each).alias(name) for name, each in group))
    return rows.withColumn(GROUP, F.when(~column(NULL), by))


def group_columns(key: Column, group: Sequence[tuple[str, Expression]]) -> list[Column]:
    names = [name for name, _ in group]
    return [key.alias(names[0])] if len(names) == 1 else [key.getField(name).alias(name) for name in names]


def fields_of(struct: str, names: Sequence[str]) -> list[Column]:
    return [column(struct).getField(name).alias(name) for name in names]
