"""Turns a table of routes into an application behind its guard.

Before an endpoint runs: the request has one framing only (RFC 9112, 6.3: a request that two readers could read
differently is refused), its target and headers are small, a declared body is not too large, and the caller is known.
While it runs: the body stays below its limit and arrives in time. A refusal closes the connection, because the rest of
the request may still be on its way.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, MutableMapping, Sequence
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request

from penstock.core.logs import CLIENT_BURST, Limiter, RateLimitedLog
from penstock.core.metrics.counters import HttpMetrics
from penstock.http.authentication import (
    Authenticator,
    Caller,
    Credentials,
    LoginUnavailableError,
    NotEntitledError,
    as_caller,
    read_basic,
)
from penstock.http.limits import HttpLimits
from penstock.http.routes import PLAIN_ERRORS, ErrorForm, Route
from penstock.http.routing import Matched, Routing
from penstock.security.audit.events import CLAIMED, AuditEvent, AuditKind, Auditor
from penstock.security.audit.logins import show_claimed

logger = logging.getLogger(__name__)

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

_SAFETY_HEADERS = (
    (b"x-content-type-options", b"nosniff"),
    (b"cache-control", b"no-store"),
)
_CLOSE = (b"connection", b"close")


class RefusedError(Exception):
    """The request is answered with this status, and its connection closed. `reason` is a word of ours for a metric."""

    def __init__(self, status: int, reason: str, text: str, headers: Sequence[tuple[bytes, bytes]] = ()) -> None:
        super().__init__(text)
        self.status = status
        self.reason = reason
        self.headers = tuple(headers)


class UnderWay:
    """Requests in progress, also those whose clients have left."""

    def __init__(self, limits: HttpLimits) -> None:
        self._most = limits.max_connections + limits.max_requests_left
        self._most_per_address = limits.max_connections_per_address + limits.max_requests_left_per_address
        self._count = 0
        self._addresses: Counter[str] = Counter()

    def enter(self, address: str) -> Callable[[], None]:
        """Returns the function to call at the end. Raises RefusedError."""
        if self._count >= self._most or self._addresses[address] >= self._most_per_address:
            text = "Service Unavailable: too many requests are under way"
            raise RefusedError(503, "requests", text, [(b"retry-after", b"1")])
        self._count += 1
        self._addresses[address] += 1
        return lambda: self._leave(address)

    def _leave(self, address: str) -> None:
        self._count -= 1
        self._addresses[address] -= 1
        if not self._addresses[address]:
            del self._addresses[address]


class Guard:
    """The application that the server calls."""

    def __init__(
        self,
        name: str,
        routes: Sequence[Route],
        limits: HttpLimits,
        authenticator: Authenticator | None,
        auditor: Auditor,
        metrics: HttpMetrics,
        errors: ErrorForm = PLAIN_ERRORS,
    ) -> None:
        self._name = name
        self._limits = limits
        self._authenticator = authenticator
        self._auditor = auditor
        self._metrics = metrics
        self._errors = errors
        self._under_way = UnderWay(limits)
        # Starlette's application would answer every exception with 500, also ours. Its router reads the decoded path,
        # and tries one route after the other.
        self._routing = Routing(routes)
        self._limited_log = RateLimitedLog(logger, Limiter(burst=CLIENT_BURST), _loop_ms)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        assert scope["type"] == "http", "nothing else is served"
        matched = self._routing.match(scope["method"], scope["raw_path"])
        route = None if matched is None else matched.route
        limits = self._limits if route is None or route.limits is None else route.limits
        exchange = _Exchange(scope, receive, send, limits, self._errors)
        # The endpoint reads the body, also while its answer streams: Starlette would read the body away in search for
        # the end of the connection, which `_Exchange` learns.
        scope["asgi"] = {**scope["asgi"], "spec_version": "2.4"}
        state = scope["state"]
        connection = state.pop("connection")
        at_end: list[Callable[[], None]] = []
        state["at_end"] = at_end
        connection.on_gone = exchange.leave
        try:
            at_end.append(self._under_way.enter(_address(scope)))
            _check_framing(scope, limits)
            is_public = route is not None and route.is_public
            caller = await self._identify(scope, is_public=is_public)
            state["caller"], state["principal"] = caller, None if caller is None else caller.principal
            await _serve(matched, scope, exchange)
        except ClientDisconnect:
            pass  # the client has gone
        except asyncio.CancelledError:
            if not exchange.is_gone:
                raise
        except HTTPException as error:
            await exchange.answer(error.status_code, error.detail, _encoded(error.headers))
        except RefusedError as refusal:
            self._metrics.count_refused(refusal.reason)
            await exchange.refuse(refusal)
        except Exception as error:  # noqa: BLE001  # logged, counted, answered
            fields = {"listener": self._name, "path": scope["path"]}
            self._limited_log.once_per(type(error).__name__, logging.ERROR, "an HTTP request failed", fields, error)
            await exchange.refuse(RefusedError(500, "failure", "Internal Server Error"))
        finally:
            connection.on_gone = None
            for release in at_end:
                release()
            if exchange.status:
                self._metrics.count_answer(exchange.status)

    # -------------------------------------------------------------------------------------------- who asks

    async def _identify(self, scope: Scope, *, is_public: bool) -> Caller | None:
        authenticator = self._authenticator
        if authenticator is None:
            return None
        values = [value.decode("latin-1") for name, value in scope["headers"] if name == b"authorization"]
        credentials = Credentials.of(values, scope["state"].get("peer_certificate"), _address(scope))
        if self._auditor.refuses and AuditKind.LOGIN in self._auditor.kinds and not is_public:
            raise RefusedError(503, "audit", "the audit trail is full, so nothing is done that it must keep")
        try:
            caller = as_caller(await authenticator.authenticate(credentials))
        except NotEntitledError as error:
            if not is_public:
                self._report(credentials, error.principal, is_denied=True)
                raise RefusedError(403, "rights", "Forbidden") from None
            return None
        except LoginUnavailableError as error:
            if not is_public:
                raise RefusedError(503, "login unavailable", str(error), [(b"retry-after", b"1")]) from None
            return None
        except Exception as error:  # noqa: BLE001  # whatever failed, nobody is let in by it
            fields = {"listener": self._name}
            self._limited_log.once_per("login", logging.ERROR, "an HTTP login could not be checked", fields, error)
            caller = None
        is_asked = bool(values) or caller is not None
        if is_asked or not is_public:
            self._report(credentials, None if caller is None else caller.principal)
        if caller is None and not is_public:
            await asyncio.sleep(self._limits.refusal_delay_s)
            challenges = [(b"www-authenticate", each.encode()) for each in authenticator.challenges]
            raise RefusedError(401, "login", "Unauthorized", challenges)
        return caller

    def _report(self, credentials: Credentials, principal: str | None, *, is_denied: bool = False) -> None:
        kind = AuditKind.DENIAL if is_denied else AuditKind.LOGIN
        if kind not in self._auditor.kinds:
            return
        claimed = read_basic(credentials) if principal is None else None
        self._auditor.record(
            AuditEvent(
                kind,
                "HttpRequest",
                is_allowed=principal is not None and not is_denied,
                principal=principal or "",
                address=credentials.address,
                resource=f"Http:{self._name}",
                # A client chooses the scheme freely.
                operation=credentials.scheme if credentials.scheme in ("basic", "bearer") else "",
                rule="" if credentials.authorization or principal else "no credentials",
                details={} if claimed is None else {CLAIMED: show_claimed(claimed[0])},
            )
        )


def _address(scope: Scope) -> str:
    client = scope.get("client")
    return str(client[0]) if client else ""


def _loop_ms() -> int:
    return int(asyncio.get_running_loop().time() * 1000)


def _check_framing(scope: Scope, limits: HttpLimits) -> None:
    headers: list[tuple[bytes, bytes]] = scope["headers"]
    if len(scope["raw_path"]) + len(scope["query_string"]) > limits.max_target_bytes:
        raise RefusedError(414, "target", "URI Too Long")
    size = sum(len(name) + len(value) for name, value in headers)
    if size > limits.max_header_bytes or len(headers) > limits.max_headers:
        raise RefusedError(431, "headers", "Request Header Fields Too Large")
    if scope["http_version"] not in ("1.0", "1.1"):
        raise RefusedError(505, "framing", "HTTP Version Not Supported")
    names = [name for name, _ in headers]
    if names.count(b"host") != 1 and (scope["http_version"] == "1.1" or b"host" in names):
        raise RefusedError(400, "framing", "Bad Request: there must be one Host")
    lengths = [value for name, value in headers if name == b"content-length"]
    encodings = [value for name, value in headers if name == b"transfer-encoding"]
    if encodings and (lengths or scope["http_version"] == "1.0"):
        raise RefusedError(400, "framing", "Bad Request: both Content-Length and Transfer-Encoding")
    if encodings and [each.lower() for each in encodings] != [b"chunked"]:
        raise RefusedError(501, "framing", "Not Implemented: chunked is the one Transfer-Encoding")
    if lengths and int(lengths[0]) > limits.max_body_bytes:
        raise RefusedError(413, "body", "Content Too Large")


async def _serve(matched: Matched | None, scope: Scope, exchange: _Exchange) -> None:
    if matched is None:
        raise HTTPException(404)
    if matched.route is None:
        raise HTTPException(405, headers={"Allow": ", ".join(matched.allowed)})
    scope["path_params"] = matched.parameters
    response = await matched.route.endpoint(Request(scope, exchange.receive, exchange.send))
    await response(scope, exchange.receive, exchange.send)


class _Exchange:
    """One request and its answer: counts incoming bytes, and knows whether an answer has begun."""

    def __init__(self, scope: Scope, receive: Receive, send: Send, limits: HttpLimits, errors: ErrorForm) -> None:
        self._errors = errors
        self._receive = receive
        self._send = send
        self._limits = limits
        self._size = 0
        names = {name for name, _ in scope["headers"]}
        self._has_rest = b"content-length" in names or b"transfer-encoding" in names  # of the body, on its way
        self._deadline: float | None = None
        self._task = asyncio.current_task()
        self.status = 0
        self.is_gone = False

    def leave(self) -> None:
        """The client is gone. An answer that has begun is given up; a request without an answer may be a change, and
        goes on.
        """
        if self.status and self._task is not None:
            self.is_gone = True
            self._task.cancel()

    async def receive(self) -> Message:
        if not self._has_rest:
            return await self._receive()
        if self._deadline is None:
            self._deadline = asyncio.get_running_loop().time() + self._limits.body_s
        try:
            async with asyncio.timeout_at(self._deadline):
                message = await self._receive()
        except TimeoutError:
            raise RefusedError(408, "slow body", "Request Timeout") from None
        if message["type"] == "http.request":
            self._size += len(message.get("body", b""))
            self._has_rest = message.get("more_body", False)
            if self._size > self._limits.max_body_bytes:
                raise RefusedError(413, "body", "Content Too Large")
        return message

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            headers = [*message.get("headers", ())]
            names = {name for name, _ in headers}
            headers += [each for each in _SAFETY_HEADERS if each[0] not in names]
            if self._has_rest:
                headers.append(_CLOSE)
            message = {**message, "headers": headers}
        await self._send(message)
        if message.get("more_body"):
            # uvicorn silently accepts data for a client that is gone: an endless answer would hold the loop.
            await asyncio.sleep(0)

    async def refuse(self, refusal: RefusedError) -> None:
        self._has_rest = True  # the rest of it is not read
        await self.answer(refusal.status, str(refusal), refusal.headers)

    async def answer(self, status: int, text: str, more: Sequence[tuple[bytes, bytes]] = ()) -> None:
        """An answer that has begun cannot be taken back: the server closes its connection."""
        if self.status:
            return
        body = self._errors.write(status, text)
        length = str(len(body)).encode()
        headers = [(b"content-type", self._errors.content_type.encode()), (b"content-length", length), *more]
        await self.send({"type": "http.response.start", "status": status, "headers": headers})
        await self.send({"type": "http.response.body", "body": body})


def _encoded(headers: Mapping[str, str] | None) -> list[tuple[bytes, bytes]]:
    return [(name.lower().encode(), value.encode()) for name, value in (headers or {}).items()]


async def wait_until_gone(request: Request) -> None:
    """Returns when the client has closed its connection."""
    while (await request.receive())["type"] != "http.disconnect":
        pass
