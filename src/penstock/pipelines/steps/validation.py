"""Rows that parse but make no sense."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from penstock.pipelines.dead_letters import ERROR
from penstock.pipelines.pipeline import Step
from penstock.pipelines.steps.named_steps import named

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def validate(rules: Mapping[str, str]) -> Step:
    """Conditions in SQL that must hold, by the words for a failure: {"no such status": "status between 100 and 599"}. A
    condition that is null does not hold. The first rule that fails is the row's error."""
    from pyspark.sql import functions as F

    def judge(rows: DataFrame) -> DataFrame:
        known = [F.col(ERROR)] if ERROR in rows.columns else []
        failed = [
            F.when(~F.coalesce(F.expr(condition), F.lit(False)), F.lit(complaint))
            for complaint, condition in rules.items()
        ]
        return rows.withColumn(ERROR, F.coalesce(*known, *failed))

    return named("validate", judge)
