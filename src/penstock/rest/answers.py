"""Endpoints and their answers: JSON by msgspec, and one place where exceptions become answers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from penstock.http.routes import Endpoint, ErrorForm
from penstock.rest.errors import RestError, of_exception

JSON = "application/json"
_encoder = msgspec.json.Encoder()
encode_json = _encoder.encode


def _write_error(status: int, text: str) -> bytes:
    return encode_json({"error_code": status, "message": text})


# Of what the listener answers by itself: no such page, no login, too large a body.
ERRORS = ErrorForm(JSON, _write_error)

Handler = Callable[[Request], Awaitable[Response]]


def answer(body: Any, status: int = 200, media_type: str = JSON) -> Response:
    return Response(encode_json(body), status, media_type=media_type)


def no_content() -> Response:
    return Response(status_code=204)


def refusal(error: RestError, media_type: str = JSON) -> Response:
    return answer({"error_code": error.code, "message": error.message}, error.status, media_type)


def answering(handler: Handler, error_type: str = JSON) -> Endpoint:
    """The handler as an endpoint. What it raises is answered in JSON. What nobody foresaw goes on to the listener,
    which logs it.
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
