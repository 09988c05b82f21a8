"""Joins by Spark's own state: of two streams within a window, and of two tables by key."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from penstock.pipelines.steps.registries import free_names
from penstock.streams.lowering.columns import column, columns, value_names
from penstock.streams.lowering.positions import has_order
from penstock.streams.lowering.watermarks import EVENT_TIME, with_event_time
from penstock.streams.topology.errors import StreamsError
from penstock.streams.topology.nodes import (
    KEY,
    NULL,
    OFFSET,
    OURS,
    PARTITION,
    TIMESTAMP,
    How,
    StreamJoin,
    TableJoin,
)
from penstock.streams.topology.windows import JoinWindow

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from penstock.streams.lowering.context import Context

_LEFT, _RIGHT = "_left", "_right"
_SIDE, _KEYLESS = "_side", "_keyless"
_HOW = {"inner": "inner", "left": "left_outer", "outer": "full_outer"}


def joined_names(left: Sequence[str], right: Sequence[str]) -> list[str]:
    """The names of the right's columns behind the left's: names that the left has, too, get `_right` behind."""
    taken = {name.lower() for name in left}
    wanted = [f"{name}_right" if name.lower() in taken else name for name in right]
    return free_names(wanted, (*OURS, *left))


def check_keys(where: str, left: DataFrame, right: DataFrame) -> None:
    one, two = (rows.schema[KEY].dataType.simpleString() for rows in (left, right))
    if one != two:
        raise StreamsError(
            f"{where}: the left's key is {one} and the right's is {two}",
            "Give both the same type of key, with select_key(), or with key= where the topics are named.",
        )


def lower_stream_join(node: StreamJoin, inputs: list[DataFrame], context: Context) -> DataFrame:
    """Rows without a value join nothing and are left out; so are those without a key, except that an outer side keeps
    them. Both ends of the window count, in milliseconds."""
    from pyspark.sql import functions as F

    left, right = inputs
    check_keys(node.name, left, right)
    sides = []
    for number, (rows, is_kept) in enumerate(((left, node.how != "inner"), (right, node.how == "outer"))):
        valued = rows.where(~column(NULL))
        kept = valued if is_kept else valued.where(column(KEY).isNotNull())
        # In a join of streams Spark takes null keys for equal, unless another condition tells them apart.
        told = kept.withColumn(_KEYLESS, F.when(column(KEY).isNull(), F.lit(number + 1)).otherwise(F.lit(0)))
        delay_ms = join_delay_ms(node.window, context.delay_ms(node.inputs[number]))
        sides.append(with_event_time(told, delay_ms).alias((_LEFT, _RIGHT)[number]))
    window = node.window
    condition = F.expr(
        f"{_LEFT}.{KEY} = {_RIGHT}.{KEY} AND {_LEFT}.{_KEYLESS} = {_RIGHT}.{_KEYLESS}"
        f" AND {_RIGHT}.{EVENT_TIME} >= {_LEFT}.{EVENT_TIME} - INTERVAL {window.before_ms} MILLISECONDS"
        f" AND {_RIGHT}.{EVENT_TIME} <= {_LEFT}.{EVENT_TIME} + INTERVAL {window.after_ms} MILLISECONDS"
    )
    joined = sides[0].join(sides[1], condition, _HOW[node.how])
    lefts, rights = value_names(left), value_names(right)
    values = [_of(_LEFT, name).alias(name) for name in lefts]
    values += [_of(_RIGHT, name).alias(new) for name, new in zip(rights, joined_names(lefts, rights), strict=True)]
    both = {name: (_of(_LEFT, name), _of(_RIGHT, name)) for name in (KEY, TIMESTAMP, PARTITION, OFFSET)}
    return joined.select(
        *values,
        F.coalesce(*both[KEY]).alias(KEY),
        F.greatest(*both[TIMESTAMP]).alias(TIMESTAMP),
        F.lit(False).alias(NULL),
        F.greatest(*both[PARTITION]).alias(PARTITION),
        F.greatest(*both[OFFSET]).alias(OFFSET),
    )


def join_delay_ms(window: JoinWindow, grace_ms: int) -> int:
    """How late a row may be: as long as its own window is open. Spark leaves out later rows, and waits so long with
    rows without a match; Kafka waits for the grace alone and may emit such a row twice."""
    return grace_ms + max(window.before_ms, window.after_ms, 0)


def _of(side: str, name: str) -> Column:
    from pyspark.sql import functions as F

    from penstock.pipelines.sql_identifiers import quote

    return F.col(f"{side}.{quote(name)}")


def lower_table_join(node: TableJoin, inputs: list[DataFrame], context: Context) -> DataFrame:
    """One aggregate over the rows of both: the latest of each side. A key whose sides give no result is deleted. A key
    that cannot have had a result, because a required side never had it, is left out."""
    left, right = inputs
    check_keys(node.name, left, right)
    sides = [_tagged(rows, side) for side, rows in enumerate(inputs)]
    latest = [_latest(node, side, context) for side in range(2)]
    from pyspark.sql import functions as F

    last = [F.max(column(name)).alias(name) for name in (PARTITION, OFFSET)]
    both = sides[0].unionByName(sides[1], allowMissingColumns=True).groupBy(KEY).agg(*map(F.expr, latest), *last)
    is_there = _is_result(node.how)
    lefts, rights = value_names(left), value_names(right)
    values = [F.when(is_there, column(_LEFT).getField(name)).alias(name) for name in lefts]
    named = zip(rights, joined_names(lefts, rights), strict=True)
    values += [F.when(is_there, column(_RIGHT).getField(name)).alias(new) for name, new in named]
    times = [column(side).getField(TIMESTAMP) for side in (_LEFT, _RIGHT)]
    return both.where(_is_told(node.how)).select(
        *values,
        column(KEY),
        F.greatest(*times).alias(TIMESTAMP),
        (~is_there).alias(NULL),
        *columns((PARTITION, OFFSET)),
    )


def _latest(node: TableJoin, side: int, context: Context) -> str:
    """As SQL. The largest offset of its partition or, where a key's rows come from several, the latest time."""
    name = (_LEFT, _RIGHT)[side]
    is_ordered = has_order(context.plan.topology, node.inputs[side], context.plan.cuts)
    place = f"{PARTITION}, {OFFSET}" if is_ordered else f"{name}.{TIMESTAMP}, {PARTITION}, {OFFSET}"
    return f"max_by({name}, struct({place})) FILTER (WHERE {_SIDE} = {side}) AS {name}"


def _tagged(rows: DataFrame, side: int) -> DataFrame:
    from pyspark.sql import functions as F

    row = F.struct(*columns(value_names(rows)), column(NULL), column(TIMESTAMP)).alias((_LEFT, _RIGHT)[side])
    keyed = rows.where(column(KEY).isNotNull())
    return keyed.select(column(KEY), row, *columns((PARTITION, OFFSET)), F.lit(side).alias(_SIDE))


def _is_result(how: How) -> Column:
    has_left, has_right = (_has(side) for side in (_LEFT, _RIGHT))
    return {"inner": has_left & has_right, "left": has_left, "outer": has_left | has_right}[how]


def _has(side: str) -> Column:
    from pyspark.sql import functions as F

    return F.coalesce(~column(side).getField(NULL), F.lit(False))


def _is_told(how: How) -> Column:
    from pyspark.sql import functions as F

    has_had_left, has_had_right = (column(side).isNotNull() for side in (_LEFT, _RIGHT))
    return {"inner": has_had_left & has_had_right, "left": has_had_left, "outer": F.lit(True)}[how]
