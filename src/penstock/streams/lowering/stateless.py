"""Nodes without state, as Spark's own expressions."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from penstock.streams.lowering.columns import (
    column,
    columns,
    expression,
    null_where_null,
    our_names,
    refuse_our_names,
    value_names,
    with_values,
    without_headers,
)
from penstock.streams.lowering.positions import come_from_pattern, merged_numbers
from penstock.streams.topology.errors import StreamsError
from penstock.streams.topology.nodes import (
    HEADERS,
    KEY,
    NULL,
    PARTITION,
    Filter,
    FlatMap,
    Map,
    Merge,
    Repartition,
    Retyped,
    SelectKey,
    Shape,
)
from penstock.streams.topology.shapes import shape_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from penstock.streams.lowering.context import Context


def lower_filter(node: Filter, inputs: list[DataFrame], context: Context) -> DataFrame:
    """A condition that is null (unknown) does not hold, negated or not; so every row is either in or out."""
    from pyspark.sql import functions as F

    (rows,) = inputs
    holds = F.coalesce(expression(node.condition), F.lit(False))
    is_in = ~column(NULL) & (~holds if node.is_negated else holds)
    if shape_of(context.plan.topology, node.inputs[0]) is Shape.STREAM:
        return rows.where(is_in)
    kept = [F.when(is_in, column(name)).alias(name) for name in value_names(rows)]
    ours = [(~is_in).alias(NULL) if name == NULL else column(name) for name in our_names(rows)]
    return rows.select(*kept, *ours)


def lower_map(node: Map, inputs: list[DataFrame], context: Context) -> DataFrame:
    """All expressions see the row as it was before."""
    (rows,) = inputs
    refuse_our_names((name for name, _ in node.columns), node.name)
    made = {name: null_where_null(rows, expression(each)).alias(name) for name, each in node.columns}
    if node.is_whole:
        return with_values(rows, list(made.values()))
    before = value_names(rows)
    # Spark takes names that differ in case for the same.
    by_name = {name.lower(): name for name in made}
    kept = [made.pop(by_name[name.lower()]) if name.lower() in by_name else column(name) for name in before]
    return with_values(rows, [*kept, *made.values()])


def lower_flat_map(node: FlatMap, inputs: list[DataFrame], context: Context) -> DataFrame:
    """Rows whose array is null or empty, or that have no value, are left out."""
    from pyspark.sql import functions as F
    from pyspark.sql.types import StructType

    (rows,) = inputs
    array, element = expression(node.array), "_element"
    exploded = rows.where(~column(NULL)).withColumn(element, F.explode(array))
    if node.into is not None:
        refuse_our_names((node.into,), node.name)
        kept = [name for name in value_names(rows) if name.lower() != node.into.lower()]
        return with_values(exploded, [*columns(kept), column(element).alias(node.into)], our_names(rows))
    kind = exploded.schema[element].dataType
    if not isinstance(kind, StructType):
        raise StreamsError(
            f"{node.name}: the array's elements are {kind.simpleString()}, which have no columns",
            'Say into="NAME" for the column that they go to.',
        )
    refuse_our_names(kind.names, node.name)
    values = [column(element).getField(name).alias(name) for name in kind.names]
    return with_values(exploded, values, our_names(rows))


def lower_select_key(node: SelectKey, inputs: list[DataFrame], context: Context) -> DataFrame:
    (rows,) = inputs
    return rows.withColumn(KEY, expression(node.key))


def lower_merge(node: Merge, inputs: list[DataFrame], context: Context) -> DataFrame:
    """By name. Headers stay only where all inputs have them. Partitions of several topics get numbers of their own."""
    all_have_headers = all(HEADERS in rows.columns for rows in inputs)
    numbers = merged_numbers(context.plan.topology, node, context.plan.cuts)
    numbered = inputs
    if max(numbers) > 0:
        is_hashed = come_from_pattern(context.plan.topology, node.name)
        numbering = _hashed if is_hashed else partial(_numbered, count=max(numbers) + 1)
        numbered = [numbering(rows, each) for rows, each in zip(inputs, numbers, strict=True)]
    first, *others = numbered if all_have_headers else [without_headers(rows) for rows in numbered]
    for number, other in enumerate(others, 2):
        _check_same_columns(node.name, first, other, number)
        first = first.unionByName(other)
    return first


def _numbered(rows: DataFrame, number: int, count: int) -> DataFrame:
    return rows.withColumn(PARTITION, column(PARTITION) * count + number)


def _hashed(rows: DataFrame, number: int) -> DataFrame:
    """As `_numbered`, where numbers of partitions are as large as numbers are."""
    from pyspark.sql import functions as F

    return rows.withColumn(PARTITION, F.hash(column(PARTITION), F.lit(number)))


def _check_same_columns(where: str, first: DataFrame, other: DataFrame, number: int) -> None:
    kinds = [{each.name: each.dataType.simpleString() for each in rows.schema.fields} for rows in (first, other)]
    one, two = kinds
    differing = sorted(name for name in one.keys() | two.keys() if one.get(name) != two.get(name))
    if differing:
        name = differing[0]
        raise StreamsError(
            f"{where}: streams with different columns cannot be merged: {name!r} is {one.get(name, 'not there')} in the"
            f" first and {two.get(name, 'not there')} in number {number}",
            "Give all of them the same columns with select(), or the same type of key with select_key().",
        )


def lower_retyped(node: Retyped, inputs: list[DataFrame], context: Context) -> DataFrame:
    """A table has no rows without a key."""
    (rows,) = inputs
    return rows.where(column(KEY).isNotNull()) if node.shape is Shape.TABLE else rows


def lower_repartition(node: Repartition, inputs: list[DataFrame], context: Context) -> DataFrame:
    """The plan cuts here: the query before writes these rows, and the one behind reads them."""
    return inputs[0]
