"""The nodes that a query runs."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from penstock.streams.planner.plan import Plan, PlannedQuery
from penstock.streams.topology.nodes import Node, Repartition, Topology


def closure(topology: Topology, root: str, cuts: Collection[str]) -> tuple[Node, ...]:
    """The root and all that leads to it, down to topics: those of sources and, left out here, those of cuts. In the
    topology's order."""
    found: set[str] = set()
    waiting = [root]
    while waiting:
        name = waiting.pop()
        node = topology.node(name)
        if name in found or (name in cuts and name != root):
            continue
        found.add(name)
        if not isinstance(node, Repartition):
            waiting.extend(node.inputs)
    return tuple(node for node in topology.nodes if node.name in found)


def path(topology: Topology, root: str, name: str) -> tuple[Node, ...]:
    """The nodes from the root, which is left out, to a node behind it, the nearest first."""
    found: list[Node] = []
    while name != root:
        node = topology.node(name)
        found.append(node)
        name = node.inputs[0]
    return tuple(reversed(found))


def behind_root(plan: Plan, query: PlannedQuery) -> tuple[Node, ...]:
    """The nodes that the query runs on each batch of its root's rows, each once."""
    found = {node.name: node for output in query.outputs for node in path(plan.topology, query.root, output.node)}
    return tuple(node for node in plan.topology.nodes if node.name in found)


def members(plan: Plan, query: PlannedQuery) -> Iterator[Node]:
    """All nodes that the query runs: up to the root, behind it, and the sinks."""
    sinks = {output.sink for output in query.outputs}
    stores = {output.store for output in query.outputs if output.store}
    names = {node.name for node in (*closure(plan.topology, query.root, plan.cuts), *behind_root(plan, query))}
    for node in plan.topology.nodes:
        if node.name in names or node.name in sinks or getattr(node, "store", None) in stores:
            yield node
