"""The nodes that may follow each other in one Spark query: a table, with the reasons for users.

Spark 4.3 chains nodes with state only in some orders. Where it does not, or where the result would be wrong, a topic
comes between: the first query writes it exactly once, the second one reads it committed.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Literal

from penstock.streams.topology.graces import rings_by_event_time
from penstock.streams.topology.nodes import (
    Aggregate,
    Deduplicate,
    Fold,
    ForeignKeyJoin,
    MapRows,
    Merge,
    Node,
    Peek,
    Process,
    Shape,
    Source,
    StreamJoin,
    StreamTableJoin,
    TableJoin,
    Topology,
)
from penstock.streams.topology.windows import WindowKind


class NodeKind(StrEnum):
    """The kind of a node for Spark."""

    STATELESS = "stateless"
    MERGE = "merge"  # several inputs, no state
    AGGREGATE = "aggregate"  # Spark's own, without a window
    WINDOW = "window"  # Spark's own aggregate of windows that emit each update
    FINAL_WINDOW = "final window"  # of windows that emit once; sessions always are
    INNER_JOIN = "inner join"  # of streams
    OUTER_JOIN = "outer join"  # of streams, left ones too
    DEDUPLICATION = "deduplication"
    MACHINE = "machine"  # transformWithState: functions of ours, or the author's, with state per key
    TIMED_MACHINE = "timed machine"  # the same, with timers by the time of events


STATEFUL = frozenset(NodeKind) - {NodeKind.STATELESS, NodeKind.MERGE}
# What Spark needs to know how late rows can be for.
TIMED = frozenset(
    {
        NodeKind.WINDOW,
        NodeKind.FINAL_WINDOW,
        NodeKind.INNER_JOIN,
        NodeKind.OUTER_JOIN,
        NodeKind.DEDUPLICATION,
        NodeKind.TIMED_MACHINE,
    }
)
MODES: dict[NodeKind, Literal["append", "update"]] = {
    NodeKind.AGGREGATE: "update",
    NodeKind.WINDOW: "update",
    NodeKind.FINAL_WINDOW: "append",
    NodeKind.OUTER_JOIN: "append",
}
MACHINES = frozenset({NodeKind.MACHINE, NodeKind.TIMED_MACHINE})
# Groups of keys whose machines Spark calls together. Chosen: enough that they spread evenly over the shuffle partitions
# of a machine or two; each that a batch touches is a call of its own. A key's state is found in its group's partition
# only, so that a checkpoint lasts as long as this number does.
KEY_BUCKETS = 128

_UPDATES = "Spark's aggregates tell every update as a row, which a node with state behind them would count again"
_ONE_MODE = (
    "Spark's aggregates say how the results of the whole query are told, so no other rows are merged with theirs"
)
_LATE = "it goes by the time of its rows, which come late out of a node with state before it: Spark would drop them"
_LATER_ROWS = (
    "rows without a partner leave the join when its window is closed, and nothing with state may wait for them"
)
MAY = ""

# (what comes first, what follows): why there has to be a topic between, or MAY.
RULES: dict[tuple[NodeKind, NodeKind], str] = {
    **{(first, then): _LATE for first in STATEFUL for then in TIMED},
    **{(NodeKind.AGGREGATE, then): _UPDATES for then in STATEFUL},
    **{(NodeKind.WINDOW, then): _UPDATES for then in STATEFUL},
    **{(NodeKind.FINAL_WINDOW, then): _UPDATES for then in STATEFUL},
    (NodeKind.AGGREGATE, NodeKind.MERGE): _ONE_MODE,
    (NodeKind.WINDOW, NodeKind.MERGE): _ONE_MODE,
    (NodeKind.FINAL_WINDOW, NodeKind.MERGE): _ONE_MODE,
    (NodeKind.INNER_JOIN, NodeKind.AGGREGATE): MAY,
    (NodeKind.INNER_JOIN, NodeKind.MACHINE): MAY,
    (NodeKind.INNER_JOIN, NodeKind.MERGE): MAY,
    (NodeKind.OUTER_JOIN, NodeKind.AGGREGATE): _LATER_ROWS,
    (NodeKind.OUTER_JOIN, NodeKind.MACHINE): _LATER_ROWS,
    (NodeKind.OUTER_JOIN, NodeKind.MERGE): MAY,
    (NodeKind.DEDUPLICATION, NodeKind.AGGREGATE): MAY,
    (NodeKind.DEDUPLICATION, NodeKind.MACHINE): MAY,
    (NodeKind.DEDUPLICATION, NodeKind.MERGE): MAY,
    (NodeKind.MACHINE, NodeKind.AGGREGATE): MAY,
    (NodeKind.MACHINE, NodeKind.MACHINE): MAY,
    (NodeKind.MACHINE, NodeKind.MERGE): MAY,
    (NodeKind.TIMED_MACHINE, NodeKind.AGGREGATE): MAY,
    (NodeKind.TIMED_MACHINE, NodeKind.MACHINE): MAY,
    (NodeKind.TIMED_MACHINE, NodeKind.MERGE): MAY,
}


def kind_of(topology: Topology, node: Node) -> NodeKind:
    match node:
        case Merge():
            return NodeKind.MERGE
        case Aggregate():
            return _kind_of_aggregate(node)
        case TableJoin():
            return NodeKind.AGGREGATE
        case Fold():
            return NodeKind.MACHINE if node.window is None else NodeKind.TIMED_MACHINE
        case StreamJoin():
            return NodeKind.INNER_JOIN if node.how == "inner" else NodeKind.OUTER_JOIN
        case StreamTableJoin():
            return NodeKind.STATELESS if is_lookup(topology, node) else NodeKind.MACHINE
        case ForeignKeyJoin():
            return NodeKind.MACHINE
        case Deduplicate():
            return NodeKind.DEDUPLICATION
        case Process():
            return NodeKind.TIMED_MACHINE if rings_by_event_time(node) else NodeKind.MACHINE
    return NodeKind.STATELESS


def _kind_of_aggregate(node: Aggregate) -> NodeKind:
    if node.input_shape is Shape.TABLE:
        return (
            NodeKind.AGGREGATE
        )  # a machine takes rows back; Spark's own sums, counts and averages may stand behind it
    if node.window is None:
        return NodeKind.AGGREGATE
    if node.window.kind is WindowKind.SLIDING:
        return NodeKind.TIMED_MACHINE
    return NodeKind.FINAL_WINDOW if node.is_final or node.window.kind is WindowKind.SESSION else NodeKind.WINDOW


def is_lookup(topology: Topology, node: StreamTableJoin) -> bool:
    """Whether the table is global: each task has a copy, and nothing is kept in Spark's state."""
    table = topology.node(node.inputs[1])
    return isinstance(table, Source) and table.is_global


def is_stateful(topology: Topology, node: Node) -> bool:
    return kind_of(topology, node) in STATEFUL


def has_machine(topology: Topology, node: Node) -> bool:
    """Whether a machine of ours keeps its state, by itself or beneath an aggregate of Spark's."""
    of_table = isinstance(node, Aggregate) and node.input_shape is Shape.TABLE
    return of_table or kind_of(topology, node) in MACHINES


def runs_python(topology: Topology, node: Node) -> bool:
    """Whether each row goes through a Python process, which costs more than what Spark does itself."""
    match node:
        case MapRows() | Peek() | Aggregate(input_shape=Shape.TABLE):
            return True
        case StreamTableJoin() if is_lookup(topology, node):
            return True
    return kind_of(topology, node) in MACHINES
