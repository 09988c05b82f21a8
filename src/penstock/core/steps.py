"""Work in steps: a generator that yields where other work may have a turn, and returns its result at the end."""

from __future__ import annotations

from collections.abc import Generator
from typing import TypeVar

Result = TypeVar("Result")


def finish(work: Generator[None, None, Result]) -> Result:
    """The result of work in steps, at once."""
    while True:
        try:
            next(work)
        except StopIteration as stop:
            result: Result = stop.value
            return result
