"""What may follow what in one Spark query: a table, with the reasons for people.

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


class Kind(StrEnum):
    """What a node is to Spark."""

    STATELESS = "stateless"
    MERGE = "merge"  # several inputs, no state
    AGGREGATE = "aggregate"  # Spark's own, without a window
    WINDOW = "window"  # Spark's own aggregate of windows that tell each update
    FINAL_WINDOW = "final window"  # of windows that are told once; sessions always are
    INNER_JOIN = "inner join"  # of streams
    OUTER_JOIN = "outer join"  # of streams, left ones too
    DEDUPLICATION = "deduplication"
    MACHINE = "machine"  # transformWithState: functions of ours, or the author's, with state per key
    TIMED_MACHINE = "timed machine"  # the same, with timers by the time of events


STATEFUL = frozenset(Kind) - {Kind.STATELESS, Kind.MERGE}
# What Spark needs to know how late rows can be for.
TIMED = frozenset(
    {
        Kind.WINDOW,
        Kind.FINAL_WINDOW,
        Kind.INNER_JOIN,
        Kind.OUTER_JOIN,
        Kind.DEDUPLICATION,
        Kind.TIMED_MACHINE,
    }
)
MODES: dict[Kind, Literal["append", "update"]] = {
    Kind.AGGREGATE: "update",
    Kind.WINDOW: "update",
    Kind.FINAL_WINDOW: "append",
    Kind.OUTER_JOIN: "append",
}
MACHINES = frozenset({Kind.MACHINE, Kind.TIMED_MACHINE})
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
RULES: dict[tuple[Kind, Kind], str] = {
    **{(first, then): _LATE for first in STATEFUL for then in TIMED},
    **{(Kind.AGGREGATE, then): _UPDATES for then in STATEFUL},
    **{(Kind.WINDOW, then): _UPDATES for then in STATEFUL},
    **{(Kind.FINAL_WINDOW, then): _UPDATES for then in STATEFUL},
    (Kind.AGGREGATE, Kind.MERGE): _ONE_MODE,
    (Kind.WINDOW, Kind.MERGE): _ONE_MODE,
    (Kind.FINAL_WINDOW, Kind.MERGE): _ONE_MODE,
    (Kind.INNER_JOIN, Kind.AGGREGATE): MAY,
    (Kind.INNER_JOIN, Kind.MACHINE): MAY,
    (Kind.INNER_JOIN, Kind.MERGE): MAY,
    (Kind.OUTER_JOIN, Kind.AGGREGATE): _LATER_ROWS,
    (Kind.OUTER_JOIN, Kind.MACHINE): _LATER_ROWS,
    (Kind.OUTER_JOIN, Kind.MERGE): MAY,
    (Kind.DEDUPLICATION, Kind.AGGREGATE): MAY,
    (Kind.DEDUPLICATION, Kind.MACHINE): MAY,
    (Kind.DEDUPLICATION, Kind.MERGE): MAY,
    (Kind.MACHINE, Kind.AGGREGATE): MAY,
    (Kind.MACHINE, Kind.MACHINE): MAY,
    (Kind.MACHINE, Kind.MERGE): MAY,
    (Kind.TIMED_MACHINE, Kind.AGGREGATE): MAY,
    (Kind.TIMED_MACHINE, Kind.MACHINE): MAY,
    (Kind.TIMED_MACHINE, Kind.MERGE): MAY,
}


def kind_of(topology: Topology, node: Node) -> Kind:
    match node:
        case Merge():
            return Kind.MERGE
        case Aggregate():
            return _kind_of_aggregate(node)
        case TableJoin():
            return Kind.AGGREGATE
        case Fold():
            return Kind.MACHINE if node.window is None else Kind.TIMED_MACHINE
        case StreamJoin():
            return Kind.INNER_JOIN if node.how == "inner" else Kind.OUTER_JOIN
        case StreamTableJoin():
            return Kind.STATELESS if is_lookup(topology, node) else Kind.MACHINE
        case ForeignKeyJoin():
            return Kind.MACHINE
        case Deduplicate():
            return Kind.DEDUPLICATION
        case Process():
            return Kind.TIMED_MACHINE if rings_by_event_time(node) else Kind.MACHINE
    return Kind.STATELESS


def _kind_of_aggregate(node: Aggregate) -> Kind:
    if node.input_shape is Shape.TABLE:
        return Kind.AGGREGATE  # a machine takes rows back; Spark's own sums, counts and averages may stand behind it
    if node.window is None:
        return Kind.AGGREGATE
    if node.window.kind is WindowKind.SLIDING:
        return Kind.TIMED_MACHINE
    return Kind.FINAL_WINDOW if node.is_final or node.window.kind is WindowKind.SESSION else Kind.WINDOW


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
