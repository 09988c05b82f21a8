"""A row of the table of operations."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import NamedTuple

from starlette.responses import Response

from penstock.registry.api.calls import Call
from penstock.registry.api.rights import Right

Handle = Callable[[Call], Awaitable[Response]]

# Parameters that many operations have.
PAGE = ("offset", "limit")
DELETED = ("deleted", "deletedOnly")
RENDERING = ("format", "referenceFormat", "findTags")


class Operation(NamedTuple):
    method: str
    path: str
    name: str  # in the OpenAPI document and in the audit trail
    handle: Handle
    words: str
    answer: str  # a name of `shapes`; empty: 204 without a body
    query: tuple[str, ...] = ()
    body: str = ""
    errors: tuple[int, ...] = ()
    right: Right | None = None
    is_change: bool = False
    # Also below `/contexts/{context}`.
    is_in_context: bool = True
    is_public: bool = False
    # Asked for often, and by each target always the same while nothing is written.
    is_kept: bool = False

    @property
    def all_errors(self) -> tuple[int, ...]:
        """A subject that cannot be is refused wherever it is named."""
        return tuple(sorted({*self.errors, 42208})) if "{subject}" in self.path else self.errors
