"""A machine over a frame, by Spark's transformWithState: one adapter for streams and for batch frames."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.streams.machines.machine import Machine

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def apply_machine(rows: DataFrame, machine: Machine, context: Any) -> DataFrame:
    raise NotImplementedError
