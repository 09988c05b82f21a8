"""The rows of a query, and the records that its outputs write."""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING

from penstock.pipelines.dead_letters import to_dead_letters
from penstock.pipelines.source.columns import DDL, DDL_WITH_HEADERS
from penstock.streams.lowering.context import Context, Read
from penstock.streams.lowering.encoding import sink_records
from penstock.streams.lowering.internal_json import from_records, to_records
from penstock.streams.lowering.refusals import named_in_errors
from penstock.streams.lowering.sources import judged_rows, source_rows
from penstock.streams.lowering.table import LOWERINGS
from penstock.streams.lowering.watermarks import with_watermark
from penstock.streams.planner.plan import Output, PlannedQuery, TopicKind
from penstock.streams.topology.nodes import Node, Sink, Source, StreamTableJoin

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType


def root_rows(context: Context, query: PlannedQuery, read: Read) -> DataFrame:
    """The rows of the query's root, from the records that `read` gives for its sources and cuts."""
    return _Rows(context.of(query), {}, read).of(query.root)


def output_rows(context: Context, query: PlannedQuery, node: str, rows: DataFrame) -> DataFrame:
    """The rows of a node that follows from the query's root without state. `rows` are the root's."""
    return _Rows(context.of(query), {query.root: rows}, None).of(node)


def output_records(context: Context, query: PlannedQuery, output: Output, rows: DataFrame) -> DataFrame:
    """The rows for an output's topic: key, value, timestamp and, where the rows have them, headers."""
    made = output_rows(context, query, output.node, rows)
    if output.kind is not TopicKind.SINK:
        return to_records(made)
    sink = context.plan.topology.node(output.sink)
    assert isinstance(sink, Sink)
    return sink_records(sink, made, context)


def dead_letter_rows(context: Context, read: Read) -> DataFrame:
    """The records of all sources that do not decode: key, value and headers with their place and the reason."""
    topology = context.plan.topology
    sources = [node for node in topology.nodes if isinstance(node, Source) and not node.is_global]
    letters = [to_dead_letters(judged_rows(node, read(node.name), context), topology.application) for node in sources]
    return reduce(lambda one, other: one.unionByName(other), letters)


def schema_of(context: Context, node: str) -> StructType:
    """The columns of a cut's rows, found by lowering the query that writes them on no records."""

    def find() -> StructType:
        query = next(query for query in context.plan.queries if _writes(query, node))
        still = Context(context.spark, context.plan, context.settings, False, query, None, context.known)
        rows = root_rows(still, query, lambda name: _no_records(still, name))
        return output_rows(still, query, node, rows).schema

    found: StructType = context.know(("schema", node), find)
    return found


def _writes(query: PlannedQuery, cut: str) -> bool:
    """Others may write the cut's rows, too, after they have read them."""
    return cut not in query.cuts and any(output.node == cut for output in query.outputs)


def _no_records(context: Context, name: str) -> DataFrame:
    node = context.plan.topology.node(name)
    has_headers = isinstance(node, Source) and node.with_headers
    return context.spark.createDataFrame([], DDL_WITH_HEADERS if has_headers else DDL)


class _Rows:
    """Rows by node, each made once. Without `read` there is nothing above the nodes that are given."""

    def __init__(self, context: Context, made: dict[str, DataFrame], read: Read | None) -> None:
        self._context = context
        self._made = made
        self._read = read

    def of(self, name: str) -> DataFrame:
        if name not in self._made:
            node = self._context.plan.topology.node(name)
            with named_in_errors(node):
                self._made[name] = self._make(node)
        return self._made[name]

    def _make(self, node: Node) -> DataFrame:
        context, read = self._context, self._read
        assert context.query is not None
        if read is not None and node.name in context.query.cuts:
            records = from_records(read(node.name), schema_of(context, node.name))
            return with_watermark(records, node.name, context)
        if isinstance(node, Source):
            assert read is not None
            return source_rows(node, read(node.name), context)
        inputs = node.inputs
        if isinstance(node, StreamTableJoin) and self._is_global(inputs[1]):
            inputs = inputs[:1]  # tasks read the table themselves
        return LOWERINGS[type(node)](node, [self.of(name) for name in inputs], context)

    def _is_global(self, name: str) -> bool:
        node = self._context.plan.topology.node(name)
        return isinstance(node, Source) and node.is_global
