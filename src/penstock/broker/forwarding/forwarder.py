"""Forwards a client's request to the controller, and returns the controller's answer (KIP-590).

The request travels in an Envelope, in the version that the client chose, with the client's principal and address.
Failures, and the client's answers:

- The controller is away, or has just changed: the broker tries again within the request's own timeout. Then
  REQUEST_TIMED_OUT. As in Kafka (NodeToControllerRequestThread), the broker sends a request again if its answer is
  lost. Kafka's clients then get an error that the topic exists which they have made; here `Sendings` knows of it, and
  `handlers.brokers` recognises the effect of the first sending.
- The controller does not serve the client's version: the connection closes, as for any version that is not served.
- The controller refuses the envelope: the brokers have a wrong setup, which the client cannot correct. The log names
  the cause, the client gets UNKNOWN_SERVER_ERROR.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from penstock.broker.forwarding.envelopes import encode_address, encode_principal
from penstock.broker.forwarding.refusals import refuse
from penstock.broker.peers.controller import Controller
from penstock.broker.peers.peers import PeerUnavailableError
from penstock.broker.session import RequestContext, UnanswerableError
from penstock.broker.slices import Slices, Work
from penstock.client.sendings import Sendings
from penstock.protocol.codec import decode_in_slices, encode_in_slices
from penstock.protocol.errors import ApiError, ErrorCode, describe
from penstock.protocol.framing import decode_response_header, encode_request_header
from penstock.protocol.message import Message
from penstock.protocol.messages.envelope import EnvelopeRequest, EnvelopeResponse

logger = logging.getLogger(__name__)

# The timeout of a request without a timeout. Clients wait 30 s or more.
_USUAL_TIMEOUT_S = 25.0
# Clients may send 0, which bounds the work and not the way to the controller; no client waits for hours.
_SHORTEST_TIMEOUT_S = 1.0
_LONGEST_TIMEOUT_S = 60.0
# A channel apart from the brokers' own requests: a large request of a client must not delay an in-sync change.
_CHANNEL = "forwarding"


class Forwarding:
    def __init__(self, controller: Controller, slices: Slices) -> None:
        self._controller = controller
        self._slices = slices

    def is_needed(self, context: RequestContext) -> bool:
        """Whether a request goes to another broker. A request from an envelope goes no further."""
        return not self._controller.is_here and not context.session.is_forwarded

    async def forward(
        self, context: RequestContext, request: Message, sendings: Sendings | None = None
    ) -> Message | None:
        """The controller's response, or a response with the error. None when this broker has become the controller."""
        envelope = await self._wrap(context, request)
        sendings = Sendings() if sendings is None else sendings

        async def read(answer: EnvelopeResponse) -> Message | None:
            return await self._read(context, request, answer, sendings)

        timeout_s = _timeout_s(request)
        try:
            return await self._controller.ask(envelope, read, timeout_s=timeout_s, channel=_CHANNEL, sendings=sendings)
        except PeerUnavailableError as error:
            logger.warning("%s was not forwarded: %s", type(request).__name__, error)
            return refuse(request, ErrorCode.REQUEST_TIMED_OUT, describe(ErrorCode.REQUEST_TIMED_OUT))

    async def learn(self, is_known: Callable[[], bool]) -> None:
        """Waits a short time for the image that the controller's answer rests on."""
        await self._controller.wait_until(is_known)

    async def _wrap(self, context: RequestContext, request: Message) -> EnvelopeRequest:
        version = context.api_version
        flexible = version >= request.FLEXIBLE_FROM
        head = encode_request_header(context.api_key, version, 0, context.client_id, flexible)
        chunks = await self._slices.run(encode_in_slices(request, version, head))
        return EnvelopeRequest(
            request_data=b"".join(chunks),  # type: ignore[arg-type]  # no request that is forwarded has records
            request_principal=encode_principal(context.principal),
            client_host_address=encode_address(context.client_host),
        )

    async def _read(
        self, context: RequestContext, request: Message, answer: EnvelopeResponse, sendings: Sendings
    ) -> Message | None:
        """None for the answer of a broker that is not the controller."""
        name = type(request).__name__
        if answer.error_code == ErrorCode.NOT_CONTROLLER:
            return None
        if answer.error_code == ErrorCode.UNSUPPORTED_VERSION:
            raise UnanswerableError("api version", f"the controller does not serve {name} v{context.api_version}")
        if answer.error_code != ErrorCode.NONE or answer.response_data is None:
            logger.error("the controller refused the envelope of %s with error %d", name, answer.error_code)
            return refuse(request, ErrorCode.UNKNOWN_SERVER_ERROR, describe(ErrorCode.UNKNOWN_SERVER_ERROR))
        data, version = answer.response_data, context.api_version
        try:
            _, position = decode_response_header(data, version >= request.RESPONSE.FLEXIBLE_FROM)
            response = await self._slices.run(decode_in_slices(request.RESPONSE, data, version, position))
        except (ApiError, ValueError, IndexError):
            logger.exception("the controller's answer to %s cannot be read", name)
            return refuse(request, ErrorCode.UNKNOWN_SERVER_ERROR, describe(ErrorCode.UNKNOWN_SERVER_ERROR))
        if await self._slices.run(_names_error(response, ErrorCode.NOT_CONTROLLER)):
            sendings.refused([ErrorCode.NOT_CONTROLLER])
            return None
        return response


def _timeout_s(request: Message) -> float:
    timeout_ms: int | None = getattr(request, "timeout_ms", None)
    if timeout_ms is None:
        return _USUAL_TIMEOUT_S
    return min(max(timeout_ms / 1000, _SHORTEST_TIMEOUT_S), _LONGEST_TIMEOUT_S)


def _names_error(message: Message, code: ErrorCode) -> Work[bool]:
    """Whether the message, or a message inside, has this error."""
    if getattr(message, "error_code", ErrorCode.NONE) == code:
        return True
    for field in message.FIELDS:
        if isinstance(field.kind, list) and not isinstance(field.kind[0], str):
            for each in getattr(message, field.attribute) or ():
                found = yield from _names_error(each, code)
                if found:
                    return True
                yield
    return False
