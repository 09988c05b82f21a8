"""A plan as a pipeline: each planned query is a branch that reads its own topics and writes its outputs' topics."""

from __future__ import annotations

from penstock.pipelines.pipeline import Pipeline, Settings
from penstock.streams.planning.plan import Plan


def pipeline_of(plan: Plan, settings: Settings) -> Pipeline:
    """Nothing is read and nobody is asked here; StreamsError for settings that an application cannot have."""
    raise NotImplementedError
