"""From a pipeline to the Spark queries that run it: one for everything without state, one per stateful branch. Pure."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass

from penstock.pipelines.errors import PipelineError
from penstock.pipelines.pipeline import Branch, OutputMode, Pipeline, Sink, Step

# The name of the query that carries the sinks outside of stateful branches.
MAIN_QUERY = "main"
DEAD_LETTERS = "dead-letters"
# Names become directories, consumer groups and transactional ids.
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


@dataclass(frozen=True, slots=True)
class Output:
    """One sink and the steps that lead to it from the rows of its query."""

    sink: Sink
    steps: tuple[Step, ...] = ()
    branch: str = ""
    takes_errors: bool = False


@dataclass(frozen=True, slots=True)
class QueryPlan:
    name: str
    # Applied to the stream, after the pipeline's own; these may hold state.
    steps: tuple[Step, ...]
    outputs: tuple[Output, ...]
    mode: OutputMode = "append"
    is_stateful: bool = False


def plan_queries(pipeline: Pipeline) -> tuple[QueryPlan, ...]:
    _refuse_bad_names(pipeline)
    shared: list[Output] = []
    own: list[QueryPlan] = []
    for sink in pipeline.sinks:
        if not isinstance(sink, Branch):
            shared.append(Output(sink))
        elif sink.stateful:
            outputs = tuple(Output(each, branch=sink.name) for each in sink.sinks)
            own.append(QueryPlan(sink.name, sink.steps, outputs, sink.mode, is_stateful=True))
        else:
            shared.extend(Output(each, sink.steps, sink.name) for each in sink.sinks)
    if pipeline.dead_letters is not None:
        shared.append(Output(pipeline.dead_letters, branch=DEAD_LETTERS, takes_errors=True))
    main = (QueryPlan(MAIN_QUERY, (), tuple(shared)),) if shared else ()
    return main + tuple(own)


def step_name(step: Step) -> str:
    """What to call a step in a drawing or an error: a function's name, a partial's function, or a class."""
    inner = getattr(step, "func", step)
    return str(getattr(step, "__name__", None) or getattr(inner, "__name__", None) or type(step).__name__)


def sinks_of(pipeline: Pipeline) -> tuple[Sink, ...]:
    plain = [each for sink in pipeline.sinks for each in (sink.sinks if isinstance(sink, Branch) else (sink,))]
    return (*plain, pipeline.dead_letters) if pipeline.dead_letters is not None else tuple(plain)


def _missing_of(sink: object) -> list[str]:
    return [name for name in ("name", "session_settings", "describe", "open") if not hasattr(sink, name)]


def _refuse_bad_names(pipeline: Pipeline) -> None:
    if not pipeline.sources:
        raise PipelineError(f"the pipeline {pipeline.name!r} has no sources")
    if not pipeline.sinks:
        raise PipelineError(f"the pipeline {pipeline.name!r} has no sinks")
    branches = [sink for sink in pipeline.sinks if isinstance(sink, Branch)]
    for branch in branches:
        if not branch.sinks:
            raise PipelineError(f"the branch {branch.name!r} has no sinks")
        if branch.mode != "append" and not branch.stateful:
            raise PipelineError(
                f"the branch {branch.name!r} asks for the output mode {branch.mode!r} but is not stateful",
                "Only a query of its own has an output mode: say stateful=True.",
            )
    for sink in sinks_of(pipeline):
        if not isinstance(sink, Sink):
            raise PipelineError(
                f"{type(sink).__name__} is not a sink: it lacks {', '.join(_missing_of(sink))}",
                "The guide on pipelines says how a sink is written.",
            )
    for kind, names in (
        ("sink", [sink.name for sink in sinks_of(pipeline)]),
        ("branch", [MAIN_QUERY, DEAD_LETTERS, *(branch.name for branch in branches)]),
    ):
        twice = [name for name, count in Counter(names).items() if count > 1]
        if twice:
            raise PipelineError(
                f"two of the pipeline's {kind} names are {twice[0]!r}", "Give one of them another name."
            )
    for name in (pipeline.name, *(branch.name for branch in branches)):
        if not _NAME.fullmatch(name):
            raise PipelineError(
                f"{name!r} cannot be a name: letters, digits, '.', '_' and '-', a letter or digit first"
            )
