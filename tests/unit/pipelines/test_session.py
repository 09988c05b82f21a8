"""Settings of a session that hold for the queries of a moment."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.pipelines import Branch, Pipeline, Topic
from penstock.pipelines.runtime.query_plan import plan_queries
from penstock.pipelines.runtime.spark.session import batches_with_rows
from tests.unit.pipelines.pieces import Nowhere, count_them

EMPTY_BATCHES = "spark.sql.streaming.noDataMicroBatches.enabled"


class Session:
    """What is used of a SparkSession."""

    def __init__(self) -> None:
        self.held = {EMPTY_BATCHES: "true"}

    @property
    def conf(self) -> Session:
        return self

    def get(self, name: str) -> str:
        return self.held[name]

    def set(self, name: str, value: str) -> None:
        self.held[name] = value


def test_the_setting_is_as_before_when_a_query_without_empty_batches_was_started_or_refused() -> None:
    session: Any = Session()
    with batches_with_rows(session):
        assert session.held[EMPTY_BATCHES] == "false"
    with pytest.raises(ValueError, match="refused"), batches_with_rows(session):
        raise ValueError("refused")
    assert session.held[EMPTY_BATCHES] == "true"


def test_a_query_goes_by_the_clock_when_its_branch_does() -> None:
    branch = Branch("ttl", (Nowhere("b"),), (count_them,), stateful=True, goes_by_clock=True)
    (plan,) = plan_queries(Pipeline("p", (Topic("t"),), (branch,)))
    assert plan.goes_by_clock
