"""Runs an application: its topics are made, its identity is checked, and its queries run as one pipeline."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

from penstock.pipelines.pipeline import Pipeline, Settings, is_real_time
from penstock.streams.planner.plan import Plan
from penstock.streams.runtime.pipelines import pipeline_of
from penstock.streams.topology.errors import StreamsError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from penstock.pipelines.runtime.runner import Run
    from penstock.streams.runtime.driver_lease import Lease


class Application(Protocol):
    """The part of `penstock.streams.app.Streams` that runs need."""

    @property
    def settings(self) -> Settings: ...

    def plan(self) -> Plan: ...


def run(app: Application, master: str | None = None, once: bool = False) -> None:
    """Until it is interrupted (Ctrl-C, SIGTERM) or, with `once`, until it has caught up."""
    from penstock.pipelines.runtime.spark.session import open_session, stop_session
    from penstock.pipelines.runtime.spark.signals import stopped_by_signals

    with sole_driver(app) as lease:
        spark = open_session(pipeline_for(app), master)
        try:
            current = open_run(spark, app, once=once, lease=lease)
            with stopped_by_signals(current.stop):
                current.start()
                current.wait()
        finally:
            stop_session(spark)


def pipeline_for(app: Application) -> Pipeline:
    return pipeline_of(app.plan(), app.settings)


@contextmanager
def sole_driver(app: Application) -> Iterator[Lease | None]:
    """For the time of a run: no other driver of the application runs. StreamsError names the one that does, before
    Spark is started. None where these settings allow no request to the group."""
    from penstock.pipelines.runtime.runner import checkpoint_of
    from penstock.streams.runtime.driver_lease import take_lease

    pipeline = pipeline_for(app)
    lease = take_lease(pipeline.name, pipeline.settings, checkpoint_of(pipeline))
    try:
        yield lease
    finally:
        if lease is not None:
            lease.close()


def open_run(spark: SparkSession, app: Application, *, once: bool = False, lease: Lease | None = None) -> Run:
    """A run in a session that is there, not started: `start` makes what is missing and checks what is there; `wait` as
    of any pipeline's run. `lease` is what `sole_driver` gave; without it the run takes one."""
    from penstock.pipelines.runtime.runner import Run, checkpoint_of
    from penstock.streams.runtime.checkpoints import CheckpointFiles
    from penstock.streams.runtime.real_time import Slots
    from penstock.streams.runtime.upkeep import ApplicationUpkeep

    plan, pipeline = app.plan(), pipeline_for(app)
    try:
        files = CheckpointFiles(spark, checkpoint_of(pipeline))
    except OSError as error:
        raise StreamsError(f"the checkpoint {checkpoint_of(pipeline)} cannot be opened: {error}") from error
    slots = None
    if is_real_time(pipeline.settings):
        slots = Slots(spark.sparkContext.master or "", int(spark.conf.get("spark.sql.shuffle.partitions") or 1))
    upkeep = ApplicationUpkeep(plan, pipeline, files, slots=slots, lease=lease)
    return Run(spark, pipeline, once=once, upkeep=upkeep)
