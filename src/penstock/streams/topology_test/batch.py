"""Queries over all rows of a test at once: a Spark job for each query that a topic needs.

The rows that a query writes to a topic go to the queries that read it. A query runs when the test reads one of its
topics. After new rows everything is computed anew."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from penstock.pipelines.pipeline import Settings
from penstock.streams.lowering.context import Context
from penstock.streams.lowering.queries import dead_letter_rows, root_rows
from penstock.streams.planner.plan import Plan, PlannedQuery
from penstock.streams.topology.errors import StreamsError
from penstock.streams.topology.formats import FormatKind
from penstock.streams.topology_test.engine import KeyKinds, outputs_of
from penstock.streams.topology_test.frames import collected, frame, united
from penstock.streams.topology_test.records import RawRecord
from penstock.streams.topology_test.topics import Topics, Written

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class BatchEngine:
    def __init__(self, spark: SparkSession, plan: Plan, settings: Settings) -> None:
        self._spark = spark
        self._plan = plan
        self._context = Context(spark, plan, settings, is_streaming=False, global_records=self._read)
        self._topics = Topics(plan)
        self._piped: dict[str, list[RawRecord]] = {}
        self._results: dict[str, list[list[RawRecord]]] = {}  # by query, per output
        self._running: list[str] = []
        self._key_kinds = KeyKinds()

    def pipe(self, topic: str, records: Sequence[RawRecord]) -> None:
        self._piped.setdefault(topic, []).extend(records)
        self._results.clear()

    def read(self, topic: str) -> Sequence[RawRecord]:
        if topic == self._plan.topology.dead_letters:
            return collected(united([dead_letter_rows(self._context, self._read)]), 1)[0]
        return self._written(topic, self._topics.writers(topic))

    def key_kind(self, topic: str) -> FormatKind:
        return self._key_kinds[topic]

    def close(self) -> None:
        self._results.clear()

    def _written(self, topic: str, writers: Iterable[Written]) -> list[RawRecord]:
        return [
            record
            for each in writers
            for record in self._result(each.query)[each.query.outputs.index(each.output)]
            if (record.topic or each.output.topic) == topic
        ]

    def _result(self, query: PlannedQuery) -> list[list[RawRecord]]:
        if query.name in self._running:
            circle = " -> ".join([*self._running[self._running.index(query.name) :], query.name])
            raise StreamsError(
                f"the queries {circle} feed each other",
                "Rows at once cannot go in circles: test this with step=True.",
            )
        if query.name not in self._results:
            self._running.append(query.name)
            try:
                self._results[query.name] = self._run(query)
            finally:
                self._running.pop()
        return self._results[query.name]

    def _run(self, query: PlannedQuery) -> list[list[RawRecord]]:
        context = self._context.of(query)
        rows = root_rows(context, query, self._read)
        self._key_kinds.find(context, query, rows)
        return outputs_of(context, query, rows)

    def _read(self, node: str) -> DataFrame:
        source = self._topics.reading(node)
        topics = {
            topic: [*self._piped.get(topic, ()), *self._written(topic, self._topics.named_writers(topic))]
            for topic in self._topics.read_of(source.topic, self._piped)
        }
        return frame(self._spark, topics, source.with_headers)
