"""Writes one micro-batch: its rows go to each sink of its query, counted on the way."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial, reduce
from typing import TYPE_CHECKING

from penstock.pipelines.dead_letters import SOURCE, can_fail, good_or_fail, only_good, to_dead_letters
from penstock.pipelines.observed_rows import count_rows, rows_counted
from penstock.pipelines.pipeline import DEFAULT_SETTINGS, Batch, OpenSink, Settings, Step
from penstock.pipelines.runtime.batch_gate import BatchGate
from penstock.pipelines.runtime.query_plan import Input, Output, QueryPlan
from penstock.pipelines.runtime.side_by_side import run_side_by_side
from penstock.pipelines.sinks.topic import TopicSink
from penstock.pipelines.spark_settings import ADAPTIVE, temporary_settings

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming import StreamingQuery

logger = logging.getLogger(__name__)

# A sink that reads in a way Spark cannot count is not waited for.
_COUNT_WAIT_S = 5.0
_POLL_S = 0.05


class StoppedError(Exception):
    """The query of this batch was stopped. The batch comes again at the next start.

    Spark takes a batch for one that a stop has interrupted, and logs nothing, when it finds certain words in the text
    of its error. It looks for them with a regular expression that recurses for each character, so the text of a usual
    error, with Java's stack trace in it, ends the query's thread with a StackOverflowError and a thousand lines on the
    terminal.
    """

    def __init__(self) -> None:
        super().__init__(
            "py4j.protocol.Py4JJavaError: An error occurred while calling\n: java.lang.InterruptedException"
        )


@dataclass(slots=True)
class BatchWriting:
    """Called by Spark with each batch, on the thread of its query."""

    pipeline: str
    plan: QueryPlan
    keeps_dead_letters: bool
    settings: Settings = DEFAULT_SETTINGS
    opened: Mapping[str, OpenSink] = field(default_factory=dict)  # by the sink's name
    # Rows by sink since the start. Views of the progress read it on their own threads: replaced, never changed.
    written: Mapping[str, int] = field(default_factory=dict)
    # The sink that the batch is busy with, or that failed first: the error of a failed batch names it.
    busy_with: str = ""
    # Set when the run comes to its end: no further batch is begun, and one that comes nevertheless is held.
    ending: threading.Event = field(default_factory=threading.Event)
    # Closed while the run is paused: a batch that comes waits, and then begins or, at the run's end, is held for good.
    gate: BatchGate = field(default_factory=BatchGate)
    is_held: bool = False
    query: StreamingQuery | None = None  # not known before the first batch may come
    # The present work of a batch, for users. Read on other threads: replaced, never changed.
    is_computing: bool = False
    at_work: frozenset[str] = frozenset()  # the sinks, by name
    _noting: threading.Lock = field(default_factory=threading.Lock)

    def __call__(self, rows: DataFrame, batch_id: int) -> None:
        if not self._may_begin():
            self._wait_for_stop()
            raise StoppedError
        try:
            self._write_all(rows, batch_id)
        except Exception as error:  # from Spark, whose jobs were cancelled, or from a sink that was cancelled
            if self._is_stopped():
                logger.info("batch %d of %s was stopped: %s", batch_id, self.plan.name, error)
                raise StoppedError from None
            raise
        finally:
            self.gate.leave()

    def _may_begin(self) -> bool:
        """Waits while the run is paused. Spark has planned the batch already, so a batch that never begins comes again,
        with the same records, at the next start."""
        while not self.ending.is_set():
            if self.gate.try_enter():
                self.is_held = False
                return True
            self.is_held = True
            if self._is_stopped():
                return False
            time.sleep(_POLL_S)
        return False

    def _wait_for_stop(self) -> None:
        """Spark has to have stopped the query, or it would take the batch for a failed one."""
        self.is_held = True
        while not self._is_stopped():
            time.sleep(_POLL_S)

    def _is_stopped(self) -> bool:
        return self.query is not None and not self.query.isActive

    def _write_all(self, rows: DataFrame, batch_id: int) -> None:
        name = f"{self.pipeline}/{self.plan.name}"
        batch = Batch(_query_id(rows), name, batch_id, is_wanted=lambda: not self._is_stopped())
        self.busy_with = ""
        if len(self.plan.outputs) == 1 and not self.plan.is_stateful:
            self._write_in_turn(self.plan.outputs, rows, batch)
            return
        # Or every sink would read the topic again. The rows of a state are few, and to know how few is worth a job.
        rows.persist()
        try:
            self.is_computing = True
            try:
                batch = replace(batch, size=keep_in_memory(rows))
            finally:
                self.is_computing = False
            outputs = in_order_of_start(self.plan.outputs)
            if batch.is_small and len(outputs) > 1:
                self._write_side_by_side(outputs, rows, batch)
            else:
                self._write_in_turn(outputs, rows, batch)
        finally:
            rows.unpersist()

    def _write_in_turn(self, outputs: Sequence[Output], rows: DataFrame, batch: Batch) -> None:
        """Each sink keeps all cores busy with a large batch, and some change the session's settings meanwhile."""
        for output in outputs:
            self.busy_with = self._name(output)
            self._write(output, rows, batch)
        self.busy_with = ""

    def _write_side_by_side(self, outputs: Sequence[Output], rows: DataFrame, batch: Batch) -> None:
        """Much of a sink's time with a small batch is waiting: for planning, for brokers, for files. Returns, or raises
        what failed first, when no sink is at work any more."""
        from pyspark import InheritableThread  # its jobs belong to the query, which may cancel them

        works = {self._name(output): partial(self._write, output, rows, batch) for output in outputs}
        with temporary_settings(rows.sparkSession, {ADAPTIVE: "false"}):
            failures = run_side_by_side(works, InheritableThread)
        for failure in failures[1:] if batch.is_wanted() else ():
            logger.warning("batch %d of %s failed at %s as well: %s", batch.id, batch.query_name, *failure)
        if failures:
            self.busy_with, error = failures[0]
            raise error

    def _write(self, output: Output, rows: DataFrame, batch: Batch) -> None:
        name = output.sink.name
        with self._noting:
            self.at_work |= {name}
        try:
            counted, observed = count_rows(self._rows_for(output, rows))
            self.opened[name].write(counted, batch)
            count = rows_counted(observed, _COUNT_WAIT_S) or 0
        finally:
            with self._noting:
                self.at_work -= {name}
        with self._noting:
            self.written = {**self.written, name: self.written.get(name, 0) + count}

    def _name(self, output: Output) -> str:
        return f"the sink {output.sink.name} ({output.sink.describe(self.settings)})"

    def _rows_for(self, output: Output, rows: DataFrame) -> DataFrame:
        if output.takes_errors:
            return to_dead_letters(rows, self.pipeline) if can_fail(rows) else rows.limit(0)
        good = good_rows(rows, self.keeps_dead_letters)
        chosen = fold(output.steps, good)
        return chosen.drop(SOURCE)


def keep_in_memory(rows: DataFrame) -> int:
    """Computes rows that are to be kept, and returns how many bytes they take."""
    # All columns are kept, and none is read for it. No SQL around it: less to plan, and nothing to report.
    rows.selectExpr("1 AS one")._jdf.queryExecution().toRdd().count()
    kept = rows.select("*")._jdf.queryExecution().optimizedPlan()
    return int(kept.stats().sizeInBytes())


def in_order_of_start(outputs: Sequence[Output]) -> Sequence[Output]:
    """Topics first: consumers may wait for their records, and Spark runs jobs in the order in which they come."""
    return sorted(outputs, key=lambda output: not isinstance(output.sink, TopicSink))


def good_rows(rows: DataFrame, keeps_dead_letters: bool) -> DataFrame:
    if not can_fail(rows):
        return rows
    return only_good(rows) if keeps_dead_letters else good_or_fail(rows)


def combined(given: Input, frames: Sequence[DataFrame]) -> DataFrame:
    """The rows of all sources, as the first step is given them."""
    if given.combine is not None:
        return given.combine(*frames)
    return reduce(lambda rows, other: rows.unionByName(other), frames)


def fold(steps: tuple[Step, ...], rows: DataFrame) -> DataFrame:
    return reduce(lambda frame, step: step(frame), steps, rows)


def _query_id(rows: DataFrame) -> str:
    query_id = rows.sparkSession.sparkContext.getLocalProperty("sql.streaming.queryId")
    assert query_id is not None, "Spark names the query on the thread that runs its batches"
    return query_id
