"""A frame in, a reply out: header, decode, handler, encode. The only place where exceptions become responses.

A request that does not parse, an unknown API or an unsupported version closes the connection, as in Kafka, since the
client would understand no body. ApiVersions is the exception: the broker answers an unsupported version in version 0,
so that a newer client can try again with an older version.
"""

from __future__ import annotations

import logging
import struct
from collections.abc import Awaitable, Callable, Generator, Mapping
from types import CoroutineType
from typing import Generic, NamedTuple, TypeVar

from penstock.broker.broker import Broker
from penstock.broker.served_versions import ServedVersions, api_versions_response
from penstock.broker.session import Reply, RequestContext, Session, Settling, UnanswerableError, shorten
from penstock.broker.slices import Slices, Work
from penstock.core.logs import CLIENT_BURST, Limiter, RateLimitedLog
from penstock.core.metrics.counters import ApiMetrics, RequestMetrics
from penstock.protocol.api_names import name_api
from penstock.protocol.codec import decode_in_slices, decode_prefix, encode_chunks, encode_in_slices, is_small
from penstock.protocol.errors import ApiError, ErrorCode, describe
from penstock.protocol.framing import RequestHeader, decode_client_id, decode_request_header
from penstock.protocol.message import Buffer, Chunk, Message
from penstock.protocol.messages.api_versions import ApiVersionsRequest
from penstock.protocol.messages.produce import ProduceRequest

logger = logging.getLogger("penstock.broker.dispatch")

_SIZE = struct.Struct(">i")
_HEAD = struct.Struct(">ii")  # the size, which is not known yet, and the correlation id
_FLEXIBLE_HEAD = struct.Struct(">iib")  # and no tagged fields

# The loop decodes a frame up to this size in one piece. Even a frame of 8,000 empty names takes some 4 ms.
_LARGE_FRAME = 16 * 1024

_new_tuple = tuple.__new__  # a NamedTuple without a count of its fields

Request = TypeVar("Request", bound=Message)

# The result of a handler: the response, or work in slices or an awaitable that gives the response. None is for acks=0
# alone.
Answer = Message | Work[Message] | Awaitable[Message | None] | None

Handler = Callable[[Broker, RequestContext, Request], Answer]

# A way past decoder and encoder for the common shape of a hot request. It takes the frame, the position of the body and
# the correlation id. It returns the whole reply, a response to encode, or None for the usual way; before None it has
# changed nothing.
Shortcut = Callable[[Broker, RequestContext, Buffer, int, int], bytearray | Message | None]


class Api(NamedTuple, Generic[Request]):
    """One row of the API table. The type checker refuses a handler of another request."""

    request: type[Request]
    handler: Handler[Request]
    min_version: int
    max_version: int
    advertised_min: int
    shortcut: Shortcut | None = None
    # Only the controller serves it: other brokers forward the request, and the controller takes it from them.
    is_forwarded: bool = False
    # An API between brokers. Clients do not need to know it.
    is_for_brokers: bool = False

    @property
    def name(self) -> str:
        return self.request.__name__.removesuffix("Request")

    @property
    def served_versions(self) -> ServedVersions:
        return ServedVersions(self.request.API_KEY, self.advertised_min, self.max_version, self.is_for_brokers)


# By API key. The type of each row was checked at its creation: its handler takes the requests that its decoder gives.
ApiTable = Mapping[int, Api[Message]]


class _Call(NamedTuple):
    """One request during its dispatch."""

    api: Api[Message]
    header: RequestHeader
    context: RequestContext
    metrics: ApiMetrics
    size: int  # of the frame
    started: float

    def count_request(self) -> None:
        self.metrics.count_request(self.header.api_version, self.size)


class Dispatcher:
    def __init__(self, broker: Broker, apis: ApiTable, metrics: RequestMetrics, slices: Slices) -> None:
        self._broker = broker
        self._apis = apis
        self._slices = slices
        self._stopwatch = slices.stopwatch
        self._limited_log = RateLimitedLog(logger, Limiter(burst=CLIENT_BURST), lambda: int(slices.stopwatch() * 1000))
        # Gets each response before the encoding, where quotas exist.
        self.before_reply: Callable[[RequestContext, Message], None] | None = None
        self._metrics: dict[int, ApiMetrics] = {
            key: metrics.register(api.name, api.max_version) for key, api in apis.items()
        }

    def handle(self, session: Session, frame: Buffer) -> Reply | Awaitable[Reply]:
        """Costs about 2 us beside decoder, handler and encoder. Tried: a task per request (5 us more). Bench:
        small requests, pipelined.
        """
        started = self._stopwatch()
        try:
            header = decode_request_header(frame)
            api_key, version, correlation_id = header
            api = self._apis.get(api_key)
            if api is None:
                return self._refuse(header, None, frame)
            request, _, min_version, max_version, _, shortcut, _, _ = api
            if not min_version <= version <= max_version:
                return self._refuse(header, api, frame)
            client_id, position = decode_client_id(frame, version >= request.FLEXIBLE_FROM)
        except ApiError as error:
            raise UnanswerableError("request", error.message) from error
        context: RequestContext = _new_tuple(RequestContext, (session, api_key, version, client_id))
        metrics = self._metrics[api_key]
        size = len(frame)
        call: _Call | None = None
        try:
            shortened = None if shortcut is None else shortcut(self._broker, context, frame, position, correlation_id)
            if isinstance(shortened, bytearray):
                metrics.count_served(version, size, (self._stopwatch() - started) * 1000)
                return [shortened]
            call = _new_tuple(_Call, (api, header, context, metrics, size, started))
            if shortened is not None:
                call.count_request()
                return self._reply(call, shortened)
            answer = self._answer(call, frame, position)
            if answer is None or isinstance(answer, Message):
                return self._reply(call, answer)
        except UnanswerableError:
            raise
        except Exception as error:  # noqa: BLE001  # counted, logged, answered
            call = call or _new_tuple(_Call, (api, header, context, metrics, size, started))
            return self._reply(call, self._error_response(call, error))
        if isinstance(answer, Settling):
            return Settling(self._wait(call, answer.reply))
        return self._wait(call, answer)

    def handle_forwarded(self, session: Session, frame: Buffer) -> Reply | Awaitable[Reply]:
        """Serves a request that another broker has taken from its client. Raises ApiError where no such request is
        served.
        """
        header = decode_request_header(frame)
        api = self._apis.get(header.api_key)
        if api is None or not api.is_forwarded:
            raise ApiError(ErrorCode.INVALID_REQUEST, f"{name_api(header.api_key)} is not for the controller")
        if not api.min_version <= header.api_version <= api.max_version:
            raise ApiError(ErrorCode.UNSUPPORTED_VERSION)
        return self.handle(session, frame)

    def _answer(self, call: _Call, frame: Buffer, position: int) -> Message | Awaitable[Message | None] | None:
        api, header, context, metrics, size, _ = call
        try:
            # As Kafka does, dispatch ignores bytes after the request: librdkafka leaves three of them in a metadata
            # request for all topics, which every consumer with a pattern sends.
            if size > _LARGE_FRAME:
                request = self._slices.begin(decode_in_slices(api.request, frame, header.api_version, position))
                if not isinstance(request, Message):
                    return self._answer_when_decoded(call, request)
            else:
                request, _ = decode_prefix(api.request, frame, header.api_version, position)
        except ApiError as error:
            raise UnanswerableError("request", error.message) from error
        metrics.count_request(header.api_version, size)
        answer = api.handler(self._broker, context, request)
        # This order of checks is the fastest: most answers are messages or coroutines, and the check for a generator
        # takes 0.3 us.
        if isinstance(answer, CoroutineType):
            return answer
        if not isinstance(answer, Message) and isinstance(answer, Generator):
            answer = self._slices.begin(answer)
        if size > _LARGE_FRAME and isinstance(answer, Message) and header.api_key != ProduceRequest.API_KEY:
            return _ready(answer)  # a large request gets a large response: slice its encoding, too
        return answer

    async def _answer_when_decoded(self, call: _Call, decoding: Awaitable[Message]) -> Message | None:
        try:
            request = await decoding
        except ApiError as error:
            raise UnanswerableError("request", error.message) from error
        call.count_request()
        answer = call.api.handler(self._broker, call.context, request)
        if answer is None or isinstance(answer, Message):
            return answer
        return await (self._slices.finish(answer) if isinstance(answer, Generator) else answer)

    async def _wait(self, call: _Call, waiting: Awaitable[Message | None]) -> Reply:
        try:
            response = await waiting
            if response is None or is_small(response):
                return self._reply(call, response)
            if self.before_reply is not None:
                self.before_reply(call.context, response)
            encoded = self._slices.begin(_encode_in_slices(call.header, response))
            reply = encoded if isinstance(encoded, list) else await encoded
            call.metrics.count_answer(getattr(response, "error_code", 0), (self._stopwatch() - call.started) * 1000)
        except UnanswerableError:
            raise
        except Exception as error:  # noqa: BLE001  # counted, logged, answered
            return self._reply(call, self._error_response(call, error))
        return reply

    def _reply(self, call: _Call, response: Message | None) -> Reply:
        """Encodes the reply. An answer that cannot be encoded fails like its handler."""
        if response is None:
            call.metrics.total_time_ms.observe((self._stopwatch() - call.started) * 1000)
            return None
        if self.before_reply is not None:
            self.before_reply(call.context, response)
        reply = _encode_reply(call.header, response, call.header.api_version)
        call.metrics.count_answer(getattr(response, "error_code", 0), (self._stopwatch() - call.started) * 1000)
        return reply

    def _refuse(self, header: RequestHeader, api: Api[Message] | None, frame: Buffer) -> Reply:
        name = name_api(header.api_key)
        if api is None:
            raise UnanswerableError("api key", f"{name} is not served, asked by {_name_client(frame)}")
        if header.api_key != ApiVersionsRequest.API_KEY:
            served = f"{api.min_version} to {api.max_version} are"
            reason = f"{name} version {header.api_version} is not served ({served})"
            raise UnanswerableError("api version", f"{reason}, asked by {_name_client(frame)}")
        response = api_versions_response([api.served_versions])
        response.error_code = ErrorCode.UNSUPPORTED_VERSION
        return _encode_reply(header, response, 0)

    def _error_response(self, call: _Call, error: Exception) -> Message:
        """The response to a request that failed as a whole. The response needs a top-level error code; where this
        version has none, the connection closes: a response would look like success.
        """
        api = call.api
        code, message = ErrorCode.UNKNOWN_SERVER_ERROR, describe(ErrorCode.UNKNOWN_SERVER_ERROR)
        if isinstance(error, ApiError):
            code, message = error.code, error.message
        else:
            fields = {"api": api.name, "version": call.header.api_version, "client": str(call.context.session)}
            key = f"{api.name} {type(error).__name__}"
            self._limited_log.once_per(key, logging.ERROR, "a request failed", fields, error)
        response = api.request.RESPONSE()
        if not _has_error_code(type(response), call.header.api_version):
            raise UnanswerableError("failure", f"{api.name} failed: {message}") from error
        setattr(response, "error_code", code)  # noqa: B010 - the type of every response that has one
        if hasattr(response, "error_message"):
            response.error_message = message
        return response


def _name_client(frame: Buffer) -> str:
    """The client id of a refused request, for the log. The log line has the connection's address already.

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


async def _ready(answer: Message) -> Message:
    return answer


def _encode_reply(header: RequestHeader, response: Message, version: int) -> list[Chunk]:
    return _with_size(encode_chunks(response, version, _head(header, response, version)))


def _encode_in_slices(header: RequestHeader, response: Message) -> Work[list[Chunk]]:
    version = header.api_version
    return _with_size((yield from encode_in_slices(response, version, _head(header, response, version))))


def _head(header: RequestHeader, response: Message, version: int) -> bytes:
    # The ApiVersions response always has the old header, since the client does not know this broker's versions yet.
    flexible = version >= response.FLEXIBLE_FROM and header.api_key != ApiVersionsRequest.API_KEY
    return _FLEXIBLE_HEAD.pack(0, header.correlation_id, 0) if flexible else _HEAD.pack(0, header.correlation_id)


def _with_size(chunks: list[Chunk]) -> list[Chunk]:
    first = chunks[0]
    assert isinstance(first, bytearray)
    _SIZE.pack_into(first, 0, (len(first) if len(chunks) == 1 else sum(map(len, chunks))) - 4)
    return chunks
