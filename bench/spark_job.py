"""The main job at full speed, in a driver of its own: `python -m bench.spark_job SPEC`, the SPEC as JSON.

It reads a topic that is full before it starts, in several batches of which the first does not count, and says how
quickly lines go through and where the time goes.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from bench.spark_works import CORES, SESSION, Figures, Spec, cpu_seconds
from penstock.pipelines import Branch, Pipeline
from penstock.pipelines.jobs.ip_fraud import ip_fraud
from penstock.pipelines.pipeline import Batch, OpenSink, Settings, Sink
from penstock.pipelines.runtime.batch_writing import fold
from penstock.pipelines.runtime.query_plan import plan_queries, step_name
from penstock.pipelines.runtime.runner import Run, query_name, with_settings

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

BATCHES = 6
LAKE = "lake"


@dataclass(slots=True)
class Timed:
    """A sink, and the seconds that its batches took; the first batch is left out."""

    inner: Sink
    seconds: float = 0.0

    @property
    def name(self) -> str:
        return self.inner.name

    @property
    def session_settings(self) -> Mapping[str, str]:
        return self.inner.session_settings

    def describe(self, settings: Settings) -> str:
        return self.inner.describe(settings)

    def open(self, spark: SparkSession, settings: Settings) -> OpenTimed:
        return OpenTimed(self, self.inner.open(spark, settings))


@dataclass(slots=True)
class OpenTimed:
    sink: Timed
    inner: OpenSink

    def write(self, rows: DataFrame, batch: Batch) -> None:
        started = time.perf_counter()
        self.inner.write(rows, batch)
        if batch.id > 0:
            self.sink.seconds += time.perf_counter() - started

    def close(self) -> None:
        self.inner.close()


@dataclass(slots=True)
class Course:
    """What Spark reported of the main query, and what the processes had used by the end of its first batch."""

    query: str
    reports: list[dict[str, Any]] = field(default_factory=list)
    cpu_before: dict[str, float] = field(default_factory=dict)
    begun_at: float = 0.0

    def note(self, report: dict[str, Any]) -> None:
        if report["name"] != self.query:
            return
        if report["batchId"] == 0:
            self.cpu_before, self.begun_at = cpu_seconds(), time.perf_counter()
        elif report["numInputRows"]:
            self.reports.append(report)

    @property
    def lines(self) -> int:
        return sum(report["numInputRows"] for report in self.reports)

    def seconds_of(self, *phases: str) -> float:
        milliseconds: float = sum(report["durationMs"].get(phase, 0) for report in self.reports for phase in phases)
        return milliseconds / 1000


def job(spec: Spec, is_whole: bool) -> tuple[Pipeline, list[Timed]]:
    """Without its stateful branch it is what the figure is about: parse, lookup, three sinks and the dead letters."""
    pipeline = ip_fraud(source=spec.source, lake=f"{spec.directory}/{LAKE}")
    timed: list[Timed] = []

    def wrap(sink: Sink | Branch) -> Sink | Branch:
        if isinstance(sink, Branch):
            return replace(sink, sinks=tuple(wrap(each) for each in sink.sinks))
        timed.append(Timed(sink))
        return timed[-1]

    chosen = [sink for sink in pipeline.sinks if is_whole or not (isinstance(sink, Branch) and sink.stateful)]
    sinks = tuple(map(wrap, chosen))
    assert pipeline.dead_letters is not None
    timed.append(Timed(pipeline.dead_letters))
    pipeline = replace(pipeline, sinks=sinks, dead_letters=timed[-1])
    hive = {
        "spark.sql.warehouse.dir": f"{spec.directory}/warehouse",
        "spark.hadoop.javax.jdo.option.ConnectionURL": "jdbc:derby:memory:metastore;create=true",
        "spark.driver.extraJavaOptions": f"-Dderby.system.home={spec.directory}",
    }
    changes = {
        "bootstrap_servers": spec.bootstrap,
        "checkpoint": f"{spec.directory}/checkpoint",
        "trigger": "available-now",
        "max_records_per_batch": spec.rows // BATCHES,
        "spark": SESSION | hive,
    }
    return with_settings(pipeline, **changes), timed


def run_job(spark: SparkSession, pipeline: Pipeline) -> tuple[Course, float, dict[str, float]]:
    from penstock.pipelines.progress.listener import ProgressListener

    course = Course(query_name(pipeline, plan_queries(pipeline)[0]))
    listener = ProgressListener(course.note)
    spark.streams.addListener(listener)
    run = Run(spark, pipeline)
    run.start()
    run.wait()
    seconds, cpu = time.perf_counter() - course.begun_at, cpu_seconds()
    spark.streams.removeListener(listener)
    return course, seconds, {kind: cpu[kind] - course.cpu_before[kind] for kind in cpu}


def time_steps(spark: SparkSession, spec: Spec, pipeline: Pipeline) -> dict[str, float]:
    """Seconds that a batch read of all lines takes with none of the steps, with the first and so on; nothing is
    written."""
    options = {"kafka.bootstrap.servers": spec.bootstrap, "subscribe": spec.source}
    seconds: dict[str, float] = {}
    for count in range(len(pipeline.steps) + 1):
        name = "read" if count == 0 else step_name(pipeline.steps[count - 1])
        for _ in range(2):  # the second counts
            frame = fold(pipeline.steps[:count], spark.read.format("penstock").options(**options).load())
            started = time.perf_counter()
            frame.write.format("noop").mode("overwrite").save()
            seconds[name] = time.perf_counter() - started
    return seconds


def profile(
    course: Course, timed: list[Timed], cpu: Mapping[str, float], steps: Mapping[str, float], rows: int
) -> Figures:
    """Seconds per million lines: where the wall clock went, what used the processors, and what each step adds."""
    per_million = 1e6 / course.lines
    sinks = sum(sink.seconds for sink in timed)
    found = {f"sink {sink.name}": sink.seconds * per_million for sink in timed}
    found["around the sinks"] = (course.seconds_of("addBatch") - sinks) * per_million
    phases = ("latestOffset", "getBatch", "queryPlanning", "walCommit", "commitOffsets")
    found["Spark's planning and checkpoint"] = course.seconds_of(*phases) * per_million
    found |= {f"CPU: {kind}": used * per_million for kind, used in cpu.items()}
    before = 0.0
    for name, seconds in steps.items():
        found[f"step {name}"] = (seconds - before) * 1e6 / rows
        before = seconds
    return found


def main(arguments: list[str]) -> int:
    from penstock.pipelines.runtime.spark.session import open_session

    spec = Spec.from_json(arguments[0])
    is_whole = spec.work == "job-whole"
    pipeline, timed = job(spec, is_whole)
    spark = open_session(pipeline)
    try:
        spark.sparkContext.setLogLevel("ERROR")
        course, seconds, cpu = run_job(spark, pipeline)
        figures: dict[str, Any] = {spec.work: course.lines / seconds / CORES}
        if not is_whole:
            steps = time_steps(spark, spec, pipeline)
            figures["profile"] = profile(course, timed, cpu, steps, spec.rows)
    finally:
        spark.stop()
    print(json.dumps(figures))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
