"""Endpoints and their answers: JSON by msgspec, and one place where exceptions become answers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from penstock.http.operations import JSON
from penstock.http.routes import Endpoint, ErrorForm
from penstock.rest.errors import RestError, of_exception

_encoder = msgspec.json.Encoder()
encode_json = _encoder.encode


class Error(msgspec.Struct):
    error_code: int
    message: str


def _write_error(status: int, text: str) -> bytes:
    return encode_json(Error(status, text))


# The listener's own answers: no such page, no login, too large a body.
ERRORS = ErrorForm(JSON, _write_error)

Handler = Callable[[Request], Awaitable[Response]]


def answer(body: Any, status: int = 200, media_type: str = JSON) -> Response:
    return Response(encode_json(body), status, media_type=media_type)


def no_content() -> Response:
    return Response(status_code=204)


def refusal(error: RestError, media_type: str = JSON) -> Response:
    return answer(Error(error.code, error.message), error.status, media_type)


def answering(handler: Handler, error_type: str = JSON) -> Endpoint:
    """Wraps the handler as an endpoint. Its exceptions are answered in JSON. Unforeseen errors go on to the listener,
    which logs them.
    """

    async def endpoint(request: Request) -> Response:
        try:
            return await handler(request)
        except Exception as error:
            known = of_exception(error)
            if known is None:
                raise
            return refusal(known, error_type)

    return endpoint
