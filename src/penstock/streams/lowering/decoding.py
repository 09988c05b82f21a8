"""A key or a value, from bytes to a column.

JSON, text and raw bytes are read by Spark's own expressions; what a registry has a schema for, by the decoders of
pipelines, in Arrow.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import pyarrow as pa  # at run time too: Spark reads the annotations of functions it is given

from penstock.pipelines.dead_letters import ERROR, SOURCE
from penstock.pipelines.payloads.decoding import Decoded, in_pieces, open_decoder
from penstock.pipelines.payloads.formats import PayloadFormat, resolve_format
from penstock.pipelines.sql_identifiers import type_ddl
from penstock.pipelines.steps.kinds import columns_of
from penstock.pipelines.steps.registries import address_of, columns_of_batch, free_names, refusals_told
from penstock.streams.lowering.columns import column
from penstock.streams.lowering.internal_json import READ_OPTIONS
from penstock.streams.topology.formats import Format, FormatKind
from penstock.streams.topology.nodes import OURS, Source

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType

    from penstock.streams.lowering.context import Context

Part: TypeAlias = Literal["key", "value"]
VALUE = "value"
_BROKEN = "_broken"
_PARSED, _COUNT = "parsed", "count"
# JSON's reader turns a field that it cannot read into null; the text is in the column for broken records.
_JSON_OPTIONS = {**READ_OPTIONS, "mode": "PERMISSIVE", "columnNameOfCorruptRecord": _BROKEN}


@dataclass(frozen=True, slots=True)
class Decoding:
    """`put_into` makes a column; the other methods read that column, by its name."""

    kind: DataType
    result: Column
    is_judged: bool  # the result is a struct of `value` and `error`; else it is the value itself, and never wrong
    read: tuple[str, Column] | None = None  # a column that `result` is made of

    def put_into(self, rows: DataFrame, name: str) -> DataFrame:
        if self.read is None:
            return rows.withColumn(name, self.result)
        return rows.withColumn(*self.read).withColumn(name, self.result).drop(self.read[0])

    def whole(self, name: str) -> Column:
        return column(name).getField(VALUE) if self.is_judged else column(name)

    def error(self, name: str) -> Column:
        from pyspark.sql import functions as F

        return column(name).getField(ERROR) if self.is_judged else F.lit(None).cast("string")

    def is_null(self, name: str) -> Column:
        return self.whole(name).isNull()

    def columns(self, name: str) -> list[Column]:
        """The columns of a value: one for each field, or one that is called `value`."""
        from pyspark.sql.types import StructType

        whole = self.whole(name)
        if not isinstance(self.kind, StructType):
            return [whole.alias(VALUE)]
        names = zip(self.kind.names, free_names(self.kind.names, (*OURS, SOURCE, ERROR)), strict=True)
        return [whole.getField(field).alias(free) for field, free in names]


def decoding(node: Source, of: Part, context: Context, payload: Column, headers: Column | None = None) -> Decoding:
    """Keys or values by the source's format. `headers` may name the schema of a registry."""
    from pyspark.sql import functions as F
    from pyspark.sql.types import BinaryType, StringType

    given = node.key if of == "key" else node.value
    match given.kind:
        case FormatKind.RAW:
            return Decoding(BinaryType(), payload, False)
        case FormatKind.TEXT:
            # As Kafka's StringDeserializer: what is no UTF-8 becomes U+FFFD.
            return Decoding(StringType(), F.make_valid_utf8(payload.cast("string")), False)
        case FormatKind.JSON:
            return _by_json(of, given, payload)
    return _by_registry(registry_format(node, of, context), of, payload, headers)


def json_type(given: Format) -> DataType:
    """Of columns, such as "id bigint, name string": a struct. Of a type, such as "bigint", the type."""
    from pyspark.sql.types import DataType

    if given.columns.strip().isidentifier():
        return DataType.fromDDL(given.columns)
    return columns_of(given.columns)


def registry_format(node: Source, of: Part, context: Context) -> PayloadFormat:
    """The latest version of the subject, as of the run's start."""
    given = node.key if of == "key" else node.value
    subject = given.subject or f"{node.only_topic}-{of}"

    def find() -> PayloadFormat:
        with refusals_told():
            return resolve_format(address_of(None, context.settings), subject)

    found: PayloadFormat = context.know(("format", subject), find)
    return found


def _by_json(of: Part, given: Format, payload: Column) -> Decoding:
    """`null` is no value. What is no object, or not of the declared types, is an error."""
    from pyspark.sql import functions as F
    from pyspark.sql.types import StructType

    text, kind = payload.cast("string"), json_type(given)
    in_array = F.concat(F.lit("["), text, F.lit("]"))
    is_nothing = payload.isNull() | (F.trim(text) == "null")
    name = f"__read_{of}"
    parsed = column(name).getField(_PARSED)
    if isinstance(kind, StructType):
        read = F.from_json(text, StructType([*kind.fields]).add(_BROKEN, "string"), _JSON_OPTIONS)
        # Spark reads one object and does not look at what follows. In an array that is no JSON, or a second element.
        # Nothing follows where the first brace that closes is the last character: reading all once more is saved.
        # (In text that is no UTF-8 a character may hide that brace.)
        is_alone = F.is_valid_utf8(text) & (F.locate("}", text) == F.length(text))
        count = F.when(is_alone, F.lit(1)).otherwise(F.json_array_length(in_array))
        is_whole = F.coalesce(column(name).getField(_COUNT) == 1, F.lit(False))
        is_broken = parsed.isNull() | parsed.getField(_BROKEN).isNotNull() | ~is_whole
        value = F.struct(*(parsed.getField(each).alias(each) for each in kind.names))
    else:
        # In an array, since Spark reads no bare values. An element of another type is null.
        read, count = F.from_json(in_array, f"array<{type_ddl(kind)}>", READ_OPTIONS), F.lit(None).cast("int")
        value = F.get(parsed, 0)
        is_broken = value.isNull() | (F.size(parsed) != 1)
    error = F.when(~is_nothing & is_broken, F.lit(f"the {of} is not the expected JSON"))
    result = F.struct(F.when(~is_nothing & ~is_broken, value).alias(VALUE), error.alias(ERROR))
    # With something that is not deterministic, or Spark would read the text again for each condition on the result.
    once = F.struct(read.alias(_PARSED), count.alias(_COUNT), F.spark_partition_id())
    return Decoding(kind, result, True, (name, once))


def _by_registry(payload_format: PayloadFormat, of: Part, payload: Column, headers: Column | None) -> Decoding:
    from pyspark.sql import functions as F
    from pyspark.sql.types import StringType, StructType

    is_key = of == "key"
    result = StructType().add(VALUE, payload_format.spark_type).add(ERROR, StringType())

    def decode(batches: Iterator[tuple[pa.Array, ...]]) -> Iterator[pa.Array]:
        decoder = open_decoder(payload_format, is_key=is_key)
        for batch in batches:
            arrays = columns_of_batch(batch)

            def decode_some(start: int, end: int, arrays: tuple[pa.Array, ...] = arrays) -> Decoded:
                return decoder.decode(*(each.slice(start, end - start) for each in arrays))

            for decoded in in_pieces(len(arrays[0]), decode_some):
                yield pa.StructArray.from_arrays([decoded.values, decoded.errors], names=[VALUE, ERROR])

    # Named as not deterministic, or Spark would decode once for each column that is taken out of the result.
    decode_column: Any = F.arrow_udf(decode, result).asNondeterministic()  # type: ignore[call-overload]
    return Decoding(payload_format.spark_type, decode_column(payload, *([] if headers is None else [headers])), True)
