"""Writes the rows of one Spark task, for the data source's writers and for a pipeline's sink."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from penstock.pipelines.options import OptionError
from penstock.pipelines.pipeline import always_wanted
from penstock.pipelines.topic_writing import clients
from penstock.pipelines.topic_writing.errors import RefusedError, WriteError
from penstock.pipelines.topic_writing.marker import TaskOfBatch
from penstock.pipelines.topic_writing.rows import ColumnPlan
from penstock.pipelines.topic_writing.transactional import write_once
from penstock.pipelines.topic_writing.write_options import SinkOptions

if TYPE_CHECKING:
    import pyarrow as pa

logger = logging.getLogger(__name__)

_ATTEMPTS = 4
# Set by Spark on the jobs of a streaming query.
QUERY_ID_PROPERTY = "sql.streaming.queryId"
BATCH_ID_PROPERTY = "streaming.sql.batchId"
# Into how many tasks the job is cut. The sink sets it before it starts the job: Spark does not tell a Python task.
TASKS_PROPERTY = "penstock.sink.tasks"
# Of what TaskWrite.in_arrow yields.
RESULT_SCHEMA = "task int, rows long, was_there boolean"


@dataclass(frozen=True, slots=True)
class Written:
    task: int
    rows: int
    was_there: bool = False


@dataclass(frozen=True, slots=True)
class TaskWrite:
    """Pickled to the executors, so it holds plain values only."""

    options: SinkOptions
    plan: ColumnPlan

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Written:
        if not self.options.is_exactly_once:
            return Written(_task_number(), self._write(batches))
        work = task_of_batch(self.options)
        rows = write_once(batches, self.plan, self.options, work)
        return Written(work.task, rows or 0, was_there=rows is None)

    def in_arrow(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The function for DataFrame.mapInArrow."""
        import pyarrow as pa

        written = self(batches)
        columns = [
            pa.array([written.task], pa.int32()),
            pa.array([written.rows], pa.int64()),
            pa.array([written.was_there]),
        ]
        yield pa.RecordBatch.from_arrays(columns, names=["task", "rows", "was_there"])

    def write_here(self, batches: Sequence[pa.RecordBatch], is_wanted: Callable[[], bool] = always_wanted) -> None:
        """All rows of a batch at once, on the driver. WriteError, within seconds, when they are no longer wanted."""
        options = self.options
        if not options.is_exactly_once:
            _try_as_tasks_do(lambda: self._write(batches, is_wanted), is_wanted)
            return
        work = _whole_batch(options)
        _try_as_tasks_do(lambda: write_once(batches, self.plan, options, work, is_wanted), is_wanted)

    def _write(self, batches: Iterable[pa.RecordBatch], is_wanted: Callable[[], bool] = always_wanted) -> int:
        sender = clients.take_sender(self.options)
        sender.begin(is_wanted)
        is_done, rows = False, 0
        try:
            for batch in batches:
                sender.send(batch, self.plan)
                rows += batch.num_rows
            sender.finish()
            is_done = True
        finally:
            if not is_done:
                sender.discard()
        clients.give_sender_back(self.options, sender)
        return rows


def task_of_batch(options: SinkOptions) -> TaskOfBatch:
    from pyspark import TaskContext

    context = TaskContext.get()
    if context is None:
        raise WriteError("rows are written by Spark tasks only")
    query_id = options.query_id or context.getLocalProperty(QUERY_ID_PROPERTY)
    batch_id = options.batch_id if options.batch_id is not None else context.getLocalProperty(BATCH_ID_PROPERTY)
    if query_id is None or batch_id is None:
        raise OptionError("options queryId and batchId must be given: Spark does not name this query and batch")
    tasks = context.getLocalProperty(TASKS_PROPERTY)
    work = TaskOfBatch(query_id, options.sink_name, int(batch_id), context.partitionId())
    return work if tasks is None else replace(work, tasks=int(tasks))


def close_writers_here(options: SinkOptions) -> None:
    """Closes the clients that `write_here` has kept for this query and sink."""
    clients.close_kept(options, _whole_batch(options).transactional_id)


def _whole_batch(options: SinkOptions) -> TaskOfBatch:
    assert options.query_id is not None
    assert options.batch_id is not None
    return TaskOfBatch(options.query_id, options.sink_name, options.batch_id, task=0, tasks=1)


def _try_as_tasks_do(write: Callable[[], object], is_wanted: Callable[[], bool]) -> None:
    """As often as Spark tries a task: what fails once may have met a broker on its way down."""
    for left in reversed(range(_ATTEMPTS)):
        try:
            write()
        except WriteError as error:
            if not left or isinstance(error, RefusedError) or not is_wanted():
                raise
            logger.warning("writing failed, trying again: %s", error)
        else:
            return


def _task_number() -> int:
    from pyspark import TaskContext

    context = TaskContext.get()
    return context.partitionId() if context is not None else 0
