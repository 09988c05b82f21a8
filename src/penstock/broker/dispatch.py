"""A frame in, a reply out: header, decode, handler, encode. The one place where exceptions become responses.

What a client gets for a mistake: a request that cannot be parsed, an unknown API or an unsupported version closes the
connection, as Kafka does, since no body would be understood. ApiVersions is the exception: an unsupported version is
answered in version 0, so that a newer client can try again with an older one.
"""

from __future__ import annotations

import logging
import struct
import time
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

from penstock.broker.session import Reply, RequestContext, Session, UnanswerableError, shorten
from penstock.core.metrics.counters import ApiMetrics, RequestMetrics
from penstock.protocol.api_names import name_api
from penstock.protocol.codec import decode_prefix, encode_chunks
from penstock.protocol.errors import ApiError, ErrorCode, describe
from penstock.protocol.framing import RequestHeader, decode_client_id, decode_request_header, encode_response_header
from penstock.protocol.message import Buffer, Message
from penstock.protocol.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse

logger = logging.getLogger("penstock.broker.dispatch")

_SIZE = struct.Struct(">i")
_NO_SIZE_YET = bytes(4)

# A handler gets the broker, the context and the request. None is for acks=0 alone.
Handler = Callable[[Any, RequestContext, Any], Message | Awaitable[Message | None] | None]


# A way past decoder and encoder for the common shape of a hot request: the whole reply, or None to go the usual way, in
# which case nothing has happened yet.
Shortcut = Callable[[Any, Session, Buffer, RequestHeader], bytearray | None]


class Api(NamedTuple):
    """One row of the API table."""

    request: type[Message]
    handler: Handler
    min_version: int
    max_version: int
    advertised_min: int
    shortcut: Shortcut | None = None

    @property
    def name(self) -> str:
        return self.request.__name__.removesuffix("Request")


class Dispatcher:
    def __init__(self, broker: object, apis: dict[int, Api], metrics: RequestMetrics) -> None:
        self._broker = broker
        self._apis = apis
        self._metrics: dict[int, ApiMetrics] = {
            key: metrics.register(api.name, api.max_version) for key, api in apis.items()
        }

    def handle(self, session: Session, frame: Buffer) -> Reply | Awaitable[Reply]:
        """Costs about 4 us beside decoder, handler and encoder. Tried: a task per request (5 us more). Bench:
        small requests, pipelined.
        """
        started = time.perf_counter()
        try:
            header = decode_request_header(frame)
            api = self._apis.get(header.api_key)
            if api is None:
                reason = f"{name_api(header.api_key)} is not served, asked by {_name_client(frame)}"
                raise UnanswerableError("api key", reason)
            version = header.api_version
            if not api.min_version <= version <= api.max_version:
                return self._refuse_version(header, api, frame)
            if api.shortcut is not None:
                answer = api.shortcut(self._broker, session, frame, header)
                if answer is not None:
                    self._count(self._metrics[header.api_key], version, len(frame), started)
                    return [answer]
            client_id, position = decode_client_id(frame, version >= api.request.FLEXIBLE_FROM)
            # Bytes after the request are ignored, as Kafka does: librdkafka leaves three of them in a metadata request
            # for all topics, which every consumer with a pattern sends.
            request, _ = decode_prefix(api.request, frame, version, position)
        except ApiError as error:
            raise UnanswerableError("request", error.message) from error
        metrics = self._metrics[header.api_key]
        metrics.requests[version] += 1
        metrics.request_bytes.observe(len(frame))
        context = RequestContext(session, header.api_key, version, client_id)
        try:
            response = api.handler(self._broker, context, request)
            if response is None or isinstance(response, Message):
                return self._reply(header, response, metrics, started)
        except UnanswerableError:
            raise
        except Exception as error:  # noqa: BLE001  # counted, logged, answered
            return self._reply(header, self._error_response(api, context, error), metrics, started)
        return self._wait(response, header, api, context, metrics, started)

    async def _wait(
        self,
        waiting: Awaitable[Message | None],
        header: RequestHeader,
        api: Api,
        context: RequestContext,
        metrics: ApiMetrics,
        started: float,
    ) -> Reply:
        try:
            return self._reply(header, await waiting, metrics, started)
        except UnanswerableError:
            raise
        except Exception as error:  # noqa: BLE001  # counted, logged, answered
            return self._reply(header, self._error_response(api, context, error), metrics, started)

    def _reply(self, header: RequestHeader, response: Message | None, metrics: ApiMetrics, started: float) -> Reply:
        """Fails like a handler if the handler's answer cannot be encoded."""
        if response is None:
            metrics.total_time_ms.observe((time.perf_counter() - started) * 1000)
            return None
        reply = _encode_reply(header, response, header.api_version)
        metrics.count_error(getattr(response, "error_code", 0))
        metrics.total_time_ms.observe((time.perf_counter() - started) * 1000)
        return reply

    @staticmethod
    def _count(metrics: ApiMetrics, version: int, size: int, started: float) -> None:
        metrics.requests[version] += 1
        metrics.request_bytes.observe(size)
        metrics.count_error(ErrorCode.NONE)
        metrics.total_time_ms.observe((time.perf_counter() - started) * 1000)

    def _refuse_version(self, header: RequestHeader, api: Api, frame: Buffer) -> Reply:
        if header.api_key != ApiVersionsRequest.API_KEY:
            served = f"{api.min_version} to {api.max_version} are"
            reason = f"{name_api(header.api_key)} version {header.api_version} is not served ({served})"
            raise UnanswerableError("api version", f"{reason}, asked by {_name_client(frame)}")
        response = api_versions_response({header.api_key: api})
        response.error_code = ErrorCode.UNSUPPORTED_VERSION
        return _encode_reply(header, response, 0)

    def _error_response(self, api: Api, context: RequestContext, error: Exception) -> Message:
        """The whole request failed. An answer needs a top-level error code; where the response has none in this
        version, the connection is closed: an answer would look like success.
        """
        code, message = ErrorCode.UNKNOWN_SERVER_ERROR, describe(ErrorCode.UNKNOWN_SERVER_ERROR)
        if isinstance(error, ApiError):
            code, message = error.code, error.message
        else:
            logger.error("%s v%d from %s failed", api.name, context.api_version, context.session, exc_info=error)
        response: Any = api.request.RESPONSE()
        if not _has_error_code(type(response), context.api_version):
            raise UnanswerableError("failure", f"{api.name} failed: {message}") from error
        response.error_code = code
        if hasattr(response, "error_message"):
            response.error_message = message
        failed: Message = response
        return failed


def _name_client(frame: Buffer) -> str:
    """The client id of a refused request, for the log. The connection's address is in the log line already.

    Every header that clients send has the client id in the same place, so the id can be read without knowing the API.
    """
    try:
        client_id, _ = decode_client_id(frame, flexible=False)
    except ApiError:
        return "a client whose id cannot be read"
    return "a client without an id" if client_id is None else f"client id {shorten(client_id)!r}"


def _has_error_code(response: type[Message], version: int) -> bool:
    return any(
        name == "error_code" and versions is not None and versions[0] <= version <= versions[1]
        for name, _, versions, *_ in response.FIELDS
    )


def api_versions_response(apis: dict[int, Api]) -> ApiVersionsResponse:
    versions = [
        ApiVersion(api_key=key, min_version=api.advertised_min, max_version=api.max_version)
        for key, api in apis.items()
    ]
    return ApiVersionsResponse(api_keys=sorted(versions, key=lambda row: row.api_key))


def _encode_reply(header: RequestHeader, response: Message, version: int) -> Reply:
    # The ApiVersions response has the old header whatever its version, since the client does not know ours yet.
    flexible = version >= response.FLEXIBLE_FROM and header.api_key != ApiVersionsRequest.API_KEY
    chunks = encode_chunks(response, version, _NO_SIZE_YET + encode_response_header(header.correlation_id, flexible))
    first = chunks[0]
    assert isinstance(first, bytearray)
    _SIZE.pack_into(first, 0, sum(map(len, chunks)) - 4)
    return chunks
