"""The routes of the API, and the code around each operation: rights, forwarding, audit, errors."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from starlette.requests import Request
from starlette.responses import Response

from penstock.http.accept_header import choose_type
from penstock.http.limits import HttpLimits
from penstock.http.openapi import document_route, make_document
from penstock.http.operations import HttpOperation, Parameter, make_routes
from penstock.http.routes import Endpoint, Route
from penstock.registry.api.access import Access
from penstock.registry.api.answer_cache import AnswerCache, CachedHandler, known_part
from penstock.registry.api.answers import MEDIA_TYPE, MEDIA_TYPES, error_answer, with_type
from penstock.registry.api.calls import Api, Call, Handler, Identity
from penstock.registry.api.forwarding import ALONE, Forwarder
from penstock.registry.api.rights import Right
from penstock.registry.api.table import OPERATIONS, describe, is_change, is_in_context, right_of
from penstock.registry.errors import NotLeaderError, RegistryError
from penstock.registry.names import GLOBAL_SCOPE
from penstock.registry.service import SchemaService

# A schema has at most 1 MiB, and each quotation mark of it takes two bytes in JSON.
LIMITS = HttpLimits(max_connections=1_024, max_connections_per_address=512, max_body_bytes=2 << 20)
CONTEXT_PREFIX = "/contexts/{context}"
# The header of most programs without a registry's client. Confluent's clients list all types of the registry.
_USUAL = [b"*/*"]


def routes(
    service: SchemaService,
    *,
    forwarder: Forwarder = ALONE,
    access: Access | None = None,
    identity: Identity | None = None,
    why_not_ready: Callable[[], str] = str,
) -> list[Route]:
    """For an `HttpServer` with `errors=answers.ERRORS` and `limits=LIMITS`."""
    api = Api(service, access or Access(), identity or Identity(), why_not_ready)
    cache = AnswerCache()

    def bind(operation: HttpOperation[Handler]) -> Endpoint:
        endpoint = _endpoint(api, operation, forwarder)
        if isinstance(operation.handler, CachedHandler):
            endpoint = _keeping(api, endpoint, cache, operation.query)
        return endpoint if operation.is_public else _accepted(endpoint)

    in_context = [replace(each, path=CONTEXT_PREFIX + each.path) for each in OPERATIONS if is_in_context(each)]
    document = make_document(describe(api.identity.version), OPERATIONS)
    return [*make_routes([*OPERATIONS, *in_context], bind), document_route(document)]


def _endpoint(api: Api, operation: HttpOperation[Handler], forwarder: Forwarder) -> Endpoint:
    name, handle, right, changes = operation.name, operation.handler, right_of(operation), is_change(operation)

    async def serve(request: Request) -> Response:
        call = Call(api, name, request)
        try:
            if right is not None and api.access.is_limited:
                await call.authorise(right)
            if changes:
                return await _change(call, operation, forwarder)
            return await handle(call)
        except RegistryError as error:
            return error_answer(error)

    return serve


def _keeping(api: Api, endpoint: Endpoint, cache: AnswerCache, parameters: Iterable[Parameter]) -> Endpoint:
    """Callers differ in their rights: with rules every answer is made anew."""
    state, access = api.service.state, api.access
    names = frozenset(each.name.encode() for each in parameters)

    async def serve(request: Request) -> Response:
        if access.is_limited:
            return await endpoint(request)
        scope, revision = request.scope, state.revision
        target = scope["raw_path"], known_part(scope["query_string"], names)
        found = cache.find(target, revision)
        if found is not None:
            return found
        response = await endpoint(request)
        if state.revision == revision:
            cache.keep(target, revision, response)
        return response

    return serve


def _accepted(endpoint: Endpoint) -> Endpoint:
    """The answer in the type that the caller prefers. Where the caller accepts none of ours, the operation does not
    run.
    """

    async def serve(request: Request) -> Response:
        headers = [value for name, value in request.scope["headers"] if name == b"accept"]
        if not headers or headers == _USUAL:
            return await endpoint(request)
        chosen = choose_type([each.decode("latin-1") for each in headers], MEDIA_TYPES)
        if chosen is None:
            return error_answer(RegistryError(406, "HTTP 406 Not Acceptable"))
        response = await endpoint(request)
        return response if chosen == MEDIA_TYPE else with_type(response, chosen)

    return serve


async def _change(call: Call, operation: HttpOperation[Handler], forwarder: Forwarder) -> Response:
    """The leader's answer. A former leader may find during its write that it does not lead any more: then it has
    written nothing, and looks for the leader once more.

    Rights are checked again when the body has come and this instance leads: while the caller kept the body back, or a
    leader was elected, an alias may have been set that leads to another subject. Nothing waits between that check and
    the operation, which finds the same alias.
    """
    access, request, right = call.api.access, call.request, right_of(operation)
    access.check_trail()
    for _ in range(2):
        response = await forwarder.forward(request)
        if response is not None:
            return response
        await request.body()
        if right is not None and access.is_limited:
            await call.authorise(right)
        try:
            response = await operation.handler(call)
        except NotLeaderError:
            continue
        except RegistryError as error:
            response = error_answer(error)
        status = response.status_code
        if status < 300 or status >= 500:  # other statuses changed nothing, and were no denials
            details = call.details if status < 300 else {**call.details, "outcome": "unknown"}
            access.report(call.caller, _concerned_right(call, right), call.subject, call.name, details)
        forwarder.stamp(request, response)
        return response
    raise NotLeaderError


def _concerned_right(call: Call, right: Right | None) -> Right:
    return Right.ADMIN if right is None or call.subject in ("", GLOBAL_SCOPE) else right
