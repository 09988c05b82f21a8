"""Requests that tell of themselves: what a change becomes in the trail, and what happens when it must not go unseen."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from penstock.broker.apis import APIS
from penstock.broker.auditing.auditing import audited
from penstock.broker.auditing.changes import CHANGES
from penstock.broker.session import Principal, RequestContext, Session
from penstock.embedded import AsyncBroker
from penstock.protocol.errors import ApiError, ErrorCode
from penstock.protocol.message import Message
from penstock.protocol.messages.create_acls import (
    AclCreation,
    AclCreationResult,
    CreateAclsRequest,
    CreateAclsResponse,
)
from penstock.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from penstock.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from penstock.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from penstock.protocol.messages.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse
from penstock.security.audit.events import AuditEvent, AuditKind
from tests.waiting import until

ALL_KINDS = frozenset(AuditKind)
ALICE = Session("c", "10.0.0.9", "PLAINTEXT", Principal("User", "alice"))


class Notes:
    kinds = ALL_KINDS

    def __init__(self, *, refuses: bool = False) -> None:
        self.refuses = refuses
        self.events: list[AuditEvent] = []

    def record(self, event: AuditEvent) -> None:
        self.events.append(event)


def create_topic(name: str) -> CreateTopicsRequest:
    return CreateTopicsRequest(topics=[CreatableTopic(name=name, num_partitions=1, replication_factor=1)])


def use_topic(name: str) -> MetadataRequest:
    return MetadataRequest(topics=[MetadataRequestTopic(name=name)], allow_auto_topic_creation=True)


def context(session: Session, request: Message) -> RequestContext:
    return RequestContext(session, request.API_KEY, 7, "app")


def test_table_is_as_it_was_when_no_kind_touches_an_api() -> None:
    assert audited(APIS, frozenset({AuditKind.LOGIN, AuditKind.DENIAL})) == APIS


def test_every_api_that_changes_something_is_wrapped_when_changes_are_kept() -> None:
    table = audited(APIS, frozenset({AuditKind.CHANGE}))
    changed = {key for key in APIS if table[key].handler is not APIS[key].handler}
    assert changed == (CHANGES.keys() & APIS.keys()) | {MetadataRequest.API_KEY}  # which may create topics


def test_every_api_that_needs_alter_create_or_delete_has_a_row() -> None:
    """Of SECURITY's table of rights: what needs more than to look, and is no matter of records, members or brokers."""
    names = {APIS[key].name for key in CHANGES if key in APIS}
    verbs = ("Create", "Delete", "Alter", "IncrementalAlter", "Update", "Elect", "Unregister")
    served = {api.name for api in APIS.values() if api.name.startswith(verbs) and not api.is_for_brokers}
    assert served <= names


@pytest.mark.parametrize("request_", [create_topic("orders"), use_topic("orders")], ids=["created", "used"])
def test_change_is_made_and_told_when_its_client_leaves_meanwhile(tmp_path: Path, request_: Message) -> None:
    async def run() -> None:
        async with AsyncBroker(tmp_path) as running:
            broker = running.server.broker
            notes = broker.auditor = Notes()
            handler = audited(APIS, ALL_KINDS)[request_.API_KEY].handler
            waiting = handler(broker, context(ALICE, request_), request_)
            assert asyncio.iscoroutine(waiting)
            task = asyncio.ensure_future(waiting)
            await asyncio.sleep(0)
            task.cancel()
            await until(lambda: notes.events)
            (told,) = notes.events
            assert (told.principal, told.address, told.resource) == ("User:alice", "10.0.0.9", "Topic:orders")
            assert "orders" in broker.metadata.image.topics

    asyncio.run(run())


def test_nothing_is_done_when_the_trail_refuses(tmp_path: Path) -> None:
    async def run() -> None:
        async with AsyncBroker(tmp_path) as running:
            broker = running.server.broker
            broker.auditor = Notes(refuses=True)
            request = create_topic("orders")
            with pytest.raises(ApiError, match="audit") as refusal:
                audited(APIS, ALL_KINDS)[request.API_KEY].handler(broker, context(ALICE, request), request)
            assert refusal.value.code is ErrorCode.POLICY_VIOLATION
            assert "orders" not in broker.metadata.image.topics

    asyncio.run(run())


def test_controller_tells_nothing_when_another_broker_passed_the_request_on(tmp_path: Path) -> None:
    async def run() -> None:
        async with AsyncBroker(tmp_path) as running:
            broker = running.server.broker
            notes = broker.auditor = Notes()
            request = create_topic("orders")
            session = Session("c", "10.0.0.9", "PLAINTEXT", Principal("User", "alice"), is_forwarded=True)
            answer = audited(APIS, ALL_KINDS)[request.API_KEY].handler(broker, context(session, request), request)
            assert asyncio.iscoroutine(answer)
            await answer
            assert notes.events == []

    asyncio.run(run())


def test_acl_is_told_in_words_when_it_is_created() -> None:
    acl = AclCreation(
        resource_type=2,
        resource_name="pay",
        resource_pattern_type=4,
        principal="User:bob",
        host="*",
        operation=3,
        permission_type=3,
    )
    (change,) = CHANGES[30](CreateAclsRequest(creations=[acl]), CreateAclsResponse(results=[AclCreationResult()]))
    assert (change.resource, change.operation, change.details) == (
        "Topic:pay*",
        "CreateAcl",
        {"acl": "Allow User:bob Read from *"},
    )


def test_policy_is_told_with_its_words_when_it_is_altered() -> None:
    config = AlterableConfig(name="principals", config_operation=0, value="User:alice")
    resource = AlterConfigsResource(resource_type=120, resource_name="pii", configs=[config])
    answered = AlterConfigsResourceResponse(resource_type=120, resource_name="pii")
    (change,) = CHANGES[44](
        IncrementalAlterConfigsRequest(resources=[resource]), IncrementalAlterConfigsResponse(responses=[answered])
    )
    assert (change.resource, change.details) == ("Policy:pii", {"principals": "User:alice"})


def test_every_row_reads_the_messages_of_its_own_api() -> None:
    """Run once on empty messages, so that no row names a field that there is not."""
    for key in sorted(CHANGES.keys() & APIS.keys()):
        request = APIS[key].request()
        assert all(change.resource for change in CHANGES[key](request, request.RESPONSE()))


def test_broker_is_named_when_it_was_unregistered() -> None:
    (change,) = CHANGES[64](UnregisterBrokerRequest(broker_id=3), UnregisterBrokerResponse(error_code=102))
    assert change == ("Broker:3", "Unregister", 102, {})
