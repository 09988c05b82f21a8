"""What can be asked over HTTP: one table of operations, from which routes and the OpenAPI document are made."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final, NamedTuple

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from penstock.http.routes import Route
from penstock.streams.stores.answers import (
    answer,
    answering,
    encode_json,
    page_of,
    refusal,
    row_of,
    rows_of,
    state_of,
    window_of,
)
from penstock.streams.stores.asking import Asking
from penstock.streams.stores.errors import StoreError
from penstock.streams.stores.followed import is_topic, topic_of
from penstock.streams.stores.openapi import DOCUMENT_PATH, Operation, make_document
from penstock.streams.stores.parameters import (
    GET_NAMES,
    KEY_NAMES,
    WINDOW_NAMES,
    check_names,
    read_after,
    read_body,
    read_keys,
    read_limit,
    read_patience,
    read_times,
)
from penstock.streams.stores.rights import StoreRights


class Desk(NamedTuple):
    """What every operation is given. `asking` says None while no broker has answered since the start."""

    application: str
    cluster: Callable[[], str | None]
    asking: Callable[[], Asking | None]
    rights: StoreRights

    def asked(self) -> Asking:
        """Raises StoreError."""
        asking = self.asking()
        if asking is None:
            raise StoreError(503, "no broker has answered yet, so nothing is known of stores", "Try again in a moment.")
        return asking

    async def enter(self, request: Request) -> tuple[Asking, str]:
        """The stores, and the name of the one that the caller asks for and may read. Raises StoreError."""
        asking, store = self.asked(), request.path_params["store"]
        topic = topic_of(self.application, store)
        if is_topic(topic):  # brokers are not asked for anything else, nor is it remembered
            await self.rights.check(request, topic)
        asking.find(store)
        return asking, store


async def list_stores(desk: Desk, request: Request) -> Response:
    asking = desk.asked()
    check_names(request.query_params, ())
    stores = sorted(asking.following.stores.values(), key=lambda each: each.name)
    readable = await desk.rights.readable(request, [each.topic for each in stores])
    shown = [state_of(each) for each in stores if each.topic in readable]
    return answer({"application": desk.application, "cluster": desk.cluster(), "stores": shown})


async def get_store(desk: Desk, request: Request) -> Response:
    asking, store = await desk.enter(request)
    check_names(request.query_params, GET_NAMES)
    patience = read_patience(request.query_params)
    if patience.position or patience.wait_s is not None:
        await asking.wait(store, patience)
    return answer(state_of(asking.find(store)))


async def get_row(desk: Desk, request: Request) -> Response:
    asking, store = await desk.enter(request)
    check_names(request.query_params, GET_NAMES)
    moment, found = await asking.get(store, request.path_params["key"], read_patience(request.query_params))
    if found is None:
        missing = StoreError(404, f"the store {store} has no such key")
        return refusal(missing, position=msgspec.Raw(moment.position))
    return answer(row_of(found, moment))


async def get_rows(desk: Desk, request: Request) -> Response:
    asking, store = await desk.enter(request)
    query = request.query_params
    check_names(query, KEY_NAMES)
    wanted, limit, after = read_keys(query), read_limit(query), read_after(query)
    page = await asking.keys(store, wanted, limit, after, read_patience(query))
    return await page_of(page, "rows", row_of)


async def post_keys(desk: Desk, request: Request) -> Response:
    asking, store = await desk.enter(request)
    check_names(request.query_params, ())
    keys, patience = read_body(await request.body())
    return await rows_of(*await asking.get_all(store, keys, patience))


async def get_windows(desk: Desk, request: Request) -> Response:
    asking, store = await desk.enter(request)
    query = request.query_params
    check_names(query, WINDOW_NAMES)
    key: str | None = request.path_params.get("key")
    times, limit, after = read_times(query), read_limit(query), read_after(query)
    page = await asking.windows(store, key, times, limit, after, read_patience(query))
    return await page_of(page, "windows", window_of)


Serve = Callable[[Desk, Request], Awaitable[Response]]
OPERATIONS: Final[tuple[tuple[Operation, Serve], ...]] = (
    (Operation("GET", "/stores", "listStores", "The stores, and where they stand."), list_stores),
    (Operation("GET", "/stores/{store}", "getStore", "One store, and where it stands.", GET_NAMES), get_store),
    (Operation("GET", "/stores/{store}/keys", "getRows", "Rows in the order of their keys.", KEY_NAMES), get_rows),
    (Operation("POST", "/stores/{store}/keys", "getRowsOfKeys", "The rows of several keys.", has_body=True), post_keys),
    (Operation("GET", "/stores/{store}/keys/{key}", "getRow", "The row of a key.", GET_NAMES), get_row),
    (
        Operation("GET", "/stores/{store}/windows", "getAllWindows", "Windows of all keys.", WINDOW_NAMES),
        get_windows,
    ),
    (
        Operation("GET", "/stores/{store}/windows/{key}", "getWindows", "The windows of a key.", WINDOW_NAMES),
        get_windows,
    ),
)


def routes(desk: Desk) -> list[Route]:
    document = encode_json(make_document([operation for operation, _ in OPERATIONS]))

    async def get_document(_: Request) -> Response:
        return Response(document, media_type="application/json")

    return [
        *(Route(each.path, _bound(desk, serve), (each.method,)) for each, serve in OPERATIONS),
        Route(DOCUMENT_PATH, get_document),
    ]


def _bound(desk: Desk, serve: Serve) -> Callable[[Request], Awaitable[Response]]:
    async def handle(request: Request) -> Response:
        return await serve(desk, request)

    return answering(handle)
