"""Runs an application: its topics are made, its identity is checked, and its queries run as one pipeline."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from penstock.pipelines.pipeline import Pipeline, Settings, is_real_time
from penstock.streams.planning.plan import Plan
from penstock.streams.running.pipelines import pipeline_of
from penstock.streams.topology.errors import StreamsError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from penstock.pipelines.running.runner import Run


class Application(Protocol):
    """What `penstock.streams.app.Streams` is to those who run it."""

    @property
    def settings(self) -> Settings: ...

    def plan(self) -> Plan: ...


def run(app: Application, master: str | None = None, once: bool = False) -> None:
    """Until it is interrupted (Ctrl-C, SIGTERM) or, with `once`, until it has caught up."""
    from penstock.pipelines.running.session import open_session
    from penstock.pipelines.running.signals import stopped_by_signals

    spark = open_session(pipeline_for(app), master)
    try:
        current = open_run(spark, app, once=once)
        with stopped_by_signals(current.stop):
            current.start()
            current.wait()
    finally:
        spark.stop()


def pipeline_for(app: Application) -> Pipeline:
    return pipeline_of(app.plan(), app.settings)


def open_run(spark: SparkSession, app: Application, *, once: bool = False) -> Run:
    """A run in a session that is there, not started: `start` makes what is missing and checks what is there; `wait` as
    of any pipeline's run."""
    from penstock.pipelines.running.runner import Run, checkpoint_of
    from penstock.streams.running.checkpoints import CheckpointFiles
    from penstock.streams.running.real_time import Slots
    from penstock.streams.running.upkeep import ApplicationUpkeep

    plan, pipeline = app.plan(), pipeline_for(app)
    try:
        files = CheckpointFiles(spark, checkpoint_of(pipeline))
    except OSError as error:
        raise StreamsError(f"the checkpoint {checkpoint_of(pipeline)} cannot be opened: {error}") from error
    slots = None
    if is_real_time(pipeline.settings):
        slots = Slots(spark.sparkContext.master or "", int(spark.conf.get("spark.sql.shuffle.partitions") or 1))
    return Run(spark, pipeline, once=once, upkeep=ApplicationUpkeep(plan, pipeline.settings, files, slots=slots))
