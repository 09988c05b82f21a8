"""Rows as records: of a user's topic by its formats, of ours as `internal_json` says."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.streams.lowering.internal_json import to_records
from penstock.streams.topology.nodes import Sink

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from penstock.streams.lowering.context import Context


def sink_records(node: Sink, rows: DataFrame, context: Context) -> DataFrame:
    """key, value, timestamp and, where the rows have them, headers."""
    return to_records(rows)
