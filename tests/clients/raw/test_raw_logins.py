"""Logins over the wire, byte by byte: what is served before, what is refused, and how."""

from __future__ import annotations

import base64
import hmac
import socket
import struct
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock.client.connection import BlockingConnection, ConnectionClosedError
from penstock.client.connection.core import ConnectionCore
from penstock.protocol.errors import ErrorCode
from penstock.protocol.message import Message
from penstock.protocol.messages.api_versions import ApiVersionsRequest
from penstock.protocol.messages.metadata import MetadataRequest, MetadataResponse
from penstock.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from penstock.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from proof.logins.broker import Issuer
from proof.logins.scripts import logins
from proof.logins.tcp import send_bent
from tests.clients.issuer import AUDIENCE
from tests.clients.sasl_broker import MECHANISMS, PASSWORD, USER, SaslBroker, run_sasl_broker
from tests.clients.support import eventually, is_cut_off

PLAIN_TOKEN = f"\0{USER}\0{PASSWORD}".encode()


@pytest.fixture
def connection(sasl_broker: SaslBroker) -> Iterator[BlockingConnection]:
    with BlockingConnection(*sasl_broker.sasl_address) as opened:
        yield opened


def handshake(connection: BlockingConnection, mechanism: str = "PLAIN", version: int = 1) -> Any:
    return connection.request(SaslHandshakeRequest(mechanism=mechanism), version)


def authenticate(connection: BlockingConnection, token: bytes, version: int = 2) -> Any:
    return connection.request(SaslAuthenticateRequest(auth_bytes=token), version)


def assert_closed(connection: BlockingConnection) -> None:
    with pytest.raises(ConnectionClosedError):
        connection.receive_frame(timeout_s=10)


def assert_serves(connection: BlockingConnection) -> None:
    assert connection.request(MetadataRequest(topics=[]), 12).brokers


@pytest.mark.parametrize("version", [0, 1, 2])
def test_client_is_served_when_it_has_logged_in(connection: BlockingConnection, version: int) -> None:
    assert connection.request(ApiVersionsRequest(), 0).error_code == 0
    response = handshake(connection)
    assert response.error_code == 0
    assert tuple(response.mechanisms) == MECHANISMS
    response = authenticate(connection, PLAIN_TOKEN, version)
    assert (response.error_code, response.auth_bytes, response.session_lifetime_ms) == (0, b"", 0)
    assert_serves(connection)


def test_client_is_served_when_its_tokens_come_bare(sasl_broker: SaslBroker) -> None:
    core = ConnectionCore("tests")
    with socket.create_connection(sasl_broker.sasl_address, timeout=10) as sock, sock.makefile("rb") as received:
        requests: tuple[tuple[Message, int], ...] = (
            (SaslHandshakeRequest(mechanism="PLAIN"), 0),
            (MetadataRequest(topics=[]), 12),
        )
        for message, version in requests:
            sock.sendall(core.encode_request(message, version)[1])
            (size,) = struct.unpack(">i", received.read(4))
            _, response = core.take_answer(received.read(size))
            if isinstance(response, SaslHandshakeResponse):
                assert response.error_code == 0
                sock.sendall(struct.pack(">i", len(PLAIN_TOKEN)) + PLAIN_TOKEN)
                assert received.read(4) == bytes(4)  # an empty token in answer
            else:
                assert isinstance(response, MetadataResponse)
                assert response.brokers


def test_connection_ends_without_a_word_when_a_bare_token_is_wrong(connection: BlockingConnection) -> None:
    handshake(connection, version=0)
    connection.send_bytes(struct.pack(">i", 4) + b"\0a\0b")
    assert_closed(connection)


@pytest.mark.parametrize("token", [f"\0{USER}\0wr0ng".encode(), b"\0nobody\0x", b"", b"\xff\xfe", b"\0*\0*"])
def test_answer_is_the_same_when_a_login_is_refused_for_any_reason(
    connection: BlockingConnection, token: bytes
) -> None:
    handshake(connection)
    response = authenticate(connection, token)
    assert response.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert response.error_message == (
        "Authentication failed during authentication due to invalid credentials with SASL mechanism PLAIN"
    )
    assert_closed(connection)


def test_login_is_refused_when_it_is_in_the_name_of_another(connection: BlockingConnection) -> None:
    """CVE-2017-12610."""
    handshake(connection)
    response = authenticate(connection, f"admin\0{USER}\0{PASSWORD}".encode())
    assert response.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert_closed(connection)


def test_mechanisms_are_told_when_an_unknown_one_is_asked_for(connection: BlockingConnection) -> None:
    response = handshake(connection, "SCRAM-MD5")
    assert response.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM
    assert tuple(response.mechanisms) == MECHANISMS
    assert_closed(connection)


def test_connection_ends_when_anything_else_is_asked_before_the_login(connection: BlockingConnection) -> None:
    connection.send(MetadataRequest(topics=[]), 12)
    assert_closed(connection)


def test_connection_ends_when_anything_else_is_asked_during_the_login(connection: BlockingConnection) -> None:
    handshake(connection)
    connection.send(MetadataRequest(topics=[]), 12)
    assert_closed(connection)


def test_connection_ends_when_a_token_comes_before_the_handshake(connection: BlockingConnection) -> None:
    connection.send(SaslAuthenticateRequest(auth_bytes=PLAIN_TOKEN), 2)
    assert_closed(connection)


def test_versions_are_told_once_when_asked_before_the_login(connection: BlockingConnection) -> None:
    assert connection.request(ApiVersionsRequest(client_software_name="a/b"), 3).error_code != 0
    assert connection.request(ApiVersionsRequest(), 0).error_code == 0
    connection.send(ApiVersionsRequest(), 0)
    assert_closed(connection)


@pytest.mark.parametrize("first", [b"\x60\x82\x02\x0e", b"GET / HTTP/1.1\r\n\r\n", b"\x16\x03\x01\x02\x00"])
def test_connection_ends_when_the_client_speaks_something_else(connection: BlockingConnection, first: bytes) -> None:
    """A client of Kafka 0.9 with Kerberos, a browser, a client with TLS."""
    connection.send_bytes(struct.pack(">i", len(first)) + first)
    assert_closed(connection)


def test_connection_ends_before_memory_is_taken_when_a_frame_is_too_large(connection: BlockingConnection) -> None:
    """CVE-2022-34917: a frame of 100 MB announced before the login."""
    connection.send_bytes(struct.pack(">i", 100 * 1024 * 1024))
    assert_closed(connection)


def test_connection_ends_when_a_greeting_is_full_of_tags(connection: BlockingConnection) -> None:
    """CVE-2026-111115: tagged fields by the million, before the login."""
    header = struct.pack(">hhih", ApiVersionsRequest.API_KEY, 3, 1, -1)
    body = header + b"\0" + b"\1\1" + b"\xff\xff\xff\x07" + b"\0" * 500_000
    connection.send_bytes(struct.pack(">i", len(body)) + body)
    assert_closed(connection)


def test_login_is_not_due_when_the_client_has_logged_in(connection: BlockingConnection) -> None:
    handshake(connection)
    authenticate(connection, PLAIN_TOKEN)
    assert handshake(connection).error_code == ErrorCode.ILLEGAL_SASL_STATE
    assert authenticate(connection, PLAIN_TOKEN).error_code == ErrorCode.ILLEGAL_SASL_STATE
    assert_serves(connection)


def test_login_is_not_due_when_the_listener_has_none(sasl_broker: SaslBroker) -> None:
    with BlockingConnection(*sasl_broker.plain_address) as connection:
        assert handshake(connection).error_code == ErrorCode.ILLEGAL_SASL_STATE
        assert authenticate(connection, PLAIN_TOKEN).error_code == ErrorCode.ILLEGAL_SASL_STATE
        assert_serves(connection)


def bearer(token: str) -> bytes:
    return f"n,,\x01auth=Bearer {token}\x01\x01".encode()


def test_lifetime_is_told_when_a_token_ends(sasl_broker: SaslBroker, connection: BlockingConnection) -> None:
    handshake(connection, "OAUTHBEARER")
    response = authenticate(connection, bearer(sasl_broker.token(exp=int(time.time()) + 100)))
    assert response.error_code == 0
    assert 90_000 < response.session_lifetime_ms <= 100_000
    assert_serves(connection)


def _encode(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _bad_tokens(broker: SaslBroker) -> dict[str, str]:
    from joserfc.jwk import RSAKey

    stranger = RSAKey.generate_key(2048, {"use": "sig"}, auto_kid=True)
    posing = RSAKey.import_key(stranger.as_dict(private=True) | {"kid": broker.key.kid})
    now = int(time.time())
    head, payload, _ = broker.token().split(".")
    none_head = _encode(b'{"alg":"none"}')
    secret_head = _encode(f'{{"alg":"HS256","kid":"{broker.key.kid}"}}'.encode())
    signature = hmac.digest(broker.key.as_pem(private=False), f"{secret_head}.{payload}".encode(), "sha256")
    return {
        "a stranger's": broker.token(stranger),  # CVE-2026-33557
        "a stranger's with the issuer's key id": broker.token(posing),
        "not signed": f"{none_head}.{payload}.",  # CVE-2021-22160
        "without its signature": f"{head}.{payload}.",
        "signed with the public key as a secret": f"{secret_head}.{payload}.{_encode(signature)}",
        "expired": broker.token(exp=now - 60, iat=now - 120),
        "from the future": broker.token(iat=now + 600, exp=now + 1200),
        "without an end": broker.token(exp=None),
        "without a beginning": broker.token(iat=None),
        "without a subject": broker.token(sub=None),
        "of another issuer": broker.token(iss="https://elsewhere"),
        "for another audience": broker.token(aud="other"),
        "no token": "x",
    }


def test_login_is_refused_when_a_token_is_not_to_be_believed(sasl_broker: SaslBroker) -> None:
    for name, token in _bad_tokens(sasl_broker).items():
        with BlockingConnection(*sasl_broker.sasl_address) as connection:
            handshake(connection, "OAUTHBEARER")
            response = authenticate(connection, bearer(token))
            assert (response.error_code, response.auth_bytes) == (0, b'{"status":"invalid_token"}'), name
            response = authenticate(connection, b"\x01")
            assert response.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED, name
            assert_closed(connection)


@pytest.mark.parametrize("claims", [{"scope": None}, {"scope": ["read", "write"]}, {"aud": ["other", AUDIENCE]}])
def test_client_is_served_when_its_token_has_no_scope_or_several(
    sasl_broker: SaslBroker, connection: BlockingConnection, claims: dict[str, Any]
) -> None:
    handshake(connection, "OAUTHBEARER")
    assert authenticate(connection, bearer(sasl_broker.token(**claims))).error_code == 0
    assert_serves(connection)


def test_secrets_are_not_logged_when_logins_are_refused(sasl_broker: SaslBroker) -> None:
    """CVE-2026-33558."""
    for mechanism, token in (("PLAIN", b"\0alice\0wr0ng"), ("OAUTHBEARER", bearer(sasl_broker.token(aud="other")))):
        with BlockingConnection(*sasl_broker.sasl_address) as connection:
            handshake(connection, mechanism)
            if not authenticate(connection, token).error_code:
                assert authenticate(connection, b"\x01").error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
            assert_closed(connection)
    eventually(lambda: "login refused" in sasl_broker.log_path.read_text(), "a line about a refused login")
    text = sasl_broker.log_path.read_text()
    for secret in (PASSWORD, "eyJ", "wr0ng"):
        assert secret not in text


@pytest.fixture(scope="module")
def short_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SaslBroker]:
    """Logins last 1.5 s."""
    with run_sasl_broker(tmp_path_factory.mktemp("short"), {"connections.max.reauth.ms": "1500"}) as running:
        running.add_user("bob", "b")
        yield running


def test_connection_ends_when_the_login_has_expired(short_broker: SaslBroker) -> None:
    """CVE-2023-31007."""
    with BlockingConnection(*short_broker.sasl_address) as connection:
        handshake(connection)
        assert authenticate(connection, PLAIN_TOKEN).session_lifetime_ms == 1500
        assert_serves(connection)
        eventually(lambda: is_cut_off(connection), "the end of the connection")


def test_client_goes_on_when_it_logs_in_again_after_its_login_has_expired(short_broker: SaslBroker) -> None:
    with BlockingConnection(*short_broker.sasl_address) as connection:
        handshake(connection)
        authenticate(connection, PLAIN_TOKEN)
        with BlockingConnection(*short_broker.sasl_address) as later:
            handshake(later)
            authenticate(later, PLAIN_TOKEN)
            eventually(lambda: is_cut_off(later), "the end of a login that is newer")
        assert handshake(connection).error_code == 0
        assert authenticate(connection, PLAIN_TOKEN).session_lifetime_ms == 1500


@pytest.mark.parametrize(
    ("mechanism", "token"),
    [("PLAIN", b"\0broker\0b"), ("OAUTHBEARER", b""), ("PLAIN", b"\0alice\0wr0ng")],
    ids=["another user", "another mechanism", "a wrong password"],
)
def test_connection_ends_when_the_second_login_is_not_as_the_first(
    short_broker: SaslBroker, mechanism: str, token: bytes
) -> None:
    with BlockingConnection(*short_broker.sasl_address) as connection:
        handshake(connection)
        authenticate(connection, PLAIN_TOKEN)
        assert handshake(connection, mechanism).error_code == 0
        response = authenticate(connection, token or bearer(short_broker.token()))
        assert response.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
        assert "re-authentication" in response.error_message
        assert_closed(connection)


def test_broker_goes_on_when_logins_are_mutated(sasl_broker: SaslBroker, tmp_path: Path) -> None:
    """A share of the fuzzing before the login through real sockets; see proof.logins."""
    counts = send_bent(sasl_broker.bootstrap_servers, logins(Issuer(tmp_path)), 150, seed=2026)
    assert counts["frames"] == 150
    assert counts["answered"] > 30
    with BlockingConnection(*sasl_broker.sasl_address) as connection:
        handshake(connection)
        assert authenticate(connection, PLAIN_TOKEN).error_code == 0
        assert_serves(connection)
    assert "Traceback" not in sasl_broker.log_path.read_text()
