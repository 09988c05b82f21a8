"""Replaces outdated steps: opens them anew and tries them on the rows, while the run goes on with the old ones.

The run restarts only when the trial succeeds. A schema that cannot be used, a registry that is away and a sink's
subject that refuses the new columns are no reason to end a run that works: a warning names them, and another trial
follows later.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from penstock.pipelines.errors import PipelineError
from penstock.pipelines.pipeline import Pipeline
from penstock.pipelines.runtime.query_plan import QueryPlan, plan_queries
from penstock.pipelines.runtime.step_opening import open_steps, rows_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

logger = logging.getLogger(__name__)

# The user who registered an unusable schema, or has to start a registry again, needs a while to mend it.
RETRY_S = 30.0
# Operators of Spark that keep state, as their names begin.
_WITH_STATE = ("Aggregate", "Deduplicate", "Distinct", "FlatMapGroups", "Join", "TransformWithState")


@dataclass(frozen=True, slots=True)
class Renewed:
    """A pipeline whose steps are open, and the stack that closes them."""

    pipeline: Pipeline
    to_close: ExitStack


class Renewing:
    """For one run. `read` gives the rows that the steps of a query's input leave, for the queries of an open pipeline,
    in their order."""

    def __init__(
        self, read: Callable[[Sequence[QueryPlan]], Sequence[DataFrame]], now: Callable[[], float] = time.monotonic
    ) -> None:
        self._read = read
        self._now = now
        self._not_before = float("-inf")
        self._told = ""

    def attempt(self, pipeline: Pipeline, current: Pipeline) -> Renewed | None:
        """`current` is the pipeline with the steps that are open now. None where the run is to go on with them."""
        if self._now() < self._not_before:
            return None
        to_close = ExitStack()
        try:
            opened = open_steps(pipeline, to_close)
            self._try(opened, current)
        except PipelineError as error:
            to_close.close()
            self._not_before = self._now() + RETRY_S
            if error.message != self._told:
                logger.warning("%s goes on with the columns it has: %s %s", pipeline.name, error.message, error.hint)
            self._told = error.message
            return None
        except BaseException:
            to_close.close()
            raise
        self._told = ""
        return Renewed(opened, to_close)

    def _try(self, opened: Pipeline, current: Pipeline) -> None:
        plans, before = plan_queries(opened), {plan.name: plan for plan in plan_queries(current)}
        for plan, rows in zip(plans, self._read(plans), strict=True):
            chosen = rows_of(plan, rows, opened)
            if not plan.is_stateful:
                continue
            (had,) = self._read([before[plan.name]])
            if state_of(chosen) != state_of(rows_of(before[plan.name], had, current)):
                raise PipelineError(
                    f"the state of the branch {plan.name} has columns that the new schema changes, and Spark cannot"
                    " change the columns of a state",
                    "Begin the branch with select(...) of the columns it needs, or start the pipeline again with a"
                    " fresh checkpoint.",
                )


def state_of(rows: DataFrame) -> list[str]:
    """The columns that reach each operator with state, without those that no operator uses."""
    session: Any = rows.sparkSession
    optimizer = session._jsparkSession.sessionState().optimizer()
    return _states(optimizer.execute(rows._jdf.queryExecution().analyzed()))


def _states(node: Any) -> list[str]:
    children = [node.children().apply(number) for number in range(node.children().size())]
    found = [state for child in children for state in _states(child)]
    name = str(node.nodeName())
    if not name.startswith(_WITH_STATE):
        return found
    if name.startswith("Deduplicate"):  # only of what is compared
        keys = [node.keys().apply(number) for number in range(node.keys().size())]
        return [*found, name, *(f"{key.name()} {key.dataType().json()}" for key in keys)]
    return [*found, name, *(str(child.schema().json()) for child in children)]
