"""The table of APIs with the audited rows among them. A broker without a trail serves the plain table and pays nothing.

A request is told of by the broker that took it from its client, once it was answered; the controller, to which it may
have been passed on, tells nothing, unless it was no broker who passed it on. An answer that says "not allowed" is left
out, because the authorizer has reported it with the rule that decided. While the trail refuses, what would be audited
is not done.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Generator, Iterable, Iterator
from contextlib import contextmanager
from types import CoroutineType
from typing import Any

from penstock.broker.auditing.accesses import describe_reads, describe_writes
from penstock.broker.auditing.changes import CHANGES, Change
from penstock.broker.broker import Broker
from penstock.broker.dispatch import Answer, Api, ApiTable
from penstock.broker.session import RequestContext, Settling
from penstock.protocol.errors import ApiError, ErrorCode
from penstock.protocol.message import Message
from penstock.protocol.messages.fetch import FetchRequest
from penstock.protocol.messages.metadata import MetadataRequest
from penstock.protocol.messages.produce import ProduceRequest
from penstock.security.audit.events import AuditEvent, Kind

_NOT_ALLOWED = frozenset(
    {
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ErrorCode.GROUP_AUTHORIZATION_FAILED,
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED,
    }
)

_Describe = Callable[[Broker, Any, Any], Iterable[Change]]


def audited(apis: ApiTable, kinds: frozenset[Kind]) -> ApiTable:
    """The table for a broker that keeps these kinds."""
    table = dict(apis)
    if Kind.CHANGE in kinds:
        for key in CHANGES:
            if key in table:
                table[key] = _audit(table[key], Kind.CHANGE, _changes(key))
        table[MetadataRequest.API_KEY] = _audit_creation(table[MetadataRequest.API_KEY])
    if Kind.READ in kinds:
        table[FetchRequest.API_KEY] = _audit(table[FetchRequest.API_KEY], Kind.READ, _reads)
    if Kind.WRITE in kinds:
        # The shortcut has no message to look at.
        produce = table[ProduceRequest.API_KEY]._replace(shortcut=None)
        table[ProduceRequest.API_KEY] = _audit(produce, Kind.WRITE, _writes)
    return table


def _changes(key: int) -> _Describe:
    describe = CHANGES[key]
    return lambda _broker, request, response: () if response is None else describe(request, response)


def _reads(broker: Broker, request: Any, response: Any) -> Iterable[Change]:
    return describe_reads(broker.partitions.topic_name, request, response)


def _writes(broker: Broker, request: Any, response: Any) -> Iterable[Change]:
    return describe_writes(broker.partitions.topic_name, request, response)


def _audit(api: Api[Message], kind: Kind, describe: _Describe) -> Api[Message]:
    handler, name = api.handler, api.name

    def handle(broker: Broker, context: RequestContext, request: Message) -> Answer:
        if context.session.is_forwarded and not context.session.passed_on_by:
            return handler(broker, context, request)
        if broker.auditor.refuses:
            raise ApiError(ErrorCode.POLICY_VIOLATION, "the audit trail is full, so nothing is done that it must keep")
        with _refusal_told(broker, context, name, kind):
            answer = handler(broker, context, request)
        if answer is None or isinstance(answer, Message):
            for change in describe(broker, request, answer):
                _tell(broker, context, name, kind, change)
            return answer
        if isinstance(answer, Settling):
            return Settling(finish(broker, context, request, answer.reply))
        waiting = broker.slices.finish(answer) if isinstance(answer, Generator) else answer
        return finish(broker, context, request, waiting)

    async def finish(
        broker: Broker, context: RequestContext, request: Message, waiting: Awaitable[Message | None]
    ) -> Message | None:
        if kind is not Kind.CHANGE:
            return await tell(broker, context, request, waiting)
        # A client that closes its connection does not stop its change any more, and does not hide it.
        telling = asyncio.ensure_future(tell(broker, context, request, waiting))
        under_way.add(telling)
        telling.add_done_callback(under_way.discard)
        return await asyncio.shield(telling)

    async def tell(
        broker: Broker, context: RequestContext, request: Message, waiting: Awaitable[Message | None]
    ) -> Message | None:
        with _refusal_told(broker, context, name, kind):
            response = await waiting
        async for change in broker.slices.each(describe(broker, request, response)):
            _tell(broker, context, name, kind, change)
        return response

    under_way: set[asyncio.Task[Message | None]] = set()
    return api._replace(handler=handle)


@contextmanager
def _refusal_told(broker: Broker, context: RequestContext, name: str, kind: Kind) -> Iterator[None]:
    """A request that is refused as a whole has no answer to read off."""
    try:
        yield
    except ApiError as error:
        _tell(broker, context, name, kind, Change("", "", error.code))
        raise


def _audit_creation(api: Api[Message]) -> Api[Message]:
    """Metadata may create the topics that it is asked for. A request for topics that are there goes on as it is."""
    handler, name = api.handler, api.name

    def handle(broker: Broker, context: RequestContext, request: Message) -> Answer:
        assert isinstance(request, MetadataRequest)
        answer = handler(broker, context, request)
        if not isinstance(answer, CoroutineType) or not request.allow_auto_topic_creation:
            return answer
        known = broker.metadata.image.topics
        missing = [each.name for each in request.topics or () if each.name is not None and each.name not in known]
        return finish(broker, context, missing, answer) if missing else answer

    async def finish(
        broker: Broker, context: RequestContext, missing: list[str], waiting: Awaitable[Message | None]
    ) -> Message | None:
        response = await waiting
        for created in missing:
            if created in broker.metadata.image.topics:
                change = Change(f"Topic:{created}", "Create", 0, {"automatically": True})
                _tell(broker, context, name, Kind.CHANGE, change)
        return response

    return api._replace(handler=handle)


def _tell(broker: Broker, context: RequestContext, name: str, kind: Kind, change: Change) -> None:
    code = ErrorCode(change.error_code)
    if code in _NOT_ALLOWED:
        return
    details = dict(change.details)
    if code:
        details["error"] = code.name
    if context.session.passed_on_by:
        details["passed on by"] = context.session.passed_on_by
    event = AuditEvent(
        kind,
        name,
        is_allowed=not code,
        principal=str(context.principal),
        address=context.client_host,
        client_id=context.client_id,
        resource=change.resource,
        operation=change.operation,
        details=details,
    )
    broker.auditor.record(event)
