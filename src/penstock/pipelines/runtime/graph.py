"""A pipeline as nodes and edges, for other programs that draw it. Pure. `diagram` draws the same with lines."""

from __future__ import annotations

from collections.abc import Callable

from penstock.pipelines.pipeline import Branch, Pipeline, Settings, Sink, Source, Step
from penstock.pipelines.runtime.query_plan import DEAD_LETTERS, MAIN_QUERY, is_query, step_name
from penstock.runs.records import Graph, GraphNode


class _Drawing:
    def __init__(self, settings: Settings) -> None:
        self.nodes: list[GraphNode] = []
        self.edges: list[tuple[str, str]] = []
        self._settings = settings

    def add(self, kind: str, label: str, befores: list[str], part: str = "") -> str:
        node = GraphNode(str(len(self.nodes)), kind, label, part)
        self.nodes.append(node)
        self.edges += [(before, node.id) for before in befores]
        return node.id

    def add_steps(self, steps: tuple[Step, ...], befores: list[str], part: str = "") -> list[str]:
        for step in steps:
            befores = [self.add("step", step_name(step), befores, part)]
        return befores

    def add_sources(
        self, sources: tuple[Source, ...], combine: Callable[..., object] | None, part: str = ""
    ) -> list[str]:
        ends = [self.add("source", source.describe(), [], part) for source in sources]
        return ends if combine is None else [self.add("combine", step_name(combine), ends, part)]

    def add_end(self, end: Sink | Branch, befores: list[str], part: str) -> None:
        if not isinstance(end, Branch):
            self.add_sink(end, befores, part)
            return
        if end.sources:
            befores = self.add_sources(end.sources, end.combine, part)
        last = self.add_steps(end.steps, [self.add("branch", end.name, befores, part)], part)
        for each in end.sinks:
            self.add_end(each, last, part)

    def add_sink(self, sink: Sink, befores: list[str], part: str) -> None:
        self.add("sink", sink.describe(self._settings), befores, part)


def graph_of(pipeline: Pipeline, run: str) -> Graph:
    """Ids are numbers in the order of the drawing. A part is a query; what every query does belongs to no part."""
    drawing = _Drawing(pipeline.settings)
    ends = drawing.add_sources(pipeline.sources, pipeline.combine)
    ends = drawing.add_steps(pipeline.steps, ends)
    for sink in pipeline.sinks:
        part = sink.name if isinstance(sink, Branch) and is_query(sink) else MAIN_QUERY
        drawing.add_end(sink, ends, part)
    if pipeline.dead_letters is not None:
        begin = [drawing.add("dead-letters", DEAD_LETTERS, ends, MAIN_QUERY)]
        drawing.add_sink(pipeline.dead_letters, begin, MAIN_QUERY)
    return Graph(run, tuple(drawing.nodes), tuple(drawing.edges))
