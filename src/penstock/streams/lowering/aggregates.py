"""Aggregates by Spark's own state: unwindowed, tumbling, hopping, sessions; of one stream or of several."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.streams.lowering.columns import column, columns, expression, refuse_our_names
from penstock.streams.lowering.machine_nodes import lower_sliding_aggregate, lower_table_aggregate
from penstock.streams.topology.nodes import (
    KEY,
    NULL,
    OFFSET,
    PARTITION,
    TIMESTAMP,
    WINDOW_END,
    WINDOW_START,
    Aggregate,
    Shape,
)
from penstock.streams.topology.windows import Window, WindowKind

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from penstock.streams.lowering.context import Context

_WINDOW, _GROUP = "_window", "_group"


def lower_aggregate(node: Aggregate, inputs: list[DataFrame], context: Context) -> DataFrame:
    if node.input_shape is Shape.TABLE:
        return lower_table_aggregate(node, inputs, context)
    if node.window is not None and node.window.kind is WindowKind.SLIDING:
        return lower_sliding_aggregate(node, inputs, context)
    return _aggregate(node, inputs)


def _aggregate(node: Aggregate, inputs: list[DataFrame]) -> DataFrame:
    (rows,) = inputs
    (group,) = node.group
    (aggregates,) = node.columns
    refuse_our_names((name for name, _ in (*group, *aggregates)), node.name)
    keyed = grouped_rows(rows, group)
    made = [expression(each).alias(name) for name, each in aggregates]
    by = [column(_GROUP), *([] if node.window is None else [_window_of(node.window).alias(_WINDOW)])]
    counted = keyed.groupBy(*by).agg(*made, *_ours())
    return _result(counted, [name for name, _ in group], [name for name, _ in aggregates], node.window)


def grouped_rows(rows: DataFrame, group: tuple[tuple[str, object], ...]) -> DataFrame:
    """Rows that count, with the column `_group`: the key as it is, the only group value, or a struct of them."""
    from pyspark.sql import functions as F

    if not group:
        by = column(KEY)
    elif len(group) == 1:
        by = expression(group[0][1])  # type: ignore[arg-type]
    else:
        by = F.struct(*(expression(each).alias(name) for name, each in group))  # type: ignore[arg-type]
    return rows.where(~column(NULL)).withColumn(_GROUP, by).where(column(_GROUP).isNotNull())


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
    return counted.select(*shown, *bounds, *columns(aggregates), *ours)
