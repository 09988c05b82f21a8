"""Fewer rows, other columns."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.pipelines.dead_letters import ERROR, SOURCE
from penstock.pipelines.pipeline import Step
from penstock.pipelines.steps.named_steps import named

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def filter_rows(condition: str) -> Step:
    """Rows for which the SQL condition holds. A row that has an error, and so perhaps no columns to judge by, stays on
    its way to the dead letters."""

    def choose(rows: DataFrame) -> DataFrame:
        # On a line of its own: the condition may end in a comment.
        return rows.where(f"({condition}\n) OR {ERROR} IS NOT NULL" if ERROR in rows.columns else condition)

    return named(f"filter_rows({condition})", choose)


def select(*expressions: str) -> Step:
    """SQL expressions as columns. What later steps and dead letters need to know of a row's origin stays."""

    def choose(rows: DataFrame) -> DataFrame:
        kept = [column for column in (SOURCE, ERROR) if column in rows.columns and column not in expressions]
        return rows.selectExpr(*kept, *expressions)

    return named(f"select({', '.join(expressions)})", choose)
