"""A Python function over the rows of a group, with windows or without."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from penstock.pipelines.steps.kinds import columns_of
from penstock.streams.lowering.columns import column, columns, refuse_our_names, value_names
from penstock.streams.lowering.machine_nodes.group_aggregates import regrouped, told_to_groups
from penstock.streams.lowering.machine_nodes.messages import (
    GROUP,
    fields_of,
    group_columns,
    messages,
    object_text,
    our_columns,
    read_made,
    read_text,
    window_columns,
    with_group,
)
from penstock.streams.lowering.stateful.machine_adapter import apply_machine
from penstock.streams.machines.folds import FoldMachine, TableFoldMachine, WindowFoldMachine
from penstock.streams.machines.machine import Machine
from penstock.streams.machines.sessions import SessionFoldMachine
from penstock.streams.machines.sliding_windows import SlidingMachine
from penstock.streams.machines.summary import Folding
from penstock.streams.machines.values import ValueReader
from penstock.streams.topology.functions import function_name
from penstock.streams.topology.nodes import KEY, NULL, TIMESTAMP, Fold
from penstock.streams.topology.windows import Window, WindowKind

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType, StructType

    from penstock.streams.lowering.context import Context


def lower_fold(node: Fold, inputs: list[DataFrame], context: Context) -> DataFrame:
    """The function sees the value's columns, `_key` and `_timestamp`. The state's columns hide the group's."""
    kind = columns_of(node.columns)
    refuse_our_names(kind.names, node.name)
    if node.subtract is not None:
        return _lower_table_fold(node, inputs[0], kind, node.subtract, context)
    rows = with_group(inputs[0].where(~column(NULL)), node.group).where(column(GROUP).isNotNull())
    seen = _seen(inputs[0])
    told = messages(rows, key=GROUP, value=_row_text(seen))
    machine = _machine(_folding(node, node.function, rows, seen), node.window, node.is_final)
    made = apply_machine(told, machine, context)
    return _result(node, made, kind, rows.schema[GROUP].dataType)


def _lower_table_fold(
    node: Fold, table: DataFrame, kind: StructType, subtract: Callable[[Any, Any], Any], context: Context
) -> DataFrame:
    rows, seen = table.where(column(KEY).isNotNull()), _seen(table)
    changes, group_kind = regrouped(rows, node.group, _row_text(seen), context)
    machine = TableFoldMachine(_folding(node, node.function, rows, seen), _folding(node, subtract, rows, seen))
    return _result(node, apply_machine(told_to_groups(changes), machine, context), kind, group_kind)


def _seen(rows: DataFrame) -> list[str]:
    return [*value_names(rows), KEY, TIMESTAMP]


def _row_text(seen: list[str]) -> Column:
    return object_text([(name, column(name)) for name in seen])


def _folding(node: Fold, function: Callable[[Any, Any], Any], rows: DataFrame, seen: list[str]) -> Folding:
    kind = columns_of(node.columns)
    return Folding(
        function,
        None if node.initial is None else dict(node.initial),
        tuple(kind.names),
        ValueReader(rows.select(*columns(seen)).schema.jsonValue()),
        ValueReader(kind.jsonValue()),
        node.name,
    )


def _result(node: Fold, made: DataFrame, kind: StructType, group_kind: DataType) -> DataFrame:
    from pyspark.sql import functions as F

    made = made.withColumn("partition", F.lit(0)).withColumn(GROUP, read_text(column("key"), group_kind))
    made = read_made(made, "_state", kind, f"{node.name}: what {function_name(node.function)} gave")
    taken = {name.lower() for name in kind.names}
    group = group_columns(column(GROUP), node.group) if node.group else []
    shown = [each for each, (name, _) in zip(group, node.group, strict=True) if name.lower() not in taken]
    of_key, bounds = (column(GROUP), []) if node.window is None else window_columns(column(GROUP))
    ours = our_columns(of_key, column("value").isNull())
    return made.select(*shown, *bounds, *fields_of("_state", kind.names), *ours)


def _machine(folding: Folding, window: Window | None, is_final: bool) -> Machine:
    if window is None:
        return FoldMachine(folding)
    match window.kind:
        case WindowKind.SLIDING:
            return SlidingMachine(window.size_ms, is_final, folding)
        case WindowKind.SESSION:
            return SessionFoldMachine(folding, window.size_ms, is_final)
    return WindowFoldMachine(folding, window.size_ms, window.every_ms, is_final)
