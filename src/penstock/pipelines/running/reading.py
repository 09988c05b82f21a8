"""The rows that a run's queries begin with: their sources opened and brought together, and the steps they share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from penstock.pipelines.errors import PipelineError
from penstock.pipelines.pipeline import Settings, Source
from penstock.pipelines.running.batch_writing import combined, fold
from penstock.pipelines.running.planning import QueryPlan
from penstock.pipelines.running.postmortem import first_cause
from penstock.pipelines.running.step_opening import named_in_errors

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def read_rows(spark: SparkSession, plans: Sequence[QueryPlan], settings: Settings) -> list[DataFrame]:
    """Of each plan, in their order. Plans with the same input share its frame."""
    by_owner: dict[str, DataFrame] = {}
    for plan in plans:
        if plan.input.owner not in by_owner:
            frames = [_open_source(source, spark, settings) for source in plan.input.sources]
            by_owner[plan.input.owner] = fold(named_in_errors(plan.input.steps), combined(plan.input, frames))
    return [by_owner[plan.input.owner] for plan in plans]


def _open_source(source: Source, spark: SparkSession, settings: Settings) -> DataFrame:
    from pyspark.errors import PySparkException

    try:
        return source.read(spark, settings)
    except PySparkException as error:
        raise PipelineError(f"the source {source.name} cannot be read: {first_cause(str(error))}") from error
