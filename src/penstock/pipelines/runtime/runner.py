"""Runs a pipeline: its sinks opened, one Spark query per plan, until it is stopped, done or failed.

Other programs see the run and command it by way of two topics (`penstock.runs`). Their commands come on a thread of the
publisher and only set flags: a batch checks the gate before it begins, and `wait` restarts and stops.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Protocol

from penstock.core.clock import SystemClock
from penstock.pipelines.causes import first_cause
from penstock.pipelines.errors import BatchError, PipelineError
from penstock.pipelines.intervals import spark_interval
from penstock.pipelines.locations import path_here
from penstock.pipelines.pipeline import OpenSink, Pipeline, Settings, is_real_time
from penstock.pipelines.progress.query_progress import QueryProgress, advance
from penstock.pipelines.runtime.batch_gate import BatchGate
from penstock.pipelines.runtime.batch_writing import BatchWriting
from penstock.pipelines.runtime.graph import graph_of
from penstock.pipelines.runtime.postmortem import UnreadableError, find_failed_batch, find_failing_step
from penstock.pipelines.runtime.query_ends import open_ends, read_rows, settle
from penstock.pipelines.runtime.query_plan import QueryPlan, plan_queries
from penstock.pipelines.runtime.query_start import start_patiently
from penstock.pipelines.runtime.real_time import NO_PAUSE, RowWriting, check_real_time, explained, start_in_real_time
from penstock.pipelines.runtime.run_publisher import open_publisher
from penstock.pipelines.runtime.spark.session import batches_with_rows, default_file_system
from penstock.pipelines.runtime.step_opening import is_outdated, open_steps, rows_of
from penstock.pipelines.runtime.step_renewal import Renewed, Renewing
from penstock.pipelines.spark_log import SPARK_LOG
from penstock.runs.lifecycle import Action, Fact
from penstock.runs.publisher import RunPublisher, new_run_id
from penstock.runs.records import CommandOutcome, State, Verb
from penstock.runs.status import RunStatus

if TYPE_CHECKING:
    from pyspark.errors import StreamingQueryException
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery

logger = logging.getLogger(__name__)

AVAILABLE_NOW = "available-now"
_POLL_S = 0.2
_READING = "reading its sources"
# How long a batch may go on after a stop before it is interrupted; it would come again at the next start.
_STOP_WAIT_S = 30.0


class Upkeep(Protocol):
    """The owner's work in a run besides its queries, on the thread that starts the run and waits for it."""

    def prepare(self) -> None:
        """Before the run is published. Raises PipelineError."""

    def look(self) -> None:
        """Several times a second. Raises PipelineError where the run must not go on; it is ended then."""

    def close(self) -> None:
        """After the run has ended, in whatever way. Not called where `prepare` has failed."""


@dataclass(slots=True)
class RunningQuery:
    plan: QueryPlan
    query: StreamingQuery
    writing: BatchWriting | RowWriting
    checkpoint: str
    progress: QueryProgress


@dataclass(slots=True)
class Run:
    """One run of one pipeline in one session. `stop`, `pause`, `resume` and `restart` may be called from another
    thread, and none of them from a signal handler: they take locks that the interrupted thread may hold."""

    spark: SparkSession
    pipeline: Pipeline
    once: bool = False
    queries: list[RunningQuery] = field(default_factory=list)
    id: str = ""
    opening: str = ""  # what `start` is busy with, for people
    upkeep: Upkeep | None = None
    _waiting: list[tuple[QueryPlan, DataFrame]] = field(default_factory=list)  # queries that are yet to start
    _stopping: threading.Event = field(default_factory=threading.Event)
    _restarting: threading.Event = field(default_factory=threading.Event)
    _ending: threading.Event = field(default_factory=threading.Event)  # of the queries that run now
    _opened: dict[str, OpenSink] = field(default_factory=dict)  # by the sink's name
    _to_close: ExitStack = field(default_factory=ExitStack)
    _followers: list[Callable[[], None]] = field(default_factory=list)  # each ends one way of following progress
    _before: dict[str, QueryProgress] = field(default_factory=dict)  # by query, as of the last restart
    open_pipeline: Pipeline = field(init=False)  # with its steps open
    _renewed: Renewed | None = None  # the open steps that the requested restart begins with
    _renewing: Renewing = field(init=False)
    _gate: BatchGate = field(init=False)
    _status: RunStatus = field(init=False)
    _publisher: RunPublisher | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        self.id = self.id or new_run_id(self.pipeline.name)
        self.open_pipeline = self.pipeline
        self._renewing = Renewing(lambda plans: read_rows(self.spark, plans, self.pipeline.settings))
        self._gate = BatchGate(rested=lambda: self._status.note(Fact.RESTED))
        actions = {
            Action.HOLD: self._gate.close,
            Action.RELEASE: self._gate.open,
            Action.STOP: self.stop,
            Action.RESTART: self._restarting.set,
        }
        refusals = {Verb.PAUSE: NO_PAUSE} if is_real_time(self.pipeline.settings) else {}
        self._status = RunStatus(actions, SystemClock(), refusals)

    def start(self) -> None:
        plans = plan_queries(self.pipeline)  # a pipeline that cannot work is not published
        check_real_time(self.pipeline, plans, self.once)
        keep_private(checkpoint_of(self.pipeline), default_file_system(self.spark))
        if self.upkeep is not None:
            self.opening = "its topics"
            self.upkeep.prepare()
        self._publisher = open_publisher(self.pipeline, self.id, self._status, self.progress, SystemClock())
        with self._told_how_it_ends(Fact.STARTED):
            self._begin()

    def wait(self, every: Callable[[Run], None] | None = None, for_s: float | None = None) -> None:
        """Until all queries are done, one has failed, `stop` was called or the time is up; calls `every` meanwhile."""
        deadline = None if for_s is None else time.monotonic() + for_s
        trouble: PipelineError | None = None
        with self._told_how_it_ends(Fact.ENDED):
            while not self._stopping.is_set() and (self._waiting or any(each.query.isActive for each in self.queries)):
                if self._failed() is not None or self._lost_query():
                    break
                if self._waiting:
                    self._start_queries()
                if deadline is not None and time.monotonic() >= deadline:
                    break
                if self.state is State.RUNNING and not self.once and is_outdated(self.open_pipeline):
                    self._renew()
                if self._restarting.is_set():
                    self._restart()
                if every is not None:
                    every(self)
                trouble = _trouble_of(self.upkeep)
                if trouble is not None:
                    break
                self._stopping.wait(_POLL_S)
            self._finish(every)
            if trouble is not None:
                raise trouble

    def stop(self) -> None:
        self._stopping.set()
        self._ending.set()

    def pause(self) -> None:
        """The batches under way are finished, and no further one begins until `resume`. Returns at once."""
        self._ask(Verb.PAUSE)

    def resume(self) -> None:
        self._ask(Verb.RESUME)

    def restart(self) -> None:
        """The batches under way are finished; then sinks and queries are closed and opened anew, by `wait`."""
        self._ask(Verb.RESTART)

    @property
    def state(self) -> State:
        return self._status.view.state

    def progress(self) -> list[QueryProgress]:
        return [replace(running.progress, doing=_doing(running)) for running in self.queries]

    def _ask(self, verb: Verb) -> None:
        decision = self._status.ask(verb)
        if decision.outcome is CommandOutcome.REFUSED:
            raise PipelineError(f"the run {self.id} cannot {verb}: {decision.text}")

    @contextmanager
    def _told_how_it_ends(self, otherwise: Fact) -> Iterator[None]:
        """Others hear of a failure, or of `otherwise`, whatever way it comes. After the run's end there is no more to
        hear."""
        try:
            yield
        except BaseException as error:
            self._status.note(Fact.FAILED, getattr(error, "message", "") or str(error) or type(error).__name__)
            raise
        else:
            self._status.note(otherwise)
        finally:
            if self._status.is_ended:
                self._close_beside()

    def _close_beside(self) -> None:
        if self._publisher is not None:
            self._publisher.close()
            self._publisher = None
        if self.upkeep is not None:
            self.upkeep.close()

    def _begin(self) -> None:
        try:
            self.opening = "the steps"
            renewed, self._renewed = self._renewed, None
            if renewed is not None:
                self._to_close.enter_context(renewed.to_close)
                self.open_pipeline = renewed.pipeline
            else:
                self.open_pipeline = open_steps(self.pipeline, self._to_close)
            plans = plan_queries(self.open_pipeline)
            self._opened, rows = open_ends(self.spark, self.pipeline, plans, self._to_close, self)
            pairs = zip(plans, rows, strict=True)
            self._waiting = [(plan, rows_of(plan, frame, self.open_pipeline)) for plan, frame in pairs]
            if self._publisher is not None:
                self._publisher.draw(graph_of(self.open_pipeline, self.id))
            self._follow_progress()
            self._start_queries()
        except BaseException:
            with self._to_close:
                self._stop_queries()
            raise

    def _start_queries(self) -> None:
        """All of them; where they end by themselves, those only that wait for no other one any more."""
        ends = _ends_by_itself(self.pipeline.settings, self.once)
        unfinished = {running.plan.name for running in self.queries if running.query.isActive}
        unfinished |= {plan.name for plan, _ in self._waiting}
        waiting, self._waiting = self._waiting, []
        for plan, rows in waiting:
            if ends and not unfinished.isdisjoint(plan.after):
                self._waiting.append((plan, rows))
                continue
            if ends:
                before = (running.plan for running in self.queries if running.plan.name in plan.after)
                settle(before, self._opened, self._stopping.wait)
            self.opening = f"the query {plan.name}"
            self.queries.append(self._start(plan, rows))

    def _renew(self) -> None:
        """A restart with steps that are open already, so that it finds nothing to fail at."""
        renewed = self._renewing.attempt(self.pipeline, self.open_pipeline)
        if renewed is None:
            return
        try:
            self.restart()
        except PipelineError:  # another command wants the run to rest or to stop meanwhile
            renewed.to_close.close()
        else:
            self._renewed = renewed

    def _restart(self) -> None:
        self._ending.set()
        self._end_queries()
        self._before = {running.progress.query: running.progress for running in self.queries}
        self.queries, self._waiting, self._opened, self._to_close = [], [], {}, ExitStack()
        self._ending = threading.Event()
        self._restarting.clear()
        self._gate.open()
        if not self._stopping.is_set():  # a stop may have come meanwhile
            self._begin()
            self._status.note(Fact.STARTED)

    def _finish(self, every: Callable[[Run], None] | None) -> None:
        """Lets batches that run come to their end, then stops all; raises when one has failed."""
        self._status.note(Fact.ENDING)
        self.stop()
        if self._renewed is not None:  # a stop came before the restart
            self._renewed.to_close.close()
        self._end_queries(every)

    def _end_queries(self, every: Callable[[Run], None] | None = None) -> None:
        deadline = time.monotonic() + _STOP_WAIT_S
        lost = self._lost_query()
        ending = {running.progress.query: running.progress.batch_id for running in self.queries}
        failed = self._failed()
        while failed is None and _has_batches_to_end(self.queries, ending) and time.monotonic() < deadline:
            if every is not None:
                every(self)
            time.sleep(_POLL_S)
            failed = self._failed()
        with self._to_close:
            self._stop_queries()
            if failed is not None:
                running, error = failed
                raise self._explain(running, error) from error
            if lost:
                raise BatchError(f"{lost} ended and Spark does not say why", SPARK_LOG.place)

    def _stop_queries(self) -> None:
        from py4j.protocol import Py4JError

        for running in self.queries:
            with suppress(Py4JError):  # Java has ended before: a signal to the whole process group reaches it, too
                running.query.stop()
        for end in self._followers:
            end()
        self._followers.clear()

    def _lost_query(self) -> str:
        """The name of a query that ended without a stop and without a reason, because Spark itself failed; empty if
        there is none."""
        ended = [running.progress.query for running in self.queries if not running.query.isActive]
        is_endless = not _ends_by_itself(self.pipeline.settings, self.once)
        return ended[0] if is_endless and ended and not self._failed() else ""

    def _failed(self) -> tuple[RunningQuery, StreamingQueryException] | None:
        for running in self.queries:
            if error := running.query.exception():
                return running, error
        return None

    def _start(self, plan: QueryPlan, rows: DataFrame) -> RunningQuery:
        pipeline, settings = self.pipeline, self.pipeline.settings
        keeps = plan.keeps_dead_letters
        name = query_name(pipeline, plan)
        progress = self._before.get(name, QueryProgress(name))  # counts go on after a restart
        checkpoint = f"{checkpoint_of(pipeline)}/{plan.name}"
        if is_real_time(settings):
            started, rows_out = start_in_real_time(rows, plan, settings, name, checkpoint)
            rows_out.written = progress.written
            return RunningQuery(plan, started, rows_out, checkpoint, progress)
        written, ending, gate = progress.written, self._ending, self._gate
        writing = BatchWriting(pipeline.name, plan, keeps, settings, self._opened, written, ending=ending, gate=gate)
        writer = rows.writeStream.queryName(name).outputMode(plan.mode).option("checkpointLocation", checkpoint)
        writer = writer.trigger(**_trigger(settings, self.once)).foreachBatch(writing)
        ends = _ends_by_itself(settings, self.once)
        with batches_with_rows(self.spark) if ends and plan.goes_by_clock else nullcontext():
            query = start_patiently(writer.start, name, lambda: not self._stopping.is_set())
        writing.query = query
        return RunningQuery(plan, query, writing, checkpoint, progress)

    def _follow_progress(self) -> None:
        """Ours comes last and so goes last: by then the groups' tracking has waited for the last report."""
        from penstock.pipelines.group_progress import track
        from penstock.pipelines.progress.listener import ProgressListener

        settings = self.pipeline.settings
        for query, group in groups_of(self.pipeline).items():
            tracking = track(
                self.spark,
                bootstrap_servers=settings.bootstrap_servers,
                group_id=group,
                query_names=(query,),
                kafka=settings.kafka,
            )
            self._followers.append(tracking.stop)
        listener = ProgressListener(self._note_progress)
        self.spark.streams.addListener(listener)
        self._followers.append(lambda: self.spark.streams.removeListener(listener))

    def _note_progress(self, report: dict[str, Any]) -> None:
        for running in self.queries:
            if running.query.runId and str(running.query.runId) == report["runId"]:
                if isinstance(running.writing, RowWriting):
                    running.writing.note(report)
                running.progress = advance(running.progress, report, running.writing.written)

    def _explain(self, running: RunningQuery, error: StreamingQueryException) -> PipelineError:
        if isinstance(running.writing, RowWriting):
            return explained(running.progress.query, running.writing, error)
        batch = find_failed_batch(self.spark, running.checkpoint)
        at = running.writing.busy_with or _READING
        try:
            step = find_failing_step(self.spark, self.open_pipeline, running.plan, batch) if batch is not None else None
            at = f"the step {step}" if step else at
        except UnreadableError as trouble:
            logger.warning("%s: what it had read cannot be read again: %s", running.progress.query, trouble)
            at = f"{_READING} or {at}" if at != _READING else at
        number = f"batch {batch.batch_id} " if batch is not None else ""
        places = f" It read {batch}." if batch is not None and str(batch) else ""
        return BatchError(
            f"{running.progress.query}: {number}failed at {at}: {first_cause(str(error))}{places}",
            "Nothing of it is lost: it comes again, with the same records, when the pipeline is started again.",
        )


def checkpoint_of(pipeline: Pipeline) -> str:
    return pipeline.settings.checkpoint or os.path.join(os.getcwd(), "checkpoints", pipeline.name)


def keep_private(location: str, default_file_system: str) -> None:
    """State and offsets hold the same data as the records: a new checkpoint on a local disk is its owner's alone,
    whatever the umask. An existing one keeps the mode that its owner gave it. If the directory cannot be made, Spark
    reports why.
    """
    path = path_here(location, default_file_system)
    if path is not None:
        with suppress(OSError):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.mkdir(mode=0o700)


def query_name(pipeline: Pipeline, plan: QueryPlan) -> str:
    return f"{pipeline.name}/{plan.name}"


def group_of(pipeline: Pipeline) -> str:
    return pipeline.settings.group_id or f"penstock-{pipeline.name}"


def groups_of(pipeline: Pipeline) -> dict[str, str]:
    """The consumer group of each query, by the query's name. Queries read the same partitions at their own pace, so
    each has a group: the first that reads the pipeline's sources has the pipeline's. A further one, and one with
    sources of its own, has the pipeline's with its own name behind."""
    group, groups = group_of(pipeline), dict[str, str]()
    for plan in plan_queries(pipeline):
        is_first = not plan.input.owner and group not in groups.values()
        groups[query_name(pipeline, plan)] = group if is_first else f"{group}-{plan.name}"
    return groups


def with_settings(pipeline: Pipeline, **changes: Any) -> Pipeline:
    return replace(pipeline, settings=replace(pipeline.settings, **changes))


def _trigger(settings: Settings, once: bool) -> dict[str, Any]:
    return (
        {"availableNow": True}
        if _ends_by_itself(settings, once)
        else {"processingTime": spark_interval(settings.trigger)}
    )


def _trouble_of(upkeep: Upkeep | None) -> PipelineError | None:
    try:
        if upkeep is not None:
            upkeep.look()
    except PipelineError as error:
        return error
    return None


def _ends_by_itself(settings: Settings, once: bool) -> bool:
    return once or settings.trigger == AVAILABLE_NOW


def _has_batches_to_end(queries: Sequence[RunningQuery], ending: Mapping[str, int]) -> bool:
    """A query under load is always in a batch: the one it was in is waited for, not those that follow."""
    return any(
        isinstance(running.writing, BatchWriting)  # others have none: all that they do is one long batch
        and _is_busy(running.query)
        and not running.writing.is_held
        and running.progress.batch_id == ending[running.progress.query]
        for running in queries
    )


def _is_busy(query: StreamingQuery) -> bool:
    return query.isActive and bool(query.status.get("isTriggerActive"))


def _doing(running: RunningQuery) -> str:
    if running.writing.is_held:
        return "on hold"
    if running.writing.is_computing:
        return "computing a batch"
    if at_work := running.writing.at_work:
        return f"writing to {', '.join(sorted(at_work))}"
    return "planning its first batch" if running.progress.batch_id < 0 else ""
