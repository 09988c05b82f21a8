"""The table of APIs with the audited rows among them. A broker without a trail serves the plain table and pays nothing.

The broker that took a request from its client reports the request once the answer exists. The controller reports a
forwarded request only if the forwarder was no broker. The report leaves out an answer that says "not allowed", because
the authorizer has reported that denial with its rule. While the trail refuses events, the broker refuses the requests
that need an event.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Generator, Iterable, Iterator
from contextlib import contextmanager
from types import CoroutineType
from typing import Any

from penstock.broker.auditing.accesses import describe_reads, describe_writes
from penstock.broker.auditing.changes import CHANGES, AuditedChange
from penstock.broker.broker import Broker
from penstock.broker.dispatch import Answer, Api, ApiTable
from penstock.broker.session import RequestContext, Settling
from penstock.protocol.errors import ApiError, ErrorCode
from penstock.protocol.message import Message
from penstock.protocol.messages.fetch import FetchRequest
from penstock.protocol.messages.metadata import MetadataRequest
from penstock.protocol.messages.produce import ProduceRequest
from penstock.security.audit.events import AuditEvent, AuditKind

_NOT_ALLOWED = frozenset(
    {
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ErrorCode.GROUP_AUTHORIZATION_FAILED,
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED,
    }
)

_UnderWay = set[asyncio.Task[Message | None]]
_Describe = Callable[[Broker, Any, Any], Iterable[AuditedChange]]


def audited(apis: ApiTable, kinds: frozenset[AuditKind]) -> ApiTable:
    """The table for a broker whose trail keeps these kinds of events."""
    table = dict(apis)
    if AuditKind.CHANGE in kinds:
        for key in CHANGES:
            if key in table:
                table[key] = _audit(table[key], AuditKind.CHANGE, _changes(key))
        table[MetadataRequest.API_KEY] = _audit_creation(table[MetadataRequest.API_KEY])
    if AuditKind.READ in kinds:
        table[FetchRequest.API_KEY] = _audit(table[FetchRequest.API_KEY], AuditKind.READ, _reads)
    if AuditKind.WRITE in kinds:
        # The shortcut decodes no message that the audit could describe.
        produce = table[ProduceRequest.API_KEY]._replace(shortcut=None)
        table[ProduceRequest.API_KEY] = _audit(produce, AuditKind.WRITE, _writes)
    return table


def _changes(key: int) -> _Describe:
    describe = CHANGES[key]
    return lambda _broker, request, response: () if response is None else describe(request, response)


def _reads(broker: Broker, request: Any, response: Any) -> Iterable[AuditedChange]:
    return describe_reads(broker.partitions.topic_name, request, response)


def _writes(broker: Broker, request: Any, response: Any) -> Iterable[AuditedChange]:
    return describe_writes(broker.partitions.topic_name, request, response)


def _audit(api: Api[Message], kind: AuditKind, describe: _Describe) -> Api[Message]:
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
        telling = tell(broker, context, request, waiting)
        return await (telling if kind is not AuditKind.CHANGE else _to_its_end(telling, under_way))

    async def tell(
        broker: Broker, context: RequestContext, request: Message, waiting: Awaitable[Message | None]
    ) -> Message | None:
        with _refusal_told(broker, context, name, kind):
            response = await waiting
        async for change in broker.slices.each(describe(broker, request, response)):
            _tell(broker, context, name, kind, change)
        return response

    under_way: _UnderWay = set()
    return api._replace(handler=handle)


async def _to_its_end(telling: Awaitable[Message | None], under_way: _UnderWay) -> Message | None:
    """Runs a change to its end: a client that closes its connection neither stops nor hides the change."""
    task = asyncio.ensure_future(telling)
    under_way.add(task)
    task.add_done_callback(under_way.discard)
    return await asyncio.shield(task)


@contextmanager
def _refusal_told(broker: Broker, context: RequestContext, name: str, kind: AuditKind) -> Iterator[None]:
    """Reports a request that failed as a whole and has no answer to describe."""
    try:
        yield
    except ApiError as error:
        _tell(broker, context, name, kind, AuditedChange("", "", error.code))
        raise


def _audit_creation(api: Api[Message]) -> Api[Message]:
    """Metadata may create the topics that a client asks for. A request for existing topics goes on unaudited."""
    handler, name = api.handler, api.name

    def handle(broker: Broker, context: RequestContext, request: Message) -> Answer:
        assert isinstance(request, MetadataRequest)
        answer = handler(broker, context, request)
        if not isinstance(answer, CoroutineType) or not request.allow_auto_topic_creation:
            return answer
        known = broker.metadata.image.topics
        missing = [each.name for each in request.topics or () if each.name is not None and each.name not in known]
        return _to_its_end(finish(broker, context, missing, answer), under_way) if missing else answer

    async def finish(
        broker: Broker, context: RequestContext, missing: list[str], waiting: Awaitable[Message | None]
    ) -> Message | None:
        response = await waiting
        for created in missing:
            if created in broker.metadata.image.topics:
                change = AuditedChange(f"Topic:{created}", "Create", 0, {"automatically": True})
                _tell(broker, context, name, AuditKind.CHANGE, change)
        return response

    under_way: _UnderWay = set()
    return api._replace(handler=handle)


def _tell(broker: Broker, context: RequestContext, name: str, kind: AuditKind, change: AuditedChange) -> None:
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
