"""Queries in Spark's real-time mode: `trigger="realtime"`, or "realtime 5 seconds" with the interval of checkpoints.

Long tasks read, compute and write each row at once, so there are no batches that begin and end: a checkpoint is made
each interval, and what was written since the last one is written again after a failure or a stop. Rows go from Spark's
own Kafka connector to one topic by Spark's own sink, at least once and without times of their own. A query cannot be
held, so a run in real time is not paused.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from penstock.pipelines.causes import first_cause
from penstock.pipelines.errors import BatchError, PipelineError
from penstock.pipelines.intervals import spark_interval
from penstock.pipelines.pipeline import REAL_TIME, Pipeline, Settings, is_real_time
from penstock.pipelines.runtime.batch_writing import fold
from penstock.pipelines.runtime.query_plan import QueryPlan
from penstock.pipelines.sinks.topic import TopicSink
from penstock.pipelines.topic_source import client_options

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming import StreamingQuery

logger = logging.getLogger(__name__)

# No row goes on while a checkpoint is made and the next tasks start, 0.5 to 4 s on two busy cores. With Spark's least,
# 5 seconds, a large part of all rows waits for that; with a minute a few in a hundred do.
USUAL_INTERVAL = "1 minute"
NO_PAUSE = "a query in real time cannot be held; stop it, and a new run goes on"


@dataclass(slots=True)
class RowWriting:
    """The progress of a query that writes its rows itself, with the attributes of `BatchWriting`."""

    sink: TopicSink
    settings: Settings
    written: Mapping[str, int] = field(default_factory=dict)  # rows by sink since the start; replaced, never changed
    is_held: bool = False
    is_computing: bool = False
    at_work: frozenset[str] = frozenset()

    @property
    def busy_with(self) -> str:
        return f"its rows, on their way to the sink {self.sink.name} ({self.sink.describe(self.settings)})"

    def note(self, report: Mapping[str, Any]) -> None:
        """`report` is the JSON of a StreamingQueryProgress; Spark writes -1 for an unknown number."""
        rows = max(0, int(report.get("sink", {}).get("numOutputRows") or 0))
        self.written = {**self.written, self.sink.name: self.written.get(self.sink.name, 0) + rows}


def interval_of(settings: Settings) -> str:
    """The interval of checkpoints, as Spark writes intervals."""
    return spark_interval(settings.trigger.removeprefix(REAL_TIME).strip() or USUAL_INTERVAL)


def check_real_time(pipeline: Pipeline, plans: Sequence[QueryPlan], once: bool) -> None:
    """PipelineError for what cannot run in real time. Its queries are to have been planned for that."""
    settings = pipeline.settings
    if not is_real_time(settings):
        return
    unfit = [plan.name for plan in plans if not plan.is_real_time]
    if unfit:
        raise PipelineError(
            f"the query {unfit[0]} works batch by batch, and has no rows in real time",
            "Only applications (penstock.streams) have the trigger realtime: leave it out.",
        )
    if settings.engine != "jvm":
        raise PipelineError(
            "only Spark's own Kafka connector reads topics in real time",
            "Set engine=jvm, with the connector's jars on the class path: --set spark.jars=...",
        )
    if once:
        raise PipelineError(
            "a query in real time has no end, and a run with `once` waits for it", "Leave one of both out."
        )


def start_in_real_time(
    rows: DataFrame, plan: QueryPlan, settings: Settings, name: str, checkpoint: str
) -> tuple[StreamingQuery, RowWriting]:
    (output,) = plan.outputs
    sink = output.sink
    assert isinstance(sink, TopicSink), "what is planned for real time writes topics"
    records = sink.records(fold(output.steps, rows)).drop("timestamp")  # the connector's sink has no column for it
    options = client_options(settings) | {"checkpointLocation": checkpoint}
    if sink.fixed_topic is not None:
        options["topic"] = sink.fixed_topic
    writer = records.writeStream.queryName(name).outputMode("update").format("kafka").options(**options)
    logger.warning("%s runs in real time: %s, from checkpoint to checkpoint", name, sink.describe(settings))
    query = writer.trigger(realTime=interval_of(settings)).start()  # type: ignore[call-overload]
    return query, RowWriting(sink, settings)


def explained(query: str, writing: RowWriting, error: Exception) -> PipelineError:
    return BatchError(
        f"{query} failed at {writing.busy_with}: {first_cause(str(error))}",
        "Nothing of it is lost: what came since its last checkpoint is computed and written again when it is started.",
    )
