"""Steps that know about time: windows, and seeing an event once. They hold state and belong in a stateful branch.

Late and out-of-order events are handled as the watermark declares: see `Settings.watermark`. In append mode a window's
rows come when it is closed, once; in update mode each time they change.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from penstock.pipelines.intervals import spark_interval
from penstock.pipelines.pipeline import Step
from penstock.pipelines.steps.named_steps import named

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


def tumbling(column: str, length: str, keys: tuple[str, ...] = (), **aggregates: str) -> Step:
    """Windows that follow each other: tumbling("event_time", "1 minute", ("address",), requests="count(*)"). The
    columns are window_start, window_end, the keys and the aggregates, which are SQL."""
    from pyspark.sql import functions as F

    return named(f"tumbling({length})", _aggregate(lambda: F.window(column, spark_interval(length)), keys, aggregates))


def sliding(column: str, length: str, every: str, keys: tuple[str, ...] = (), **aggregates: str) -> Step:
    """Windows that overlap: a row counts in each that covers it."""
    from pyspark.sql import functions as F

    return named(
        f"sliding({length}, {every})",
        _aggregate(lambda: F.window(column, spark_interval(length), spark_interval(every)), keys, aggregates),
    )


def session(column: str, gap: str, keys: tuple[str, ...] = (), **aggregates: str) -> Step:
    """A window per key that lasts until nothing came for `gap`. Not in update mode."""
    from pyspark.sql import functions as F

    return named(f"session({gap})", _aggregate(lambda: F.session_window(column, spark_interval(gap)), keys, aggregates))


def deduplicate(*columns: str) -> Step:
    """One row per value of the columns as long as the watermark remembers it; later copies are dropped."""

    def drop(rows: DataFrame) -> DataFrame:
        return rows.dropDuplicatesWithinWatermark(list(columns))

    return named(f"deduplicate({', '.join(columns)})", drop)


def _aggregate(window: Callable[[], Column], keys: tuple[str, ...], aggregates: dict[str, str]) -> Step:
    from pyspark.sql import functions as F

    if not aggregates:
        raise ValueError("a window needs at least one aggregate, such as rows='count(*)'")

    def group(rows: DataFrame) -> DataFrame:
        grouped = rows.groupBy(window().alias("window"), *keys)
        counted = grouped.agg(*(F.expr(expression).alias(name) for name, expression in aggregates.items()))
        bounds = (F.col("window.start").alias("window_start"), F.col("window.end").alias("window_end"))
        return counted.select(*bounds, *keys, *aggregates)

    return group
