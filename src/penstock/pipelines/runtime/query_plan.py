"""From a pipeline to the Spark queries that run it: one for everything without state, one per branch with state or with
sources of its own. Pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.pipelines.errors import PipelineError
from penstock.pipelines.pipeline import Branch, OutputMode, Pipeline, Sink, Source, Step

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

# The name of the query that carries the sinks outside of stateful branches.
MAIN_QUERY = "main"
DEAD_LETTERS = "dead-letters"
# Names become directories, consumer groups and transactional ids.
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,248}")


@dataclass(frozen=True, slots=True)
class Output:
    """One sink and the steps that lead to it from the rows of its query."""

    sink: Sink
    steps: tuple[Step, ...] = ()
    branch: str = ""
    takes_errors: bool = False


@dataclass(frozen=True, slots=True)
class Input:
    """The input of queries, and the steps that they share."""

    sources: tuple[Source, ...]
    steps: tuple[Step, ...] = ()
    combine: Callable[..., DataFrame] | None = None
    owner: str = ""  # the branch that reads alone; empty: the pipeline's


@dataclass(frozen=True, slots=True)
class QueryPlan:
    name: str
    input: Input
    # Applied to the stream, after the input's own; these may hold state.
    steps: tuple[Step, ...]
    outputs: tuple[Output, ...]
    mode: OutputMode = "append"
    is_stateful: bool = False
    goes_by_clock: bool = False
    keeps_dead_letters: bool = False  # rows with an error go elsewhere; else they fail the batch
    after: tuple[str, ...] = ()
    is_real_time: bool = False


def plan_queries(pipeline: Pipeline) -> tuple[QueryPlan, ...]:
    _refuse_bad_names(pipeline)
    given = Input(pipeline.sources, pipeline.steps, pipeline.combine)
    keeps = pipeline.dead_letters is not None
    shared: list[Output] = []
    own: list[QueryPlan] = []
    for sink in pipeline.sinks:
        if not isinstance(sink, Branch):
            shared.append(Output(sink))
        elif is_query(sink):
            own.append(_own_query(sink, given, keeps))
        else:
            shared.extend(_outputs_of(sink, sink.steps))
    if pipeline.dead_letters is not None:
        shared.append(Output(pipeline.dead_letters, branch=DEAD_LETTERS, takes_errors=True))
    main = (QueryPlan(MAIN_QUERY, given, (), tuple(shared), keeps_dead_letters=keeps),) if shared else ()
    return main + tuple(own)


def is_query(branch: Branch) -> bool:
    return branch.stateful or bool(branch.sources)


def _own_query(branch: Branch, given: Input, keeps: bool) -> QueryPlan:
    own = Input(branch.sources, combine=branch.combine, owner=branch.name) if branch.sources else given
    on_stream, on_batch = (branch.steps, ()) if branch.stateful else ((), branch.steps)
    return QueryPlan(
        branch.name,
        own,
        on_stream,
        _outputs_of(branch, on_batch),
        branch.mode,
        is_stateful=branch.stateful,
        goes_by_clock=branch.goes_by_clock,
        keeps_dead_letters=keeps and own is given,
        after=branch.after,
        is_real_time=branch.is_real_time,
    )


def _outputs_of(branch: Branch, steps: tuple[Step, ...]) -> tuple[Output, ...]:
    outputs: list[Output] = []
    for each in branch.sinks:
        if isinstance(each, Branch):
            outputs += _outputs_of(each, (*steps, *each.steps))
        else:
            outputs.append(Output(each, steps, branch.name))
    return tuple(outputs)


def step_name(step: Callable[..., object]) -> str:
    """The name of a step in a drawing or an error: a function's name, a partial's function, or a class."""
    inner = getattr(step, "func", step)
    return str(getattr(step, "__name__", None) or getattr(inner, "__name__", None) or type(step).__name__)


def sinks_of(pipeline: Pipeline) -> tuple[Sink, ...]:
    plain = _sinks_in(pipeline.sinks)
    return (*plain, pipeline.dead_letters) if pipeline.dead_letters is not None else plain


def _sinks_in(ends: tuple[Sink | Branch, ...]) -> tuple[Sink, ...]:
    return tuple(sink for end in ends for sink in (_sinks_in(end.sinks) if isinstance(end, Branch) else (end,)))


def branches_of(pipeline: Pipeline) -> tuple[Branch, ...]:
    """All branches, those within others too."""
    return _branches_in(pipeline.sinks)


def _branches_in(ends: tuple[Sink | Branch, ...]) -> tuple[Branch, ...]:
    return tuple(each for end in ends if isinstance(end, Branch) for each in (end, *_branches_in(end.sinks)))


def _missing_of(sink: object) -> list[str]:
    return [name for name in ("name", "session_settings", "describe", "open") if not hasattr(sink, name)]


def _refuse_bad_names(pipeline: Pipeline) -> None:
    if not pipeline.sinks:
        raise PipelineError(f"the pipeline {pipeline.name!r} has no sinks")
    needs_sources = [sink for sink in pipeline.sinks if not isinstance(sink, Branch) or not sink.sources]
    if not pipeline.sources and (needs_sources or pipeline.dead_letters is not None):
        raise PipelineError(f"the pipeline {pipeline.name!r} has no sources")
    branches = branches_of(pipeline)
    for branch in branches:
        _refuse_branch(branch, pipeline)
    for sink in sinks_of(pipeline):
        if not isinstance(sink, Sink):
            raise PipelineError(
                f"{type(sink).__name__} is not a sink: it lacks {', '.join(_missing_of(sink))}",
                "The guide on pipelines says how a sink is written.",
            )
    ours = (MAIN_QUERY, DEAD_LETTERS) if pipeline.sources else ()
    for kind, names in (
        ("sink", [sink.name for sink in sinks_of(pipeline)]),
        ("branch", [*ours, *(branch.name for branch in branches)]),
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


def _refuse_branch(branch: Branch, pipeline: Pipeline) -> None:
    if not branch.sinks:
        raise PipelineError(f"the branch {branch.name!r} has no sinks")
    if branch.mode != "append" and not branch.stateful:
        raise PipelineError(
            f"the branch {branch.name!r} asks for the output mode {branch.mode!r} but is not stateful",
            "Only a query of its own has an output mode: say stateful=True.",
        )
    if branch not in pipeline.sinks and is_query(branch):
        raise PipelineError(
            f"the branch {branch.name!r} is within another one, and would be a query of its own",
            "A branch with state or sources belongs to the pipeline itself.",
        )
    before = [sink.name for sink in pipeline.sinks if isinstance(sink, Branch) and is_query(sink)]
    before = before[: before.index(branch.name)] if branch.name in before else []
    unknown = [name for name in branch.after if name not in before]
    if unknown:
        raise PipelineError(
            f"the branch {branch.name!r} comes after {unknown[0]!r}, which is no query before it",
            "Put the branch behind those that it comes after, which have state or sources.",
        )
