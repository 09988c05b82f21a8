"""All operations of the API. Routes, the OpenAPI document and docs/reference/registry-api.md are made from this table.

A right concerns the subject in the path. An operation without a subject hides subjects that its caller may not read.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from penstock.http.openapi import Description
from penstock.http.operations import HttpOperation, MediaTypes
from penstock.registry.api.answers import MEDIA_TYPES
from penstock.registry.api.calls import Handler
from penstock.registry.api.endpoints import compatibility, others, schemas, settings, subjects
from penstock.registry.api.rights import Right
from penstock.registry.api.shapes import PATH_PARAMETERS, SHAPES

_MEDIA: Final = MediaTypes(MEDIA_TYPES, MEDIA_TYPES)
_CHANGES: Final = frozenset((Right.WRITE, Right.DELETE, Right.WRITE_CONFIG, Right.ADMIN))
# The families that also exist below `/contexts/{context}`.
_IN_CONTEXT: Final = ("subjects", "schemas", "config", "mode", "compatibility", "associations")


def _complete(operation: HttpOperation[Handler]) -> HttpOperation[Handler]:
    """An impossible subject is refused wherever it is named."""
    errors = {*operation.errors, 42208} if "{subject}" in operation.path else operation.errors
    family = operation.path.split("/")[1]
    return replace(operation, errors=tuple(sorted(errors)), media=_MEDIA, tag=family or "registry")


_ROWS: Final[tuple[HttpOperation[Handler], ...]] = (
    *subjects.OPERATIONS,
    *schemas.OPERATIONS,
    *settings.OPERATIONS,
    *compatibility.OPERATIONS,
    *others.OPERATIONS,
)
OPERATIONS: Final = tuple(map(_complete, _ROWS))


def right_of(operation: HttpOperation[Any]) -> Right | None:
    return None if operation.right is None else Right(operation.right)


def is_change(operation: HttpOperation[Any]) -> bool:
    """The leader alone makes changes, and the audit trail keeps them. The right of an operation shows whether it is a
    change.
    """
    return operation.right in _CHANGES


def is_in_context(operation: HttpOperation[Any]) -> bool:
    return operation.tag in _IN_CONTEXT


def describe(version: str) -> Description:
    """For the OpenAPI document. Paths below `/contexts/{context}` are not repeated: the text lists them."""
    paths = [f"/{each}" for each in _IN_CONTEXT]
    words = (
        f"Schemas by subject and version. All paths below {', '.join(paths[:-1])} and {paths[-1]} are served below "
        "/contexts/{context} as well, and mean what is in that context."
    )
    return Description(
        "Penstock schema registry",
        version or "0",
        _refusals,
        shapes=SHAPES,
        path_parameters=PATH_PARAMETERS,
        words=words,
        openapi="3.0.3",
    )


def _refusals(operation: HttpOperation[Any]) -> dict[str, str]:
    refusals = {"404": "There is no such page.", "5XX": "The registry cannot do this now."}
    if not operation.is_public:
        refusals |= {
            "401": "Nobody has logged in.",
            "403": "The caller lacks the right (40301).",
            "406": "The caller accepts no type of the registry.",
        }
    if operation.body is not None or operation.query:
        refusals["400"] = "The request is not readable."
    if operation.body is not None:
        refusals |= {"415": "The body is no JSON.", "422": "The body is missing."}
    return refusals
