"""Answers as JSON, and the one place where exceptions become answers."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from penstock.client.connection import LoginRefusedError
from penstock.http.callers.clients import NoBrokerLoginError, TooManyClientsError
from penstock.http.operations import JSON
from penstock.http.routes import Endpoint, ErrorForm
from penstock.protocol.errors import ApiError
from penstock.streams.stores.errors import StoreError
from penstock.streams.stores.followed_store import Followed
from penstock.streams.stores.store_reader import Found, Moment, Page

encode_json = msgspec.json.Encoder().encode
# More rows are written beside the loop: these take 1 ms, and 10,000 would hold up all other requests for 50.
_FEW_ROWS: Final = 200
Handler = Callable[[Request], Awaitable[Response]]


def _write_error(status: int, text: str) -> bytes:
    return encode_json({"error_code": status, "message": text})


# The errors of the listener itself: no such page, no login, too large a body.
ERRORS = ErrorForm(JSON, _write_error)


def answer(body: Any, status: int = 200) -> Response:
    return Response(encode_json(body), status, media_type=JSON)


def refusal(error: StoreError, **more: Any) -> Response:
    body = {"error_code": error.status, "message": error.message, **more}
    return answer(body | {"hint": error.hint} if error.hint else body, error.status)


def row_of(found: Found, moment: Moment | None = None) -> dict[str, Any]:
    """The key as it is in the changelog; a value that is no JSON as `base64`."""
    row: dict[str, Any] = {"key": msgspec.Raw(found.whole_key), **_rest(found)}
    return row if moment is None else row | {"position": msgspec.Raw(moment.position)}


def window_of(found: Found) -> dict[str, Any]:
    return {"key": msgspec.Raw(found.text), "start": found.start, "end": found.end, **_rest(found)}


def _rest(found: Found) -> dict[str, Any]:
    value: dict[str, Any]
    if found.value is None:
        value = {"value": None, "base64": base64.b64encode(found.raw or b"").decode()}
    else:
        value = {"value": msgspec.Raw(found.value)}
    return {
        **value,
        "timestamp": found.timestamp_ms,
        "partition": found.partition,
        "offset": found.offset,
    }


async def page_of(page: Page, name: str, show: Callable[[Found], dict[str, Any]]) -> Response:
    def write() -> Response:
        following = None if page.next is None else page.next.encode()
        rows = [show(found) for found in page.rows]
        return answer({name: rows, "next": following, "position": msgspec.Raw(page.moment.position)})

    return await _written(write, len(page.rows))


async def rows_of(moment: Moment, rows: Sequence[Found | None]) -> Response:
    def write() -> Response:
        shown = [None if found is None else row_of(found) for found in rows]
        return answer({"rows": shown, "position": msgspec.Raw(moment.position)})

    return await _written(write, len(rows))


async def _written(write: Callable[[], Response], rows: int) -> Response:
    return write() if rows <= _FEW_ROWS else await asyncio.to_thread(write)


def state_of(followed: Followed) -> dict[str, Any]:
    return {
        "name": followed.name,
        "topic": followed.topic,
        "state": "ready" if followed.is_ready else "restoring",
        "rows": followed.rows,
        "lag": followed.lag,
        "skipped": followed.skipped,
        "position": dict(sorted(followed.position.items())),
        "end": dict(sorted(followed.ends.items())),
    }


def answering(handler: Handler) -> Endpoint:
    """The handler as an endpoint. An unforeseen error goes on to the listener, which logs it and answers 500."""

    async def endpoint(request: Request) -> Response:
        try:
            return await handler(request)
        except Exception as error:
            known = _known(error)
            if known is None:
                raise
            return refusal(known)

    return endpoint


def _known(error: Exception) -> StoreError | None:
    match error:
        case StoreError():
            return error
        case NoBrokerLoginError():
            return StoreError(403, str(error))
        case LoginRefusedError():
            return StoreError(401, "the broker does not accept these credentials")
        case TooManyClientsError():
            return StoreError(503, str(error))
        case ApiError():
            return StoreError(503, f"the brokers do not tell what you may read: {error.message}")
        case OSError():
            return StoreError(503, "no broker can be reached to tell what you may read")
    return None
