from __future__ import annotations

import pytest

from penstock.security.sasl.exchange import LoginError
from penstock.security.sasl.plain import PlainCredentials, PlainServer

SERVER = PlainServer({"alice": "secret", "": "nobody", "bob": ""})


@pytest.mark.parametrize("token", [b"\0alice\0secret", b"alice\0alice\0secret"])
def test_user_logs_in_when_the_password_is_right(token: bytes) -> None:
    exchange = SERVER.begin(0)
    assert exchange.respond(token) == b""
    assert exchange.login is not None
    assert exchange.login.name == "alice"


@pytest.mark.parametrize(
    "token",
    [
        b"\0alice\0wrong",
        b"\0carol\0secret",
        b"bob\0alice\0secret",  # CVE-2017-12610
        b"\0alice\0secret\0",
        b"alice\0secret",
        b"\0\0nobody",
        b"\0bob\0",
        b"\0alice\0\xff",
        b"",
    ],
)
def test_user_is_refused_when_anything_is_wrong(token: bytes) -> None:
    exchange = SERVER.begin(0)
    with pytest.raises(LoginError):
        exchange.respond(token)
    assert exchange.login is None


def test_client_is_done_when_the_broker_answers_nothing() -> None:
    client = PlainCredentials("alice", "secret").begin("host")
    assert client.begin() == b"\0alice\0secret"
    assert client.respond(b"") is None
    assert client.is_complete


def test_client_refuses_when_a_name_would_be_taken_apart() -> None:
    with pytest.raises(LoginError):
        PlainCredentials("alice\0root", "secret")
