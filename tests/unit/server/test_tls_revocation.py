"""What becomes of open connections when a certificate is revoked, and what the audit trail is told of handshakes."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections import Counter
from pathlib import Path

import pytest

from penstock.broker.auditing.trail import AuditTrail
from penstock.core.config.broker_config import BrokerConfig
from penstock.core.metrics.counters import AuditMetrics
from penstock.security.audit.events import AuditEvent, AuditKind
from penstock.security.certificates.directory import CertificateDirectory
from penstock.security.tls.contexts import ServerTls, load_server
from penstock.security.tls.der import DerError
from penstock.security.tls.revocation import read_revoked
from penstock.security.tls.settings import TlsSettings
from tests.certificates import broker_settings, new_directory
from tests.unit.server.tls_harness import Port, TlsClient, context_of, frame, in_loop

NAMES = ("alice", "bob")


class Trail:
    kinds = frozenset({AuditKind.LOGIN})

    def __init__(self, *, refuses: bool = False) -> None:
        self.refuses = refuses
        self.events: list[AuditEvent] = []

    def record(self, event: AuditEvent) -> None:
        self.events.append(event)

    def told(self) -> list[tuple[bool, str, str, str]]:
        return [(event.is_allowed, event.principal, event.address, event.rule) for event in self.events]


@pytest.fixture
def directory(tmp_path: Path) -> CertificateDirectory:
    return new_directory(tmp_path / "certificates", alice=None, bob=None)


def tls_with_list(directory: CertificateDirectory) -> ServerTls:
    settings = broker_settings(directory, client_auth="required")
    return load_server(TlsSettings.of_properties({**settings, "penstock.ssl.crl.location": str(directory.revocations)}))


async def connected(port: Port, directory: CertificateDirectory, name: str | None) -> TlsClient:
    client = TlsClient(port.accept(), context_of(directory, name))
    with contextlib.suppress(ssl.SSLError):
        await client.shake_hands()
    return client


@in_loop
async def test_open_connections_end_when_their_certificate_is_revoked(directory: CertificateDirectory) -> None:
    port, trail = Port(directory, client_auth="required"), Trail()
    port.listener.auditor = trail
    alice, bob, again = [await connected(port, directory, name) for name in ("alice", "bob", "alice")]
    port.listener.serve(tls_with_list(directory))
    assert port.metrics.revoked == 0
    directory.revoke("alice")
    port.listener.serve(tls_with_list(directory))
    assert [client.transport.was_aborted() for client in (alice, again, bob)] == [True, True, False]
    assert port.metrics.revoked == 2
    refused = (False, "User:CN=alice", "10.0.0.1", "the client's certificate was revoked")
    assert trail.told()[-2:] == [refused, refused]
    await bob.send(frame(b"still here"))
    assert bytes(bob.received) == frame(b"still here")
    for client in (alice, bob, again):
        client.transport.lose()
    port.listener.serve(tls_with_list(directory))
    assert port.metrics.revoked == 2, "nothing is kept of connections that are gone"


@in_loop
async def test_client_is_refused_when_its_certificate_is_revoked_during_its_handshake(
    directory: CertificateDirectory,
) -> None:
    port = Port(directory, client_auth="required")
    client = TlsClient(port.accept(), context_of(directory, "alice"))
    with contextlib.suppress(ssl.SSLWantReadError):
        client.tls.do_handshake()
    await client.exchange()  # the broker has begun, with the certificates that it had
    directory.revoke("alice")
    port.listener.serve(tls_with_list(directory))
    await client.shake_hands()
    assert client.transport.is_closing()
    assert port.metrics.handshake_failures == {"certificate": 1}
    assert not port.requests


@in_loop
async def test_reason_is_told_when_a_certificate_is_refused(
    directory: CertificateDirectory, caplog: pytest.LogCaptureFixture
) -> None:
    port, trail = Port(directory, client_auth="required"), Trail()
    port.listener.auditor = trail
    directory.revoke("alice")
    port.listener.serve(tls_with_list(directory))
    await connected(port, directory, "alice")
    assert trail.told() == [(False, "", "10.0.0.1", "no TLS handshake: certificate: certificate revoked")]
    assert [record.__dict__["reason"] for record in caplog.records] == ["certificate revoked"]


@in_loop
async def test_others_have_their_turn_when_many_connections_are_looked_at(directory: CertificateDirectory) -> None:
    port = Port(directory, client_auth="required")
    clients = [await connected(port, directory, NAMES[number % 2]) for number in range(120)]
    directory.revoke("alice")
    port.listener.serve(tls_with_list(directory))
    assert port.metrics.revoked == 50
    await asyncio.sleep(0)
    assert port.metrics.revoked == 60
    for client in clients:
        client.transport.lose()


def test_what_is_no_revocation_list_is_refused_when_read(directory: CertificateDirectory) -> None:
    directory.revoke("alice")
    pem = directory.revocations.read_bytes()
    assert len(read_revoked(pem)) == 1
    assert read_revoked(b"") == frozenset()
    with pytest.raises(DerError):
        read_revoked(b"-----BEGIN X509 CRL-----\nMAA=\n-----END X509 CRL-----\n")


# ---------------------------------------------------------------------------------- the audit trail


@in_loop
async def test_handshakes_are_told_of_when_they_fail_and_when_a_certificate_names_the_client(
    directory: CertificateDirectory,
) -> None:
    port, trail = Port(directory, client_auth="required"), Trail()
    port.listener.auditor = trail
    clients = [await connected(port, directory, name) for name in ("alice", None)]
    plain = port.accept()
    plain.receive(b"GET / HTTP/1.1\r\n\r\n")
    gone = port.accept()
    gone.receive(b"\x16")
    gone.lose()  # as a health check does
    assert trail.told() == [
        (True, "User:CN=alice", "10.0.0.1", ""),
        (False, "", "10.0.0.1", "no TLS handshake: certificate: peer did not return a certificate"),
        (False, "", "10.0.0.1", "no TLS handshake: plain text"),
    ]
    assert {(event.kind, event.what) for event in trail.events} == {(AuditKind.LOGIN, "TlsHandshake")}
    for transport in (plain, *(client.transport for client in clients)):
        transport.lose()


@in_loop
async def test_client_with_a_certificate_is_refused_when_its_login_cannot_be_written_down(
    directory: CertificateDirectory,
) -> None:
    port = Port(directory, client_auth="required")
    port.listener.auditor = Trail(refuses=True)
    client = await connected(port, directory, "alice")
    assert client.transport.is_closing()
    assert port.metrics.handshake_failures == {"audit": 1}


@in_loop
async def test_flood_of_failed_handshakes_is_a_few_events_when_it_comes_from_one_address(
    directory: CertificateDirectory,
) -> None:
    port = Port(directory)
    metrics = AuditMetrics()
    trail = AuditTrail(BrokerConfig.parse({"penstock.audit.file": "audit"}).audit, port.clock, metrics)
    port.listener.auditor = trail
    for number in range(1_000):
        transport = port.accept()
        transport.receive((b"GET / HTTP/1.1", b"\x16\x03\x01\x00\x05hello")[number % 2])
        for _ in range(5):  # turns of the loop, until the step is made
            await asyncio.sleep(0)
        transport.lose()
    assert metrics.events == Counter({AuditKind.LOGIN: 1_000})
    assert len(trail._early) == 2, "the first of each kind; the others are counted, and told when the minute is over"
    assert len(trail._merging) == 2
