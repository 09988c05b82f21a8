"""Functions of the author's: what they are recognised by, and those that wrap one."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Reducer:
    """A fold whose first state is the first row. It keeps only those columns of a row that the result has."""

    function: Callable[[Any, Any], Any]

    def __call__(self, state: Any, row: Any) -> Any:
        return row if state is None else self.function(state, row)


def function_name(function: Any) -> str:
    """Module and qualified name. The function's work may change without another name: that is up to its author."""
    match function:
        case Reducer(function=inner):
            return function_name(inner)
        case functools.partial():
            return function_name(function.func)
    if not hasattr(function, "__qualname__"):
        function = type(function)
    return f"{function.__module__}.{function.__qualname__}"
