"""The kinds of rows of a node: of a stream or a table, with a key that grew a window or not."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from penstock.streams.topology.nodes import (
    Aggregate,
    Fold,
    ForeignKeyJoin,
    Node,
    Process,
    Retyped,
    Shape,
    Source,
    TableJoin,
    Topology,
)
from penstock.streams.topology.topic_choice import reads


def shape_of(topology: Topology, name: str) -> Shape:
    match topology.node(name):
        case Source(shape=shape) | Retyped(shape=shape) | Process(shape=shape):
            return shape
        case Aggregate() | Fold() | TableJoin() | ForeignKeyJoin():
            return Shape.TABLE
        case node:
            # The first input is what a node without a shape of its own passes on.
            return shape_of(topology, node.inputs[0])


def found_by_patterns(nodes: Iterable[Node], topics: Iterable[str]) -> Iterator[tuple[Source, str]]:
    """Sources that choose their topics by a pattern, with each of these topics that the pattern finds."""
    known = list(topics)
    for node in nodes:
        if isinstance(node, Source) and isinstance(node.topic, re.Pattern):
            yield from ((node, topic) for topic in known if reads(node.topic, topic))


def ancestors(topology: Topology, name: str) -> Iterator[Node]:
    """The node's inputs and theirs, each once, the nearest first."""
    seen: set[str] = set()
    waiting = list(topology.node(name).inputs)
    while waiting:
        each = waiting.pop(0)
        if each not in seen:
            seen.add(each)
            node = topology.node(each)
            yield node
            waiting.extend(node.inputs)
