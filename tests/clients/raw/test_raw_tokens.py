"""Delegation tokens over the wire: every code, and a login with a token."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from typing import Any

import pytest

from penstock.client.connection import BlockingConnection, LoginRefusedError
from penstock.client.security import ClientSecurity
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.create_delegation_token import CreatableRenewers, CreateDelegationTokenRequest
from penstock.protocol.messages.describe_delegation_token import (
    DescribeDelegationTokenOwner,
    DescribeDelegationTokenRequest,
)
from penstock.protocol.messages.expire_delegation_token import ExpireDelegationTokenRequest
from penstock.protocol.messages.metadata import MetadataRequest
from penstock.protocol.messages.renew_delegation_token import RenewDelegationTokenRequest
from penstock.security.sasl.plain import PlainCredentials
from penstock.security.sasl.scram import SHA_256, SHA_512, ScramHash
from penstock.security.sasl.scram_client import ScramCredentials
from tests.clients.sasl_broker import PASSWORD, USER, SaslBroker, run_sasl_broker

DAY_MS = 86_400_000


def log_in(broker: SaslBroker, user: str = USER, password: str = PASSWORD) -> BlockingConnection:
    security = ClientSecurity(credentials=PlainCredentials(user, password))
    return BlockingConnection(*broker.sasl_address, security=security)


@pytest.fixture
def alice(sasl_broker: SaslBroker) -> Iterator[BlockingConnection]:
    with log_in(sasl_broker) as connection:
        yield connection


def create(connection: BlockingConnection, **fields: Any) -> Any:
    return connection.request(CreateDelegationTokenRequest(**fields), 3)


def renew(connection: BlockingConnection, hmac: bytes, period_ms: int = -1) -> Any:
    return connection.request(RenewDelegationTokenRequest(hmac=hmac, renew_period_ms=period_ms), 2)


def expire(connection: BlockingConnection, hmac: bytes, period_ms: int = -1) -> Any:
    return connection.request(ExpireDelegationTokenRequest(hmac=hmac, expiry_time_period_ms=period_ms), 2)


def describe(connection: BlockingConnection, owners: list[str] | None = None) -> Any:
    named = None if owners is None else [
        DescribeDelegationTokenOwner(principal_type="User", principal_name=owner) for owner in owners
    ]  # fmt: skip
    return connection.request(DescribeDelegationTokenRequest(owners=named), 3)


@pytest.mark.parametrize("hashing", [SHA_256, SHA_512], ids=lambda hashing: hashing.mechanism)
def test_owner_is_logged_in_when_a_client_shows_the_token(
    sasl_broker: SaslBroker, alice: BlockingConnection, hashing: ScramHash
) -> None:
    token = create(alice)
    assert (token.error_code, token.principal_name, token.token_requester_principal_name) == (0, USER, USER)
    assert token.expiry_timestamp_ms == token.issue_timestamp_ms + DAY_MS
    assert token.max_timestamp_ms == token.issue_timestamp_ms + 7 * DAY_MS
    password = base64.b64encode(token.hmac).decode()
    credentials = ScramCredentials(hashing, token.token_id, password, is_token=True)
    with BlockingConnection(*sasl_broker.sasl_address, security=ClientSecurity(credentials=credentials)) as connection:
        assert connection.request(MetadataRequest(topics=[]), 12).brokers
        # Who has shown a token gets no other.
        for response in (create(connection), renew(connection, token.hmac), describe(connection)):
            assert response.error_code == ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
    assert expire(alice, token.hmac).error_code == 0
    for is_token in (True, False):
        gone = ScramCredentials(hashing, token.token_id, password, is_token=is_token)
        with pytest.raises(LoginRefusedError):
            BlockingConnection(*sasl_broker.sasl_address, security=ClientSecurity(credentials=gone))


def test_token_lives_longer_when_renewed_and_ends_sooner_when_expired(alice: BlockingConnection) -> None:
    token = create(alice, max_lifetime_ms=2 * DAY_MS)
    assert token.max_timestamp_ms == token.issue_timestamp_ms + 2 * DAY_MS
    assert renew(alice, token.hmac, 5_000).expiry_timestamp_ms < token.expiry_timestamp_ms
    assert renew(alice, token.hmac).expiry_timestamp_ms >= token.expiry_timestamp_ms
    assert renew(alice, token.hmac, 100 * DAY_MS).expiry_timestamp_ms <= token.max_timestamp_ms
    assert expire(alice, token.hmac, 5_000).expiry_timestamp_ms < token.expiry_timestamp_ms
    assert expire(alice, token.hmac).expiry_timestamp_ms == -1
    assert renew(alice, token.hmac).error_code == ErrorCode.DELEGATION_TOKEN_NOT_FOUND
    assert expire(alice, token.hmac).error_code == ErrorCode.DELEGATION_TOKEN_NOT_FOUND


def test_token_is_refused_when_it_has_expired(alice: BlockingConnection) -> None:
    token = create(alice, max_lifetime_ms=1)
    while not (response := renew(alice, token.hmac)).error_code:
        pass
    assert response.error_code == ErrorCode.DELEGATION_TOKEN_EXPIRED
    assert expire(alice, token.hmac).error_code == ErrorCode.DELEGATION_TOKEN_EXPIRED


def test_stranger_is_refused_and_renewer_is_not_when_a_token_is_anothers(
    sasl_broker: SaslBroker, alice: BlockingConnection
) -> None:
    token = create(alice)
    shared = create(alice, renewers=[CreatableRenewers(principal_type="User", principal_name="broker")])
    with log_in(sasl_broker, "broker", "b") as other:
        assert renew(other, token.hmac).error_code == ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH
        assert expire(other, token.hmac).error_code == ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH
        assert renew(other, shared.hmac).error_code == 0
        seen = {each.token_id for each in describe(other, ["broker"]).tokens}
        assert shared.token_id in seen
        assert token.token_id not in seen
    assert describe(alice, []).tokens == []
    described = {each.token_id: each for each in describe(alice, [USER]).tokens}
    assert described[shared.token_id].hmac == shared.hmac
    assert [each.principal_name for each in described[shared.token_id].renewers] == ["broker"]


def test_token_is_refused_when_a_renewer_or_the_owner_is_no_user(alice: BlockingConnection) -> None:
    renewers = [CreatableRenewers(principal_type="Group", principal_name="g")]
    assert create(alice, renewers=renewers).error_code == ErrorCode.INVALID_PRINCIPAL_TYPE
    response = create(alice, owner_principal_type="Group", owner_principal_name="g")
    assert response.error_code == ErrorCode.INVALID_PRINCIPAL_TYPE


def test_tokens_are_refused_when_nobody_is_known_on_the_listener(sasl_broker: SaslBroker) -> None:
    with BlockingConnection(*sasl_broker.plain_address) as connection:
        for response in (create(connection), renew(connection, b"x"), expire(connection, b"x"), describe(connection)):
            assert response.error_code == ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED


def test_next_token_is_refused_when_its_owner_has_as_many_as_may_be(tmp_path_factory: pytest.TempPathFactory) -> None:
    config = {"penstock.delegation.tokens.max.per.owner": "2"}
    with run_sasl_broker(tmp_path_factory.mktemp("few"), config) as broker, log_in(broker) as connection:
        first = create(connection)
        assert [create(connection).error_code for _ in range(2)] == [0, ErrorCode.POLICY_VIOLATION]
        with log_in(broker, "broker", "b") as other:
            assert create(other).error_code == 0
        assert expire(connection, first.hmac).error_code == 0
        assert create(connection).error_code == 0


def test_tokens_are_refused_when_the_brokers_have_no_secret(tmp_path_factory: pytest.TempPathFactory) -> None:
    directory = tmp_path_factory.mktemp("no-tokens")
    with run_sasl_broker(directory, without=("delegation.token.secret.key",)) as broker, log_in(broker) as connection:
        for response in (create(connection), renew(connection, b"x"), expire(connection, b"x"), describe(connection)):
            assert response.error_code == ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED
