"""The operations over HTTP: one table, from which routes and the OpenAPI document are made."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final, NamedTuple

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from penstock.http.openapi import Description, document_route, make_document
from penstock.http.operations import HttpOperation, make_routes
from penstock.http.routes import Endpoint, Route
from penstock.streams.stores.answers import (
    answer,
    answering,
    page_of,
    refusal,
    row_of,
    rows_of,
    state_of,
    window_of,
)
from penstock.streams.stores.errors import StoreError
from penstock.streams.stores.followed_store import is_topic, topic_of
from penstock.streams.stores.parameters import (
    GET_NAMES,
    KEY_NAMES,
    WINDOW_NAMES,
    check_names,
    described,
    read_after,
    read_body,
    read_keys,
    read_limit,
    read_patience,
    read_times,
)
from penstock.streams.stores.rights import StoreRights
from penstock.streams.stores.shapes import SHAPES
from penstock.streams.stores.store_queries import StoreQueries


class Desk(NamedTuple):
    """The context of every operation. `queries` returns None while no broker has answered since the start."""

    application: str
    cluster: Callable[[], str | None]
    queries: Callable[[], StoreQueries | None]
    rights: StoreRights

    def asked(self) -> StoreQueries:
        """Raises StoreError."""
        queries = self.queries()
        if queries is None:
            raise StoreError(503, "no broker has answered yet, so nothing is known of stores", "Try again in a moment.")
        return queries

    async def enter(self, request: Request) -> tuple[StoreQueries, str]:
        """The stores, and the name of the one that the caller asks for and may read. Raises StoreError."""
        queries, store = self.asked(), request.path_params["store"]
        topic = topic_of(self.application, store)
        if is_topic(topic):  # other names are neither sent to brokers nor remembered
            await self.rights.check(request, topic)
        queries.find(store)
        return queries, store


async def list_stores(desk: Desk, request: Request) -> Response:
    queries = desk.asked()
    check_names(request.query_params, ())
    stores = sorted(queries.follower.stores.values(), key=lambda each: each.name)
    readable = await desk.rights.readable(request, [each.topic for each in stores])
    shown = [state_of(each) for each in stores if each.topic in readable]
    return answer({"application": desk.application, "cluster": desk.cluster(), "stores": shown})


async def get_store(desk: Desk, request: Request) -> Response:
    queries, store = await desk.enter(request)
    check_names(request.query_params, GET_NAMES)
    patience = read_patience(request.query_params)
    if patience.position or patience.wait_s is not None:
        await queries.wait(store, patience)
    return answer(state_of(queries.find(store)))


async def get_row(desk: Desk, request: Request) -> Response:
    queries, store = await desk.enter(request)
    check_names(request.query_params, GET_NAMES)
    moment, found = await queries.get(store, request.path_params["key"], read_patience(request.query_params))
    if found is None:
        missing = StoreError(404, f"the store {store} has no such key")
        return refusal(missing, position=msgspec.Raw(moment.position))
    return answer(row_of(found, moment))


async def get_rows(desk: Desk, request: Request) -> Response:
    queries, store = await desk.enter(request)
    query = request.query_params
    check_names(query, KEY_NAMES)
    wanted, limit, after = read_keys(query), read_limit(query), read_after(query)
    page = await queries.keys(store, wanted, limit, after, read_patience(query))
    return await page_of(page, "rows", row_of)


async def post_keys(desk: Desk, request: Request) -> Response:
    queries, store = await desk.enter(request)
    check_names(request.query_params, ())
    keys, patience = read_body(await request.body())
    return await rows_of(*await queries.get_all(store, keys, patience))


async def get_windows(desk: Desk, request: Request) -> Response:
    queries, store = await desk.enter(request)
    query = request.query_params
    check_names(query, WINDOW_NAMES)
    key: str | None = request.path_params.get("key")
    times, limit, after = read_times(query), read_limit(query), read_after(query)
    page = await queries.windows(store, key, times, limit, after, read_patience(query))
    return await page_of(page, "windows", window_of)


Serve = Callable[[Desk, Request], Awaitable[Response]]
OPERATIONS: Final[tuple[HttpOperation[Serve], ...]] = (
    HttpOperation("GET", "/stores", "listStores", "The stores, and where they stand.", list_stores, "Stores"),
    HttpOperation(
        "GET", "/stores/{store}", "getStore", "One store, and where it stands.", get_store, "Store",
        query=described(GET_NAMES),
    ),
    HttpOperation(
        "GET", "/stores/{store}/keys", "getRows", "Rows in the order of their keys.", get_rows, "Rows",
        query=described(KEY_NAMES),
    ),
    HttpOperation(
        "POST", "/stores/{store}/keys", "getRowsOfKeys", "The rows of several keys.", post_keys, "RowsOfKeys", "Keys"
    ),
    HttpOperation(
        "GET", "/stores/{store}/keys/{key}", "getRow", "The row of a key.", get_row, "RowAt",
        query=described(GET_NAMES),
    ),
    HttpOperation(
        "GET", "/stores/{store}/windows", "getAllWindows", "Windows of all keys.", get_windows, "Windows",
        query=described(WINDOW_NAMES),
    ),
    HttpOperation(
        "GET", "/stores/{store}/windows/{key}", "getWindows", "The windows of a key.", get_windows, "Windows",
        query=described(WINDOW_NAMES),
    ),
)  # fmt: skip
# Every operation may answer these: a login, a right, a limit, a store that is not there or not ready.
_REFUSALS: Final = dict.fromkeys(
    ("400", "401", "403", "404", "408", "413", "414", "431", "500", "503", "504"), "Refused."
)
DESCRIPTION: Final = Description("Penstock stores", "1.0.0", lambda _: _REFUSALS, shapes=SHAPES)


def routes(desk: Desk) -> list[Route]:
    def bind(operation: HttpOperation[Serve]) -> Endpoint:
        return answering(partial(operation.handler, desk))

    return [*make_routes(OPERATIONS, bind), document_route(make_document(DESCRIPTION, OPERATIONS))]
