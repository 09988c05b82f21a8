"""The origin of the `_partition` and `_offset` of rows, and whether these order the rows of a key.

They do for rows of one topic under the key that they were written with. Rows that got another key come from several
partitions, merged ones and those of a pattern from several topics: between these only the time of the rows shows which
is later.
"""

from __future__ import annotations

import re
from collections.abc import Collection

from penstock.streams.topology.nodes import (
    Aggregate,
    Fold,
    ForeignKeyJoin,
    Merge,
    Process,
    SelectKey,
    Source,
    StreamJoin,
    TableJoin,
    Topology,
)
from penstock.streams.topology.shapes import ancestors


def origins(topology: Topology, name: str, cuts: Collection[str]) -> frozenset[str]:
    """The sources and cuts, or the nodes with positions of their own, that the positions of a node's rows are of."""
    node = topology.node(name)
    if name in cuts or isinstance(node, Source | StreamJoin | TableJoin | ForeignKeyJoin | Aggregate | Fold):
        return frozenset({name})
    inputs = node.inputs if isinstance(node, Merge) else node.inputs[:1]
    return frozenset().union(*(origins(topology, each, cuts) for each in inputs))


def merged_numbers(topology: Topology, node: Merge, cuts: Collection[str]) -> list[int]:
    """A number for each input of a merge: the same for inputs whose positions can be compared."""
    of_inputs = [origins(topology, name, cuts) for name in node.inputs]
    different = list(dict.fromkeys(of_inputs))
    return [different.index(each) for each in of_inputs]


def come_from_pattern(topology: Topology, name: str) -> bool:
    """Whether the numbers of their partitions may be as large as numbers are."""
    nodes = (topology.node(name), *ancestors(topology, name))
    return any(isinstance(each, Source) and isinstance(each.topic, re.Pattern) for each in nodes)


def has_order(topology: Topology, name: str, cuts: Collection[str]) -> bool:
    """Whether partition and offset order the rows of a key."""
    node = topology.node(name)
    if isinstance(node, Source) and isinstance(node.topic, re.Pattern):
        return False
    if name in cuts or isinstance(node, Source | TableJoin | ForeignKeyJoin | Aggregate | Fold):
        return True
    if isinstance(node, SelectKey | StreamJoin | Process):  # a Process may give rows other keys
        return False
    if isinstance(node, Merge) and len(origins(topology, name, cuts)) > 1:
        return False
    return has_order(topology, node.inputs[0], cuts)
