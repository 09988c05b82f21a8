"""The limits of a schema before it is refused. Every number bounds time or memory of one request."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from typing import ParamSpec, TypeVar

from penstock.schemas.schema import InvalidSchemaError


@dataclass(frozen=True, slots=True)
class Limits:
    # A record of `_schemas` has at most max.message.bytes (1 MiB) anyway, and the text is the larger part of it.
    text_bytes: int = 1 << 20
    # The text and all texts that it refers to, one after another.
    resolved_bytes: int = 4 << 20
    # Brackets in brackets. Recursive functions take up to four frames for each, and Python allows 1,000 in all.
    nesting: int = 128
    # Objects and arrays, strings and numbers: a tree of them takes some 100 bytes for each.
    nodes: int = 200_000
    # Direct and indirect references of one schema.
    references: int = 1_000
    # Pairs of types that a comparison looks at: about a second of work.
    comparisons: int = 100_000
    # Types within types that a comparison goes down. Names allow far deeper nesting than the brackets of the text do.
    # Each takes twelve of Python's frames.
    depth: int = 64
    # The same for Avro, with five frames each: a record in a union counts thrice, and a text can nest 32 of them.
    avro_depth: int = 128
    # At most so many differences are listed: an answer with ten thousand messages is of no use.
    differences: int = 500


DEFAULT_LIMITS = Limits()

_Given = ParamSpec("_Given")
_Result = TypeVar("_Result")


def bounded(function: Callable[_Given, _Result]) -> Callable[_Given, _Result]:
    """Names allow types to nest deeper than any text does. A schema too deep for Python is refused, and breaks
    nothing.
    """

    @wraps(function)
    def call(*args: _Given.args, **kwargs: _Given.kwargs) -> _Result:
        try:
            return function(*args, **kwargs)
        except RecursionError:
            raise InvalidSchemaError("The schema nests types too deep") from None

    return call


TOO_LARGE = "The schema is too large, or too entangled, to be worked on"
TOO_FAR_APART = (
    "The schemas cannot be compared within the limits of this registry: one is too large, or too entangled. The "
    "compatibility level NONE compares nothing"
)


class Budget:
    """The work that one comparison may do: the caller pays for each step, and an overspent budget is an error."""

    def __init__(self, limits: Limits, refusal: str = TOO_LARGE, deepest: int | None = None) -> None:
        self._refusal = refusal
        self._left = limits.comparisons
        self._deepest = limits.depth if deepest is None else deepest
        self._depth = 0

    def spend(self, steps: int = 1) -> None:
        self._left -= steps
        if self._left < 0:
            raise InvalidSchemaError(self._refusal)

    def descend(self) -> None:
        self.spend()
        self._depth += 1
        if self._depth > self._deepest:
            raise InvalidSchemaError(f"The schemas nest types more than {self._deepest} deep")

    def ascend(self) -> None:
        self._depth -= 1
