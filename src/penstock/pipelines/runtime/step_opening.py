"""The steps of a run: opened before its first batch, tried on its rows, closed at its end."""

from __future__ import annotations

from contextlib import ExitStack, closing
from dataclasses import replace
from typing import TYPE_CHECKING

from penstock.pipelines.causes import first_cause
from penstock.pipelines.errors import PipelineError
from penstock.pipelines.intervals import spark_interval
from penstock.pipelines.pipeline import Branch, OpenStep, Pipeline, Sink, Step, StepToOpen
from penstock.pipelines.runtime.batch_writing import fold, good_rows
from penstock.pipelines.runtime.query_plan import QueryPlan, branches_of, step_name

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def open_steps(pipeline: Pipeline, to_close: ExitStack) -> Pipeline:
    """The pipeline with its steps open. Raises PipelineError."""

    def opened(sink: Sink | Branch, within: Pipeline) -> Sink | Branch:
        if not isinstance(sink, Branch):
            return sink
        if sink.sources:
            within = replace(within, sources=sink.sources, combine=sink.combine, steps=())
        inner = tuple(opened(each, within) for each in sink.sinks)
        return replace(sink, steps=_open_all(sink.steps, within, to_close), sinks=inner)

    steps = _open_all(pipeline.steps, pipeline, to_close)
    return replace(pipeline, steps=steps, sinks=tuple(opened(sink, pipeline) for sink in pipeline.sinks))


def is_outdated(pipeline: Pipeline) -> bool:
    """Whether one of the open steps is."""
    branches = [branch.steps for branch in branches_of(pipeline)]
    return any(_is_outdated(step) for steps in (pipeline.steps, *branches) for step in steps)


def rows_of(plan: QueryPlan, rows: DataFrame, pipeline: Pipeline) -> DataFrame:
    """The rows that the query is to write, from those that the steps of its input have left.

    A branch without state has its steps in each batch. Those with open steps are tried here, so that an open step finds
    faults of the columns before the first batch."""
    good, watermark = good_rows(rows, plan.keeps_dead_letters), pipeline.settings.watermark
    if plan.is_stateful:
        if watermark is not None:
            good = good.withWatermark(watermark.column, spark_interval(watermark.delay))
        rows = good = fold(named_in_errors(plan.steps), good)
    for output in plan.outputs:
        if any(isinstance(step, OpenStep) for step in output.steps):
            fold(named_in_errors(output.steps), good)
    return rows


def named_in_errors(steps: tuple[Step, ...]) -> tuple[Step, ...]:
    """A step that Spark refuses when it is put together is named in the error; later ones are found by `postmortem`."""
    return tuple(_named(step) for step in steps)


def _open_all(steps: tuple[Step, ...], pipeline: Pipeline, to_close: ExitStack) -> tuple[Step, ...]:
    return tuple(_open(step, pipeline, to_close) for step in steps)


def _open(step: Step, pipeline: Pipeline, to_close: ExitStack) -> Step:
    if not isinstance(step, StepToOpen):
        return step
    try:
        return to_close.enter_context(closing(step.open(pipeline)))
    except PipelineError as error:
        raise _cannot_be_used(step, error) from error


def _is_outdated(step: Step) -> bool:
    return isinstance(step, OpenStep) and step.is_outdated()


def _named(step: Step) -> Step:
    from pyspark.errors import PySparkException

    def apply(rows: DataFrame) -> DataFrame:
        try:
            return step(rows)
        except PySparkException as error:
            raise PipelineError(
                f"the step {step_name(step)} does not fit its rows: {first_cause(str(error))}",
                f"The rows it is given have: {', '.join(rows.columns)}.",
            ) from error
        except PipelineError as error:
            raise _cannot_be_used(step, error) from error

    return apply


def _cannot_be_used(step: Step, error: PipelineError) -> PipelineError:
    return PipelineError(f"the step {step_name(step)} cannot be used: {error.message}", error.hint)
