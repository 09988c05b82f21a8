"""The plan of an application: its Spark queries, and the topics between them.

A query has a root: the last node that needs its own frame (a source, a merge or a node with state). The nodes from the
root to an output have no state and work on each batch, so that outputs with the same root share a query and read
their topics once. A stateful node may stand below another one in a query only where `rules` allows it; else there is a
topic between them (a cut), which the first query writes exactly once and the second one reads committed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal

from penstock.streams.topology.nodes import Shape, Sink, Topology


class TopicKind(StrEnum):
    SINK = "sink"  # the user's
    CHANGELOG = "changelog"  # a table: compacted
    REPARTITION = "repartition"  # a stream: deleted once it was read


@dataclass(frozen=True, slots=True)
class Output:
    """Rows of `node`, which is the query's root or follows from it without state, go to a topic."""

    node: str
    topic: str
    kind: TopicKind
    sink: str = ""  # the node Sink, of a user's topic
    store: str = ""  # its name for readers, where they can read it


@dataclass(frozen=True, slots=True)
class Cut:
    """Users of `node` in other queries read its topic instead."""

    node: str
    topic: str
    kind: TopicKind
    shape: Shape
    reason: str  # for people: why Spark cannot go on in the same query
    partitions: int = 0  # 0: as many as the largest source has


@dataclass(frozen=True, slots=True)
class PlannedQuery:
    name: str  # the root's: names the checkpoint, stable as long as the root's name is
    root: str
    outputs: tuple[Output, ...]
    sources: tuple[str, ...]  # nodes Source whose topics it reads, global tables left out
    cuts: tuple[str, ...]  # nodes whose topics it reads
    globals: tuple[str, ...] = ()  # nodes Source that are global tables
    mode: Literal["append", "update"] = "append"
    is_stateful: bool = False
    goes_by_clock: bool = False  # its state changes without records, too
    # By source or cut: the watermark's delay. Those without windows or joins have none.
    watermarks_ms: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Plan:
    topology: Topology
    queries: tuple[PlannedQuery, ...]  # those that write a cut's topic before those that read it
    cuts: Mapping[str, Cut]  # by node

    def query(self, name: str) -> PlannedQuery:
        return next(query for query in self.queries if query.name == name)


def chooses_topic(plan: Plan, output: Output) -> bool:
    """Whether each record of the output names its own topic."""
    node = plan.topology.node(output.sink) if output.sink else None
    return isinstance(node, Sink) and node.topic_of is not None
