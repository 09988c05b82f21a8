"""A row of a table of routes, and the form of what a listener answers by itself. Patterns are as Starlette has them:
`/topics/{name}`, `/files/{path:path}`; `routing` tells what they match.

An endpoint finds in `request.state`:
- `principal`: who asks, as `User:alice`; None without a login.
- `caller`: the same with what brokers are shown on the caller's behalf (`http.authentication.Caller`), or None.
- `at_end`: a list of functions without arguments, called when the request is over, however it ended.
"""

from __future__ import annotations

import json
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


class ErrorForm(NamedTuple):
    """How a listener words the errors that no endpoint has worded: no such page, no login, too large a body."""

    content_type: str
    write: Callable[[int, str], bytes]  # a status and a text


def _write_plainly(status: int, text: str) -> bytes:
    return json.dumps({"error": status, "message": text}).encode()


PLAIN_ERRORS = ErrorForm("application/json", _write_plainly)
