"""The first of equal rows within a time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.streams.lowering.columns import column, columns, expression
from penstock.streams.lowering.watermarks import EVENT_TIME, with_event_time
from penstock.streams.topology.nodes import KEY, NULL, OFFSET, PARTITION, TIMESTAMP, Deduplicate

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from penstock.streams.lowering.context import Context

_ROW, _ROWS = "_row", "_rows"


def lower_deduplicate(node: Deduplicate, inputs: list[DataFrame], context: Context) -> DataFrame:
    """Rows without a value are left out. Without columns, by the key."""
    (rows,) = inputs
    chosen = [expression(each) for each in node.columns] or [column(KEY)]
    names = [f"_column_{number}" for number in range(len(chosen))]
    valued = rows.where(~column(NULL)).select(
        "*", *(each.alias(name) for each, name in zip(chosen, names, strict=True))
    )
    if rows.isStreaming:
        timed = with_event_time(valued, max(node.within_ms, context.delay_ms(node.inputs[0])))
        return timed.dropDuplicatesWithinWatermark(names).drop(*names, EVENT_TIME)
    return _first_in_batch(valued, rows.columns, names, node.within_ms)


def _first_in_batch(rows: DataFrame, kept: list[str], names: list[str], within_ms: int) -> DataFrame:
    """Streams alone have watermarks, so here a row is left out if it is at most that much later than the last row
    that stayed."""
    from pyspark.sql import functions as F

    row = F.struct(*columns(kept)).alias(_ROW)
    place = f"struct(x.{TIMESTAMP}, x.{PARTITION}, x.{OFFSET})"
    listed = rows.select(*names, row).groupBy(*names).agg(F.collect_list(_ROW).alias(_ROWS))
    other = place.replace("x.", "y.")
    ordered = (
        f"array_sort({_ROWS}, (x, y) -> CASE WHEN {place} < {other} THEN -1 WHEN {place} > {other} THEN 1 ELSE 0 END)"
    )
    is_new = f"s.last IS NULL OR x.{TIMESTAMP} > s.last + INTERVAL {within_ms} MILLISECONDS"
    first = f"named_struct('last', CAST(NULL AS TIMESTAMP), 'rows', slice({_ROWS}, 1, 0))"
    after = f"named_struct('last', x.{TIMESTAMP}, 'rows', concat(s.rows, array(x)))"
    firsts = f"aggregate({ordered}, {first}, (s, x) -> IF({is_new}, {after}, s), s -> s.rows)"
    return listed.select(F.explode(F.expr(firsts)).alias(_ROW)).select(
        *(column(_ROW).getField(name).alias(name) for name in kept)
    )
