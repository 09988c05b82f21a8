"""Who may ask over HTTP: passwords, tokens, certificates, and what strangers are told."""

from __future__ import annotations

import asyncio
import base64
import json
import ssl
import warnings
from pathlib import Path

import pytest

from penstock.http.authentication import (
    AnyOf,
    BasicAuthenticator,
    BearerAuthenticator,
    CertificateAuthenticator,
    Credentials,
    Passwords,
    Tokens,
    parse_pairs,
)
from penstock.http.limits import HttpLimits
from penstock.http.server import HttpSecurity
from penstock.security.audit.events import AuditEvent, AuditKind
from penstock.security.tls.der import read_certificate
from penstock.security.tls.distinguished_names import format_name
from tests.unit.http.talking import Answer, Listening, client_context, make_papers, server_context, with_listener
from tests.waiting import until

LOGINS = AnyOf(
    (
        BasicAuthenticator(Passwords({"alice": "wonder:land", "bob": "builder"}).check),
        BearerAuthenticator(Tokens({"scraper": "t0ken"}).check),
    )
)
GUARDED = HttpSecurity(authenticator=LOGINS)
QUICK = HttpLimits(refusal_delay_s=0)


def basic(text: str) -> str:
    return f"authorization: Basic {base64.b64encode(text.encode()).decode()}"


class Notes:
    kinds = frozenset(AuditKind)

    def __init__(self, *, refuses: bool = False) -> None:
        self.refuses = refuses
        self.events: list[AuditEvent] = []

    def record(self, event: AuditEvent) -> None:
        self.events.append(event)


def ask(*headers: str, path: str = "/", notes: Notes | None = None) -> Answer:
    return with_listener(lambda listening: listening.get(path, *headers), QUICK, GUARDED, notes or Notes())


@pytest.mark.parametrize(
    ("header", "principal"),
    [
        (basic("alice:wonder:land"), "User:alice"),
        (basic("bob:builder"), "User:bob"),
        ("authorization: Bearer t0ken", "User:scraper"),
        ("authorization: bearer   t0ken", "User:scraper"),
    ],
)
def test_client_is_served_under_its_name_when_it_knows_the_secret(header: str, principal: str) -> None:
    answer = ask(header)
    assert (answer.status, json.loads(answer.body)["principal"]) == (200, principal)


STRANGERS: tuple[tuple[str, ...], ...] = (
    (),
    (basic("alice:wrong"),),
    (basic("alice:"),),
    (basic("mallory:builder"),),
    (basic(":"),),
    (basic("alice"),),
    ("authorization: Basic !!!",),
    ("authorization: Basic",),
    ("authorization: Bearer",),
    ("authorization: Bearer wrong",),
    ("authorization: Bearer builder",),
    ("authorization: Digest x",),
    ("authorization: ",),
    (basic("alice:wonder:land"), "authorization: Bearer t0ken"),
    ("authorization: Bearer " + "x" * 10_000,),
    ("x-forwarded-user: alice",),
    ("proxy-authorization: Bearer t0ken",),
)


def test_stranger_gets_401_on_every_page_when_credentials_are_missing_or_wrong() -> None:
    async def use(listening: Listening) -> None:
        for headers in STRANGERS:
            for path in ("/", "/hello/x", "/nothing", "//", "/health//", "/health/x", "/./health", "/HEALTH"):
                answer = await listening.get(path, *headers)
                assert answer.status == 401, (path, headers)
                assert 'www-authenticate: basic realm="penstock"' in answer.headers
                assert 'www-authenticate: bearer realm="penstock"' in answer.headers

    with_listener(use, QUICK, GUARDED)


def test_stranger_is_served_when_a_page_is_public() -> None:
    assert json.loads(ask(path="/health").body)["principal"] is None
    assert json.loads(ask(basic("bob:builder"), path="/health").body)["principal"] == "User:bob"
    assert json.loads(ask(basic("bob:wrong"), path="/health").body)["principal"] is None


def test_nobody_is_let_in_when_the_check_itself_fails() -> None:
    async def broken(_name: str, _password: str) -> str | None:
        raise OSError("the directory is away")

    security = HttpSecurity(authenticator=BasicAuthenticator(broken))
    answer = with_listener(lambda listening: listening.get("/", basic("alice:x")), QUICK, security)
    assert answer.status == 401


def test_logins_are_told_of_without_their_secrets_when_there_is_a_trail() -> None:
    notes = Notes()
    ask(basic("alice:wonder:land"), notes=notes)
    ask(basic("alice:guess"), notes=notes)
    ask(notes=notes)
    assert [(each.kind, each.is_allowed, each.principal, each.operation, each.rule) for each in notes.events] == [
        (AuditKind.LOGIN, True, "User:alice", "basic", ""),
        (AuditKind.LOGIN, False, "", "basic", ""),
        (AuditKind.LOGIN, False, "", "", "no credentials"),
    ]
    assert {each.address for each in notes.events} == {"127.0.0.1"}
    assert [each.details for each in notes.events] == [{}, {"claimed": "alice"}, {}]
    assert "wonder" not in repr(notes.events)
    assert "guess" not in repr(notes.events)


def test_nothing_is_served_but_public_pages_when_the_trail_is_full() -> None:
    notes = Notes(refuses=True)
    assert ask(basic("bob:builder"), notes=notes).status == 503
    assert ask(path="/health", notes=notes).status == 200


def test_secrets_are_not_in_the_words_of_an_error_when_a_setting_is_wrong() -> None:
    with pytest.raises(ValueError, match="NAME:SECRET") as error:
        parse_pairs("hunter2")
    assert "hunter2" not in str(error.value)
    assert parse_pairs(" a:b , c:d:e,") == {"a": "b", "c": "d:e"}


def test_credentials_are_none_when_there_are_two() -> None:
    assert Credentials.of(["Basic a", "Basic b"], None).authorization is None


# ------------------------------------------------------------------------------------------------- TLS


def test_pages_are_encrypted_when_the_listener_has_a_certificate(tmp_path: Path) -> None:
    papers = make_papers(tmp_path, "server")
    context = server_context(papers)

    async def use(listening: Listening) -> None:
        assert (await listening.get("/", tls=client_context(papers))).status == 200
        with pytest.raises(ssl.SSLCertVerificationError):
            await listening.get("/", tls=ssl.create_default_context())
        plain = await listening.send(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n")
        assert plain.status == 0  # nothing of what came before a handshake is served
        old = client_context(papers)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            old.minimum_version = old.maximum_version = ssl.TLSVersion.TLSv1_1
        with pytest.raises((ssl.SSLError, ConnectionError)):
            await listening.get("/", tls=old)
        assert (await listening.get("/", tls=client_context(papers))).status == 200
        assert listening.metrics.refused["handshake"] >= 2

    with_listener(use, security=HttpSecurity(tls=lambda: context))


def test_certificate_is_the_login_when_the_listener_asks_for_one(tmp_path: Path) -> None:
    server, client, stranger = (make_papers(tmp_path, name) for name in ("server", "scraper", "stranger"))
    context = server_context(server, client)
    security = HttpSecurity(
        lambda: context, CertificateAuthenticator(lambda der: format_name(read_certificate(der).subject))
    )

    async def use(listening: Listening) -> None:
        answer = await listening.get("/", tls=client_context(server, client))
        assert json.loads(answer.body)["principal"] == "CN=scraper"
        for wrong in (client_context(server), client_context(server, stranger)):
            try:
                assert (await listening.get("/", tls=wrong)).status == 0
            except (ssl.SSLError, ConnectionError):
                continue

    with_listener(use, QUICK, security)


def test_handshakes_are_bounded_in_number_and_time_before_anything_is_read(tmp_path: Path) -> None:
    papers = make_papers(tmp_path, "server")
    context = server_context(papers)
    limits = HttpLimits(max_connections=4, handshake_s=0.5)

    async def use(listening: Listening) -> None:
        silent = [await listening.connect() for _ in range(4)]
        with pytest.raises((ssl.SSLError, ConnectionError, OSError)):
            await listening.get("/", tls=client_context(papers))
        for reader, writer in silent:
            assert await asyncio.wait_for(reader.read(), 10) == b""
            writer.close()
        assert (await listening.get("/", tls=client_context(papers))).status == 200
        assert listening.metrics.refused["handshake"] == 4

    with_listener(use, limits, HttpSecurity(tls=lambda: context))


def test_stop_ends_soon_when_a_handshake_hangs(tmp_path: Path) -> None:
    papers = make_papers(tmp_path, "server")
    context = server_context(papers)

    async def use(listening: Listening) -> None:
        _, writer = await listening.connect()
        await until(lambda: listening.metrics.connections)
        await asyncio.wait_for(listening.server.stop(), 5)
        writer.close()

    with_listener(use, security=HttpSecurity(tls=lambda: context))
