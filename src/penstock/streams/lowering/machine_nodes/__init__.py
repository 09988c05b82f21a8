"""Lowers the nodes that keep state in a machine per key."""

from __future__ import annotations

from penstock.streams.lowering.machine_nodes.folds import lower_fold
from penstock.streams.lowering.machine_nodes.group_aggregates import lower_sliding_aggregate, lower_table_aggregate
from penstock.streams.lowering.machine_nodes.joins import lower_foreign_key_join, lower_stream_table_join
from penstock.streams.lowering.machine_nodes.processors import lower_process

__all__ = [
    "lower_fold",
    "lower_foreign_key_join",
    "lower_process",
    "lower_sliding_aggregate",
    "lower_stream_table_join",
    "lower_table_aggregate",
]
