"""From a topology to a plan: the places of cuts, the queries, and the way in which each of them runs.

1. Nodes that no output needs are left out.
2. Cuts: at every Repartition; after a node with state where `rules` has a reason; after a node with state that several
   queries would run. The last rule is applied until nothing changes, since each cut makes a query.
3. Outputs (sinks, stores, cuts) with the same root are a query.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from penstock.streams.planner.members import closure, path
from penstock.streams.planner.plan import Cut, Output, Plan, PlannedQuery, TopicKind
from penstock.streams.planner.rules import MACHINES, MODES, RULES, STATEFUL, TIMED, NodeKind, kind_of
from penstock.streams.topology.errors import StreamsError
from penstock.streams.topology.graces import goes_by_clock, grace_ms
from penstock.streams.topology.names import changelog_topic, repartition_topic
from penstock.streams.topology.nodes import (
    Deduplicate,
    Node,
    Peek,
    Process,
    Repartition,
    Shape,
    Sink,
    Source,
    Store,
    Topology,
)
from penstock.streams.topology.shapes import ancestors, found_by_patterns, shape_of
from penstock.streams.topology.topic_choice import topics_text


@dataclass(frozen=True, slots=True)
class _Graph:
    topology: Topology
    live: frozenset[str]  # nodes that lead to a sink or a store, and these
    kinds: Mapping[str, NodeKind]

    def nodes(self) -> Iterator[Node]:
        return (node for node in self.topology.nodes if node.name in self.live)


def plan_topology(topology: Topology) -> Plan:
    graph = _graph_of(topology)
    reasons = _reasons_to_cut(graph)
    cuts = {node.name: _cut(graph, node, reasons[node.name]) for node in graph.nodes() if node.name in reasons}
    by_root: dict[str, list[Output]] = {}
    for output in _outputs(graph, cuts):
        by_root.setdefault(_root_of_output(graph, output, cuts), []).append(output)
    # A query that reads a cut has its root behind the cut's node, and nodes come after their inputs.
    roots = [node.name for node in graph.nodes() if node.name in by_root]
    _check_patterns(graph, [output.topic for outputs in by_root.values() for output in outputs if not output.sink])
    return Plan(topology, tuple(_query(graph, root, by_root[root], cuts) for root in roots), cuts)


def _graph_of(topology: Topology) -> _Graph:
    live = set()
    for node in topology.nodes:
        if isinstance(node, Sink | Store):
            live |= {node.name, *(each.name for each in ancestors(topology, node.name))}
    if not live:
        raise StreamsError(
            f"the application {topology.application!r} writes nothing", "Write to a topic with to(), or name a table."
        )
    kinds = {node.name: kind_of(topology, node) for node in topology.nodes}
    for node in topology.nodes:
        if node.name not in live and (kinds[node.name] in STATEFUL or isinstance(node, Peek | Repartition)):
            raise StreamsError(
                f"the rows of {node.name} go nowhere, so it would not run",
                "Write them with to(), make a table something to ask for with store(), or take the node away.",
            )
    return _Graph(topology, frozenset(live), kinds)


def _check_patterns(graph: _Graph, internal: list[str]) -> None:
    """Kafka Streams would read topics of its own that a pattern finds, and count its results among its records."""
    for source, topic in found_by_patterns(graph.nodes(), internal):
        raise StreamsError(
            f"{source.name} reads {topics_text(source.topic)}, and would read {topic}, an internal topic of the"
            " application",
            "Write a pattern that leaves it out, or give the application another name.",
        )


# Cuts.


def _reasons_to_cut(graph: _Graph) -> dict[str, str]:
    """By node."""
    reasons = {node.name: "repartition() asks for a topic" for node in graph.nodes() if isinstance(node, Repartition)}
    for node in graph.nodes():
        for before in _nearest_with_state(graph, node):
            if reason := RULES.get((graph.kinds[before], graph.kinds[node.name]), ""):
                reasons.setdefault(before, f"{node.name} follows: {reason}")
    while shared := _run_by_several(graph, reasons):
        reasons.update(shared)
    return reasons


def _nearest_with_state(graph: _Graph, node: Node) -> list[str]:
    """Nodes with state that reach this one without another one, or a topic, between."""
    found: dict[str, None] = {}
    waiting = list(node.inputs)
    while waiting:
        name = waiting.pop(0)
        before = graph.topology.node(name)
        if graph.kinds[name] in STATEFUL:
            found[name] = None
        elif not isinstance(before, Repartition):
            waiting.extend(before.inputs)
    return list(found)


def _run_by_several(graph: _Graph, cuts: Mapping[str, str]) -> dict[str, str]:
    """Nodes with state that more than one query would run. Only the first of them that nothing shared comes before, so
    that what follows it is looked at again."""
    users: dict[str, list[str]] = {}
    for root in _roots(graph, cuts):
        for node in closure(graph.topology, root, cuts):
            if graph.kinds[node.name] in STATEFUL:
                users.setdefault(node.name, []).append(root)
    # Nearest to the outputs first: what is shared there is shared by all that leads to it.
    for node in reversed(graph.topology.nodes):
        if len(roots := users.get(node.name, ())) > 1 and node.name not in cuts:
            others = [root for root in roots if root != node.name]
            return {node.name: f"its rows are wanted in several places, {_listed(others)}: they are computed once"}
    return {}


def _listed(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def _cut(graph: _Graph, node: Node, reason: str) -> Cut:
    shape = shape_of(graph.topology, node.name)
    partitions = node.partitions if isinstance(node, Repartition) else 0
    if shape is Shape.TABLE:
        return Cut(node.name, _changelog(graph.topology, node.name), TopicKind.CHANGELOG, shape, reason, partitions)
    topic = repartition_topic(graph.topology.application, node.name)
    return Cut(node.name, topic, TopicKind.REPARTITION, shape, reason, partitions)


def _changelog(topology: Topology, name: str) -> str:
    """A table that queries can read has a changelog anyway: its first store's."""
    stores = [each.store for each in topology.users(name) if isinstance(each, Store)]
    return changelog_topic(topology.application, stores[0] if stores else name)


# Queries.


def _root_of(graph: _Graph, name: str) -> str:
    """The last node before, or at, this one that needs a frame of its own."""
    while True:
        node = graph.topology.node(name)
        if isinstance(node, Source | Repartition) or graph.kinds[name] is not NodeKind.STATELESS:
            return name
        name = node.inputs[0]


def _root_of_output(graph: _Graph, output: Output, cuts: Mapping[str, Cut]) -> str:
    return _root_of(
        graph, _written_after(graph, output.node) if output.node in cuts and not output.sink else output.node
    )


def _written_after(graph: _Graph, name: str) -> str:
    """The node whose query writes a cut's topic: a Repartition is written by those before it."""
    node = graph.topology.node(name)
    return node.inputs[0] if isinstance(node, Repartition) else name


def _roots(graph: _Graph, cuts: Mapping[str, str]) -> list[str]:
    ends = [node.inputs[0] for node in graph.nodes() if isinstance(node, Sink | Store)]
    found = {_root_of(graph, name) for name in (*ends, *(_written_after(graph, each) for each in cuts))}
    return [node.name for node in graph.nodes() if node.name in found]


def _outputs(graph: _Graph, cuts: Mapping[str, Cut]) -> Iterator[Output]:
    stores = {
        changelog_topic(graph.topology.application, node.store): node
        for node in graph.nodes()
        if isinstance(node, Store)
    }
    for cut in cuts.values():
        if cut.topic not in stores:
            yield Output(cut.node, cut.topic, cut.kind)
    for topic, store in stores.items():
        yield Output(store.inputs[0], topic, TopicKind.CHANGELOG, store=store.store)
    for node in graph.nodes():
        if isinstance(node, Sink):
            yield Output(node.inputs[0], node.topic, TopicKind.SINK, sink=node.name)


def _query(graph: _Graph, root: str, outputs: list[Output], cuts: Mapping[str, Cut]) -> PlannedQuery:
    topology = graph.topology
    inside = closure(topology, root, cuts)
    behind = [node for output in outputs for node in path(topology, root, output.node)]
    read = {name for node in inside for name in node.inputs if name in cuts}
    if isinstance(topology.node(root), Repartition):
        read = {root}
    looked_up = {name for node in (*inside, *behind) for name in node.inputs if _is_global(topology, name)}
    kinds = {graph.kinds[node.name] for node in inside}
    return PlannedQuery(
        name=root,
        root=root,
        outputs=tuple(outputs),
        sources=tuple(each.name for each in inside if isinstance(each, Source) and not each.is_global),
        cuts=tuple(node.name for node in topology.nodes if node.name in read),
        globals=tuple(node.name for node in topology.nodes if node.name in looked_up),
        mode=_mode(kinds),
        is_stateful=bool(kinds & STATEFUL),
        goes_by_clock=any(isinstance(node, Process) and goes_by_clock(node) for node in inside),
        watermarks_ms=_watermarks(graph, inside, read),
    )


def _is_global(topology: Topology, name: str) -> bool:
    node = topology.node(name)
    return isinstance(node, Source) and node.is_global


def _mode(kinds: set[NodeKind]) -> Literal["append", "update"]:
    asked = {MODES[kind] for kind in kinds if kind in MODES}
    assert len(asked) < 2, f"rules let nodes of both modes into a query: {kinds}"
    if asked:
        return asked.pop()
    return "update" if kinds & MACHINES else "append"


def _watermarks(graph: _Graph, inside: tuple[Node, ...], cuts: set[str]) -> dict[str, int]:
    """By source or cut that the query reads: how late rows may be for the nodes that go by their time."""
    delays: dict[str, int] = {}
    names = {node.name for node in inside}
    for node in inside:
        if graph.kinds[node.name] not in TIMED:
            continue
        delay = node.within_ms if isinstance(node, Deduplicate) else grace_ms(graph.topology, node) or 0
        for read in _read_by(graph, node, names, cuts):
            delays[read] = max(delay, delays.get(read, 0))
    return dict(sorted(delays.items()))


def _read_by(graph: _Graph, node: Node, inside: set[str], cuts: set[str]) -> Iterator[str]:
    """Sources and cuts whose rows come to the node within the query."""
    waiting, seen = list(node.inputs), set()
    while waiting:
        name = waiting.pop()
        if name in seen:
            continue
        seen.add(name)
        before = graph.topology.node(name)
        if name in cuts or (isinstance(before, Source) and not before.is_global):
            yield name
        elif name in inside:
            waiting.extend(before.inputs)
