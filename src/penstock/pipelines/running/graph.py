"""A pipeline as nodes and edges, for those who draw it elsewhere. Pure. `drawing` draws the same with lines."""

from __future__ import annotations

from penstock.pipelines.pipeline import Branch, Pipeline, Settings, Sink, Step
from penstock.pipelines.running.planning import DEAD_LETTERS, MAIN_QUERY, step_name
from penstock.runs.records import Graph, Node


class _Drawing:
    def __init__(self, settings: Settings) -> None:
        self.nodes: list[Node] = []
        self.edges: list[tuple[str, str]] = []
        self._settings = settings

    def add(self, kind: str, label: str, befores: list[str], part: str = "") -> str:
        node = Node(str(len(self.nodes)), kind, label, part)
        self.nodes.append(node)
        self.edges += [(before, node.id) for before in befores]
        return node.id

    def add_steps(self, steps: tuple[Step, ...], befores: list[str], part: str = "") -> list[str]:
        for step in steps:
            befores = [self.add("step", step_name(step), befores, part)]
        return befores

    def add_sink(self, sink: Sink, befores: list[str], part: str) -> None:
        self.add("sink", sink.describe(self._settings), befores, part)


def graph_of(pipeline: Pipeline, run: str) -> Graph:
    """Ids are numbers in the order of the drawing. A part is a query; what every query does belongs to no part."""
    drawing = _Drawing(pipeline.settings)
    ends = [drawing.add("source", source.describe(), []) for source in pipeline.sources]
    if pipeline.combine is not None:
        ends = [drawing.add("combine", step_name(pipeline.combine), ends)]
    ends = drawing.add_steps(pipeline.steps, ends)
    for sink in pipeline.sinks:
        if isinstance(sink, Branch):
            part = sink.name if sink.stateful else MAIN_QUERY
            begin = [drawing.add("branch", sink.name, ends, part)]
            last = drawing.add_steps(sink.steps, begin, part)
            for each in sink.sinks:
                drawing.add_sink(each, last, part)
        else:
            drawing.add_sink(sink, ends, MAIN_QUERY)
    if pipeline.dead_letters is not None:
        begin = [drawing.add("dead-letters", DEAD_LETTERS, ends, MAIN_QUERY)]
        drawing.add_sink(pipeline.dead_letters, begin, MAIN_QUERY)
    return Graph(run, tuple(drawing.nodes), tuple(drawing.edges))
