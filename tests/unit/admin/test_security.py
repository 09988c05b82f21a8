"""ACLs, users, quotas and tokens: what is asked for, and what each refusal means."""

from __future__ import annotations

import asyncio

import pytest

from penstock.admin import (
    Acl,
    AclEntry,
    AclFilter,
    ApiError,
    Component,
    Credential,
    ErrorCode,
    NewPassword,
    Operation,
    PatternType,
    Permission,
    QuotaEntity,
    ResourcePattern,
    ResourceType,
    TokenState,
    UserState,
)
from penstock.protocol.messages import alter_client_quotas as altered_quotas
from penstock.protocol.messages import alter_configs as altered_configs
from penstock.protocol.messages import alter_user_scram_credentials as altered_users
from penstock.protocol.messages import create_acls as created_acls
from penstock.protocol.messages import create_delegation_token as created_tokens
from penstock.protocol.messages import delete_acls as deleted_acls
from penstock.protocol.messages import describe_acls as described_acls
from penstock.protocol.messages import describe_client_quotas as described_quotas
from penstock.protocol.messages import describe_configs as described_configs
from penstock.protocol.messages import describe_delegation_token as described_tokens
from penstock.protocol.messages import describe_user_scram_credentials as described_users
from penstock.protocol.messages import expire_delegation_token as expired_tokens
from penstock.protocol.messages import list_config_resources as listed_configs
from penstock.protocol.messages import renew_delegation_token as renewed_tokens
from penstock.security.quotas.alterations import EXACT
from penstock.security.sasl.scram import SHA_256, SHA_512
from tests.unit.admin.scripted import ScriptedBrokers

READ = Acl(ResourcePattern(ResourceType.TOPIC, "t"), AclEntry("User:a", "*", Operation.READ, Permission.ALLOW))
WRITE = Acl(ResourcePattern(ResourceType.TOPIC, "t"), AclEntry("User:a", "*", Operation.WRITE, Permission.ALLOW))
REFUSED = int(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)


# ------------------------------------------------------------------------------------ ACLs


def acl_row(operation: int) -> described_acls.AclDescription:
    return described_acls.AclDescription(principal="User:a", host="*", operation=operation, permission_type=3)


def test_acls_come_in_order_when_a_word_is_newer_than_this_program() -> None:
    resource = described_acls.DescribeAclsResource(
        resource_type=2, resource_name="t", pattern_type=3, acls=[acl_row(4), acl_row(3), acl_row(99)]
    )
    answer = described_acls.DescribeAclsResponse(resources=[resource])
    brokers = ScriptedBrokers({described_acls.DescribeAclsRequest: answer})
    found = asyncio.run(brokers.admin.security.acls(AclFilter(ResourceType.TOPIC, "t", PatternType.MATCH)))
    unknown = READ._replace(entry=READ.entry._replace(operation=Operation.UNKNOWN))
    assert found == [unknown, READ, WRITE]
    ((way, request),) = brokers.sent
    assert way == "any 1"
    assert (request.resource_type_filter, request.resource_name_filter, request.pattern_type_filter) == (2, "t", 2)
    assert (request.principal_filter, request.operation, request.permission_type) == (None, 1, 1)


def test_acls_are_an_error_when_the_brokers_have_no_authorizer() -> None:
    answer = described_acls.DescribeAclsResponse(error_code=ErrorCode.SECURITY_DISABLED, error_message="none is set")
    brokers = ScriptedBrokers({described_acls.DescribeAclsRequest: answer})
    with pytest.raises(ApiError, match="none is set") as caught:
        asyncio.run(brokers.admin.security.acls())
    assert caught.value.code is ErrorCode.SECURITY_DISABLED


def test_another_broker_is_asked_when_the_first_one_takes_no_connection() -> None:
    brokers = ScriptedBrokers(
        {described_acls.DescribeAclsRequest: described_acls.DescribeAclsResponse()}, brokers=(1, 2)
    )
    brokers.refusing = {1}
    assert asyncio.run(brokers.admin.security.acls()) == []
    assert brokers.ways == ["any 2"]
    brokers.refusing = {1, 2}
    with pytest.raises(ConnectionRefusedError):
        asyncio.run(brokers.admin.security.acls())


def test_each_acl_has_its_own_outcome_when_some_are_refused() -> None:
    results = [
        created_acls.AclCreationResult(),
        created_acls.AclCreationResult(error_code=ErrorCode.INVALID_REQUEST, error_message="no such principal"),
    ]
    brokers = ScriptedBrokers({created_acls.CreateAclsRequest: created_acls.CreateAclsResponse(results=results)})
    refused = asyncio.run(brokers.admin.security.create_acls([READ, WRITE]))
    assert {acl: (error.code, error.message) for acl, error in refused.items()} == {
        WRITE: (ErrorCode.INVALID_REQUEST, "no such principal")
    }
    ((way, request),) = brokers.sent
    assert way == "controller"
    assert [row.operation for row in request.creations] == [Operation.READ, Operation.WRITE]
    assert brokers.retried == {created_acls.CreateAclsRequest}


def matching(operation: int, error: int = 0) -> deleted_acls.DeleteAclsMatchingAcl:
    return deleted_acls.DeleteAclsMatchingAcl(
        error_code=error,
        resource_type=2,
        resource_name="t",
        pattern_type=3,
        principal="User:a",
        host="*",
        operation=operation,
        permission_type=3,
    )


def test_deleted_acls_are_told_by_filter_when_some_could_not_be_deleted() -> None:
    whole, part, none = AclFilter(name="t"), AclFilter(host="*"), AclFilter(principal="User:a")
    results = [
        deleted_acls.DeleteAclsFilterResult(matching_acls=[matching(4), matching(3)]),
        deleted_acls.DeleteAclsFilterResult(
            matching_acls=[matching(3), matching(4, ErrorCode.UNKNOWN_SERVER_ERROR)],
        ),
        deleted_acls.DeleteAclsFilterResult(error_code=REFUSED),
    ]
    brokers = ScriptedBrokers({deleted_acls.DeleteAclsRequest: deleted_acls.DeleteAclsResponse(filter_results=results)})
    deleted, refused = asyncio.run(brokers.admin.security.delete_acls([whole, part, none]))
    assert deleted == {whole: [READ, WRITE], part: [READ], none: []}
    assert {each: error.code for each, error in refused.items()} == {
        part: ErrorCode.UNKNOWN_SERVER_ERROR,
        none: ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    }
    assert brokers.ways == ["controller"]
    assert brokers.retried == set()


# ------------------------------------------------------------------------------------ policies


def policy_names(*names: str, code: int = 0) -> listed_configs.ListConfigResourcesResponse:
    rows = [listed_configs.ConfigResource(resource_name=each, resource_type=120) for each in names]
    other = listed_configs.ConfigResource(resource_name="metrics", resource_type=16)
    return listed_configs.ListConfigResourcesResponse(error_code=code, config_resources=[other, *rows])


def test_policies_have_their_settings_when_one_is_taken_away_meanwhile() -> None:
    tag = described_configs.DescribeConfigsResourceResult(name="tag", value="pii")
    empty = described_configs.DescribeConfigsResourceResult(name="until", value=None)
    there = described_configs.DescribeConfigsResult(resource_type=120, resource_name="a", configs=[tag, empty])
    gone = described_configs.DescribeConfigsResult(resource_type=120, resource_name="b", error_code=REFUSED)
    brokers = ScriptedBrokers(
        {
            listed_configs.ListConfigResourcesRequest: policy_names("b", "a"),
            described_configs.DescribeConfigsRequest: described_configs.DescribeConfigsResponse(results=[there, gone]),
        }
    )
    found, failures = asyncio.run(brokers.admin.security.policies())
    assert found == {"a": {"tag": "pii"}}
    assert [failure.code for failure in failures] == [REFUSED]
    assert brokers.sent[0][1].resource_types == [120]
    assert [row.resource_name for row in brokers.sent[1][1].resources] == ["a", "b"]


def test_policies_are_refused_when_the_brokers_know_none() -> None:
    answer = policy_names(code=ErrorCode.UNSUPPORTED_VERSION)
    brokers = ScriptedBrokers({listed_configs.ListConfigResourcesRequest: answer})
    with pytest.raises(ApiError) as caught:
        asyncio.run(brokers.admin.security.policies())
    assert caught.value.code is ErrorCode.UNSUPPORTED_VERSION


def test_policies_are_refused_when_the_brokers_list_resources_without_their_types() -> None:
    brokers = ScriptedBrokers({listed_configs.ListConfigResourcesRequest: policy_names()})
    brokers.resource_listing_version = 0
    with pytest.raises(ApiError, match="no policies") as caught:
        asyncio.run(brokers.admin.security.policies())
    assert caught.value.code is ErrorCode.UNSUPPORTED_VERSION
    assert brokers.sent == []


def test_policy_loses_its_settings_when_it_is_deleted() -> None:
    row = altered_configs.AlterConfigsResourceResponse(resource_type=120, resource_name="a")
    brokers = ScriptedBrokers(
        {altered_configs.AlterConfigsRequest: altered_configs.AlterConfigsResponse(responses=[row])}
    )
    asyncio.run(brokers.admin.security.delete_policy("a"))
    ((way, request),) = brokers.sent
    assert way == "controller"
    assert [(each.resource_type, each.resource_name, each.configs) for each in request.resources] == [(120, "a", [])]
    row.error_code = REFUSED
    with pytest.raises(ApiError):
        asyncio.run(brokers.admin.security.delete_policy("a"))


# ------------------------------------------------------------------------------------ users


def test_users_are_told_with_their_mechanisms_when_one_is_missing() -> None:
    results = [
        described_users.DescribeUserScramCredentialsResult(
            user="b", error_code=ErrorCode.RESOURCE_NOT_FOUND, error_message="no such user"
        ),
        described_users.DescribeUserScramCredentialsResult(
            user="a",
            credential_infos=[
                described_users.CredentialInfo(mechanism=1, iterations=4096),
                described_users.CredentialInfo(mechanism=9, iterations=1),
            ],
        ),
    ]
    answer = described_users.DescribeUserScramCredentialsResponse(results=results)
    brokers = ScriptedBrokers({described_users.DescribeUserScramCredentialsRequest: answer})
    found, failures = asyncio.run(brokers.admin.security.users(["a", "b"]))
    assert found == {"a": UserState("a", {"SCRAM-SHA-256": 4096, "mechanism 9": 1})}
    assert [(each.subject, each.reason, each.code) for each in failures] == [
        ("user b", "no such user", ErrorCode.RESOURCE_NOT_FOUND)
    ]
    asyncio.run(brokers.admin.security.users())
    assert [None if each.users is None else [row.name for row in each.users] for _, each in brokers.sent] == [
        ["a", "b"],
        None,
    ]


def test_users_are_an_error_when_the_caller_may_not_see_them() -> None:
    answer = described_users.DescribeUserScramCredentialsResponse(error_code=REFUSED)
    brokers = ScriptedBrokers({described_users.DescribeUserScramCredentialsRequest: answer})
    with pytest.raises(ApiError) as caught:
        asyncio.run(brokers.admin.security.users())
    assert caught.value.code is ErrorCode.CLUSTER_AUTHORIZATION_FAILED


def altered(*users: str, refused: str = "") -> altered_users.AlterUserScramCredentialsResponse:
    return altered_users.AlterUserScramCredentialsResponse(
        results=[
            altered_users.AlterUserScramCredentialsResult(user=user, error_code=REFUSED if user == refused else 0)
            for user in users
        ]
    )


def test_a_request_names_a_user_once_when_one_gets_two_passwords() -> None:
    brokers = ScriptedBrokers(
        {altered_users.AlterUserScramCredentialsRequest: [altered("a", "b", refused="b"), altered("a")]}
    )
    passwords = [NewPassword("a", "pencil"), NewPassword("b", "pen"), NewPassword("a", "pencil", SHA_256.mechanism)]
    refused = asyncio.run(brokers.admin.security.set_passwords(passwords))
    assert {user: error.code for user, error in refused.items()} == {"b": ErrorCode.CLUSTER_AUTHORIZATION_FAILED}
    sent = [[(row.name, row.mechanism) for row in request.upsertions] for _, request in brokers.sent]
    assert sent == [[("a", SHA_512.code), ("b", SHA_512.code)], [("a", SHA_256.code)]]
    row = brokers.sent[0][1].upsertions[0]
    assert row.salted_password == SHA_512.salted_password("pencil", row.salt, row.iterations)
    assert brokers.ways == ["controller", "controller"]


def test_passwords_are_taken_away_by_mechanism_when_a_user_has_two() -> None:
    brokers = ScriptedBrokers({altered_users.AlterUserScramCredentialsRequest: [altered("a"), altered("a")]})
    gone = [Credential("a"), Credential("a", SHA_256.mechanism)]
    assert asyncio.run(brokers.admin.security.delete_passwords(gone)) == {}
    sent = [[(row.name, row.mechanism) for row in request.deletions] for _, request in brokers.sent]
    assert sent == [[("a", SHA_512.code)], [("a", SHA_256.code)]]


def test_password_stays_out_of_sight_when_it_is_printed() -> None:
    assert "pencil" not in repr(NewPassword("a", "pencil"))
    assert "secret" not in repr(TokenState("id", b"secret", "User:a", "User:a", 0, 0, 0))


def test_nothing_is_sent_when_there_is_no_such_mechanism() -> None:
    brokers = ScriptedBrokers({})
    with pytest.raises(KeyError):
        asyncio.run(brokers.admin.security.set_passwords([NewPassword("a", "pencil", "PLAIN")]))
    assert brokers.sent == []


# ------------------------------------------------------------------------------------ quotas

ALICE, OTHERS = QuotaEntity.of({"user": "alice", "client-id": "app"}), QuotaEntity.of({"user": None})


def test_quotas_are_found_by_entity_when_one_is_a_default() -> None:
    entries = [
        described_quotas.EntryData(
            entity=[
                described_quotas.EntityData(entity_type="user", entity_name="alice"),
                described_quotas.EntityData(entity_type="client-id", entity_name="app"),
            ],
            values=[described_quotas.ValueData(key="producer_byte_rate", value=10.0)],
        ),
        described_quotas.EntryData(
            entity=[described_quotas.EntityData(entity_type="user", entity_name=None)],
            values=[described_quotas.ValueData(key="request_percentage", value=50.0)],
        ),
    ]
    answer = described_quotas.DescribeClientQuotasResponse(entries=entries)
    brokers = ScriptedBrokers({described_quotas.DescribeClientQuotasRequest: answer})
    found = asyncio.run(brokers.admin.security.quotas([Component("user", EXACT, "alice")], is_strict=True))
    assert found == {ALICE: {"producer_byte_rate": 10.0}, OTHERS: {"request_percentage": 50.0}}
    ((_, request),) = brokers.sent
    assert [(row.entity_type, row.match_type, row.match) for row in request.components] == [("user", EXACT, "alice")]
    assert request.strict


def test_quotas_are_an_error_when_the_filter_is_refused() -> None:
    answer = described_quotas.DescribeClientQuotasResponse(
        error_code=ErrorCode.INVALID_REQUEST, error_message="no such type", entries=None
    )
    brokers = ScriptedBrokers({described_quotas.DescribeClientQuotasRequest: answer})
    with pytest.raises(ApiError, match="no such type"):
        asyncio.run(brokers.admin.security.quotas())


def test_each_entity_has_its_own_outcome_when_a_quota_is_refused() -> None:
    entries = [
        altered_quotas.EntryData(
            entity=[
                altered_quotas.EntityData(entity_type="user", entity_name="alice"),
                altered_quotas.EntityData(entity_type="client-id", entity_name="app"),
            ]
        ),
        altered_quotas.EntryData(
            entity=[altered_quotas.EntityData(entity_type="user", entity_name=None)],
            error_code=ErrorCode.INVALID_REQUEST,
            error_message="no such quota",
        ),
    ]
    answer = altered_quotas.AlterClientQuotasResponse(entries=entries)
    brokers = ScriptedBrokers({altered_quotas.AlterClientQuotasRequest: answer})
    values: dict[QuotaEntity, dict[str, float | None]]
    values = {ALICE: {"producer_byte_rate": 10.0, "consumer_byte_rate": None}, OTHERS: {"rate": 1.0}}
    refused = asyncio.run(brokers.admin.security.alter_quotas(values, only_check=True))
    assert {entity: error.message for entity, error in refused.items()} == {OTHERS: "no such quota"}
    ((way, request),) = brokers.sent
    assert (way, request.validate_only) == ("controller", True)
    assert [(op.key, op.value, op.remove) for op in request.entries[0].ops] == [
        ("producer_byte_rate", 10.0, False),
        ("consumer_byte_rate", 0.0, True),
    ]


# ------------------------------------------------------------------------------------ tokens


def test_tokens_come_oldest_first_when_a_broker_does_not_tell_the_requester() -> None:
    rows = [
        described_tokens.DescribedDelegationToken(
            principal_type="User", principal_name="b", issue_timestamp=2, token_id="late", hmac=b"h"
        ),
        described_tokens.DescribedDelegationToken(
            principal_type="User",
            principal_name="a",
            token_requester_principal_type="User",
            token_requester_principal_name="c",
            issue_timestamp=1,
            expiry_timestamp=5,
            max_timestamp=9,
            token_id="early",
            renewers=[described_tokens.DescribedDelegationTokenRenewer(principal_type="User", principal_name="d")],
        ),
    ]
    answer = described_tokens.DescribeDelegationTokenResponse(tokens=rows)
    brokers = ScriptedBrokers({described_tokens.DescribeDelegationTokenRequest: answer})
    found = asyncio.run(brokers.admin.security.tokens(["User:a"]))
    assert list(found) == ["early", "late"]
    assert found["early"] == TokenState("early", b"", "User:a", "User:c", 1, 5, 9, ("User:d",))
    assert found["late"].requester == "User:b"
    owners = brokers.sent[0][1].owners
    assert [(row.principal_type, row.principal_name) for row in owners] == [("User", "a")]


def test_token_is_for_its_owner_when_another_asks_for_it() -> None:
    answer = created_tokens.CreateDelegationTokenResponse(
        principal_type="User", principal_name="a", token_id="id", hmac=b"h", issue_timestamp_ms=1, max_timestamp_ms=9
    )
    brokers = ScriptedBrokers({created_tokens.CreateDelegationTokenRequest: answer})
    made = asyncio.run(brokers.admin.security.create_token("User:a", renewers=["User:d"]))
    assert made == TokenState("id", b"h", "User:a", "User:a", 1, 0, 9, ("User:d",))
    ((way, request),) = brokers.sent
    assert (way, request.owner_principal_name, request.max_lifetime_ms) == ("controller", "a", -1)
    assert brokers.retried == set()
    with pytest.raises(ValueError, match="write it like User:alice"):
        asyncio.run(brokers.admin.security.create_token("alice"))


def test_token_is_renewed_and_ended_when_its_password_is_known() -> None:
    brokers = ScriptedBrokers(
        {
            renewed_tokens.RenewDelegationTokenRequest: renewed_tokens.RenewDelegationTokenResponse(
                expiry_timestamp_ms=7
            ),
            expired_tokens.ExpireDelegationTokenRequest: expired_tokens.ExpireDelegationTokenResponse(
                expiry_timestamp_ms=3
            ),
        }
    )
    assert asyncio.run(brokers.admin.security.renew_token(b"h", 100)) == 7
    assert asyncio.run(brokers.admin.security.expire_token(b"h")) == 3
    (_, renewed), (_, expired) = brokers.sent
    assert (renewed.hmac, renewed.renew_period_ms) == (b"h", 100)
    assert (expired.hmac, expired.expiry_time_period_ms) == (b"h", -1)
    assert brokers.ways == ["controller", "controller"]


def test_token_is_an_error_when_the_brokers_refuse() -> None:
    code = int(ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED)
    brokers = ScriptedBrokers(
        {
            described_tokens.DescribeDelegationTokenRequest: described_tokens.DescribeDelegationTokenResponse(
                error_code=code
            ),
            created_tokens.CreateDelegationTokenRequest: created_tokens.CreateDelegationTokenResponse(error_code=code),
            renewed_tokens.RenewDelegationTokenRequest: renewed_tokens.RenewDelegationTokenResponse(error_code=code),
            expired_tokens.ExpireDelegationTokenRequest: expired_tokens.ExpireDelegationTokenResponse(error_code=code),
        }
    )
    security = brokers.admin.security
    for operation in (
        security.tokens(),
        security.create_token(),
        security.renew_token(b""),
        security.expire_token(b""),
    ):
        with pytest.raises(ApiError) as caught:
            asyncio.run(operation)
        assert caught.value.code is ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED


def test_password_is_refused_unsalted_when_its_iterations_would_take_hours() -> None:
    brokers = ScriptedBrokers({altered_users.AlterUserScramCredentialsRequest: [altered("b")]})
    passwords = [NewPassword("a", "pencil", iterations=2_000_000_000), NewPassword("b", "pen")]
    refused = asyncio.run(brokers.admin.security.set_passwords(passwords))
    assert {user: error.code for user, error in refused.items()} == {"a": ErrorCode.UNACCEPTABLE_CREDENTIAL}
    assert [row.name for _, request in brokers.sent for row in request.upsertions] == ["b"]


def test_other_password_of_a_user_is_set_when_one_has_too_many_iterations() -> None:
    brokers = ScriptedBrokers({altered_users.AlterUserScramCredentialsRequest: [altered("a")]})
    passwords = [NewPassword("a", "pencil", iterations=2_000_000_000), NewPassword("a", "pencil", SHA_256.mechanism)]
    refused = asyncio.run(brokers.admin.security.set_passwords(passwords))
    assert {user: error.code for user, error in refused.items()} == {"a": ErrorCode.UNACCEPTABLE_CREDENTIAL}
    sent = [(row.name, row.mechanism) for _, request in brokers.sent for row in request.upsertions]
    assert sent == [("a", SHA_256.code)]
