"""The main job under a steady load, in a driver of its own: `python -m bench.job_latency SPEC`, the SPEC as JSON.

The job is the demo's, fed as the demo feeds it: a few lines at first, and 2,000 a second once every query has finished
a batch that had rows. A line counts from the moment it was made until a consumer that reads committed records alone
has its result from the topic of fraud. What is made in the first seconds after that, half as long as is measured, is
left out.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from confluent_kafka.admin import AdminClient, NewTopic

from bench.errors import BenchError
from bench.loads import percentile
from bench.spark_works import CORES, PATIENCE_S, Figures, Spec
from demo_books import QUIET, Places, open_cluster, open_reader, read_progress
from demo_feed import Feed
from demo_lines import Kind, LogLines, id_of
from demo_show import make_pipeline, places_in
from penstock.pipelines import Pipeline
from penstock.pipelines.jobs.ip_fraud import default_ranges
from penstock.pipelines.runtime.query_plan import MAIN_QUERY
from penstock.pipelines.runtime.runner import Run, groups_of, with_settings
from penstock.pipelines.steps.address_ranges import AddressRanges

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

RATE = 2000
PARTITIONS = 3
LAG_EVERY_S = 0.5
FIRST_S = 60.0
READ_AT_ONCE = 1000


class TimedLines(LogLines):
    """Lines, and when each was made, by its number."""

    def __init__(self, blocks: Sequence[str]) -> None:
        super().__init__(blocks)
        self.made_at = array("d")

    def take(self, count: int) -> list[bytes]:
        lines = super().take(count)
        self.made_at.extend([time.monotonic()] * count)
        return lines


class Results(threading.Thread):
    """Reads the topic of fraud, on a thread of its own: when each result could be read, by the line's number."""

    def __init__(self, bootstrap_servers: str, topic: str) -> None:
        super().__init__(name="results", daemon=True)
        self.arrived_at: dict[int, float] = {}
        self._reader = open_reader(bootstrap_servers, topic)
        self._ending = threading.Event()

    def run(self) -> None:
        while not self._ending.is_set():
            # One is waited for, so that it is noted when it comes; the others that came with it are there at once.
            messages = self._reader.consume(1, timeout=0.1) + self._reader.consume(READ_AT_ONCE, timeout=0)
            now = time.monotonic()
            for message in messages:
                if message.error() is None:
                    self.arrived_at.setdefault(id_of(message.value() or b""), now)
        self._reader.close()

    def end(self) -> None:
        self._ending.set()
        self.join(PATIENCE_S)


@dataclass(slots=True)
class Course:
    """When the load was measured, and what was seen meanwhile."""

    opened_at: float = float("inf")
    began_at: float = float("inf")
    ended_at: float = float("inf")
    lag_at_first: int = 0  # the largest of the first minute with all lines
    lags: list[int] = field(default_factory=list)
    reports: list[dict[str, Any]] = field(default_factory=list)
    first_job: int = -1
    last_job: int = -1

    def note(self, report: dict[str, Any]) -> None:
        if report["numInputRows"] and self.began_at <= time.monotonic() < self.ended_at:
            self.reports.append(report)


def latencies(
    made_at: Sequence[float], kinds: Sequence[int], arrived_at: dict[int, float], course: Course
) -> tuple[list[int], int]:
    """Milliseconds of the fraud that was made while it counted, in order, and how much of it never came."""
    counted = [
        number
        for number, at in enumerate(made_at)
        if kinds[number] == Kind.FRAUD and course.began_at <= at < course.ended_at
    ]
    found = [round((arrived_at[number] - made_at[number]) * 1000) for number in counted if number in arrived_at]
    return sorted(found), len(counted) - len(found)


def profile(course: Course) -> Figures:
    """Medians of each query's batches: how long each phase took, and how many rows there were."""
    queries: dict[str, list[dict[str, Any]]] = {}
    for report in course.reports:
        queries.setdefault(report["name"].rpartition("/")[2], []).append(report)
    found: Figures = {}
    for query, reports in sorted(queries.items(), key=lambda item: item[0] != MAIN_QUERY):
        found[f"{query}: batches"] = len(reports)
        found[f"{query}: lines in a batch"] = median(report["numInputRows"] for report in reports)
        phases = {phase for report in reports for phase in report["durationMs"]}
        for phase in sorted(phases, key=lambda phase: _total_ms(reports, phase), reverse=True):
            found[f"{query}: {phase}, ms"] = median(report["durationMs"].get(phase, 0) for report in reports)
    if course.reports:
        found["Spark jobs for a batch of any query"] = (course.last_job - course.first_job) / len(course.reports)
    return found


def _total_ms(reports: Iterable[dict[str, Any]], phase: str) -> int:
    total: int = sum(report["durationMs"].get(phase, 0) for report in reports)
    return total


def newest_job(spark: SparkSession, run: Run) -> int:
    """Jobs are numbered from 0; Spark remembers the newest ones by the query whose they are."""
    tracker = spark.sparkContext.statusTracker()
    groups = [None, *(str(running.query.runId) for running in run.queries)]
    return max((job for group in groups for job in tracker.getJobIdsForGroup(group)), default=-1)


class SteadyJob:
    """One run of the job. `look` is called all the while: it opens the feed, measures, and ends the run."""

    def __init__(
        self, spark: SparkSession, pipeline: Pipeline, places: Places, lines: TimedLines, seconds: int
    ) -> None:
        self._spark, self._pipeline, self._places, self._lines, self._seconds = spark, pipeline, places, lines, seconds
        servers = pipeline.settings.bootstrap_servers
        self._cluster = open_cluster(servers)
        self._groups = list(groups_of(pipeline).values())
        self._feed = Feed(servers, places.source, lines, RATE)
        self._results = Results(servers, places.fraud)
        self._course = Course()
        self._next_lag = 0.0

    def measure(self) -> dict[str, Any]:
        from penstock.pipelines.progress.listener import ProgressListener

        up_at = time.monotonic()
        listener = ProgressListener(self._course.note)
        self._spark.streams.addListener(listener)
        run = Run(self._spark, self._pipeline)
        self._results.start()
        self._feed.start()  # before the job: a first batch without lines would warm nothing up
        try:
            run.start()
            run.wait(every=self.look)
        finally:
            self._feed.stop()
            self._results.end()
            self._spark.streams.removeListener(listener)
        return self._figures(up_at)

    def look(self, run: Run) -> None:
        now, course = time.monotonic(), self._course
        if self._feed.failure:
            raise BenchError(f"the feed failed: {self._feed.failure}")
        if not self._feed.is_open:
            if all(query.rows for query in run.progress()):
                self._feed.open()
                course.opened_at = now
                course.began_at = now + self._seconds / 2
                course.ended_at = course.began_at + self._seconds
        elif now >= course.ended_at:
            self._feed.stop()
            if now > course.ended_at + PATIENCE_S or not (self._feed.is_alive() or self._latencies()[1]):
                run.stop()
        elif now >= self._next_lag:
            self._next_lag = now + LAG_EVERY_S
            end, committed = read_progress(self._cluster, self._places.source, self._groups)
            lag = end - min(committed.values())
            if now < course.opened_at + FIRST_S:
                course.lag_at_first = max(course.lag_at_first, lag)
            if now < course.began_at:
                return
            course.lags.append(lag)
            course.last_job = newest_job(self._spark, run)
            course.first_job = course.last_job if course.first_job < 0 else course.first_job

    def _latencies(self) -> tuple[list[int], int]:
        return latencies(self._lines.made_at, self._lines.kinds, self._results.arrived_at, self._course)

    def _figures(self, up_at: float) -> dict[str, Any]:
        found, missing = self._latencies()
        if missing or not found:
            raise BenchError(f"{missing} results did not come within {PATIENCE_S:.0f} s, {len(found)} did")
        return {
            "job-latency-p50": percentile(found, 50) / 1000,
            "job-latency-p99": percentile(found, 99) / 1000,
            "job-latency-worst": found[-1] / 1000,
            "job-lag": median(self._course.lags),
            "job-lag-worst": max(self._course.lags),
            "job-lag-first": self._course.lag_at_first,
            "job-first": min(self._results.arrived_at.values()) - up_at,
            "profile": profile(self._course),
        }


def create_topics(bootstrap_servers: str, places: Places) -> None:
    admin = AdminClient(QUIET | {"bootstrap.servers": bootstrap_servers})
    asked = [NewTopic(name, PARTITIONS) for name in (places.source, places.fraud)]
    for answer in admin.create_topics(asked).values():
        answer.result(PATIENCE_S)


def places_of(directory: Path) -> Places:
    """The demo's, with topics of this round alone: rounds share a broker, and so the topic of fraud."""
    made = places_in(directory)
    topics = {name: f"{getattr(made, name)}-{directory.name}" for name in ("source", "fraud", "counts", "dead_letters")}
    return replace(made, **topics)


def main(arguments: list[str]) -> int:
    from penstock.pipelines.runtime.spark.session import open_session

    spec = Spec.from_json(arguments[0])
    directory = Path(spec.directory)
    ranges, places = directory / "ranges.txt", places_of(directory)
    default_ranges(ranges)
    pipeline = make_pipeline(directory, ranges, spec.bootstrap, places)
    pipeline = with_settings(
        pipeline,
        spark={**pipeline.settings.spark, "spark.master": f"local[{CORES},4]"},
        # Rounds share a broker: a run must not go on from another's offsets, nor answer to its commands.
        group_id=f"bench-{directory.name}",
    )
    create_topics(spec.bootstrap, places)
    started = time.monotonic()
    spark = open_session(pipeline)
    took = time.monotonic() - started
    try:
        job = SteadyJob(
            spark, pipeline, places, TimedLines(AddressRanges.from_file(str(ranges)).blocks), spec.steady_seconds
        )
        figures = job.measure() | {"job-session": took}
    finally:
        spark.stop()
    print(json.dumps(figures))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
