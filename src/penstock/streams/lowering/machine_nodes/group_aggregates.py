"""Aggregates of tables and of sliding windows: few functions, each of which can be made of a group's members.

A table's row that changes leaves its group and joins another. Spark's own sums take the old row back by its sign; the
smallest, the largest and the list need the members of the group, as do those of a sliding window. Spark computes with
the members, as arrays, so that types and nulls are as in its aggregates.
"""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING, TypeAlias

from penstock.streams.lowering.columns import column, columns, refuse_our_names
from penstock.streams.lowering.internal_json import to_json
from penstock.streams.lowering.machine_nodes.messages import (
    GROUP,
    group_columns,
    lines,
    messages,
    object_text,
    our_columns,
    read_text,
    window_columns,
    with_group,
)
from penstock.streams.lowering.stateful.machine_adapter import MESSAGE_COLUMNS, apply_machine
from penstock.streams.machines.members import MembersMachine
from penstock.streams.machines.regroups import RegroupingMachine
from penstock.streams.machines.sliding_windows import SlidingMachine
from penstock.streams.machines.summary import Members
from penstock.streams.topology.expressions import KnownAggregate, known_aggregate
from penstock.streams.topology.nodes import KEY, NULL, OFFSET, PARTITION, TIMESTAMP, Aggregate, Expression

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType, StructType

    from penstock.streams.lowering.context import Context

Group: TypeAlias = tuple[tuple[str, Expression], ...]
_SUMMED = frozenset({"count", "sum", "avg"})
_MEMBERS = "_members"


class _Known:
    """The aggregates of one input: `argument_0`, ... are what they are made of, and `kinds` their types."""

    def __init__(self, node: Aggregate, number: int, rows: DataFrame, first: int = 0) -> None:
        from pyspark.sql import functions as F

        named = node.columns[number]
        refuse_our_names((name for name, _ in (*node.group[number], *named)), node.name)
        self.names = [name for name, _ in named]
        self.known = [known_aggregate(each, f"{node.name} ({name})") for name, each in named]
        self.at = [f"argument_{first + position}" for position in range(len(named))]
        self.arguments = [F.lit(True) if each.argument == "*" else F.expr(each.argument) for each in self.known]
        self.argument_kinds: StructType = rows.select(
            *(each.alias(at) for each, at in zip(self.arguments, self.at, strict=True))
        ).schema
        sums = [f"{'sum' if each.function == 'avg' else each.function}({each.argument})" for each in self.known]
        self.kinds = rows.groupBy().agg(*(F.expr(f"{each.function}({each.argument})") for each in self.known)).schema
        self.sum_kinds = rows.groupBy().agg(*map(F.expr, sums)).schema

    def text(self) -> Column:
        return object_text(list(zip(self.at, self.arguments, strict=True)))

    def each(self) -> list[tuple[str, KnownAggregate, str, DataType, DataType]]:
        """Name, aggregate, its argument's column, the type of the result, and that of the sum behind an average."""
        kinds = [field.dataType for field in self.kinds.fields]
        sums = [field.dataType for field in self.sum_kinds.fields]
        return list(zip(self.names, self.known, self.at, kinds, sums, strict=True))


def lower_table_aggregate(node: Aggregate, inputs: list[DataFrame], context: Context) -> DataFrame:
    from pyspark.sql import functions as F

    rows = inputs[0].where(column(KEY).isNotNull())
    known = _Known(node, 0, rows)
    changes, kind = regrouped(rows, node.group[0], known.text(), context)
    if all(each.function in _SUMMED for each in known.known):
        return _summed(node, known, changes, kind)
    made = apply_machine(told_to_groups(changes), MembersMachine(), context)
    key = read_text(column("key"), kind)
    counted = _of_members(made.withColumn("partition", F.lit(0)).withColumn(GROUP, key), [known])
    shown = group_columns(column(GROUP), node.group[0]) if node.group[0] else []
    return counted.select(*shown, *_named([known]), *our_columns(column(GROUP)))


def regrouped(rows: DataFrame, group: Group, text: Column, context: Context) -> tuple[DataFrame, DataType]:
    """The rows that join and leave groups, from `RegroupingMachine`, and the type of a group. `text` is the kept part
    of a row."""
    from pyspark.sql import functions as F

    grouped = with_group(rows, group)
    kind = grouped.schema[GROUP].dataType
    value = F.when(~column(NULL), lines(to_json(column(GROUP), kind), text))
    return apply_machine(messages(grouped, value=value), RegroupingMachine(), context), kind


def told_to_groups(changes: DataFrame) -> DataFrame:
    """Messages to a machine that has the members of groups: a value is the sign, the member and its text, in lines."""
    from pyspark.sql import functions as F

    value = F.concat_ws("\n", F.col("sign").cast("string"), "member", "value").alias("value")
    told = changes.select(F.lit(0).alias("side"), "key", "micros", "partition", "offset", value)
    return told.select(*MESSAGE_COLUMNS)


def _summed(node: Aggregate, known: _Known, changes: DataFrame, kind: DataType) -> DataFrame:
    """Spark's aggregates over what joins and what leaves. Without members a group has a count of 0, and no sum."""
    from pyspark.sql import functions as F

    read = changes.withColumn("_read", read_text(column("value"), known.argument_kinds))
    signed = read.withColumn(GROUP, read_text(column("key"), kind))
    made = []
    for name, each, at, result, total in known.each():
        argument = column("_read").getField(at)
        count = F.sum(F.when(argument.isNotNull(), column("sign")).otherwise(F.lit(0))).cast("bigint")
        if each.function == "count":
            made.append(count.alias(name))
            continue
        typed = argument.cast(total)
        summed = F.sum(F.when(column("sign") > 0, typed).otherwise(-typed))
        value = summed if each.function == "sum" else summed / count
        made.append(F.when(count > 0, value).cast(result).alias(name))
    last = [
        F.timestamp_micros(F.max("micros")).alias(TIMESTAMP),
        F.max("partition").alias(PARTITION),
        F.max("offset").alias(OFFSET),
    ]
    counted = signed.groupBy(column(GROUP)).agg(*made, *last)
    shown = group_columns(column(GROUP), node.group[0]) if node.group[0] else []
    ours = [column(GROUP).alias(KEY), column(TIMESTAMP), F.lit(False).alias(NULL), column(PARTITION), column(OFFSET)]
    return counted.select(*shown, *columns(known.names), *ours)


def lower_sliding_aggregate(node: Aggregate, inputs: list[DataFrame], context: Context) -> DataFrame:
    """Of several inputs, each row has only its own side's arguments; the others are null and do not count."""
    from pyspark.sql import functions as F

    assert node.window is not None
    sides: list[_Known] = []
    told: list[DataFrame] = []
    kind: DataType | None = None
    for number, (rows, group) in enumerate(zip(inputs, node.group, strict=True)):
        grouped = with_group(rows.where(~column(NULL)), group).where(column(GROUP).isNotNull())
        known = _Known(node, number, rows, sum(len(each.names) for each in sides))
        sides.append(known)
        kind = grouped.schema[GROUP].dataType if kind is None else kind
        told.append(messages(grouped, number, key=GROUP, value=known.text()))
    assert kind is not None
    machine = SlidingMachine(node.window.size_ms, node.is_final, Members())
    all_told = reduce(lambda one, other: one.unionByName(other), told)
    made = apply_machine(all_told, machine, context)
    key = read_text(column("key"), kind)
    counted = _of_members(made.withColumn("partition", F.lit(0)).withColumn(GROUP, key), sides)
    of_key, bounds = window_columns(column(GROUP))
    shown = group_columns(column(GROUP), node.group[0]) if node.group[0] else []
    return counted.select(*shown, *bounds, *_named(sides), *our_columns(of_key))


def _of_members(made: DataFrame, sides: list[_Known]) -> DataFrame:
    """With a column for each aggregate, from the texts in `members`. It has the argument's name, with `_made` behind:
    an author's names may be those of a machine's columns, such as `start`."""
    from pyspark.sql import functions as F
    from pyspark.sql.types import StructType

    arguments = StructType([field for side in sides for field in side.argument_kinds.fields])
    read = made.withColumn(_MEMBERS, F.transform("members", lambda text: read_text(text, arguments)))
    for side in sides:
        for _, each, at, kind, total in side.each():
            read = read.withColumn(f"{at}_made", _of_array(each.function, at, kind, total))
    return read


def _named(sides: list[_Known]) -> list[Column]:
    return [column(f"{at}_made").alias(name) for side in sides for name, at in zip(side.names, side.at, strict=True)]


def _of_array(function: str, at: str, kind: DataType, total: DataType) -> Column:
    from pyspark.sql import functions as F

    given = F.transform(column(_MEMBERS), lambda member: member.getField(at))
    values = F.filter(given, lambda value: value.isNotNull())
    if function == "collect_list":
        return values
    count = F.size(values)
    summed = F.aggregate(values, F.lit(0).cast(total), lambda one, other: (one + other.cast(total)).cast(total))
    made = {
        "count": lambda: count,
        "min": lambda: F.array_min(values),
        "max": lambda: F.array_max(values),
        "sum": lambda: F.when(count > 0, summed),
        "avg": lambda: F.when(count > 0, summed / count),
    }[function]()
    # Values as they are have their type already; Spark refuses to cast a struct in a list to one that is never null.
    return made if function in ("collect_list", "min", "max") else made.cast(kind)
