"""Steps opened anew under a run that goes on."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest

from penstock.pipelines import Pipeline, Topic
from penstock.pipelines.errors import PipelineError
from penstock.pipelines.runtime.query_plan import QueryPlan
from penstock.pipelines.runtime.step_renewal import RETRY_S, Renewing
from tests.unit.pipelines.pieces import Nowhere


@dataclass
class Following:
    """A step whose schema may be spoilt."""

    trouble: str = ""
    opened: int = 0
    closed: list[int] = field(default_factory=list)

    def __call__(self, rows: Any) -> Any:
        return rows

    def open(self, pipeline: Pipeline) -> Opened:
        self.opened += 1
        if self.trouble:
            raise PipelineError(self.trouble)
        return Opened(self, self.opened)


@dataclass
class Opened:
    step: Following
    number: int

    def __call__(self, rows: Any) -> Any:
        return rows

    def is_outdated(self) -> bool:
        return True

    def close(self) -> None:
        self.step.closed.append(self.number)


def renewing_of(now: list[float], refused: list[str]) -> Renewing:
    def read(plans: Sequence[QueryPlan]) -> list[Any]:
        if refused:
            raise PipelineError(refused[0])
        return [SimpleNamespace(columns=[]) for _ in plans]

    return Renewing(read, lambda: now[0])


def test_the_run_keeps_its_steps_and_is_told_once_when_new_ones_cannot_be_opened(
    caplog: pytest.LogCaptureFixture,
) -> None:
    step, other, now = Following(trouble="version 2 has no columns"), Following(), [0.0]
    pipeline = Pipeline("p", (Topic("t"),), (Nowhere("a"),), (other, step))
    renewing = renewing_of(now, [])
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            assert renewing.attempt(pipeline, pipeline) is None
            assert renewing.attempt(pipeline, pipeline) is None  # too early
            now[0] += RETRY_S
    assert (step.opened, other.opened, other.closed) == (3, 3, [1, 2, 3])
    (said,) = caplog.messages
    assert "p goes on with the columns it has" in said
    assert "version 2 has no columns" in said
    step.trouble = ""
    renewed = renewing.attempt(pipeline, pipeline)
    assert renewed is not None
    assert step.closed == []
    renewed.to_close.close()
    assert step.closed == [4]


def test_the_run_keeps_its_steps_when_new_ones_do_not_fit_its_rows() -> None:
    step, now, refused = Following(), [0.0], ["the sink's subject refuses the schema"]
    pipeline = Pipeline("p", (Topic("t"),), (Nowhere("a"),), (step,))
    renewing = renewing_of(now, refused)
    assert renewing.attempt(pipeline, pipeline) is None
    assert step.closed == [1]
    refused.clear()
    assert renewing.attempt(pipeline, pipeline) is None
    now[0] += RETRY_S
    assert renewing.attempt(pipeline, pipeline) is not None
