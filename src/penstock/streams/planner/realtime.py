"""Finds the nodes that keep a plan from Spark's real-time mode, where a row takes milliseconds instead of a batch.

There Spark 4.3 runs SQL from end to end: rows of topics, merged or not, its own aggregates in mode update, one sink. It
refuses Python, joins of streams, sessions, windows that emit once, and a topic that is merged with itself. Its Kafka
sink writes a row at least once, and gives records no times.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from penstock.streams.planner.members import closure, members
from penstock.streams.planner.plan import Plan, PlannedQuery
from penstock.streams.planner.rules import STATEFUL, NodeKind, is_lookup, kind_of, runs_python
from penstock.streams.topology import formats
from penstock.streams.topology.nodes import Node, Sink, Source, StreamTableJoin, Topology
from penstock.streams.topology.topic_choice import topics_text


class Obstacle(NamedTuple):
    node: str
    reason: str


_PYTHON = "it runs Python, which the real-time mode does not"
# By what a node is to Spark.
REASONS: dict[NodeKind, str] = {
    NodeKind.FINAL_WINDOW: "results that are told once need the mode append, and the real-time mode has only update",
    NodeKind.INNER_JOIN: "streams are not joined in the real-time mode",
    NodeKind.OUTER_JOIN: "streams are not joined in the real-time mode",
    NodeKind.DEDUPLICATION: "duplicates are forgotten by time, for which the real-time mode has no operator",
}


def obstacles(plan: Plan) -> list[Obstacle]:
    """None: the plan can run in real time."""
    found: dict[Obstacle, None] = {}
    for query in plan.queries:
        for node in members(plan, query):
            if reason := _reason(plan.topology, node) or _reason_of_merge(plan, node):
                found[Obstacle(node.name, reason)] = None
        found.update(dict.fromkeys((*_of_outputs(query), *_of_times(query))))
    found.update(dict.fromkeys(_of_dead_letters(plan)))
    return list(found)


def real_time_text(plan: Plan) -> str:
    """For people: what it means that the plan runs in real time, or why it cannot."""
    found = obstacles(plan)
    if found:
        return "\n".join(["not in real time:", *(f"  {each.node}: {each.reason}" for each in found)])
    text = (
        "in real time: each row goes on at once. Results are written at least once: after a failure or a stop those"
        "\nsince the last checkpoint come again. Their records have the time of writing."
    )
    behind = [query.root for query in plan.queries if query.cuts and query.is_stateful]
    return f"{text} What comes again counts again in {', '.join(behind)}." if behind else text


def _reason(topology: Topology, node: Node) -> str:
    match node:
        case StreamTableJoin() if is_lookup(topology, node):
            return "the copy of a global table is kept in Python, which the real-time mode does not run"
        case Source(topic=re.Pattern()):
            return "each topic that the pattern finds later would need tasks that nobody has counted"
        case Source() | Sink() if _by_registry(node):
            return "values by a registry's schema are read and written in Python, which the real-time mode does not run"
    return _PYTHON if runs_python(topology, node) else REASONS.get(kind_of(topology, node), "")


def _by_registry(node: Source | Sink) -> bool:
    return any(each is not None and each.kind is formats.FormatKind.REGISTRY for each in (node.key, node.value))


def _reason_of_merge(plan: Plan, node: Node) -> str:
    """The reason against a node with several inputs, which Spark unites."""
    if len(node.inputs) < 2:
        return ""
    seen: set[str] = set()
    for name in node.inputs:
        leading = closure(plan.topology, name, plan.cuts) if name not in plan.cuts else (plan.topology.node(name),)
        topics = {each.name for each in leading if isinstance(each, Source) or each.name in plan.cuts}
        if topics & seen:
            return f"it meets the same rows twice, those of {', '.join(sorted(topics & seen))}"
        seen |= topics
        if name not in plan.cuts and any(kind_of(plan.topology, each) in STATEFUL for each in leading):
            return "what has state may not stand before rows are merged in the real-time mode"
    return ""


def _of_times(query: PlannedQuery) -> Iterator[Obstacle]:
    for name in query.cuts:
        if name in query.watermarks_ms:
            yield Obstacle(
                query.root,
                f"it goes by the time of rows of {name}, whose topic has the times of writing in the real-time mode",
            )


def _of_dead_letters(plan: Plan) -> Iterator[Obstacle]:
    """One query unites all sources for them."""
    seen: set[str] = set()
    for node in plan.topology.nodes if plan.topology.dead_letters is not None else ():
        if isinstance(node, Source) and not node.is_global:
            topic = topics_text(node.topic)
            if topic in seen:
                yield Obstacle(node.name, f"dead letters of {topic} would be gathered twice in the real-time mode")
            seen.add(topic)


def _of_outputs(query: PlannedQuery) -> Iterator[Obstacle]:
    for output in query.outputs[1:]:
        name = output.sink or output.store or output.node
        yield Obstacle(
            name, f"a query writes one topic in the real-time mode, and {query.name} writes another one, too"
        )
