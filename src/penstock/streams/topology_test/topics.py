"""Which topics of a plan a test may write and read, and which queries have to run for one of them. Pure."""

from __future__ import annotations

import difflib
from dataclasses import dataclass

from penstock.streams.planning.plan import Output, Plan, Query, TopicKind
from penstock.streams.topology.errors import StreamsError
from penstock.streams.topology.formats import Format, Kind
from penstock.streams.topology.nodes import Sink, Source

# Of topics between queries and of stores.
INTERNAL = Format(Kind.JSON)


@dataclass(frozen=True, slots=True)
class Written:
    """An output and the query that writes it."""

    query: Query
    output: Output


@dataclass(frozen=True, slots=True)
class Reading:
    topic: str
    with_headers: bool


class Topics:
    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self.sources: dict[str, Source] = {}  # by topic; of several that read it the first one
        for node in plan.topology.nodes:
            if isinstance(node, Source):
                self.sources.setdefault(node.topic, node)
        self._writers: dict[str, list[Written]] = {}
        self._stores: dict[str, str] = {}
        for query in plan.queries:
            for output in query.outputs:
                self._writers.setdefault(output.topic, []).append(Written(query, output))
                if output.store:
                    self._stores[output.store] = output.topic

    @property
    def has_registry_formats(self) -> bool:
        formats: list[Format | None] = []
        for node in self._plan.topology.nodes:
            if isinstance(node, Source | Sink):
                formats += [node.key, node.value]
        return any(each is not None and each.kind is Kind.REGISTRY for each in formats)

    def source(self, topic: str) -> Source:
        """Raises StreamsError."""
        found = self.sources.get(topic)
        if found is None:
            raise _unknown("reads no topic", topic, self.sources)
        return found

    def written(self, name: str) -> str:
        """The topic of that name, or of that store. Raises StreamsError."""
        if name in self._writers or name == self._plan.topology.dead_letters:
            return name
        if name in self._stores:
            return self._stores[name]
        known = [*self._writers, *self._stores]
        if self._plan.topology.dead_letters:
            known.append(self._plan.topology.dead_letters)
        raise _unknown("writes no topic and keeps no store", name, known)

    def writers(self, topic: str) -> list[Written]:
        return self._writers.get(topic, [])

    def formats(self, topic: str) -> tuple[Format | None, Format]:
        """Of the key and of the value of what is written there. A key without a format goes by its type."""
        for each in self.writers(topic):
            if each.output.kind is TopicKind.SINK:
                sink = self._plan.topology.node(each.output.sink)
                assert isinstance(sink, Sink)
                return sink.key, sink.value
            return INTERNAL, INTERNAL
        return Format(Kind.RAW), Format(Kind.RAW)  # dead letters: as they came

    def reading(self, node: str) -> Reading:
        """What a source of a query, or a cut that it reads, is as a topic."""
        if node in self._plan.cuts:
            return Reading(self._plan.cuts[node].topic, False)
        found = self._plan.topology.node(node)
        assert isinstance(found, Source)
        return Reading(found.topic, found.with_headers)


def _unknown(what: str, name: str, known: object) -> StreamsError:
    names = sorted(known)  # type: ignore[call-overload]
    near = difflib.get_close_matches(name, names, n=1)
    meant = f"Did you mean {near[0]}? " if near else ""
    return StreamsError(f"the application {what} {name!r}", f"{meant}There are: {', '.join(names) or 'none'}.")
