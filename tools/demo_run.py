"""One run of the demo: lines are fed, the job works them off, and the books are opened when nothing is left."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING

from confluent_kafka.admin import AdminClient, NewTopic
from rich.console import Console

from demo_books import QUIET, Entry, Places, check_books, open_cluster, open_reader, read_books, read_progress
from demo_feed import Feed
from demo_lines import LogLines
from demo_view import DemoView, Moment, Rate, TopAddresses
from penstock.pipelines import Pipeline
from penstock.pipelines.progress.query_progress import QueryProgress
from penstock.pipelines.progress.wait_messages import waiting
from penstock.pipelines.runtime.query_plan import MAIN_QUERY, sinks_of
from penstock.pipelines.runtime.runner import Run, groups_of

if TYPE_CHECKING:
    from confluent_kafka import Consumer
    from pyspark.sql import SparkSession

_PARTITIONS = 3
_TIMEOUT_S = 30.0
# How long the job may take to catch up after the last line; then the books are opened as they are.
_DRAIN_S = 300.0
_LAG_EVERY_S = 0.5


@dataclass(frozen=True, slots=True)
class Traffic:
    duration_s: float = 60.0  # 0: until interrupted
    rate: int = 2000  # lines a second; 0: as many as possible
    seed: int = 1
    limit: int = 0  # lines; 0: as many as there is time for


class Demo:
    def __init__(
        self, spark: SparkSession, pipeline: Pipeline, places: Places, blocks: Sequence[str], traffic: Traffic
    ) -> None:
        self._spark, self._pipeline, self._places, self._traffic = spark, pipeline, places, traffic
        self._servers = pipeline.settings.bootstrap_servers
        self._admin = AdminClient(QUIET | {"bootstrap.servers": self._servers})
        self._cluster = open_cluster(self._servers)
        self._groups = list(groups_of(pipeline).values())
        self._sinks = {sink.name: 0 for sink in sinks_of(pipeline)}
        self._run = Run(spark, pipeline)
        self.lines = LogLines(blocks, traffic.seed)
        self._feed = Feed(self._servers, places.source, self.lines, traffic.rate, traffic.duration_s, traffic.limit)
        self._top = TopAddresses(self.lines.is_fraud)
        self._rates = (Rate(), Rate())
        self._started = self._fed = self._next_lag = 0.0
        self._opened = 0.0
        self._lag = 0

    def interrupt(self) -> None:
        """No more lines; what is there is worked off."""
        self._feed.stop()

    @property
    def is_fed(self) -> bool:
        """Whether lines have come that are to be worked off."""
        return self._feed.is_open

    def play(self, console: Console) -> list[Entry]:
        self._create_topics()
        self._feed.start()  # before the job: a first batch without lines would warm nothing up
        try:
            with waiting(console, "opening", "the job is open", doing=lambda: self._run.opening):
                self._run.start()
            self._started = time.monotonic()
            with (
                closing(open_reader(self._servers, self._places.counts)) as reader,
                DemoView(console) as view,
            ):
                self._run.wait(every=lambda run: view.show(self._look(run.progress(), reader)))
        finally:
            self._feed.stop()
            self._feed.join()
        if self._feed.failure:
            raise SystemExit(f"the feed failed: {self._feed.failure}")
        took = time.monotonic() - (self._opened or self._started)
        console.print(f"{self._feed.produced:,} lines produced and worked off in {took:.0f} s; opening the books ...")
        return check_books(self.lines.kinds, read_books(self._spark, self._servers, self._places, self._groups))

    def _create_topics(self) -> None:
        asked = [NewTopic(name, _PARTITIONS) for name in (self._places.source, self._places.fraud)]
        for answer in self._admin.create_topics(asked, request_timeout=_TIMEOUT_S).values():
            answer.result(_TIMEOUT_S)

    def _look(self, queries: Sequence[QueryProgress], reader: Consumer) -> Moment:
        now = time.monotonic()
        if self._feed.failure:
            self._run.stop()
        self._top.poll(reader)
        if now >= self._next_lag:
            self._next_lag = now + _LAG_EVERY_S
            self._lag = self._measure_lag()
            self._end_when_drained(now)
        main = next(query for query in queries if query.query.endswith(f"/{MAIN_QUERY}"))
        if not self._feed.is_open and all(query.rows for query in queries):
            self._feed.open()
            self._opened = now
        produced = self._feed.produced
        parsed, fraud = main.written.get("lake", 0), main.written.get(self._places.fraud, 0)
        return Moment(
            phase=self._phase(),
            elapsed_s=now - (self._opened or self._started),
            duration_s=self._traffic.duration_s if self._feed.is_open else 0.0,
            produced=produced,
            produced_rate=self._rates[0].note(now, produced),
            processed=main.rows,
            processed_rate=self._rates[1].note(now, main.rows),
            lag=self._lag,
            fraud_share=fraud / parsed if parsed else 0.0,
            queries=queries,
            written=self._sinks | {sink: rows for query in queries for sink, rows in query.written.items()},
            top=self._top.top(),
        )

    def _phase(self) -> str:
        if not self._feed.is_open:
            return "Spark plans and compiles the first batches; lines wait for that"
        return "lines come in" if self._feed.is_alive() else "the last lines are worked off"

    def _measure_lag(self) -> int:
        """Of the slowest query, as every tool that looks at consumer groups would see it."""
        end, committed = read_progress(self._cluster, self._places.source, self._groups)
        return end - min(committed.values())

    def _end_when_drained(self, now: float) -> None:
        if self._feed.is_alive():
            return
        self._fed = self._fed or now
        if self._lag == 0 or now - self._fed > _DRAIN_S:
            self._run.stop()
