"""Counts the rows of a write while Spark writes them."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Observation

_POLL_S = 0.005


def count_rows(rows: DataFrame) -> tuple[DataFrame, Observation]:
    """The rows, and the observation that has their number once they are written."""
    from pyspark.sql import Observation
    from pyspark.sql import functions as F

    observed = Observation()
    return rows.observe(observed, F.expr("count(1) AS rows")), observed


def rows_counted(observed: Observation, wait_s: float) -> int | None:
    """Spark hands a count over soon after the write that it belongs to; None when it does not."""
    java = observed._jo
    assert java is not None
    done = java.future()  # the only way to ask without waiting for ever
    deadline = time.monotonic() + wait_s
    while not done.isCompleted() and time.monotonic() < deadline:
        time.sleep(_POLL_S)
    if not done.isCompleted():
        return None
    row = java.getRow()  # Observation.get fails where there is nothing in it
    return int(row.get(0)) if row.length() else 0  # a plan that is known to be empty is never run, nor counted
