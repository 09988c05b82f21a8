"""Nodes that keep state by a machine per key. `machines` owns this file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from penstock.streams.lowering.context import Context


def lower_table_aggregate(node: Any, inputs: list[DataFrame], context: Context) -> DataFrame:
    """An aggregate of a table."""
    raise NotImplementedError


def lower_sliding_aggregate(node: Any, inputs: list[DataFrame], context: Context) -> DataFrame:
    raise NotImplementedError


def lower_fold(node: Any, inputs: list[DataFrame], context: Context) -> DataFrame:
    raise NotImplementedError


def lower_stream_table_join(node: Any, inputs: list[DataFrame], context: Context) -> DataFrame:
    """With a table that is not global."""
    raise NotImplementedError


def lower_foreign_key_join(node: Any, inputs: list[DataFrame], context: Context) -> DataFrame:
    raise NotImplementedError


def lower_process(node: Any, inputs: list[DataFrame], context: Context) -> DataFrame:
    raise NotImplementedError
