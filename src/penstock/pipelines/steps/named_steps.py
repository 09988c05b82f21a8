"""Steps with names, which drawings and errors show."""

from __future__ import annotations

from penstock.pipelines.pipeline import Step


def named(name: str, step: Step) -> Step:
    step.__name__ = name
    return step
