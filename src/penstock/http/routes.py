"""A row of a table of routes, and the form of a listener's own answers. Patterns are as in Starlette: `/topics/{name}`,
`/files/{path:path}`; `routing` defines their matches.

An endpoint finds in `request.state`:
- `principal`: the caller's principal, as `User:alice`; None without a login.
- `caller`: the same with the credentials for brokers on the caller's behalf (`http.authentication.Caller`), or None.
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
    # Served without a login. Its endpoint checks `request.state.principal`, which is None for a stranger.
    is_public: bool = False
    # The limits of its bodies, instead of the listener's: for larger bodies, or for longer streams.
    limits: HttpLimits | None = None


class ErrorForm(NamedTuple):
    """The format of a listener's errors that no endpoint has written: no such page, no login, too large a body."""

    content_type: str
    write: Callable[[int, str], bytes]  # takes a status and a text


def _write_plainly(status: int, text: str) -> bytes:
    return json.dumps({"error": status, "message": text}).encode()


PLAIN_ERRORS = ErrorForm("application/json", _write_plainly)
