"""The interface that runs the queries of a test: at once (`batch`), or step by step (`step_engine`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from penstock.streams.lowering.context import Context
from penstock.streams.lowering.encoding import key_kind
from penstock.streams.lowering.queries import output_records, output_rows
from penstock.streams.planner.plan import PlannedQuery, TopicKind
from penstock.streams.topology.formats import FormatKind
from penstock.streams.topology.nodes import KEY, Sink
from penstock.streams.topology_test.frames import collected, united
from penstock.streams.topology_test.records import RawRecord

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class Engine(Protocol):
    def pipe(self, topic: str, records: Sequence[RawRecord]) -> None: ...

    def read(self, topic: str) -> Sequence[RawRecord]:
        """All that was written there so far."""

    def key_kind(self, topic: str) -> FormatKind:
        """The format of a topic's keys, for a sink that has none of its own."""

    def close(self) -> None: ...


class KeyKinds:
    """The formats of keys, by topic, for sinks without one of their own."""

    def __init__(self) -> None:
        self._found: dict[str, FormatKind] = {}
        self._of_chosen = FormatKind.TEXT  # of topics that rows choose

    def find(self, context: Context, query: PlannedQuery, rows: DataFrame) -> None:
        """`rows` are those of the query's root."""
        for output in query.outputs:
            if output.kind is TopicKind.SINK and output.topic not in self._found:
                sink = context.plan.topology.node(output.sink)
                if isinstance(sink, Sink) and sink.key is None:
                    made = output_rows(context, query, output.node, rows)
                    self._found[output.topic] = key_kind(made.schema[KEY].dataType)
                    if sink.topic_of is not None:
                        self._of_chosen = self._found[output.topic]

    def __getitem__(self, topic: str) -> FormatKind:
        return self._found.get(topic, self._of_chosen)


def outputs_of(context: Context, query: PlannedQuery, rows: DataFrame) -> list[list[RawRecord]]:
    """The records that the query writes to each of its outputs, in one job. `rows` are those of its root."""
    outputs = [output_records(context, query, output, rows) for output in query.outputs]
    return collected(united(outputs), len(outputs))
