"""Authors' own classes with state."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.pipelines.steps.kinds import columns_of
from penstock.streams.lowering.columns import column, refuse_our_names
from penstock.streams.lowering.machine_nodes.messages import (
    fields_of,
    messages,
    our_columns,
    read_made,
    read_text,
    value_schema,
)
from penstock.streams.lowering.row_functions import row_maker
from penstock.streams.lowering.stateful.machine_adapter import apply_machine
from penstock.streams.machines.processor_states import StateNames
from penstock.streams.machines.processors import ProcessMachine, slots_of
from penstock.streams.machines.values import ValueReader
from penstock.streams.topology.nodes import KEY, Process

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from penstock.streams.lowering.context import Context


def lower_process(node: Process, inputs: list[DataFrame], context: Context) -> DataFrame:
    """Rows without a key share the states of that key, and rows without a value are None."""
    (rows,) = inputs
    kind, key_kind = columns_of(node.columns), rows.schema[KEY].dataType
    refuse_our_names(kind.names, node.name)
    names = {
        name: StateNames(
            tuple(columns_of(slot.spec.columns).names),
            tuple(columns_of(slot.spec.key).names) if slot.spec.key else (),
        )
        for name, slot in slots_of(node.processor).items()
    }
    machine = ProcessMachine(
        node.processor,
        tuple(kind.names),
        names,
        ValueReader(key_kind.jsonValue()),
        ValueReader(value_schema(rows).jsonValue()),
        None if node.row_type is None else row_maker(node.row_type),
        node.name,
    )
    made = apply_machine(messages(rows), machine, context)
    read = read_made(made, "_value", kind, f"{node.name}: what {node.processor.__qualname__} gave")
    key = read_text(column("key"), key_kind)
    return read.select(*fields_of("_value", kind.names), *our_columns(key, column("value").isNull()))
