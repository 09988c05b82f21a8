"""How late rows may be: the place of a query's watermark, and its delay.

Windows and machines with timers go by `_timestamp`, whose watermark is at the source. Spark's joins of streams and its
deduplication leave out rows that are not later than the watermark, which is 1970 at first. So they have a time of their
own, a millisecond later, with a watermark where the rows come to them; their sources have none then.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.streams.planner.members import closure
from penstock.streams.topology.nodes import TIMESTAMP, Aggregate, Fold, Node, Process
from penstock.streams.topology.shapes import ancestors
from penstock.streams.topology.windows import WindowKind

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from penstock.streams.lowering.context import Context

EVENT_TIME = "_event_time"


def with_watermark(rows: DataFrame, name: str, context: Context) -> DataFrame:
    """Rows of a source or a cut, for the nodes of the query that go by `_timestamp`."""
    delay_ms = source_delay_ms(name, context) if context.is_streaming else None
    return rows if delay_ms is None else rows.withWatermark(TIMESTAMP, f"{delay_ms} milliseconds")


def source_delay_ms(name: str, context: Context) -> int | None:
    query = context.query
    if query is None or name not in query.watermarks_ms:
        return None
    topology = context.plan.topology
    users = [
        node
        for node in closure(topology, query.root, context.plan.cuts)
        if _goes_by_timestamp(node) and any(each.name == name for each in ancestors(topology, node.name))
    ]
    if not users:
        return None
    # Kafka takes a row for a session that ended exactly then, Spark does not.
    return query.watermarks_ms[name] + any(_is_session(node) for node in users)


def _goes_by_timestamp(node: Node) -> bool:
    return isinstance(node, Process) or (isinstance(node, Aggregate | Fold) and node.window is not None)


def _is_session(node: Node) -> bool:
    return isinstance(node, Aggregate) and node.window is not None and node.window.kind is WindowKind.SESSION


def with_event_time(rows: DataFrame, delay_ms: int) -> DataFrame:
    from pyspark.sql import functions as F

    timed = rows.withColumn(EVENT_TIME, F.expr(f"{TIMESTAMP} + INTERVAL 1 MILLISECOND"))
    return timed.withWatermark(EVENT_TIME, f"{delay_ms} milliseconds") if rows.isStreaming else timed
