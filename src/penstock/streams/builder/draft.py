"""The draft of a topology: nodes in the order they were written, each name given once.

A node that got no name from its author is called after its operator and how many of them came before, `filter-2`;
sources and sinks after their topics, `from-clicks`, `to-totals`, patterns of topics by their number, `from-pattern-1`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable

from penstock.pipelines.errors import PipelineError
from penstock.pipelines.topic_source import check_pattern
from penstock.streams.topology.errors import StreamsError
from penstock.streams.topology.names import (
    changelog_topic,
    check_application,
    check_name,
    check_node_name,
    check_topic,
    is_internal,
    repartition_topic,
)
from penstock.streams.topology.nodes import Node, Sink, Source, Store, Topology
from penstock.streams.topology.shapes import ancestors
from penstock.streams.topology.topic_choice import TopicChoice, reads, topics_text


class TopologyDraft:
    def __init__(self, application: str, dead_letters: str | None = None) -> None:
        self.application = check_application(application)
        self.dead_letters = None if dead_letters is None else check_topic(dead_letters)
        self._nodes: dict[str, Node] = {}
        self._counts: Counter[str] = Counter()

    def name(self, operator: str, given: str | None = None) -> str:
        """For a node that is to be added."""
        if given is not None:
            return self._free(check_node_name(self.application, given, f"the name of a {operator}"))
        self._counts[operator] += 1
        return self._free(f"{operator}-{self._counts[operator]}")

    def name_of_source(self, topic: TopicChoice, given: str | None = None) -> str:
        """After its topic. A pattern may have letters that no name has: those are numbered."""
        if not isinstance(topic, re.Pattern):
            return self.name_by_topic("from", topic, given)
        try:
            check_pattern(topic)
        except PipelineError as error:
            raise StreamsError(error.message, error.hint) from error
        return self.name("source" if given is not None else "from-pattern", given)

    def name_by_topic(self, direction: str, topic: str, given: str | None = None) -> str:
        """The name of a source or a sink."""
        check_topic(topic)
        if given is not None:
            return self.name("source" if direction == "from" else "sink", given)
        wanted = f"{direction}-{topic}"
        self._counts[wanted] += 1
        if self._counts[wanted] > 1:
            wanted = f"{wanted}-{self._counts[wanted]}"
        return self._free(check_node_name(self.application, wanted, f"the name of what goes {direction} {topic}"))

    def _free(self, name: str) -> str:
        if name in self._nodes:
            raise StreamsError(
                f"two nodes are called {name!r}: a {_kind(self._nodes[name])} is already",
                "Names are identity, state is kept under them. Give one of the two another name=.",
            )
        return name

    def add(self, node: Node) -> str:
        self._free(node.name)
        self._nodes[node.name] = node
        return node.name

    def add_store(self, table: str, store: str) -> None:
        """Makes the rows of a table something to ask for."""
        check_node_name(self.application, check_name(store, "the name of a store"), "the name of a store")
        if any(isinstance(each, Store) and each.store == store for each in self._nodes.values()):
            raise StreamsError(f"two stores are called {store!r}", "People ask for a store by its name: give another.")
        self.add(Store(f"{store}-store", (table,), store))

    def topology(self) -> Topology:
        """The topology so far, checked as a whole."""
        topology = Topology(self.application, tuple(self._nodes.values()), self.dead_letters)
        _check_stores(topology)
        _check_topics(topology)
        return topology

    def current(self) -> Topology:
        """The topology so far, unchecked."""
        return Topology(self.application, tuple(self._nodes.values()), self.dead_letters)


def _kind(node: Node) -> str:
    return type(node).__name__


def _check_stores(topology: Topology) -> None:
    """A store's changelog is named as a node's would be."""
    names = {each.name for each in topology.nodes}
    for node in topology.nodes:
        if isinstance(node, Store) and node.store in names and node.inputs != (node.store,):
            raise StreamsError(
                f"the store {node.store!r} has the name of another node, a {_kind(topology.node(node.store))}",
                f"Both could need the topic {changelog_topic(topology.application, node.store)}. Rename one of them.",
            )


def _check_topics(topology: Topology) -> None:
    """No topic of ours is written by the author, and no rows go round in a circle."""
    read = {each.topic for each in topology.nodes if isinstance(each, Source)}
    dead = topology.dead_letters
    if dead is not None and any(reads(each, dead) for each in read):
        raise StreamsError(
            f"{dead} takes the records that do not decode, and is read by the application",
            "What does not decode there would be written to it again. Choose another topic for dead_letters.",
        )
    _check_own_topics(topology, {each for each in read if isinstance(each, str)})
    reaches: dict[str, set[str]] = {}
    for sink in topology.nodes:
        if not isinstance(sink, Sink):
            continue
        for node in ancestors(topology, sink.name):
            if isinstance(node, Source):
                reaches.setdefault(topics_text(node.topic), set()).add(sink.topic)
        finding = (each for each in read if isinstance(each, re.Pattern) and reads(each, sink.topic))
        reaches.setdefault(sink.topic, set()).update(map(topics_text, finding))
    for topic in sorted(reaches):
        if circle := _circle(reaches, topic):
            raise StreamsError(
                f"rows would go round in a circle: {' -> '.join(circle)}",
                "Write to a topic that the application does not read, or read it in another application.",
            )


def _check_own_topics(topology: Topology, read: set[str]) -> None:
    """A reset deletes internal topics, so no foreign topic may have the name of one. The application may read foreign
    topics that only look like them: application `a` reads what `a-b` has written."""
    application = topology.application
    hint = f"Topics like {repartition_topic(application, '*')} are made, purged and deleted by it."
    written = [(each.name, each.topic) for each in topology.nodes if isinstance(each, Sink)]
    for name, topic in [*written, ("dead_letters", topology.dead_letters or "")]:
        if is_internal(application, topic):
            raise StreamsError(f"{name} writes {topic}, which is named as an internal topic of the application", hint)
    names = {each.name for each in topology.nodes} | {each.store for each in topology.nodes if isinstance(each, Store)}
    own = {make(application, name) for name in names for make in (changelog_topic, repartition_topic)}
    for topic in sorted(read & own):
        raise StreamsError(f"the application reads {topic}, which is named as an internal topic of its own", hint)


def _circle(reaches: dict[str, set[str]], start: str) -> list[str]:
    """The way from a topic back to itself, or nothing."""
    came_from: dict[str, str] = {}
    waiting = [start]
    while waiting:
        at = waiting.pop(0)
        for following in sorted(reaches.get(at, ())):
            if following == start:
                return [*_way(came_from, start, at), start]
            if following not in came_from:
                came_from[following] = at
                waiting.append(following)
    return []


def _way(came_from: dict[str, str], start: str, end: str) -> list[str]:
    way = [end]
    while way[-1] != start:
        way.append(came_from[way[-1]])
    return way[::-1]


def rows_of_one(drafts: Iterable[TopologyDraft]) -> TopologyDraft:
    """The draft they share."""
    first, *others = drafts
    for other in others:
        if other is not first:
            raise StreamsError(
                f"rows of the application {other.application!r} cannot meet those of {first.application!r} here",
                "Make both of the same Streams(...), or let one write a topic that the other one reads.",
            )
    return first
