"""Whether the rows of a node are a stream's or a table's."""

from __future__ import annotations

from penstock.streams.topology.nodes import (
    Aggregate,
    Fold,
    ForeignKeyJoin,
    Process,
    Retyped,
    Shape,
    Source,
    StreamJoin,
    StreamTableJoin,
    TableJoin,
    Topology,
)


def shape_of(topology: Topology, name: str) -> Shape:
    node = topology.node(name)
    match node:
        case Source(shape=shape) | Retyped(shape=shape) | Process(shape=shape):
            return shape
        case Aggregate() | Fold() | TableJoin() | ForeignKeyJoin():
            return Shape.TABLE
        case StreamJoin() | StreamTableJoin():
            return Shape.STREAM
    return shape_of(topology, node.inputs[0])
