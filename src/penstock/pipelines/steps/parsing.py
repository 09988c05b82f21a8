"""From a record's bytes to columns. What does not parse keeps its row, with `error` saying why; see `dead_letters`."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import pyarrow as pa  # at run time too: Spark reads the annotations of functions it is given

from penstock.pipelines.dead_letters import ERROR, HEADERS, SOURCE, SOURCE_FIELDS
from penstock.pipelines.pipeline import Step
from penstock.pipelines.sql_identifiers import quote, type_ddl
from penstock.pipelines.steps.kinds import arrow_kind, columns_of
from penstock.pipelines.steps.named_steps import named

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import StructType

_BROKEN = "_broken"
_PARSED = "_parsed"
_NO_VALUE = "the record has no value"

# Quoted text may hold \" and the like. Never giving back what was matched (*+) keeps Java from recursing once per
# character: a user agent of some ten thousand would overflow its stack.
_QUOTED = r'"([^"\\]*+(?:\\.[^"\\]*+)*+)"'
# Apache's common log format, with the referrer and the user agent of the combined format where they are there.
_ACCESS_LOG = (
    r'^(\S+) (\S+) (\S+) \[([^\]]+)\] "(?:(\S+) (\S+)(?: (HTTP/[0-9.]+))?|[^"]*)" (\d{3}) (\d+|-)'
    rf"(?: {_QUOTED} {_QUOTED})?\s*$"
)
# One pass of the expression per line: it rewrites the line with this between the fields, and the rest is a split.
_SEPARATOR = "\x1f"
_ACCESS_LOG_TIME = "dd/MMM/yyyy:HH:mm:ss Z"
_ACCESS_LOG_FIELDS = (
    "address", "identity", "user", "time", "method", "path", "protocol", "status", "size", "referrer", "agent",
)  # fmt: skip


def parse_json(schema: str | StructType) -> Step:
    """`schema` as Spark writes it, such as "id bigint, name string". A field that is missing is null; a value of the
    wrong kind is an error."""
    from pyspark.sql import functions as F

    def parse(rows: DataFrame) -> DataFrame:
        options = {"columnNameOfCorruptRecord": _BROKEN, "mode": "PERMISSIVE"}
        return _by_expression(
            rows, lambda text: F.from_json(text, _with_broken(schema), options), "not the expected JSON"
        )

    return named("parse_json", parse)


def parse_csv(schema: str | StructType, separator: str = ",") -> Step:
    """One record, one line."""
    from pyspark.sql import functions as F

    def parse(rows: DataFrame) -> DataFrame:
        options = {"columnNameOfCorruptRecord": _BROKEN, "mode": "PERMISSIVE", "sep": separator}
        return _by_expression(rows, lambda text: F.from_csv(text, _ddl(schema), options), "not the expected CSV")

    return named("parse_csv", parse)


def parse_access_log() -> Step:
    """Lines of a web server in Apache's common or combined format: address, identity, user, event_time, method, path,
    protocol, status, size, referrer, agent. A dash, the format's sign for no value, becomes null."""
    from pyspark.sql import functions as F

    def parse(rows: DataFrame) -> DataFrame:
        kept = keep_source(rows)
        groups = _SEPARATOR.join(f"${number}" for number in range(1, len(_ACCESS_LOG_FIELDS) + 1))
        text = F.col(f"{SOURCE}.value").cast("string")
        fields = F.split(F.regexp_replace(text, _ACCESS_LOG, groups), _SEPARATOR)
        split = kept.withColumn(_PARSED, fields)
        # A line that brings separators along could look as if it had been taken apart.
        whole = (F.size(_PARSED) == len(_ACCESS_LOG_FIELDS)) & ~text.contains(_SEPARATOR)
        at = F.try_to_timestamp(F.get(F.col(_PARSED), 3), F.lit(_ACCESS_LOG_TIME))
        timed = split.withColumn("event_time", F.when(whole, at))
        error = (
            F.when(F.col(f"{SOURCE}.value").isNull(), _NO_VALUE)
            .when(~whole, "not a line of an access log")
            .when(F.col("event_time").isNull(), "the time of the line cannot be read")
        )
        return timed.select(*_carried(kept, error), *_access_log_columns(whole))

    return named("parse_access_log", parse)


def parse_avro(schema: str | Mapping[str, Any], columns: str) -> Step:
    """Values that are one Avro datum each, without a header. `schema` is the writer's, as JSON; `columns` names the
    fields that become columns, such as "id bigint, name string"."""
    from pyspark.sql import functions as F

    text = schema if isinstance(schema, str) else json.dumps(schema)

    def parse(rows: DataFrame) -> DataFrame:
        kept = keep_source(rows)
        result = f"struct<{_PARSED}: {columns_of(columns).simpleString()}, {_BROKEN}: string>"
        kind = arrow_kind(result)

        def decode(batches: Iterator[pa.Array]) -> Iterator[pa.Array]:
            import fastavro

            writer = fastavro.parse_schema(json.loads(text))
            for values in batches:
                yield pa.array([_read_datum(fastavro, writer, value) for value in values.to_pylist()], kind)

        decoded = kept.withColumn("_datum", F.arrow_udf(decode, result)(F.col(f"{SOURCE}.value")))  # type: ignore[call-overload]
        error = F.when(F.col(f"{SOURCE}.value").isNull(), _NO_VALUE).otherwise(F.col(f"_datum.{_BROKEN}"))
        return decoded.select(*_carried(kept, error), f"_datum.{_PARSED}.*")

    return named("parse_avro", parse)


def keep_source(rows: DataFrame) -> DataFrame:
    """The record as it was read, as one column; what has gone through a parser before has it already."""
    from pyspark.sql import functions as F

    if SOURCE in rows.columns:
        return rows
    fields = [*SOURCE_FIELDS, HEADERS] if HEADERS in rows.columns else [*SOURCE_FIELDS]
    return rows.select(F.struct(*fields).alias(SOURCE))


def _by_expression(rows: DataFrame, expression: Any, complaint: str) -> DataFrame:
    from pyspark.sql import functions as F

    kept = keep_source(rows)
    value = F.col(f"{SOURCE}.value")
    parsed = kept.withColumn(_PARSED, expression(value.cast("string")))
    broken = F.col(_PARSED).isNull() | F.col(f"{_PARSED}.{_BROKEN}").isNotNull()
    error = F.when(value.isNull(), _NO_VALUE).when(broken, complaint)
    fields = [name for name in parsed.select(f"{_PARSED}.*").columns if name != _BROKEN]
    return parsed.select(*_carried(kept, error), *(F.col(f"{_PARSED}.{quote(name)}") for name in fields))


def _carried(rows: DataFrame, error: Column) -> list[Column]:
    """The result of every parser: the record, and its first fault."""
    from pyspark.sql import functions as F

    known = [F.col(ERROR)] if ERROR in rows.columns else []
    return [F.col(SOURCE), F.coalesce(*known, error).alias(ERROR)]


def _access_log_columns(whole: Column) -> list[Column]:
    from pyspark.sql import functions as F

    def text(index: int) -> Column:
        field = F.get(F.col(_PARSED), index)
        return F.when(whole & (field != "-") & (field != ""), field)

    columns = []
    for index, name in enumerate(_ACCESS_LOG_FIELDS):
        if name == "time":
            columns.append(F.col("event_time"))
        elif name in ("status", "size"):
            columns.append(text(index).try_cast("int" if name == "status" else "bigint").alias(name))
        else:
            columns.append(text(index).alias(name))
    return columns


def _with_broken(schema: str | StructType) -> StructType:
    from pyspark.sql.types import StringType, StructType

    return StructType([*columns_of(schema).fields]).add(_BROKEN, StringType())


def _ddl(schema: str | StructType) -> str:
    return ", ".join(f"{quote(field.name)} {type_ddl(field.dataType)}" for field in _with_broken(schema).fields)


def _read_datum(fastavro: Any, writer: Any, value: bytes | None) -> dict[str, Any]:
    if value is None:
        return {_PARSED: None, _BROKEN: _NO_VALUE}
    stream = io.BytesIO(value)
    try:
        datum = fastavro.schemaless_reader(stream, writer)
    except (EOFError, ValueError, IndexError, TypeError, KeyError, OverflowError, UnicodeDecodeError) as error:
        return {_PARSED: None, _BROKEN: f"not the expected Avro: {type(error).__name__} {error}"}
    if stream.tell() != len(value):
        return {_PARSED: None, _BROKEN: f"not the expected Avro: {len(value) - stream.tell()} bytes too many"}
    return {_PARSED: datum, _BROKEN: None}
