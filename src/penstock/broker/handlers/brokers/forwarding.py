"""Forwarding to the controller: a broker sends a client's request in an Envelope; the controller unpacks and serves it.

Only brokers may send envelopes (CLUSTER_ACTION), because an envelope names the principal of its request. Kafka takes
envelopes on the listener of the brokers alone. Here super users may send envelopes on other listeners too, where they
are audited: while `inter.broker.listener.name` changes by a rolling restart, brokers do not agree on that listener.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator, Mapping
from typing import Protocol, TypeVar

from penstock.broker.authorizer import CLUSTER_NAME, Authorizer, Operation, ResourceType
from penstock.broker.broker import Broker
from penstock.broker.dispatch import Answer, Handler
from penstock.broker.forwarding.envelopes import decode_address, decode_principal
from penstock.broker.handlers.brokers.own_work import recognise_own_work
from penstock.broker.session import Principal, Reply, RequestContext, Session, UnanswerableError
from penstock.client.sendings import Sendings
from penstock.cluster.metadata import Metadata
from penstock.core.config.broker_config import BrokerConfig
from penstock.protocol.errors import ApiError, ErrorCode
from penstock.protocol.message import Buffer, Message
from penstock.protocol.messages.envelope import EnvelopeRequest, EnvelopeResponse
from penstock.security.acls.types import camel_case
from penstock.security.audit.events import AuditEvent, AuditKind, Auditor

Request = TypeVar("Request", bound=Message)

_USER = "User"


class CallerPort(Protocol):
    """The parts of the broker that tell brokers from clients."""

    authorizer: Authorizer
    config: BrokerConfig
    has_peers: bool
    own_users: Mapping[str, str]


class EnvelopePort(CallerPort, Protocol):
    """The parts of the broker that the handler of envelopes uses."""

    auditor: Auditor
    handle_forwarded: Callable[[Session, Buffer], Reply | Awaitable[Reply]] | None
    metadata: Metadata


def serves_brokers(broker: CallerPort, listener: str) -> bool:
    """Whether a listener serves the APIs between brokers. Without an authorizer only the brokers' listener tells
    brokers from clients. With an authorizer the brokers' right does, on every listener, as in Kafka: while
    `inter.broker.listener.name` changes by a rolling restart, brokers with the new value and brokers with the old value
    use both listeners.
    """
    return broker.has_peers and (listener == broker.config.inter_broker_listener or broker.authorizer.has_rules)


def tells_brokers(broker: CallerPort, context: RequestContext) -> bool:
    """Whether the ApiVersions answer to this client lists the APIs between brokers."""
    if not serves_brokers(broker, context.listener):
        return False
    return context.listener == broker.config.inter_broker_listener or broker.authorizer.would_allow(
        context, Operation.CLUSTER_ACTION, ResourceType.CLUSTER, CLUSTER_NAME
    )


# The prefix of the brokers' client ids. The prefix proves nothing: where clients and brokers share a listener without
# logins, the prefix keeps out clients that write by mistake.
BROKER_CLIENT_ID = "broker-"


def is_broker(broker: CallerPort, context: RequestContext) -> bool:
    """Whether the request comes from a broker, as far as the listeners and their logins can tell. The rights of a
    broker are not enough: a super user has them too.
    """
    if not serves_brokers(broker, context.listener) or not (context.client_id or "").startswith(BROKER_CLIENT_ID):
        return False
    if not _may_be_broker(broker, context):
        return False
    return broker.authorizer.would_allow(context, Operation.CLUSTER_ACTION, ResourceType.CLUSTER, CLUSTER_NAME)


def _may_be_broker(broker: CallerPort, context: RequestContext) -> bool:
    """Where brokers log in, the client must have the brokers' principal. Where brokers do not log in, every client on
    the brokers' listener counts as a broker, and no client on another listener does.
    """
    user = broker.own_users.get(context.listener)
    if user is None:
        return context.listener == broker.config.inter_broker_listener
    return context.principal == Principal(_USER, user)


def check_broker(broker: CallerPort, context: RequestContext) -> None:
    """Raises unless the request comes from a broker: on a listener for brokers, and with the right CLUSTER_ACTION."""
    if not serves_brokers(broker, context.listener):
        raise UnanswerableError("api key", "an API for brokers is not served here")
    if not broker.authorizer.is_allowed(context, Operation.CLUSTER_ACTION, ResourceType.CLUSTER, CLUSTER_NAME):
        raise ApiError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)


# ------------------------------------------------------------------------------------------------- from the client


def forwarded(handler: Handler[Request]) -> Handler[Request]:
    """Makes a handler that runs on the controller alone. Any other broker forwards the request to the controller."""

    def handle(broker: Broker, context: RequestContext, request: Request) -> Answer:
        forwarding = broker.forwarding
        if forwarding is None or not forwarding.is_needed(context):
            return handler(broker, context, request)
        return _forward(broker, context, request, handler)

    handle.__doc__ = handler.__doc__
    handle.__name__ = getattr(handler, "__name__", "handle")
    return handle


async def _forward(
    broker: Broker,
    context: RequestContext,
    request: Request,
    handler: Callable[[Broker, RequestContext, Request], Answer],
) -> Message | None:
    assert broker.forwarding is not None
    before, sendings = broker.metadata.image, Sendings()
    response = await broker.forwarding.forward(context, request, sendings)
    if response is None:
        answer = handler(broker, context, request)  # this broker has become the controller
        if answer is not None and not isinstance(answer, Message):
            answer = await (broker.slices.finish(answer) if isinstance(answer, Generator) else answer)
        response = answer
    if response is not None and sendings.may_be_done:
        await recognise_own_work(broker, context, request, response, before)
    return response


# ------------------------------------------------------------------------------------------------- to the controller


async def envelope(broker: EnvelopePort, context: RequestContext, request: EnvelopeRequest) -> EnvelopeResponse:
    """Serves the request inside the envelope as if its client had sent the request here. There is one version.

    NOT_CONTROLLER makes the other broker look for the controller again. Errors of the request inside are in the
    response inside.
    """
    check_broker(broker, context)
    is_among_brokers = context.listener == broker.config.inter_broker_listener
    if not is_among_brokers and not broker.authorizer.is_super_user(context.principal):
        _tell_refusal(broker, context)
        raise ApiError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    if not broker.metadata.is_controller:
        return EnvelopeResponse(error_code=ErrorCode.NOT_CONTROLLER)
    assert broker.handle_forwarded is not None, "a broker that serves has a dispatcher"
    session = Session(
        connection_id=f"{context.session.connection_id} forwarded",
        client_host=decode_address(request.client_host_address),
        listener=context.listener,
        principal=decode_principal(request.request_principal),
        is_forwarded=True,
        passed_on_by="" if is_among_brokers and _may_be_broker(broker, context) else str(context.principal),
    )
    try:
        reply = broker.handle_forwarded(session, request.request_data)
        if reply is not None and not isinstance(reply, list):
            reply = await reply
    except UnanswerableError as error:
        code = ErrorCode.UNKNOWN_SERVER_ERROR if error.kind == "failure" else ErrorCode.INVALID_REQUEST
        return EnvelopeResponse(error_code=code)
    assert reply is not None, "every request that is forwarded is answered"
    frame = b"".join(reply)  # type: ignore[arg-type]  # no answer to such a request has parts in files
    return EnvelopeResponse(response_data=frame[_SIZE_BYTES:])


def _tell_refusal(broker: EnvelopePort, context: RequestContext) -> None:
    """Audits a refusal that does not depend on the client's rights, so the authorizer does not know of it."""
    rule = "only super users send envelopes on a listener that is not the brokers'"
    who, where, cluster = str(context.principal), context.client_host, f"Cluster:{CLUSTER_NAME}"
    denial = AuditEvent(
        AuditKind.DENIAL,
        "Envelope",
        False,
        who,
        where,
        context.client_id,
        cluster,
        camel_case(Operation.CLUSTER_ACTION),
        rule,
    )
    broker.auditor.record(denial)


_SIZE_BYTES = 4  # the size field of a frame, before the response's header
