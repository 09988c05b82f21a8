"""From a table of routes to an application behind its guard.

Before an endpoint runs: the request is framed in one way only (RFC 9112, 6.3: what two readers could read differently
is refused), its target and headers are small, a declared body is not too large, and somebody known asks. While it runs:
the body stays below its limit and comes in time. A refusal closes the connection, because the rest of the request may
still be on its way.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable, Mapping, MutableMapping, Sequence
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.routing import Match, Router
from starlette.routing import Route as StarletteRoute

from penstock.core.logs import CLIENT_BURST, Limiter, RateLimitedLog
from penstock.core.metrics.counters import HttpMetrics
from penstock.http.authentication import Authenticator, Credentials, NotEntitledError, read_basic
from penstock.http.limits import HttpLimits
from penstock.http.routes import Route
from penstock.security.audit.events import CLAIMED, AuditEvent, Auditor, Kind
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
    ) -> None:
        self._name = name
        self._limits = limits
        self._authenticator = authenticator
        self._auditor = auditor
        self._metrics = metrics
        self._public = frozenset(route.path for route in routes if route.is_public)
        # Without Starlette's application around it, which answers every exception with 500, also ours.
        served = [StarletteRoute(each.path, each.endpoint, methods=[*each.methods]) for each in routes]
        self._router = Router(served)
        self._own_limits = [(one, each.limits) for one, each in zip(served, routes, strict=True) if each.limits]
        self._limited_log = RateLimitedLog(logger, Limiter(burst=CLIENT_BURST), _loop_ms)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        assert scope["type"] == "http", "nothing else is served"
        limits = self._limits_of(scope)
        exchange = _Exchange(scope, receive, send, limits)
        # The body is the endpoint's to read, also while its answer streams: Starlette would read it away, looking for
        # the end of the connection, which `_Exchange` is told of.
        scope["asgi"] = {**scope["asgi"], "spec_version": "2.4"}
        connection = scope["state"].pop("connection")
        connection.on_gone = exchange.leave
        try:
            _check_framing(scope, limits)
            scope["state"]["principal"] = await self._identify(scope)
            await self._router(scope, exchange.receive, exchange.send)
        except ClientDisconnect:
            pass  # nobody is there to be told anything
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
            if exchange.status:
                self._metrics.count_answer(exchange.status)

    def _limits_of(self, scope: Scope) -> HttpLimits:
        for route, limits in self._own_limits:
            if route.matches(scope)[0] is Match.FULL:
                return limits
        return self._limits

    # -------------------------------------------------------------------------------------------- who asks

    async def _identify(self, scope: Scope) -> str | None:
        authenticator = self._authenticator
        if authenticator is None:
            return None
        values = [value.decode("latin-1") for name, value in scope["headers"] if name == b"authorization"]
        credentials = Credentials.of(values, scope["state"].get("peer_certificate"), _address(scope))
        is_public = scope["path"] in self._public
        if self._auditor.refuses and Kind.LOGIN in self._auditor.kinds and not is_public:
            raise RefusedError(503, "audit", "the audit trail is full, so nothing is done that it must keep")
        try:
            principal = await authenticator.authenticate(credentials)
        except NotEntitledError as error:
            if not is_public:
                self._report(credentials, error.principal, is_denied=True)
                raise RefusedError(403, "rights", "Forbidden") from None
            return None
        except Exception as error:  # noqa: BLE001  # whatever failed, nobody is let in by it
            fields = {"listener": self._name}
            self._limited_log.once_per("login", logging.ERROR, "an HTTP login could not be checked", fields, error)
            principal = None
        is_asked = bool(values) or principal is not None
        if is_asked or not is_public:
            self._report(credentials, principal)
        if principal is None and not is_public:
            await asyncio.sleep(self._limits.refusal_delay_s)
            challenges = [(b"www-authenticate", each.encode()) for each in authenticator.challenges]
            raise RefusedError(401, "login", "Unauthorized", challenges)
        return principal

    def _report(self, credentials: Credentials, principal: str | None, *, is_denied: bool = False) -> None:
        kind = Kind.DENIAL if is_denied else Kind.LOGIN
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
                # The scheme of a stranger is a word of the stranger's.
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
    lengths = [value for name, value in headers if name == b"content-length"]
    encodings = [value for name, value in headers if name == b"transfer-encoding"]
    if encodings and (lengths or scope["http_version"] == "1.0"):
        raise RefusedError(400, "framing", "Bad Request: both Content-Length and Transfer-Encoding")
    if lengths and int(lengths[0]) > limits.max_body_bytes:
        raise RefusedError(413, "body", "Content Too Large")


class _Exchange:
    """One request and its answer: counts what comes in, and knows whether an answer has begun."""

    def __init__(self, scope: Scope, receive: Receive, send: Send, limits: HttpLimits) -> None:
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
        """The client is gone. An answer that has begun is given up; what has not answered yet may be a change, and goes
        on.
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
            # uvicorn takes what is sent to a client that is gone without a word: an endless answer would hold the loop.
            await asyncio.sleep(0)

    async def refuse(self, refusal: RefusedError) -> None:
        self._has_rest = True  # whatever of it comes is not read
        await self.answer(refusal.status, str(refusal), refusal.headers)

    async def answer(self, status: int, text: str, more: Sequence[tuple[bytes, bytes]] = ()) -> None:
        """An answer that has begun cannot be taken back: the server closes its connection."""
        if self.status:
            return
        body = json.dumps({"error": status, "message": text}).encode()
        length = str(len(body)).encode()
        headers = [(b"content-type", b"application/json"), (b"content-length", length), *more]
        await self.send({"type": "http.response.start", "status": status, "headers": headers})
        await self.send({"type": "http.response.body", "body": body})


def _encoded(headers: Mapping[str, str] | None) -> list[tuple[bytes, bytes]]:
    return [(name.lower().encode(), value.encode()) for name, value in (headers or {}).items()]


async def wait_until_gone(request: Request) -> None:
    """Returns when the client has closed its connection."""
    while (await request.receive())["type"] != "http.disconnect":
        pass
