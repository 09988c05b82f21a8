"""Both ends of a run's queries: sinks opened, sources opened and brought together, and the steps that queries share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from typing import TYPE_CHECKING, Protocol

from penstock.pipelines.causes import first_cause
from penstock.pipelines.errors import PipelineError
from penstock.pipelines.pipeline import OpenSink, Pipeline, Settings, Settling, Sink, Source
from penstock.pipelines.runtime.batch_writing import combined, fold
from penstock.pipelines.runtime.query_plan import QueryPlan, sinks_of
from penstock.pipelines.runtime.step_opening import named_in_errors

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_NO_CONNECTOR = "KAFKA_DATA_SOURCE_NOT_ENABLED"
_JARS = (
    "engine=jvm needs the jars of Spark's own Kafka connector: --set spark.jars=... or --set spark.jars.packages=..."
)


class Opening(Protocol):
    opening: str  # what is opened now, for people


def read_rows(spark: SparkSession, plans: Sequence[QueryPlan], settings: Settings) -> list[DataFrame]:
    """The rows of each plan, in their order. Plans with the same input share its frame."""
    by_owner: dict[str, DataFrame] = {}
    for plan in plans:
        if plan.input.owner not in by_owner:
            frames = [_open_source(source, spark, settings) for source in plan.input.sources]
            by_owner[plan.input.owner] = fold(named_in_errors(plan.input.steps), combined(plan.input, frames))
    return [by_owner[plan.input.owner] for plan in plans]


def open_ends(
    spark: SparkSession, pipeline: Pipeline, plans: Sequence[QueryPlan], to_close: ExitStack, opening: Opening
) -> tuple[dict[str, OpenSink], list[DataFrame]]:
    """The sinks by name, and the rows of each plan. Together: a metastore takes seconds to open, and so does Spark's
    search for sources."""
    from pyspark import inheritable_thread_target

    opened: dict[str, OpenSink] = {}

    def open_sinks() -> None:
        for sink in sinks_of(pipeline):
            opening.opening = f"the sink {sink.name}"
            opened[sink.name] = to_close.enter_context(closing(_open_sink(sink, spark, pipeline.settings)))
        opening.opening = "the sources"

    with ThreadPoolExecutor(1, "open-sinks") as beside:
        sinks = beside.submit(inheritable_thread_target(spark)(open_sinks))
        try:
            rows = read_rows(spark, plans, pipeline.settings)
        except PipelineError:
            sinks.result()  # a sink's error comes before this one
            raise
        sinks.result()
    return opened, rows


def settle(ended: Iterable[QueryPlan], opened: Mapping[str, OpenSink], pause: Callable[[float], bool]) -> None:
    """Lets readers see what these queries wrote; `opened` has sinks by name. See `Settling`."""
    for name in dict.fromkeys(output.sink.name for plan in ended for output in plan.outputs):
        sink = opened[name]
        if isinstance(sink, Settling):
            sink.settle(pause)


def _open_sink(sink: Sink, spark: SparkSession, settings: Settings) -> OpenSink:
    try:
        return sink.open(spark, settings)
    except PipelineError as error:
        raise PipelineError(f"the sink {sink.name} cannot be used: {error.message}", error.hint) from error


def _open_source(source: Source, spark: SparkSession, settings: Settings) -> DataFrame:
    from pyspark.errors import PySparkException

    try:
        return source.read(spark, settings)
    except PySparkException as error:
        hint = _JARS if _NO_CONNECTOR in str(error) else ""
        raise PipelineError(f"the source {source.name} cannot be read: {first_cause(str(error))}", hint) from error
