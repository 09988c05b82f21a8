"""Refuses columns without a schema, in the words of the query."""

from __future__ import annotations

import re
from collections.abc import Iterable

from penstock.pipelines.errors import PipelineError

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")


def no_type(path: str, kind: object, format_name: str) -> PipelineError:
    return PipelineError(
        f"{format_name} has nothing for the column {path} of type {kind}",
        "Cast the column to another type, or leave it out.",
    )


def check_names(names: Iterable[str], around: str, format_name: str) -> None:
    """Raises PipelineError for a name that the format does not take, and for one that comes twice."""
    seen: set[str] = set()
    for name in names:
        path = inside(around, name)
        if not _NAME.match(name):
            raise PipelineError(
                f"the column {path!r} has a name that {format_name} does not take",
                "Names have letters, digits and underscores, and begin with no digit: rename it with AS.",
            )
        if name in seen:
            raise PipelineError(f"there are two columns {path!r}", "Rename one of them with AS.")
        seen.add(name)


def check_name(name: str, namespace: str, format_name: str) -> None:
    """Checks the name of the record or message itself."""
    for part in (name, *(namespace.split(".") if namespace else ())):
        if not _NAME.match(part):
            raise PipelineError(f"{part!r} is no name that {format_name} takes for a schema")


def inside(around: str, name: str) -> str:
    return f"{around}.{name}" if around else name
