"""A stream with a table, and a table with a table by a foreign key."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.pipelines.errors import PipelineError
from penstock.streams.lowering.columns import column, expression, value_names
from penstock.streams.lowering.internal_json import to_json, value_json
from penstock.streams.lowering.joins import check_keys, joined_names
from penstock.streams.lowering.machine_nodes.messages import lines, messages, our_columns, read_text, value_schema
from penstock.streams.lowering.stateful.machine_adapter import MESSAGE_COLUMNS, apply_machine
from penstock.streams.machines.foreign_key import LeftMachine, RightMachine
from penstock.streams.machines.stream_table import TABLE, StreamTableMachine
from penstock.streams.topology.nodes import KEY, NULL, ForeignKeyJoin, StreamTableJoin

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from penstock.streams.lowering.context import Context

_FOREIGN = "_foreign"


def lower_stream_table_join(node: StreamTableJoin, inputs: list[DataFrame], context: Context) -> DataFrame:
    """With a table that is not global. A left join keeps rows without a key."""
    stream, table = inputs
    check_keys(node.name, stream, table)
    if node.how == "inner":
        stream = stream.where(column(KEY).isNotNull())
    both = messages(stream.where(~column(NULL))).unionByName(messages(table, TABLE))
    made = apply_machine(both, StreamTableMachine(node.how), context)
    key = read_text(column("key"), stream.schema[KEY].dataType)
    return made.select(*_both_values(stream, table), *our_columns(key))


def lower_foreign_key_join(node: ForeignKeyJoin, inputs: list[DataFrame], context: Context) -> DataFrame:
    from pyspark.sql import functions as F

    left, right = (rows.where(column(KEY).isNotNull()) for rows in inputs)
    asking = left.withColumn(_FOREIGN, expression(node.foreign_key))
    foreign, theirs = asking.schema[_FOREIGN].dataType, right.schema[KEY].dataType
    if foreign != theirs:
        raise PipelineError(
            f"{node.name}: the foreign key is {foreign.simpleString()} and the right table's key is"
            f" {theirs.simpleString()}",
            f"Write on= so that it gives {theirs.simpleString()}, or read the right table with another type of key.",
        )
    value = F.when(~column(NULL), lines(to_json(column(_FOREIGN), foreign), value_json(left)))
    asked = apply_machine(messages(asking, value=value), LeftMachine(), context)
    told = asked.select("*", F.lit(0).alias("side"), F.lit(0).alias("partition")).select(*MESSAGE_COLUMNS)
    made = apply_machine(told.unionByName(messages(right, 1)), RightMachine(node.how), context)
    key = read_text(column("key"), left.schema[KEY].dataType)
    return made.withColumn("partition", F.lit(0)).select(
        *_both_values(left, right), *our_columns(key, column("left").isNull())
    )


def _both_values(left: DataFrame, right: DataFrame) -> list[Column]:
    lefts, rights = value_names(left), value_names(right)
    of_left, of_right = (
        read_text(column(name), value_schema(rows)) for name, rows in (("left", left), ("right", right))
    )
    values = [of_left.getField(name).alias(name) for name in lefts]
    named = zip(rights, joined_names(lefts, rights), strict=True)
    return [*values, *(of_right.getField(name).alias(new) for name, new in named)]
