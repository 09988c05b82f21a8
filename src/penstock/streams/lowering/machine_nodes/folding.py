"""A Python function over the rows of a group, with windows or without."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.pipelines.steps.kinds import columns_of
from penstock.streams.lowering.columns import column, columns, refuse_our_names, value_names
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
from penstock.streams.lowering.stateful.applying import apply_machine
from penstock.streams.machines.folding import FoldMachine, WindowFoldMachine
from penstock.streams.machines.machine import Machine
from penstock.streams.machines.sessions import SessionFoldMachine
from penstock.streams.machines.sliding import SlidingMachine
from penstock.streams.machines.summary import Folding
from penstock.streams.machines.values import Reader
from penstock.streams.topology.functions import function_name
from penstock.streams.topology.nodes import KEY, NULL, TIMESTAMP, Fold
from penstock.streams.topology.windows import Window, WindowKind

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from penstock.streams.lowering.context import Context


def lower_fold(node: Fold, inputs: list[DataFrame], context: Context) -> DataFrame:
    """The function sees the value's columns, `_key` and `_timestamp`. The state's columns hide the group's."""
    from pyspark.sql import functions as F

    rows = with_group(inputs[0].where(~column(NULL)), node.group).where(column(GROUP).isNotNull())
    kind = columns_of(node.columns)
    refuse_our_names(kind.names, node.name)
    seen = [*value_names(inputs[0]), KEY, TIMESTAMP]
    folding = Folding(
        node.function,
        None if node.initial is None else dict(node.initial),
        tuple(kind.names),
        Reader(rows.select(*columns(seen)).schema.jsonValue()),
        Reader(kind.jsonValue()),
        node.name,
    )
    told = messages(rows, key=GROUP, value=object_text([(name, column(name)) for name in seen]))
    machine = _machine(folding, node.window, node.is_final)
    made = apply_machine(told, machine, context)
    key = read_text(column("key"), rows.schema[GROUP].dataType)
    made = made.withColumn("partition", F.lit(0)).withColumn(GROUP, key)
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
            return SessionFoldMachine(folding, window.size_ms)
    return WindowFoldMachine(folding, window.size_ms, window.every_ms, is_final)
