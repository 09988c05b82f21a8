"""Everything that an administrator can change, asked of a whole broker, and what the trail is told of it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from penstock.broker.session import Principal, Session
from penstock.core.config.keys.authorization import STANDARD_AUTHORIZER
from penstock.protocol.errors import ErrorCode
from penstock.protocol.message import Message
from penstock.protocol.messages import alter_client_quotas, alter_configs, alter_user_scram_credentials
from penstock.protocol.messages.create_acls import AclCreation, CreateAclsRequest
from penstock.protocol.messages.create_delegation_token import CreateDelegationTokenRequest
from penstock.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from penstock.protocol.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from penstock.protocol.messages.describe_delegation_token import DescribeDelegationTokenRequest
from penstock.protocol.messages.expire_delegation_token import ExpireDelegationTokenRequest
from penstock.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from penstock.protocol.messages.renew_delegation_token import RenewDelegationTokenRequest
from penstock.security.audit.cloud_events import NO_CHAIN, Numbered, encode
from penstock.security.audit.events import AuditEvent, AuditKind
from tests.unit.broker.auditing.test_auditing import Notes
from tests.unit.broker.served import Served, serving

TOPIC, POLICY = 2, 120
SALTED = b"the salted password that nobody may see"
SECRET = "the-secret-of-tokens"
PROPERTIES = {
    "authorizer.class.name": STANDARD_AUTHORIZER,
    "super.users": "User:boss",
    "listeners": "SASL_PLAINTEXT://127.0.0.1:9092",
    "listener.security.protocol.map": "SASL_PLAINTEXT:SASL_PLAINTEXT",
    "security.inter.broker.protocol": "SASL_PLAINTEXT",
    "sasl.enabled.mechanisms": "SCRAM-SHA-256",
    "delegation.token.secret.key": SECRET,
    "penstock.audit.file": "audit.jsonl",
}
BOSS = Session("1", "10.0.0.7", "SASL_PLAINTEXT", Principal("User", "boss"))
ALICE = Session("2", "10.0.0.8", "SASL_PLAINTEXT", Principal("User", "alice"))


def set_config(kind: int, name: str, **configs: str) -> IncrementalAlterConfigsRequest:
    altered = [
        AlterableConfig(name=key.replace("_", "."), config_operation=0, value=value) for key, value in configs.items()
    ]
    resource = AlterConfigsResource(resource_type=kind, resource_name=name, configs=altered)
    return IncrementalAlterConfigsRequest(resources=[resource])


def acl() -> AclCreation:
    return AclCreation(
        resource_type=TOPIC,
        resource_name="orders",
        resource_pattern_type=3,
        principal="User:alice",
        host="*",
        operation=3,
        permission_type=3,
    )


def acl_filter() -> DeleteAclsFilter:
    return DeleteAclsFilter(
        resource_type_filter=TOPIC,
        resource_name_filter="orders",
        pattern_type_filter=3,
        principal_filter=None,
        host_filter=None,
        operation=1,
        permission_type=1,
    )


def quota(value: float | None) -> alter_client_quotas.AlterClientQuotasRequest:
    entity = alter_client_quotas.AlterClientQuotasRequestEntityData(entity_type="user", entity_name="alice")
    change = alter_client_quotas.OpData(key="producer_byte_rate", value=value or 0.0, remove=value is None)
    entry = alter_client_quotas.AlterClientQuotasRequestEntryData(entity=[entity], ops=[change])
    return alter_client_quotas.AlterClientQuotasRequest(entries=[entry])


def user(*, is_removed: bool) -> alter_user_scram_credentials.AlterUserScramCredentialsRequest:
    if is_removed:
        deletion = alter_user_scram_credentials.ScramCredentialDeletion(name="alice", mechanism=1)
        return alter_user_scram_credentials.AlterUserScramCredentialsRequest(deletions=[deletion])
    upsertion = alter_user_scram_credentials.ScramCredentialUpsertion(
        name="alice", mechanism=1, iterations=4096, salt=b"some salt", salted_password=SALTED
    )
    return alter_user_scram_credentials.AlterUserScramCredentialsRequest(upsertions=[upsertion])


def without_policy() -> alter_configs.AlterConfigsRequest:
    resource = alter_configs.AlterConfigsResource(resource_type=POLICY, resource_name="no-pii", configs=[])
    return alter_configs.AlterConfigsRequest(resources=[resource])


# Requests with their versions, and what is told: the resource, the operation and the details.
CHANGES: tuple[tuple[Message, int, tuple[str, str, dict[str, Any]]], ...] = (
    (
        CreateTopicsRequest(topics=[CreatableTopic(name="orders", num_partitions=1, replication_factor=1)]),
        7,
        ("Topic:orders", "Create", {"partitions": 1, "replication_factor": 1}),
    ),
    (
        set_config(TOPIC, "orders", retention_ms="7", penstock_tags="pii"),
        1,
        ("Topic:orders", "AlterConfigs", {"retention.ms": "7", "penstock.tags": "pii"}),
    ),
    (
        CreateAclsRequest(creations=[acl()]),
        3,
        ("Topic:orders", "CreateAcl", {"acl": "Allow User:alice Read from *"}),
    ),
    (
        DeleteAclsRequest(filters=[acl_filter()]),
        3,
        ("Topic:orders", "DeleteAcl", {"acl": "Allow User:alice Read from *"}),
    ),
    (
        user(is_removed=False),
        0,
        ("User:alice", "AlterUserScramCredentials", {"mechanisms": "SCRAM-SHA-256 set with 4096 iterations"}),
    ),
    (
        user(is_removed=True),
        0,
        ("User:alice", "AlterUserScramCredentials", {"mechanisms": "SCRAM-SHA-256 deleted"}),
    ),
    (quota(1000.0), 1, ("Quota:user=alice", "AlterClientQuotas", {"producer_byte_rate": "1000"})),
    (quota(None), 1, ("Quota:user=alice", "AlterClientQuotas", {"producer_byte_rate": "removed"})),
    (
        set_config(POLICY, "no-pii", tag="pii", effect="deny", principals="User:alice"),
        1,
        ("Policy:no-pii", "AlterConfigs", {"tag": "pii", "effect": "deny", "principals": "User:alice"}),
    ),
    (without_policy(), 2, ("Policy:no-pii", "AlterConfigs", {})),
)


async def asked(served: Served, session: Session) -> Notes:
    served.session = session
    notes = served.broker.auditor = Notes()
    return notes


def on_paper(events: Iterable[AuditEvent]) -> bytes:
    return b"".join(encode(Numbered(1, 0, each), "s", NO_CHAIN)[0] for each in events)


def test_every_change_is_told_with_who_where_and_what_when_it_is_made(tmp_path: Path) -> None:
    async def run() -> None:
        async with serving(tmp_path, PROPERTIES) as served:
            notes = await asked(served, BOSS)
            for request, version, told in CHANGES:
                await served.ask(request, version)
                (event,) = notes.events
                notes.events.clear()
                assert (event.resource, event.operation, event.details) == told
                assert (event.kind, event.is_allowed, event.principal, event.address, event.client_id) == (
                    AuditKind.CHANGE,
                    True,
                    "User:boss",
                    "10.0.0.7",
                    "me",
                )
                assert SALTED not in on_paper([event])

    asyncio.run(run())


def test_tokens_are_told_of_without_their_secrets_when_made_renewed_and_ended(tmp_path: Path) -> None:
    async def run() -> None:
        async with serving(tmp_path, PROPERTIES) as served:
            notes = await asked(served, ALICE)
            made = await served.ask(CreateDelegationTokenRequest(max_lifetime_ms=-1), 3)
            await served.ask(RenewDelegationTokenRequest(hmac=made.hmac, renew_period_ms=-1), 2)
            await served.ask(ExpireDelegationTokenRequest(hmac=made.hmac, expiry_time_period_ms=-1), 2)
            assert [(each.operation, each.is_allowed, each.principal) for each in notes.events] == [
                ("CreateToken", True, "User:alice"),
                ("RenewToken", True, "User:alice"),
                ("ExpireToken", True, "User:alice"),
            ]
            assert notes.events[0].resource == f"DelegationToken:{made.token_id}"
            assert len({str(each.details["fingerprint"]) for each in notes.events}) == 1  # they are about one token
            paper = on_paper(notes.events)
            assert made.hmac.hex().encode() not in paper
            assert SECRET.encode() not in paper

    asyncio.run(run())


def test_change_is_told_as_a_denial_alone_when_the_right_is_missing(tmp_path: Path) -> None:
    async def run() -> None:
        async with serving(tmp_path, PROPERTIES) as served:
            notes = await asked(served, ALICE)
            served.broker.authorizer.auditor = notes  # type: ignore[attr-defined]
            for request, version, (_, operation, _) in CHANGES:
                await served.ask(request, version)
                assert notes.events, operation
                assert {each.kind for each in notes.events} == {AuditKind.DENIAL}
                assert {(each.is_allowed, each.principal) for each in notes.events} == {(False, "User:alice")}
                notes.events.clear()

    asyncio.run(run())


def test_nothing_is_told_when_a_list_leaves_out_what_the_client_may_not_see(tmp_path: Path) -> None:
    async def run() -> None:
        async with serving(tmp_path, PROPERTIES) as served:
            served.session = BOSS
            made = await served.ask(CreateDelegationTokenRequest(max_lifetime_ms=-1), 3)
            assert made.error_code == ErrorCode.NONE
            notes = await asked(served, ALICE)
            served.broker.authorizer.auditor = notes  # type: ignore[attr-defined]
            answer = await served.ask(DescribeDelegationTokenRequest(owners=None), 3)
            assert (answer.error_code, answer.tokens, notes.events) == (ErrorCode.NONE, [], [])

    asyncio.run(run())
