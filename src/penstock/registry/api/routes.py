"""The routes of the API, and what happens around each operation: rights, forwarding, audit, errors."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from starlette.requests import Request
from starlette.responses import Response

from penstock.http.limits import HttpLimits
from penstock.http.routes import Endpoint, Route
from penstock.registry.api.access import Access
from penstock.registry.api.answers import error_answer, raw_answer
from penstock.registry.api.calls import Api, Call, Identity
from penstock.registry.api.forwarding import ALONE, Forwarder
from penstock.registry.api.kept import KeptAnswers, known_part
from penstock.registry.api.openapi import DOCUMENT_PATH, render_document
from penstock.registry.api.operation import Operation
from penstock.registry.api.rights import Right
from penstock.registry.api.table import OPERATIONS
from penstock.registry.errors import NotLeaderError, RegistryError
from penstock.registry.names import GLOBAL_SCOPE
from penstock.registry.service import SchemaService

# A schema has at most 1 MiB, and each quotation mark of it takes two bytes in JSON.
LIMITS = HttpLimits(max_connections=1_024, max_connections_per_address=512, max_body_bytes=2 << 20)
CONTEXT_PREFIX = "/contexts/{context}"


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
    table, kept = [], KeptAnswers()
    for operation in OPERATIONS:
        endpoint = _endpoint(api, operation, forwarder)
        if operation.is_kept:
            endpoint = _keeping(api, endpoint, kept, operation.query)
        paths = [operation.path, CONTEXT_PREFIX + operation.path] if operation.is_in_context else [operation.path]
        table += [Route(path, endpoint, (operation.method,), operation.is_public) for path in paths]
    return [*table, _document_route(api)]


def _endpoint(api: Api, operation: Operation, forwarder: Forwarder) -> Endpoint:
    name, handle, right, is_change = operation.name, operation.handle, operation.right, operation.is_change

    async def serve(request: Request) -> Response:
        call = Call(api, name, request)
        try:
            if right is not None and api.access.is_limited:
                await call.authorise(right)
            if is_change:
                return await _change(call, operation, forwarder)
            return await handle(call)
        except RegistryError as error:
            return error_answer(error)

    return serve


def _keeping(api: Api, endpoint: Endpoint, kept: KeptAnswers, parameters: Iterable[str]) -> Endpoint:
    """What one caller may read, another may not: with rights every answer is made anew."""
    state, access = api.service.state, api.access
    names = frozenset(each.encode() for each in parameters)

    async def serve(request: Request) -> Response:
        if access.is_limited:
            return await endpoint(request)
        scope, revision = request.scope, state.revision
        target = scope["raw_path"], known_part(scope["query_string"], names)
        found = kept.find(target, revision)
        if found is not None:
            return found
        response = await endpoint(request)
        if state.revision == revision:
            kept.keep(target, revision, response)
        return response

    return serve


async def _change(call: Call, operation: Operation, forwarder: Forwarder) -> Response:
    """The leader's answer. An instance that led when it was asked may find, in writing, that it does not any more: it
    has written nothing then, and looks for the leader once more.

    Rights are checked again when the body has come and this instance leads: while the caller kept the body back, or a
    leader was elected, an alias may have been set that leads to another subject. Nothing waits between that check and
    the operation, which finds the same alias.
    """
    access, request, right = call.api.access, call.request, operation.right
    access.check_trail()
    for _ in range(2):
        response = await forwarder.forward(request)
        if response is not None:
            return response
        await request.body()
        if right is not None and access.is_limited:
            await call.authorise(right)
        try:
            response = await operation.handle(call)
        except NotLeaderError:
            continue
        except RegistryError as error:
            response = error_answer(error)
        status = response.status_code
        if status < 300 or status >= 500:  # of the others nothing was changed, and nobody was denied anything
            details = call.details if status < 300 else {**call.details, "outcome": "unknown"}
            access.report(call.caller, _right_of(call, operation), call.subject, call.name, details)
        forwarder.stamp(request, response)
        return response
    raise NotLeaderError


def _right_of(call: Call, operation: Operation) -> Right:
    return Right.ADMIN if operation.right is None or call.subject in ("", GLOBAL_SCOPE) else operation.right


def _document_route(api: Api) -> Route:
    document = render_document(api.identity.version)

    async def serve(_: Request) -> Response:
        response = raw_answer(document)
        response.headers["content-type"] = "application/json"
        return response

    return Route(DOCUMENT_PATH, serve)
