"""Throttles clients with quotas: counts their requests, answers with `throttle_time_ms`, and leaves the connection
unread.

This stands between the sockets and dispatch only while there is a quota, or while some user owes producer ids
(`NewProducers`), so that a broker without quotas pays nothing.

Rules (KIP-219, Kafka's `KafkaApis` and `RequestHandlerHelper`):
- A reply goes out at once and carries the throttle time. Meanwhile the broker does not read the connection, whether the
  client knows the throttle time or not.
- A produce request counts with its size when it is answered. A request without acknowledgements counts as well.
- A fetch counts with its records. An excessive fetch gets an answer without records and does not count: the handler
  decides that (`ClientQuotas.throttle_fetch`).
- The time of a request is the time for which it occupies the event loop, from its arrival to the last byte of its
  reply, in percent: 100 is the loop. Waiting costs nothing. Time after the creation of the reply counts for the next
  request.
- Requests of brokers are exempt, and so are all requests on a listener that is for brokers alone. A forwarded request
  is throttled on the broker that forwarded it.
"""

from __future__ import annotations

import logging
import struct
from collections.abc import Awaitable, Callable, Collection, Generator
from typing import Any, cast

from penstock.broker.quotas.client_quotas import ClientQuotas
from penstock.broker.session import Outcome, Reply, RequestContext, Session, Settling, Throttled, shorten
from penstock.core.logs import Limiter, RateLimitedLog
from penstock.protocol.errors import ApiError
from penstock.protocol.framing import decode_client_id, decode_request_header
from penstock.protocol.message import Buffer, Message
from penstock.protocol.messages.metadata import MetadataRequest
from penstock.protocol.messages.produce import ProduceRequest, ProduceResponse

logger = logging.getLogger("penstock.broker.quotas")

Dispatch = Callable[[Session, Buffer], Reply | Awaitable[Reply]]

_PRODUCE, _METADATA = ProduceRequest.API_KEY, MetadataRequest.API_KEY
_THROTTLE_TIME = struct.Struct(">i")
_SIZE_BYTES = 4  # before a frame
_FLEXIBLE_HEAD = 9  # size, correlation id, no tags


class _Account:
    """One request under way."""

    __slots__ = ("api_key", "api_version", "client_id", "is_answered", "seconds", "size", "throttle_ms", "user")

    def __init__(self, user: str, api_key: int, api_version: int, client_id: str | None, size: int) -> None:
        self.user = user
        self.client_id = client_id
        self.api_key = api_key
        self.api_version = api_version
        self.size = size
        self.seconds = 0.0  # seconds of the loop that are not counted yet
        self.throttle_ms = 0
        self.is_answered = False


class Throttling:
    def __init__(
        self,
        quotas: ClientQuotas,
        dispatch: Dispatch,
        stopwatch: Callable[[], float],
        exempt_apis: Collection[int] = (),
        exempt_listener: str | None = None,
    ) -> None:
        self._quotas = quotas
        self._dispatch = dispatch
        self._stopwatch = stopwatch
        self._exempt_apis = frozenset(exempt_apis)
        self._exempt_listener = exempt_listener
        self._current: _Account | None = None  # the request whose slice of the loop this is
        self._entered = 0.0
        self._log = RateLimitedLog(logger, Limiter(), quotas.clock.monotonic_ms)

    def handle(self, session: Session, frame: Buffer) -> Outcome | Awaitable[Outcome]:
        """Costs some 4 us beside dispatch."""
        self._quotas.new_producers.settle()
        account = self._open(session, frame)
        if account is None:
            return self._dispatch(session, frame)
        self._enter(account)
        try:
            reply = self._dispatch(session, frame)
        finally:
            self._leave(account)
        if reply is None or isinstance(reply, list):
            return self._close(account, reply)
        if isinstance(reply, Settling):
            return cast("Awaitable[Outcome]", Settling(self._finish(account, reply.reply)))
        return self._finish(account, reply)

    def before_reply(self, context: RequestContext, response: Message) -> None:
        """Dispatch calls this with each response before it is encoded."""
        account = self._current
        if account is None or account.is_answered:
            return
        throttle_ms = max(getattr(response, "throttle_time_ms", 0), account.throttle_ms, self._count(account, response))
        if throttle_ms and hasattr(response, "throttle_time_ms"):
            response.throttle_time_ms = throttle_ms
        account.throttle_ms = throttle_ms

    def hold_back(self, throttle_ms: int) -> None:
        """Throttles the client of the current request, for this time at least."""
        if self._current is not None and not self._current.is_answered:
            self._current.throttle_ms = max(self._current.throttle_ms, throttle_ms)

    def exempt(self) -> None:
        """Exempts the current request, which comes from a broker."""
        if self._current is not None:
            self._current.is_answered = True

    # ------------------------------------------------------------------------------------------- accounts

    def _open(self, session: Session, frame: Buffer) -> _Account | None:
        if session.listener == self._exempt_listener:
            return None
        try:
            api_key, version, _ = decode_request_header(frame)
            client_id, _ = decode_client_id(frame, flexible=False)  # the client id is in the same place in every header
        except ApiError:
            return None  # dispatch finds the right error
        if api_key in self._exempt_apis:
            return None
        return _Account(session.principal.name, api_key, version, client_id, len(frame) + _SIZE_BYTES)

    def _enter(self, account: _Account) -> None:
        self._current = account
        self._entered = self._stopwatch()

    def _leave(self, account: _Account) -> None:
        self._current = None
        account.seconds += self._stopwatch() - self._entered

    def _count(self, account: _Account, response: Message | None) -> int:
        """Counts the use of the request until now. Returns the throttle time of the client."""
        account.is_answered = True
        quotas, now_ms = self._quotas, self._quotas.clock.monotonic_ms()
        who = account.user, account.client_id
        throttle_ms = quotas.produce.record(*who, account.size, now_ms) if account.api_key == _PRODUCE else 0
        if quotas.request and not (account.api_key == _PRODUCE and response is None):
            now = self._stopwatch()
            if self._current is account:
                account.seconds += now - self._entered
                self._entered = now
            throttle_ms = max(throttle_ms, quotas.request.record(*who, account.seconds * 100, now_ms))
            account.seconds = 0.0
        return throttle_ms

    async def _finish(self, account: _Account, waiting: Awaitable[Reply]) -> Outcome:
        return self._close(account, await _Measured(self._enter, self._leave, account, waiting))

    def _close(self, account: _Account, reply: Reply) -> Outcome:
        if not account.is_answered:  # no response was encoded: a shortcut made the reply, or there is none
            used_ms = self._count(account, None if reply is None else ProduceResponse())
            account.throttle_ms = max(account.throttle_ms, used_ms)
            if account.throttle_ms and reply is not None:
                _patch(account, reply)
        if not account.throttle_ms:
            return reply
        fields = {"user": account.user, "client_id": shorten(account.client_id or ""), "ms": account.throttle_ms}
        self._log.once_per("throttled", logging.INFO, "a client is throttled by its quota", fields)
        return Throttled(reply, account.throttle_ms)


class _Measured:
    """Awaits, and counts only the time in which code runs."""

    __slots__ = ("_account", "_awaited", "_enter", "_leave")

    def __init__(
        self,
        enter: Callable[[_Account], None],
        leave: Callable[[_Account], None],
        account: _Account,
        awaited: Awaitable[Reply],
    ) -> None:
        self._enter = enter
        self._leave = leave
        self._account = account
        self._awaited = awaited

    def __await__(self) -> Generator[Any, None, Reply]:
        steps = cast("Generator[Any, None, Reply]", self._awaited.__await__())
        error: BaseException | None = None
        while True:
            self._enter(self._account)
            try:
                waited_for = steps.send(None) if error is None else steps.throw(error)
            except StopIteration as stop:
                return cast("Reply", stop.value)
            finally:
                self._leave(self._account)
            error = None
            try:
                yield waited_for
            except GeneratorExit:
                steps.close()
                raise
            except BaseException as caught:  # noqa: BLE001  # it is for the one that is awaited
                error = caught


def _patch(account: _Account, reply: Reply) -> None:
    """Writes the throttle time into a reply that a shortcut has made: it is the last field of Produce, the first of
    Metadata.
    """
    assert reply is not None
    encoded = reply[0]
    assert isinstance(encoded, bytearray)
    if account.api_key == _METADATA:
        _THROTTLE_TIME.pack_into(encoded, _FLEXIBLE_HEAD, account.throttle_ms)
    elif account.api_key == _PRODUCE:
        has_tags = account.api_version >= ProduceResponse.FLEXIBLE_FROM
        _THROTTLE_TIME.pack_into(encoded, len(encoded) - _THROTTLE_TIME.size - has_tags, account.throttle_ms)
