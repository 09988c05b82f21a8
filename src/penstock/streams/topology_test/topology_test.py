"""TopologyTest: rows in, rows out.

    with TopologyTest(app) as test:
        test.pipe("lines", ["to be or not to be"])
        assert test.read_table("word-counts")["to"] == {"word": "to", "count": 2}

The queries are those that a run has, lowered by the same code. Without `step` they run over all rows at once: every
window closes, nothing is late, and of a table the last value comes out. With `step=True` they are streaming queries,
and each `pipe` is a micro-batch of them: rows can be late, and a window closes once time has moved on. Timers that go
by the clock ring with the next rows that come.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol, Self

from penstock.pipelines.pipeline import Settings
from penstock.streams.planner.plan import Plan
from penstock.streams.topology.topic_choice import topics_text
from penstock.streams.topology_test.records import RawRecord, Record, last_by_key, record_of, timestamp_ms
from penstock.streams.topology_test.session import session_for_tests
from penstock.streams.topology_test.test_serdes import Coding
from penstock.streams.topology_test.topics import Topics

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from penstock.streams.topology_test.engine import Engine


class Application(Protocol):
    """The part of `Streams` that a test needs."""

    @property
    def settings(self) -> Settings: ...

    def plan(self) -> Plan: ...


class TopologyTest:
    """`spark`: a session whose context is used; without one the active session, or a small one that is started here.
    `schemas`: of registry formats, by subject, the text of a schema."""

    def __init__(
        self,
        app: Application,
        spark: SparkSession | None = None,
        *,
        step: bool = False,
        schemas: Mapping[str, str] | None = None,
    ) -> None:
        plan = app.plan()
        self._topics = Topics(plan)
        self._next_ms = 0
        with ExitStack() as opened:  # closed here if something fails
            self._coding = Coding(self._topics, schemas or {}, opened)
            settings = replace(app.settings, parallelism=1, registry=self._coding.registry)
            self._engine = _open_engine(session_for_tests(spark, settings), plan, settings, step)
            opened.callback(self._engine.close)
            self._closing = opened.pop_all()

    @property
    def inputs(self) -> tuple[str, ...]:
        """The topics that the application reads; of a pattern, the pattern in words."""
        return tuple(map(topics_text, self._topics.sources))

    def pipe(self, topic: str, rows: Iterable[Any]) -> None:
        """Writes rows to a topic that the application reads: see `records` for what a row is.

        A row without a time comes a millisecond after the one before it, whatever its topic."""
        self._topics.source(topic)
        self._engine.pipe(topic, [self._raw(topic, record_of(row)) for row in rows])

    def read(self, topic: str) -> list[Record]:
        """All that the application has written to a topic, or to the changelog of a store. Rows of one key are in the
        order in which they were written."""
        name = self._topics.written(topic)
        return [self._coding.decoded(name, record, self._engine.key_kind) for record in self._engine.read(name)]

    def read_table(self, topic: str) -> dict[Any, Any]:
        """The last value of each key of a topic or a store. Keys that are objects are tuples of their values."""
        return last_by_key(self.read(topic))

    def close(self) -> None:
        self._closing.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _raw(self, topic: str, record: Record) -> RawRecord:
        time = self._next_ms if record.timestamp is None else timestamp_ms(record.timestamp)
        self._next_ms = time + 1
        key, value = self._coding.encoded(topic, record)
        return RawRecord(key, value, time, record.headers)


def _open_engine(spark: SparkSession, plan: Plan, settings: Settings, step: bool) -> Engine:
    # Here, since lowering imports Spark.
    if step:
        from penstock.streams.topology_test.step_engine import StepEngine

        return StepEngine(spark, plan, settings)
    from penstock.streams.topology_test.batch import BatchEngine

    return BatchEngine(spark, plan, settings)
