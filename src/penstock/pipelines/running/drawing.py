"""A pipeline drawn with lines: sources, steps, branches, sinks. Pure."""

from __future__ import annotations

from penstock.pipelines.pipeline import Branch, Pipeline
from penstock.pipelines.running.planning import DEAD_LETTERS, MAIN_QUERY, step_name


def draw(pipeline: Pipeline) -> str:
    settings = pipeline.settings
    lines = [pipeline.name]
    lines += [f"  {source.describe()}" for source in pipeline.sources]
    if pipeline.combine is not None:
        lines += ["    |", f"  {step_name(pipeline.combine)}"]
    for step in pipeline.steps:
        lines += ["    |", f"  {step_name(step)}"]
    lines.append("    |")
    branches = [(sink.name, sink) if isinstance(sink, Branch) else ("", sink) for sink in pipeline.sinks]
    ends: list[list[str]] = []
    for name, sink in branches:
        if isinstance(sink, Branch):
            own = f"query {name}, {sink.mode}" if sink.stateful else f"query {MAIN_QUERY}"
            way = " > ".join([*(step_name(step) for step in sink.steps)])
            ends.append(
                [
                    f"{name} ({own}){': ' + way if way else ''}",
                    *(f"-> {each.describe(settings)}" for each in sink.sinks),
                ]
            )
        else:
            ends.append([f"-> {sink.describe(settings)}"])
    if pipeline.dead_letters is not None:
        ends.append([f"{DEAD_LETTERS} (query {MAIN_QUERY})", f"-> {pipeline.dead_letters.describe(settings)}"])
    for index, (first, *rest) in enumerate(ends):
        is_last = index == len(ends) - 1
        lines.append(f"    +-- {first}")
        lines += [f"    {' ' if is_last else '|'}     {line}" for line in rest]
    return "\n".join(lines)
