"""Rows as records of a user's topic, by the sink's formats. Topics between queries: see `internal_json`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, assert_never

import pyarrow as pa  # at run time too: Spark reads the annotations of functions it is given

from penstock.pipelines.payloads.encoding import SchemaRequest, SinkSchema, open_encoder, register_schema
from penstock.pipelines.steps.registries import address_of, refusals_told
from penstock.schemas.schema import SchemaType
from penstock.serdes.errors import SerdesError
from penstock.streams.lowering.columns import column, columns, expression, value_names
from penstock.streams.lowering.decoding import Part
from penstock.streams.lowering.internal_json import to_json, value_json
from penstock.streams.topology.errors import StreamsError
from penstock.streams.topology.formats import Format, FormatKind
from penstock.streams.topology.nodes import HEADERS, KEY, NULL, TIMESTAMP, Sink

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType, StructType

    from penstock.streams.lowering.context import Context

PAYLOAD, ERROR = "payload", "error"
CHOSEN_TOPIC = "topic"  # null: the sink's own


def sink_records(node: Sink, rows: DataFrame, context: Context) -> DataFrame:
    """key, value, timestamp and, where the rows have them, headers; partition and topic where the sink chooses them."""
    from pyspark.sql import functions as F

    key = _key(node, rows, context).alias("key")
    value = F.when(~column(NULL), _value(node, rows, context)).alias("value")
    further = [column(HEADERS).alias("headers")] if HEADERS in rows.columns else []
    if node.partition is not None:
        further.append(expression(node.partition).cast("int").alias("partition"))
    if node.topic_of is not None:
        further.append(expression(node.topic_of).cast("string").alias(CHOSEN_TOPIC))
    return rows.select(key, value, column(TIMESTAMP).alias("timestamp"), *further)


def _key(node: Sink, rows: DataFrame, context: Context) -> Column:
    from pyspark.sql import functions as F
    from pyspark.sql.types import StructType

    kind = rows.schema[KEY].dataType
    given = node.key or Format(key_kind(kind))
    if given.kind is not FormatKind.REGISTRY:
        return _plain(node, "key", given.kind, column(KEY), kind)
    record = column(KEY) if isinstance(kind, StructType) else F.struct(column(KEY).alias("key"))
    return _by_registry(node, "key", given, F.when(column(KEY).isNotNull(), record), rows, context)


def key_kind(kind: DataType) -> FormatKind:
    """The format of keys for a sink without one of its own."""
    from pyspark.sql.types import BinaryType, StringType

    if isinstance(kind, StringType):
        return FormatKind.TEXT
    return FormatKind.RAW if isinstance(kind, BinaryType) else FormatKind.JSON


def _value(node: Sink, rows: DataFrame, context: Context) -> Column:
    from pyspark.sql import functions as F

    names = value_names(rows)
    match node.value.kind:
        case FormatKind.JSON:
            return value_json(rows)
        case FormatKind.REGISTRY:
            whole = F.when(~column(NULL), F.struct(*columns(names)))
            return _by_registry(node, "value", node.value, whole, rows, context)
    if len(names) != 1:
        raise StreamsError(
            f"{node.name}: a value that is {node.value.kind} is one column, and there are {len(names)}:"
            f" {', '.join(names)}",
            "Choose or make it with select(), such as select(\"concat(user, ':', count) AS value\"), or write json().",
        )
    return _plain(node, "value", node.value.kind, column(names[0]), rows.schema[names[0]].dataType)


def _plain(node: Sink, of: Part, how: FormatKind, value: Column, kind: DataType) -> Column:
    from pyspark.sql.types import ArrayType, BinaryType, MapType, StringType, StructType

    match how:
        case FormatKind.JSON:
            return to_json(value, kind)
        case FormatKind.TEXT if isinstance(kind, StructType | ArrayType | MapType):
            return to_json(value, kind)
        case FormatKind.TEXT:
            return value.cast("string")
        case FormatKind.RAW if isinstance(kind, StringType | BinaryType):
            return value.cast("binary")
        case FormatKind.RAW | FormatKind.REGISTRY:
            raise StreamsError(
                f"{node.name}: the {of} is {kind.simpleString()}, which is not bytes", "Write it as text() or json()."
            )
    assert_never(how)


def _by_registry(node: Sink, of: Part, given: Format, record: Column, rows: DataFrame, context: Context) -> Column:
    """A row that does not fit the schema fails the batch: no later node could handle it."""
    from pyspark.sql import functions as F
    from pyspark.sql.types import BinaryType, StringType, StructType

    kind = rows.select(record.alias(of)).schema[of].dataType
    assert isinstance(kind, StructType)
    subject = given.subject or f"{node.topic}-{of}"
    schema: SinkSchema = context.know(("sink", subject, kind.json()), lambda: _register(subject, given, kind, context))
    is_key = of == "key"

    def encode(batches: Iterator[pa.Array]) -> Iterator[pa.Array]:
        encoder = open_encoder(schema, is_key=is_key)
        for batch in batches:
            encoded = encoder.encode_rows(batch)
            errors = pa.array([encoded.errors.get(row) for row in range(len(batch))], pa.string())
            yield pa.StructArray.from_arrays([encoded.payloads, errors], names=[PAYLOAD, ERROR])

    result = StructType().add(PAYLOAD, BinaryType()).add(ERROR, StringType())
    encode_column: Any = F.arrow_udf(encode, result).asNondeterministic()  # type: ignore[call-overload]
    return _payload_or_fail(encode_column(record), subject)


def _payload_or_fail(encoded: Column, subject: str) -> Column:
    from pyspark.sql import functions as F

    def choose(each: Column) -> Column:
        error = each.getField(ERROR)
        refused = F.raise_error(F.concat(F.lit(f"a row does not fit the schema of {subject}: "), error))
        return F.when(error.isNull(), each.getField(PAYLOAD)).otherwise(refused.cast("binary"))

    # As the element of an array: mentioned twice, the function would be called twice.
    return F.get(F.transform(F.array(encoded), choose), 0)


def _register(subject: str, given: Format, kind: StructType, context: Context) -> SinkSchema:
    request = SchemaRequest(subject, SchemaType(given.schema_type), given.schema)
    with refusals_told():
        schema = register_schema(address_of(None, context.settings).settings(), request, kind)
    try:  # here rather than in a task
        open_encoder(schema)
    except SerdesError as error:
        raise StreamsError(f"rows cannot be written by the schema of {subject}: {error}") from error
    return schema
