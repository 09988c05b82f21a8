"""A row of a table of routes. Patterns are Starlette's: `/topics/{name}`, `/files/{path:path}`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, NamedTuple

from penstock.http.limits import HttpLimits

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

Endpoint = Callable[["Request"], Awaitable["Response"]]


class Route(NamedTuple):
    path: str
    endpoint: Endpoint
    methods: tuple[str, ...] = ("GET",)
    # Served without a login. Its endpoint looks at `request.state.principal`, which is None for a stranger.
    is_public: bool = False
    # Of its bodies, instead of those of the listener: larger ones, or ones that stream for longer.
    limits: HttpLimits | None = None
