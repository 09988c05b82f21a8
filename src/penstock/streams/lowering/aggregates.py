"""Aggregates by Spark's own state: unwindowed, tumbling, hopping, sessions; of one stream or of several."""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING, TypeAlias

from penstock.pipelines.progress.query_progress import LEFT_OUT
from penstock.streams.lowering.cogroups import only_where
from penstock.streams.lowering.columns import column, columns, expression, refuse_our_names, value_names
from penstock.streams.lowering.machine_nodes import lower_sliding_aggregate, lower_table_aggregate
from penstock.streams.topology.errors import StreamsError
from penstock.streams.topology.nodes import (
    KEY,
    NULL,
    OFFSET,
    PARTITION,
    TIMESTAMP,
    WINDOW_END,
    WINDOW_START,
    Aggregate,
    Expression,
    Shape,
)
from penstock.streams.topology.windows import Window, WindowKind

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from penstock.streams.lowering.context import Context

_WINDOW, _GROUP, _SIDE = "_window", "_group", "_side"
Group: TypeAlias = tuple[tuple[str, Expression], ...]


def lower_aggregate(node: Aggregate, inputs: list[DataFrame], context: Context) -> DataFrame:
    if node.input_shape is Shape.TABLE:
        return lower_table_aggregate(node, inputs, context)
    if node.window is not None and node.window.kind is WindowKind.SLIDING:
        return lower_sliding_aggregate(node, inputs, context)
    return _aggregate(node, inputs)


def _aggregate(node: Aggregate, inputs: list[DataFrame]) -> DataFrame:
    group = [name for name, _ in node.group[0]]
    made = [pair for columns_of_input in node.columns for pair in columns_of_input]
    refuse_our_names((*group, *(name for name, _ in made)), node.name)
    if len(inputs) == 1:
        keyed = grouped_rows(inputs[0], node.group[0], node.name)
        aggregates = [(name, expression(each)) for name, each in made]
    else:
        keyed, aggregates = _cogrouped(node, inputs), _sided(node)
    by = [column(_GROUP), *([] if node.window is None else [_window_of(node.window).alias(_WINDOW)])]
    counted = keyed.groupBy(*by).agg(*(each.alias(name) for name, each in aggregates), *_ours())
    if node.window is not None and node.window.kind is WindowKind.HOPPING:
        counted = counted.where(f"{_WINDOW}.start >= timestamp_millis(0)")  # Kafka's windows begin with 1970
    return _result(counted, group, [name for name, _ in aggregates], node.window)


def grouped_rows(rows: DataFrame, group: Group, name: str) -> DataFrame:
    """Rows that count, with the column `_group`: the key as it is, the only group value, or a struct of them. The
    others, which have none, are counted under the node's name."""
    from pyspark.sql import functions as F

    if not group:
        by = column(KEY)
    elif len(group) == 1:
        by = expression(group[0][1])
    else:
        by = F.struct(*(expression(each).alias(name) for name, each in group))
    keyed = rows.where(~column(NULL)).withColumn(_GROUP, by)
    without = F.count_if(column(_GROUP).isNull()).alias("null_keys")
    return keyed.observe(f"{LEFT_OUT}.{name}", without).where(column(_GROUP).isNotNull())


def _cogrouped(node: Aggregate, inputs: list[DataFrame]) -> DataFrame:
    """The rows of all inputs, in one frame, with the number of their side. Columns of one name have one type."""
    from pyspark.sql import functions as F

    names = [name for name, _ in node.group[0]]
    sides = []
    for side, (rows, given) in enumerate(zip(inputs, node.group, strict=True)):
        group = tuple((name, each) for name, (_, each) in zip(names, given, strict=True))
        keyed = grouped_rows(rows, group, f"{node.name}.{side}")
        kept = [*value_names(rows), _GROUP, TIMESTAMP, PARTITION, OFFSET]
        sides.append(keyed.select(*columns(kept), F.lit(side).alias(_SIDE)))
    _check_types(node.name, sides)
    return reduce(lambda one, other: one.unionByName(other, allowMissingColumns=True), sides)


def _check_types(where: str, sides: list[DataFrame]) -> None:
    kinds: dict[str, str] = {}
    for rows in sides:
        for field in rows.schema.fields:
            kind = field.dataType.simpleString()
            if kinds.setdefault(field.name, kind) != kind:
                what = "the key" if field.name == _GROUP else f"the column {field.name!r}"
                raise StreamsError(
                    f"{where}: {what} is {kinds[field.name]} in one of the streams and {kind} in another",
                    "Streams that are grouped together have one type of key, and one type for columns of one name:"
                    " map() gives a column another type, select() another name.",
                )


def _sided(node: Aggregate) -> list[tuple[str, Column]]:
    made = []
    for side, given in enumerate(node.columns):
        for name, each in given:
            if not isinstance(each, str):
                raise StreamsError(
                    f"{node.name}: {name} is a Column, and streams that are grouped together take SQL alone",
                    'Write it as text, such as "sum(amount)".',
                )
            made.append((name, expression(only_where(each, f"{_SIDE} = {side}"))))
    return made


def _window_of(window: Window) -> Column:
    from pyspark.sql import functions as F

    size = f"{window.size_ms} milliseconds"
    if window.kind is WindowKind.SESSION:
        return F.session_window(column(TIMESTAMP), size)
    return F.window(column(TIMESTAMP), size, f"{window.every_ms} milliseconds")


def _ours() -> list[Column]:
    """The largest of each. One by one: Spark aggregates plain numbers in a hash table, but sorts for structs."""
    from pyspark.sql import functions as F

    return [F.max(column(name)).alias(name) for name in (TIMESTAMP, PARTITION, OFFSET)]


def _result(counted: DataFrame, group: list[str], aggregates: list[str], window: Window | None) -> DataFrame:
    from pyspark.sql import functions as F

    by = column(_GROUP)
    shown = [by.alias(group[0])] if len(group) == 1 else [by.getField(name).alias(name) for name in group]
    key, bounds = by, []
    if window is not None:
        start, end = column(_WINDOW).getField("start"), column(_WINDOW).getField("end")
        if window.kind is WindowKind.SESSION:  # Kafka's session ends with its last record, Spark's a gap later
            end = end - F.expr(f"INTERVAL {window.size_ms} MILLISECONDS")
        bounds = [start.alias(WINDOW_START), end.alias(WINDOW_END)]
        ends = [F.unix_millis(start).alias("start"), F.unix_millis(end).alias("end")]
        key = F.struct(by.alias("key"), *ends)
    ours = [key.alias(KEY), column(TIMESTAMP), F.lit(False).alias(NULL), column(PARTITION), column(OFFSET)]
    if window is not None and window.kind is WindowKind.HOPPING:  # Kafka has no windows that begin before 1970
        counted = counted.where(F.unix_millis(column(_WINDOW).getField("start")) >= 0)
    return counted.select(*shown, *bounds, *columns(aggregates), *ours)
