"""A pipeline drawn with lines: sources, steps, branches, sinks. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from penstock.pipelines.pipeline import Branch, Pipeline, Settings, Sink, Source
from penstock.pipelines.runtime.query_plan import DEAD_LETTERS, MAIN_QUERY, is_query, step_name


def draw(pipeline: Pipeline) -> str:
    """Draws the parts that read the pipeline's sources first, then each branch with sources of its own."""
    settings = pipeline.settings
    lines = [pipeline.name]
    alone = [sink for sink in pipeline.sinks if isinstance(sink, Branch) and sink.sources]
    ends = [_end(sink, settings) for sink in pipeline.sinks if sink not in alone]
    if pipeline.dead_letters is not None:
        ends.append([f"{DEAD_LETTERS} (query {MAIN_QUERY})", f"-> {pipeline.dead_letters.describe(settings)}"])
    if ends:
        lines += _beginning(pipeline.sources, pipeline.combine)
        for step in pipeline.steps:
            lines += ["    |", f"  {step_name(step)}"]
        lines += ["    |", *_forks(ends)]
    for branch in alone:
        lines += [*_beginning(branch.sources, branch.combine), "    |", *_forks([_end(branch, settings)])]
    return "\n".join(lines)


def _beginning(sources: Sequence[Source], combine: Callable[..., object] | None) -> list[str]:
    lines = [f"  {source.describe()}" for source in sources]
    return lines if combine is None else [*lines, "    |", f"  {step_name(combine)}"]


def _end(sink: Sink | Branch, settings: Settings) -> list[str]:
    if not isinstance(sink, Branch):
        return [f"-> {sink.describe(settings)}"]
    mode = f", {sink.mode}" if sink.stateful else ""
    own = f"query {sink.name}{mode}" if is_query(sink) else f"query {MAIN_QUERY}"
    return [f"{sink.name} ({own}){_way(sink)}", *_sinks(sink, settings)]


def _sinks(branch: Branch, settings: Settings) -> list[str]:
    lines: list[str] = []
    for each in branch.sinks:
        if isinstance(each, Branch):
            lines += [f"{each.name}{_way(each)}", *(f"  {line}" for line in _sinks(each, settings))]
        else:
            lines.append(f"-> {each.describe(settings)}")
    return lines


def _way(branch: Branch) -> str:
    names = " > ".join(step_name(step) for step in branch.steps)
    return f": {names}" if names else ""


def _forks(ends: Sequence[Sequence[str]]) -> list[str]:
    lines: list[str] = []
    for index, (first, *rest) in enumerate(ends):
        is_last = index == len(ends) - 1
        lines.append(f"    +-- {first}")
        lines += [f"    {' ' if is_last else '|'}     {line}" for line in rest]
    return lines
