"""The topics of a plan that a test may write and read, and the queries that must run for one of them. Pure."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from penstock.streams.planner.plan import Output, Plan, PlannedQuery, TopicKind, chooses_topic
from penstock.streams.topology.errors import StreamsError
from penstock.streams.topology.formats import Format, FormatKind
from penstock.streams.topology.nodes import Sink, Source
from penstock.streams.topology.topic_choice import TopicChoice, reads, topics_text

# Of topics between queries and of stores.
INTERNAL = Format(FormatKind.JSON)


@dataclass(frozen=True, slots=True)
class Written:
    """An output and the query that writes it."""

    query: PlannedQuery
    output: Output


@dataclass(frozen=True, slots=True)
class Reading:
    topic: TopicChoice
    with_headers: bool


class Topics:
    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self.sources: dict[TopicChoice, Source] = {}  # of several that read the same the first one
        for node in plan.topology.nodes:
            if isinstance(node, Source):
                self.sources.setdefault(node.topic, node)
        self._writers: dict[str, list[Written]] = {}
        self._choosing: list[Written] = []  # those that may write any topic
        self._stores: dict[str, str] = {}
        for query in plan.queries:
            for output in query.outputs:
                self._writers.setdefault(output.topic, []).append(Written(query, output))
                if chooses_topic(plan, output):
                    self._choosing.append(Written(query, output))
                if output.store:
                    self._stores[output.store] = output.topic

    @property
    def has_registry_formats(self) -> bool:
        formats: list[Format | None] = []
        for node in self._plan.topology.nodes:
            if isinstance(node, Source | Sink):
                formats += [node.key, node.value]
        return any(each is not None and each.kind is FormatKind.REGISTRY for each in formats)

    def source(self, topic: str) -> Source:
        """Of several that read the topic the one that names it, else the first. Raises StreamsError."""
        finding = [source for choice, source in self.sources.items() if reads(choice, topic)]
        if topic not in self.sources and not finding:
            raise _unknown("reads no topic", topic, map(topics_text, self.sources))
        return self.sources.get(topic) or finding[0]

    def written(self, name: str) -> str:
        """The topic of that name, or of that store. Raises StreamsError."""
        if name in self._writers or name == self._plan.topology.dead_letters:
            return name
        if name in self._stores:
            return self._stores[name]
        if self._choosing:
            return name
        known = [*self._writers, *self._stores]
        if self._plan.topology.dead_letters:
            known.append(self._plan.topology.dead_letters)
        raise _unknown("writes no topic and keeps no store", name, known)

    def named_writers(self, topic: str) -> list[Written]:
        """The outputs that write it by name: a query that reads the topic gets its rows from these."""
        return self._writers.get(topic, [])

    def read_of(self, choice: TopicChoice, piped: Collection[str]) -> list[str]:
        """Topics that a source reads: of those that rows were piped to or that are known to be written."""
        return [topic for topic in dict.fromkeys([*piped, *self._writers]) if reads(choice, topic)]

    def writers(self, topic: str) -> list[Written]:
        """The outputs that write it, or may."""
        own = self.named_writers(topic)
        return [*own, *(each for each in self._choosing if each not in own)]

    def formats(self, topic: str) -> tuple[Format | None, Format]:
        """The formats of the topic's keys and values. A key without a format goes by its type."""
        for each in self.writers(topic):
            if each.output.kind is TopicKind.SINK:
                sink = self._plan.topology.node(each.output.sink)
                assert isinstance(sink, Sink)
                return sink.key, sink.value
            return INTERNAL, INTERNAL
        return Format(FormatKind.RAW), Format(FormatKind.RAW)  # dead letters: as they came

    def reading(self, node: str) -> Reading:
        """What a source of a query, or a cut that it reads, is as a topic."""
        if node in self._plan.cuts:
            return Reading(self._plan.cuts[node].topic, False)
        found = self._plan.topology.node(node)
        assert isinstance(found, Source)
        return Reading(found.topic, found.with_headers)


def _unknown(what: str, name: str, known: Iterable[str]) -> StreamsError:
    names = sorted(known)
    near = difflib.get_close_matches(name, names, n=1)
    meant = f"Did you mean {near[0]}? " if near else ""
    return StreamsError(f"the application {what} {name!r}", f"{meant}There are: {', '.join(names) or 'none'}.")
