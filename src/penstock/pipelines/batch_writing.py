"""What happens to one micro-batch: its rows go to each sink of its query, counted on the way."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import TYPE_CHECKING

from penstock.pipelines.dead_letters import SOURCE, can_fail, good_or_fail, only_good, to_dead_letters
from penstock.pipelines.observed import count_rows, rows_counted
from penstock.pipelines.pipeline import Batch, Pipeline, Step
from penstock.pipelines.planning import Output, QueryPlan

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

# A sink that reads in a way Spark cannot count is not waited for.
_COUNT_WAIT_S = 5.0


@dataclass(slots=True)
class BatchWriting:
    """Called by Spark with each batch, on the thread of its query."""

    pipeline: str
    plan: QueryPlan
    keeps_dead_letters: bool
    # Rows by sink since the start, for whoever shows progress; replaced, never changed, since others read it.
    written: Mapping[str, int] = field(default_factory=dict)
    # What the batch is busy with: the first thing to say when it fails.
    busy_with: str = ""

    def __call__(self, rows: DataFrame, batch_id: int) -> None:
        batch = Batch(_query_id(rows), f"{self.pipeline}/{self.plan.name}", batch_id)
        is_shared = len(self.plan.outputs) > 1
        if is_shared:
            rows.persist()  # or every sink would read the topic again
        try:
            for output in self.plan.outputs:
                self._write(output, rows, batch)
        finally:
            if is_shared:
                rows.unpersist()
        self.busy_with = ""

    def _write(self, output: Output, rows: DataFrame, batch: Batch) -> None:
        self.busy_with = f"the sink {output.sink.name} ({output.sink.describe()})"
        counted, observed = count_rows(self._rows_for(output, rows))
        output.sink.write(counted, batch)
        count = rows_counted(observed, _COUNT_WAIT_S) or 0
        self.written = {**self.written, output.sink.name: self.written.get(output.sink.name, 0) + count}

    def _rows_for(self, output: Output, rows: DataFrame) -> DataFrame:
        if output.takes_errors:
            return to_dead_letters(rows, self.pipeline) if can_fail(rows) else rows.limit(0)
        good = good_rows(rows, self.keeps_dead_letters)
        chosen = fold(output.steps, good)
        return chosen.drop(SOURCE)


def good_rows(rows: DataFrame, keeps_dead_letters: bool) -> DataFrame:
    if not can_fail(rows):
        return rows
    return only_good(rows) if keeps_dead_letters else good_or_fail(rows)


def combined(pipeline: Pipeline, frames: Sequence[DataFrame]) -> DataFrame:
    """The rows of all sources, as the first step is given them."""
    if pipeline.combine is not None:
        return pipeline.combine(*frames)
    return reduce(lambda one, other: one.unionByName(other), frames)


def fold(steps: tuple[Step, ...], rows: DataFrame) -> DataFrame:
    return reduce(lambda frame, step: step(frame), steps, rows)


def _query_id(rows: DataFrame) -> str:
    found = rows.sparkSession.sparkContext.getLocalProperty("sql.streaming.queryId")
    assert found is not None, "Spark names the query on the thread that runs its batches"
    return found
