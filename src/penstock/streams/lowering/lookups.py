"""A stream with a global table: each row looks its key up, and nothing is kept as state."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa  # at run time too: Spark reads the annotations of functions it is given

from penstock.pipelines.options import OptionScope
from penstock.pipelines.payloads.formats import BYTES, TEXT, PayloadFormat, json_format
from penstock.pipelines.source.read_options import parse_source_options
from penstock.pipelines.topic_source import client_options
from penstock.streams.lowering import machine_nodes
from penstock.streams.lowering.columns import column, columns, expression, our_names, value_names
from penstock.streams.lowering.decoding import decoding, json_type, registry_format
from penstock.streams.lowering.global_copies import GlobalTopic, copy_of
from penstock.streams.lowering.joins import joined_names
from penstock.streams.topology.errors import StreamsError
from penstock.streams.topology.formats import FormatKind
from penstock.streams.topology.nodes import KEY, NULL, Source, StreamTableJoin

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType

    from penstock.streams.lowering.context import Context

_PAYLOAD, _FOUND, _LOOKUP = "_payload", "_found", "_lookup"


def lower_stream_table_join(node: StreamTableJoin, inputs: list[DataFrame], context: Context) -> DataFrame:
    table = context.plan.topology.node(node.inputs[1])
    if isinstance(table, Source) and table.is_global:
        return _looked_up(node, table, inputs[0], context)
    return machine_nodes.lower_stream_table_join(node, inputs, context)


def _looked_up(node: StreamTableJoin, table: Source, rows: DataFrame, context: Context) -> DataFrame:
    """Rows without a value are left out; those without what is looked up find nothing."""
    from pyspark.sql import functions as F

    key = column(KEY) if node.key is None else expression(node.key)
    valued = rows.where(~column(NULL)).withColumn(_LOOKUP, key)
    _check_key(node, valued.schema[_LOOKUP].dataType, decoding(table, "key", context, F.lit(b"")).kind)
    if context.global_records is None:
        paid = valued.withColumn(_PAYLOAD, _lookup(_topic_of(table, context))(column(_LOOKUP)))
    else:
        paid = _joined(valued, table, context.global_records(table.name), context)
    found = decoding(table, "value", context, column(_PAYLOAD))
    decoded = found.put_into(paid, _FOUND)
    if context.plan.topology.dead_letters is None:
        decoded = decoded.where(_or_fail(found.error(_FOUND), table.only_topic))
    if node.how == "inner":
        decoded = decoded.where(~found.is_null(_FOUND))
    lefts, rights = value_names(rows), found.columns(_FOUND)
    names = decoded.select(*rights).columns
    right = [each.alias(new) for each, new in zip(rights, joined_names(lefts, names), strict=True)]
    return decoded.select(*columns(lefts), *right, *columns(our_names(rows)))


def _check_key(node: StreamTableJoin, wanted: DataType, held: DataType) -> None:
    if wanted.simpleString() != held.simpleString():
        raise StreamsError(
            f"{node.name}: a {wanted.simpleString()} is looked up in a table whose keys are {held.simpleString()}",
            'Cast what is looked up: on="CAST(... AS ...)".',
        )


def _or_fail(error: Column, topic: str) -> Column:
    from pyspark.sql import functions as F

    refused = F.raise_error(F.concat(F.lit(f"a record of the global table {topic} was refused: "), error))
    return F.when(error.isNull(), F.lit(True)).otherwise(refused.cast("boolean"))


def _lookup(table: GlobalTopic) -> Any:
    from pyspark.sql import functions as F

    def look(batches: Iterator[pa.Array]) -> Iterator[pa.Array]:
        copy = copy_of(table)
        for keys in batches:
            yield pa.array(copy.find(keys.to_pylist(maps_as_pydicts="strict")), pa.binary())

    # The table changes: Spark must not take two answers for one.
    return F.arrow_udf(look, "binary").asNondeterministic()  # type: ignore[call-overload]


def _topic_of(table: Source, context: Context) -> GlobalTopic:
    given = {"subscribe": table.only_topic, **client_options(context.settings)}
    fetch = parse_source_options(given, OptionScope.BATCH_READ).fetch
    key, is_bare = _key_format(table, context)
    skips = context.plan.topology.dead_letters is not None
    settings = tuple(sorted(fetch.settings.items()))
    return GlobalTopic(table.only_topic, key, is_bare, table.refresh_ms, skips, settings, fetch.is_direct)


def _key_format(table: Source, context: Context) -> tuple[PayloadFormat, bool]:
    from pyspark.sql.types import StructType

    match table.key.kind:
        case FormatKind.TEXT:
            return TEXT, False
        case FormatKind.RAW:
            return BYTES, False
        case FormatKind.REGISTRY:
            return registry_format(table, "key", context), False
    kind = json_type(table.key)
    if isinstance(kind, StructType):
        return json_format(kind), False
    return json_format(StructType().add("key", kind)), True


def _joined(rows: DataFrame, table: Source, records: DataFrame, context: Context) -> DataFrame:
    """With a frame of the table's records, as tests have it."""
    from pyspark.sql import functions as F

    key = decoding(table, "key", context, F.col("key"))
    decoded = key.put_into(records.where("key IS NOT NULL"), _LOOKUP)
    keyed = decoded.select(key.whole(_LOOKUP).alias("_held"), "value", "partition", "offset")
    latest = keyed.groupBy("_held").agg(F.max_by("value", F.struct("partition", "offset")).alias(_PAYLOAD))
    return rows.join(F.broadcast(latest), column(_LOOKUP) == column("_held"), "left").drop("_held")
