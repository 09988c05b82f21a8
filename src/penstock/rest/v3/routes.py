"""The routes of v3: the code around each operation, and the limits of streamed records."""

from __future__ import annotations

from functools import partial
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from penstock.http.limits import HttpLimits
from penstock.http.operations import HttpOperation, make_routes
from penstock.http.routes import Endpoint, Route
from penstock.rest.answers import answer, answering
from penstock.rest.proxy import Proxy
from penstock.rest.v3.api_context import ApiContext
from penstock.rest.v3.calls import Call, Done
from penstock.rest.v3.operations import OPERATIONS, PRODUCE_RECORD, PRODUCE_RECORDS_BATCH, Handler, RecordsHandler
from penstock.rest.v3.records.endpoints import Records
from penstock.rest.v3.resource_urls import ResourceUrl

# The stream has its own clock and its own limits; the listener's would end it without an answer, so they are wider.
_STREAM_MARGIN_S = 60
_NO_LIMIT = 2**62


def routes(proxy: Proxy) -> list[Route]:
    context = ApiContext(proxy)
    records = Records(context)
    longest_s = proxy.settings.number("streaming.connection.max.duration.ms") / 1000
    stream_limits = HttpLimits(max_body_bytes=_NO_LIMIT, body_s=longest_s + _STREAM_MARGIN_S)

    def bind_to_records(operation: HttpOperation[RecordsHandler]) -> Endpoint:
        return answering(partial(operation.handler, records))

    return [
        *make_routes(OPERATIONS, partial(_endpoint, context)),
        *make_routes([PRODUCE_RECORD], bind_to_records, stream_limits),
        *make_routes([PRODUCE_RECORDS_BATCH], bind_to_records),
    ]


def _endpoint(context: ApiContext, operation: HttpOperation[Handler]) -> Endpoint:
    async def handle(request: Request) -> Response:
        brokers, cluster_id = await context.enter(request)
        body = b"" if operation.body is None else await context.proxy.inflight_bytes.read_body(request)
        place = ResourceUrl.of_cluster(context.base_of(request), cluster_id)
        call = Call(brokers, cluster_id, place, request.path_params, request.query_params, body)
        return _respond(operation, await operation.handler(call))

    return answering(handle)


def _respond(operation: HttpOperation[Handler], result: Any) -> Response:
    done = result if isinstance(result, Done) else Done(result)
    status = done.status or operation.success[0]
    response = Response(status_code=status) if done.body is None else answer(done.body, status)
    if done.location:
        response.headers["location"] = done.location
    return response
