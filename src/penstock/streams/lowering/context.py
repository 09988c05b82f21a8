"""The context of lowering, besides a node and its inputs' rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeAlias

from penstock.pipelines.pipeline import Settings
from penstock.streams.planner.plan import Plan, PlannedQuery
from penstock.streams.topology.shapes import ancestors

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

# Records of a source, or of the topic of a cut, by the node's name: key, value (binary), topic, partition, offset,
# timestamp and, if the source wants them, headers.
Read: TypeAlias = "Callable[[str], DataFrame]"


@dataclass(frozen=True, slots=True)
class Context:
    """One for a run. `of` makes the one that a query's nodes are lowered in."""

    spark: SparkSession
    plan: Plan
    settings: Settings
    is_streaming: bool
    query: PlannedQuery | None = None
    # The records of a global table as a batch frame. None: tasks read its topic themselves.
    global_records: Read | None = None
    # Answers of a registry, and results of lowering a query on no rows, once for the run: schemas of cuts, formats of
    # sources, schemas of sinks. As many entries as the topology has nodes.
    known: dict[tuple[str, ...], Any] = field(default_factory=dict, compare=False, repr=False)

    def of(self, query: PlannedQuery) -> Context:
        return self if self.query is query else replace(self, query=query)

    def know(self, what: tuple[str, ...], find: Callable[[], Any]) -> Any:
        if what not in self.known:
            self.known[what] = find()
        return self.known[what]

    def delay_ms(self, node: str) -> int:
        """How late rows of a node may be, by the plan's graces of the sources and cuts that they come from."""
        delays = {} if self.query is None else self.query.watermarks_ms
        names = (node, *(each.name for each in ancestors(self.plan.topology, node)))
        return max((delays[name] for name in names if name in delays), default=0)
