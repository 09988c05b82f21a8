"""Nobody but brokers writes to the audit topic: not by any right, any name, or any request that writes."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from penstock.broker.forwarding.envelopes import encode_address, encode_principal
from penstock.broker.session import Principal, Session
from penstock.core.config.keys.authorization import STANDARD_AUTHORIZER
from penstock.core.internal_topics import AUDIT
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from penstock.protocol.messages.envelope import EnvelopeRequest
from penstock.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from penstock.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from penstock.security.audit.events import AuditKind
from tests.clients.raw.wire import build_batch
from tests.unit.broker.auditing.test_auditing import Notes
from tests.unit.broker.served import Served, decode_reply, encode_frame, serving

PROPERTIES = {"authorizer.class.name": STANDARD_AUTHORIZER, "super.users": "User:admin;User:kafka"}
ADMIN, BROKER = (Session("1", "10.0.0.1", "PLAINTEXT", Principal("User", name)) for name in ("admin", "kafka"))
OUTSIDE = "OUTSIDE"  # a listener that is not the one of the brokers
REFUSED = ErrorCode.TOPIC_AUTHORIZATION_FAILED


async def scene(served: Served) -> Notes:
    """One broker of several, whose listener is for clients as well; brokers log in as `kafka`."""
    broker = served.broker
    await broker.topic_creation.ensure(AUDIT)
    broker.has_peers = True
    broker.own_users = {"PLAINTEXT": BROKER.principal.name}
    notes = broker.auditor = Notes()
    return notes


async def produce(served: Served, client_id: str | None, version: int) -> int:
    topic = served.broker.metadata.image.topics[AUDIT]
    batch = build_batch([b"forged"], timestamp=served.clock.now_ms())
    data = TopicProduceData(
        name=AUDIT, topic_id=topic.topic_id, partition_data=[PartitionProduceData(index=0, records=batch)]
    )
    request = ProduceRequest(acks=-1, timeout_ms=1_000, topic_data=[data])
    response: Any = decode_reply(await served.send(request, version, client_id), request.RESPONSE, version)
    return int(response.responses[0].partition_responses[0].error_code)


def end_of(served: Served) -> int:
    partition = served.broker.partitions.find(AUDIT, 0)
    assert partition is not None
    return partition.log.log_end_offset


@pytest.mark.parametrize("version", [3, 9, 12, 13])
def test_super_user_is_refused_and_told_of_when_writing_to_the_trail(tmp_path: Path, version: int) -> None:
    async def run() -> None:
        async with serving(tmp_path, PROPERTIES) as served:
            notes = await scene(served)
            served.session = ADMIN
            for client_id in ("app", None, "__admin_client", "broker-1", "broker-1-audit"):
                assert await produce(served, client_id, version) == REFUSED
            assert end_of(served) == 0
            assert {(each.kind, each.principal, each.resource, each.rule) for each in notes.events} == {
                (AuditKind.DENIAL, "User:admin", f"Topic:{AUDIT}", f"only brokers write to {AUDIT}")
            }
            served.session = BROKER
            assert await produce(served, "broker-2", version) == ErrorCode.NONE
            assert end_of(served) == 1

    asyncio.run(run())


def test_super_user_on_a_listener_for_clients_is_refused_when_brokers_do_not_log_in_by_a_name(tmp_path: Path) -> None:
    async def run() -> None:
        async with serving(tmp_path, PROPERTIES) as served:
            notes = await scene(served)
            served.broker.own_users = {}
            served.session = replace(ADMIN, listener=OUTSIDE)
            assert await produce(served, "broker-2", 12) == REFUSED
            assert end_of(served) == 0
            assert [(each.kind, each.principal, each.resource) for each in notes.events] == [
                (AuditKind.DENIAL, "User:admin", f"Topic:{AUDIT}")
            ]
            served.session = BROKER
            assert await produce(served, "broker-2", 12) == ErrorCode.NONE

    asyncio.run(run())


def test_trail_of_a_broker_that_has_changed_its_listener_is_taken_when_this_one_has_not_yet(tmp_path: Path) -> None:
    async def run() -> None:
        async with serving(tmp_path, PROPERTIES) as served:
            await scene(served)
            served.broker.own_users = {OUTSIDE: BROKER.principal.name}
            served.session = replace(ADMIN, listener=OUTSIDE)
            assert await produce(served, "broker-2", 12) == REFUSED
            served.session = replace(BROKER, listener=OUTSIDE)
            assert await produce(served, "broker-2", 12) == ErrorCode.NONE

    asyncio.run(run())


def envelope_in_the_name_of(name: str) -> EnvelopeRequest:
    topic = CreatableTopic(name="orders", num_partitions=1, replication_factor=1)
    return EnvelopeRequest(
        request_data=encode_frame(CreateTopicsRequest(topics=[topic], timeout_ms=1_000), 7, "innocent"),
        request_principal=encode_principal(Principal("User", name)),
        client_host_address=encode_address("10.0.0.9"),
    )


@pytest.mark.parametrize("users", [{}, {OUTSIDE: "admin"}], ids=["brokers without names", "a broker's name"])
def test_change_in_the_name_of_another_is_told_of_when_it_comes_on_a_listener_for_clients(
    tmp_path: Path, users: dict[str, str]
) -> None:
    async def run() -> None:
        async with serving(tmp_path, {**PROPERTIES, "penstock.audit.file": "audit.jsonl"}) as served:
            notes = await scene(served)
            served.broker.own_users = users
            served.session = replace(ADMIN, listener=OUTSIDE)
            assert (await served.ask(envelope_in_the_name_of("kafka"), 0)).error_code == ErrorCode.NONE
            told = [(each.principal, each.resource, each.details.get("passed on by")) for each in notes.events]
            assert told == [("User:kafka", "Topic:orders", "User:admin")]

    asyncio.run(run())


def test_envelope_on_a_listener_for_clients_is_refused_and_told_of_when_its_sender_is_no_super_user(
    tmp_path: Path,
) -> None:
    async def run() -> None:
        async with serving(tmp_path, {**PROPERTIES, "allow.everyone.if.no.acl.found": "true"}) as served:
            notes = await scene(served)
            served.session = replace(ADMIN, listener=OUTSIDE, principal=Principal("User", "mallory"))
            answer = await served.ask(envelope_in_the_name_of("admin"), 0)
            assert answer.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
            assert "orders" not in served.broker.metadata.image.topics
            assert [(each.kind, each.what, each.principal, each.resource) for each in notes.events] == [
                (AuditKind.DENIAL, "Envelope", "User:mallory", "Cluster:kafka-cluster")
            ]

    asyncio.run(run())


@pytest.mark.parametrize("session", [ADMIN, BROKER], ids=["a super user", "a broker"])
def test_change_in_the_name_of_another_is_told_of_when_no_broker_passed_it_on(tmp_path: Path, session: Session) -> None:
    async def run() -> None:
        async with serving(tmp_path, {**PROPERTIES, "penstock.audit.file": "audit.jsonl"}) as served:
            notes = await scene(served)
            served.session = session
            assert (await served.ask(envelope_in_the_name_of("kafka"), 0)).error_code == ErrorCode.NONE
            assert "orders" in served.broker.metadata.image.topics
            told = [(each.principal, each.resource, each.details.get("passed on by")) for each in notes.events]
            assert told == ([("User:kafka", "Topic:orders", "User:admin")] if session is ADMIN else [])

    asyncio.run(run())


def test_no_marker_is_written_to_the_trail_when_an_administrator_ends_transactions(tmp_path: Path) -> None:
    async def run() -> None:
        async with serving(tmp_path, PROPERTIES) as served:
            await scene(served)
            marked = WritableTxnMarkerTopic(name=AUDIT, partition_indexes=[0])
            marker = WritableTxnMarker(producer_id=1, producer_epoch=0, transaction_result=False, topics=[marked])
            served.session = ADMIN
            response = await served.ask(WriteTxnMarkersRequest(markers=[marker]), 1)
            assert response.markers[0].topics[0].partitions[0].error_code == REFUSED
            assert end_of(served) == 0

    asyncio.run(run())
