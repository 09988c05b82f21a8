"""Records of a topic as rows.

JSON, text and raw bytes are read by Spark's own expressions; what a registry has a schema for, by the decoders of
pipelines, in Arrow. A record that does not decode has an `error` and keeps its `source`, as in pipelines, until
somebody has decided what becomes of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa  # at run time too: Spark reads the annotations of functions it is given

from penstock.pipelines import dead_letters
from penstock.pipelines.dead_letters import ERROR, SOURCE, good_or_fail, only_good
from penstock.pipelines.payloads.decoding import Decoded, in_pieces, open_decoder
from penstock.pipelines.payloads.formats import PayloadFormat, resolve_format
from penstock.pipelines.quoting import quote
from penstock.pipelines.steps.kinds import columns_of
from penstock.pipelines.steps.parsing import keep_source
from penstock.pipelines.steps.registries import address_of, columns_of_batch, free_names, refusals_told
from penstock.streams.lowering.columns import column
from penstock.streams.lowering.internal_json import READ_OPTIONS
from penstock.streams.topology.formats import Format, Kind
from penstock.streams.topology.nodes import HEADERS, KEY, NULL, OFFSET, OURS, PARTITION, TIMESTAMP, Shape, Source

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType

    from penstock.streams.lowering.context import Context

VALUE = "value"
_BROKEN, _DECODED_KEY, _DECODED_VALUE = "_broken", "_decoded_key", "_decoded_value"
# What JSON's reader makes of a column that it cannot read is null; the text is in the column for broken records.
_JSON_OPTIONS = {**READ_OPTIONS, "mode": "PERMISSIVE", "columnNameOfCorruptRecord": _BROKEN}


def source_rows(node: Source, records: DataFrame, context: Context) -> DataFrame:
    """Rows of the records that decode. The first one that does not fails the batch, unless there are dead letters."""
    judged = judged_rows(node, records, context)
    good = good_or_fail(judged) if context.plan.topology.dead_letters is None else only_good(judged)
    rows = good.drop(SOURCE)
    if node.shape is Shape.TABLE:
        rows = rows.where(column(KEY).isNotNull())
    return with_watermark(rows, node.name, context)


def with_watermark(rows: DataFrame, name: str, context: Context) -> DataFrame:
    delay_ms = context.watermark_ms(name)
    if delay_ms is None or not context.is_streaming:
        return rows
    return rows.withWatermark(TIMESTAMP, f"{delay_ms} milliseconds")


def judged_rows(node: Source, records: DataFrame, context: Context) -> DataFrame:
    """All records: `source`, `error`, and the columns of rows."""
    from pyspark.sql import functions as F

    kept = keep_source(records)
    key = _decoding(node, "key", kept, context)
    value = _decoding(node, "value", kept, context)
    decoded = kept.withColumn(_DECODED_KEY, key.result).withColumn(_DECODED_VALUE, value.result)
    error = F.coalesce(key.error(_DECODED_KEY), value.error(_DECODED_VALUE))
    values = value.columns(_DECODED_VALUE)
    rows = decoded.select(
        column(SOURCE),
        error.alias(ERROR),
        *values,
        key.whole(_DECODED_KEY).alias(KEY),
        F.col(f"{SOURCE}.timestamp").alias(TIMESTAMP),
        value.is_null(_DECODED_VALUE).alias(NULL),
        F.col(f"{SOURCE}.partition").alias(PARTITION),
        F.col(f"{SOURCE}.offset").alias(OFFSET),
        *([F.col(f"{SOURCE}.headers").alias(HEADERS)] if node.with_headers else []),
    )
    return rows if node.time is None else _timed(rows, node.time)


def _timed(rows: DataFrame, time: str) -> DataFrame:
    """The time of the event, in milliseconds as Kafka keeps it. A row without a value has the record's; one whose
    value says none is an error."""
    from pyspark.sql import functions as F

    at = F.date_trunc("MILLISECOND", F.expr(time).cast("timestamp"))
    missing = F.when(~column(NULL) & at.isNull(), F.lit(f"the record has no time: {time} is null"))
    timed = F.when(column(NULL), column(TIMESTAMP)).otherwise(at)
    names = rows.columns
    changed = {ERROR: F.coalesce(column(ERROR), missing).alias(ERROR), TIMESTAMP: timed.alias(TIMESTAMP)}
    return rows.select(*(changed.get(name, column(name)) for name in names))


@dataclass(frozen=True, slots=True)
class _Decoding:
    """A key or a value, as a column of a frame: `result`, and how to read what came of it."""

    of: Literal["key", "value"]
    kind: DataType
    result: Column
    is_judged: bool  # the result is a struct of `value` and `error`; else it is the value itself, and never wrong

    def whole(self, name: str) -> Column:
        decoded = column(name)
        return decoded.getField(VALUE) if self.is_judged else decoded

    def error(self, name: str) -> Column:
        from pyspark.sql import functions as F

        return column(name).getField(ERROR) if self.is_judged else F.lit(None).cast("string")

    def is_null(self, name: str) -> Column:
        return self.whole(name).isNull()

    def columns(self, name: str) -> list[Column]:
        """Of a value: one for each field, or one that is called `value`."""
        from pyspark.sql.types import StructType

        whole = self.whole(name)
        if not isinstance(self.kind, StructType):
            return [whole.alias(VALUE)]
        taken = (*OURS, SOURCE, ERROR)
        names = zip(self.kind.names, free_names(self.kind.names, taken), strict=True)
        return [whole.getField(field).alias(free) for field, free in names]


def _decoding(node: Source, of: Literal["key", "value"], kept: DataFrame, context: Context) -> _Decoding:
    from pyspark.sql import functions as F
    from pyspark.sql.types import BinaryType, StringType

    given = node.key if of == "key" else node.value
    payload = F.col(f"{SOURCE}.{of}")
    match given.kind:
        case Kind.RAW:
            return _Decoding(of, BinaryType(), payload, False)
        case Kind.TEXT:
            # As Kafka's StringDeserializer: what is no UTF-8 becomes a question mark in a diamond.
            return _Decoding(of, StringType(), F.make_valid_utf8(payload.cast("string")), False)
        case Kind.JSON:
            return _by_json(of, given, payload)
    return _by_registry(node, of, given, kept, context)


def _by_json(of: Literal["key", "value"], given: Format, payload: Column) -> _Decoding:
    """`null` is no value. What is no object, or not of the declared types, is an error."""
    from pyspark.sql import functions as F
    from pyspark.sql.types import StructType

    text = payload.cast("string")
    kind = json_type(given)
    is_nothing = payload.isNull() | (F.trim(text) == "null")
    if isinstance(kind, StructType):
        parsed = F.from_json(text, StructType([*kind.fields]).add(_BROKEN, "string"), _JSON_OPTIONS)
        is_broken = parsed.isNull() | parsed.getField(_BROKEN).isNotNull()
        value = F.struct(*(parsed.getField(name).alias(name) for name in kind.names))
    else:
        # In an array, since Spark reads no bare values; one that has another type is null there.
        parsed = F.from_json(F.concat(F.lit("["), text, F.lit("]")), f"array<{kind.simpleString()}>", READ_OPTIONS)
        value = F.get(parsed, 0)
        is_broken = value.isNull() | (F.size(parsed) != 1)
    error = F.when(~is_nothing & is_broken, F.lit(f"the {of} is not the expected JSON"))
    result = F.struct(F.when(~is_nothing & ~is_broken, value).alias(VALUE), error.alias(ERROR))
    return _Decoding(of, kind, result, True)


def json_type(given: Format) -> DataType:
    """Of columns, such as "id bigint, name string": a struct. Of a type, such as "bigint", the type."""
    from pyspark.sql.types import DataType

    if given.columns.strip().isidentifier():
        return DataType.fromDDL(given.columns)
    return columns_of(given.columns)


def registry_format(node: Source, of: Literal["key", "value"], context: Context) -> PayloadFormat:
    """The latest version of the subject, as of the run's start."""
    given = node.key if of == "key" else node.value
    subject = given.subject or f"{node.topic}-{of}"

    def find() -> PayloadFormat:
        with refusals_told():
            return resolve_format(address_of(None, context.settings), subject)

    found: PayloadFormat = context.know(("format", subject), find)
    return found


def _by_registry(
    node: Source, of: Literal["key", "value"], given: Format, kept: DataFrame, context: Context
) -> _Decoding:
    from pyspark.sql import functions as F
    from pyspark.sql.types import StringType, StructType

    payload_format, is_key = registry_format(node, of, context), of == "key"
    result = StructType().add(VALUE, payload_format.spark_type).add(ERROR, StringType())

    def decode(batches: Iterator[tuple[pa.Array, ...]]) -> Iterator[pa.Array]:
        decoder = open_decoder(payload_format, is_key=is_key)
        for batch in batches:
            arrays = columns_of_batch(batch)

            def decode_some(start: int, end: int, arrays: tuple[pa.Array, ...] = arrays) -> Decoded:
                return decoder.decode(*(each.slice(start, end - start) for each in arrays))

            for decoded in in_pieces(len(arrays[0]), decode_some):
                yield pa.StructArray.from_arrays([decoded.values, decoded.errors], names=[VALUE, ERROR])

    has_headers = dead_letters.HEADERS in kept.select(f"{SOURCE}.*").columns
    names = [of, *([dead_letters.HEADERS] if has_headers else [])]
    # Named as not deterministic, or Spark would decode once for each column that is taken out of the result.
    decoding: Any = F.arrow_udf(decode, result).asNondeterministic()  # type: ignore[call-overload]
    return _Decoding(
        of, payload_format.spark_type, decoding(*(F.col(f"{SOURCE}.{quote(name)}") for name in names)), True
    )
