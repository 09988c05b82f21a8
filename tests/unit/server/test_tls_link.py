"""A connection with TLS, byte by byte: handshake, requests, replies, pauses, ends, and clients that misbehave."""

from __future__ import annotations

import asyncio
import contextlib
import ssl

import pytest

from penstock.broker.session import ANONYMOUS
from penstock.security.certificates.directory import CertificateDirectory
from penstock.server.net import limits
from penstock.server.net.tls_link import TlsLink
from tests.certificates import new_directory
from tests.unit.broker.auditing.test_auditing import Notes
from tests.unit.server.tls_harness import HeldSteps, Port, TlsClient, context_of, frame, in_loop


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> CertificateDirectory:
    return new_directory(tmp_path_factory.mktemp("certificates"), alice="Acme, Inc")


@in_loop
async def test_request_is_answered_when_the_handshake_is_over(directory: CertificateDirectory) -> None:
    port = Port(directory)
    client = TlsClient(port.accept(), context_of(directory))
    await client.shake_hands()
    await client.send(frame(b"hello"))
    assert bytes(client.received) == frame(b"hello")
    assert port.principals == [str(ANONYMOUS)]
    assert (port.metrics.handshakes, port.listener.handshakes.under_way) == (1, 0)
    assert b"hello" not in client.transport.sent


@in_loop
async def test_principal_is_that_of_the_certificate_when_the_client_shows_one(directory: CertificateDirectory) -> None:
    port = Port(directory, client_auth="required")
    client = TlsClient(port.accept(), context_of(directory, "alice"))
    await client.shake_hands()
    await client.send(frame(b"x"))
    assert port.principals == ["User:CN=alice,O=Acme\\, Inc"]


@in_loop
async def test_handshakes_that_are_logins_are_told_of_when_there_is_a_trail(directory: CertificateDirectory) -> None:
    port = Port(directory, client_auth="required")
    notes = port.listener.auditor = Notes()
    await TlsClient(port.accept(), context_of(directory, "alice")).shake_hands()
    stranger = TlsClient(port.accept(), context_of(directory))
    await stranger.shake_hands()
    port.accept().receive(b"GET / HTTP/1.1")
    gone = port.accept()
    gone.receive(bytes((0x16,)))
    gone.lose()
    assert [(each.what, each.is_allowed, each.principal, each.operation) for each in notes.events] == [
        ("TlsHandshake", True, "User:CN=alice,O=Acme\\, Inc", "SSL"),
        ("TlsHandshake", False, "", "SSL"),
        ("TlsHandshake", False, "", "SSL"),
    ]
    rules = ["", "no TLS handshake: certificate: peer did not return a certificate", "no TLS handshake: plain text"]
    assert [each.rule for each in notes.events] == rules
    assert all(each.address for each in notes.events)


@in_loop
async def test_nobody_logs_in_by_a_certificate_when_the_trail_is_full(directory: CertificateDirectory) -> None:
    port = Port(directory, client_auth="required")
    port.listener.auditor = Notes(refuses=True)
    client = TlsClient(port.accept(), context_of(directory, "alice"))
    await client.shake_hands()
    await client.send(frame(b"x"))
    assert client.transport.is_closing()
    assert port.requests == []


@in_loop
async def test_client_is_refused_when_no_rule_matches_its_name(directory: CertificateDirectory) -> None:
    port = Port(directory, client_auth="required", principal_mapping_rules="RULE:CN=bob/bob/")
    client = TlsClient(port.accept(), context_of(directory, "alice"))
    await client.shake_hands()
    assert client.transport.is_closing()
    assert port.metrics.handshake_failures == {"principal": 1}


@in_loop
async def test_client_is_refused_when_it_shows_no_certificate(directory: CertificateDirectory) -> None:
    port = Port(directory, client_auth="required")
    client = TlsClient(port.accept(), context_of(directory))
    await client.shake_hands()
    with pytest.raises(ssl.SSLError):
        client.tls.read(10)
    assert client.transport.is_closing()
    assert port.metrics.handshake_failures == {"certificate": 1}


@in_loop
async def test_version_below_tls_1_2_is_refused_when_a_client_asks_for_it(directory: CertificateDirectory) -> None:
    port = Port(directory)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.set_ciphers("ALL:@SECLEVEL=0")
    with pytest.warns(DeprecationWarning, match="TLSv1"):
        context.minimum_version, context.maximum_version = ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1
    client = TlsClient(port.accept(), context)
    with contextlib.suppress(ssl.SSLError):
        await client.shake_hands()
    assert client.transport.is_closing()
    assert port.metrics.handshake_failures == {"version": 1}


@in_loop
async def test_large_frames_pass_when_they_are_many_records(directory: CertificateDirectory) -> None:
    port = Port(directory)
    client = TlsClient(port.accept(), context_of(directory))
    await client.shake_hands()
    payload = bytes(range(256)) * 8_000
    for start in range(0, len(data := frame(payload)), 300_000):
        await client.send(data[start : start + 300_000])
    assert bytes(client.received) == frame(payload)


@in_loop
async def test_requests_are_served_in_order_when_many_come_in_one_read(directory: CertificateDirectory) -> None:
    port = Port(directory)
    client = TlsClient(port.accept(), context_of(directory))
    await client.shake_hands()
    wanted = [str(number).encode() for number in range(500)]
    client.tls.write(b"".join(map(frame, wanted)))
    for _ in range(40):
        await client.exchange()
    assert port.requests == wanted


@in_loop
async def test_nothing_is_lost_when_the_client_ends_right_after_its_requests(directory: CertificateDirectory) -> None:
    port = Port(directory)
    client = TlsClient(port.accept(), context_of(directory))
    await client.shake_hands()
    wanted = [str(number).encode() for number in range(200)]
    client.tls.write(b"".join(map(frame, wanted)))
    with contextlib.suppress(ssl.SSLWantReadError):
        client.tls.unwrap()
    for _ in range(40):
        await client.exchange()
    assert port.requests == wanted
    assert client.transport.is_closing()


@in_loop
async def test_reading_stops_when_the_client_does_not_take_its_replies(directory: CertificateDirectory) -> None:
    port = Port(directory)
    transport = port.accept()
    client = TlsClient(transport, context_of(directory))
    await client.shake_hands()
    transport.takes_everything = False
    wanted = [bytes([number]) * 60_000 for number in range(64)]
    for payload in wanted:
        client.tls.write(frame(payload))
    data = client.outgoing.read()
    position = 0
    for _ in range(2000):
        position += transport.receive(data[position:])
        await asyncio.sleep(0)
        if transport.is_reading_paused():
            break
    assert transport.is_reading_paused()
    assert len(port.requests) < len(wanted)
    assert transport.most_buffered < 2 << 20
    for _ in range(2000):
        transport.take()
        position += transport.receive(data[position:])
        await asyncio.sleep(0)
    assert port.requests == wanted


@in_loop
async def test_connection_ends_when_plain_bytes_come(
    directory: CertificateDirectory, caplog: pytest.LogCaptureFixture
) -> None:
    """A plain Kafka client, or a browser. Nothing is kept for it, and the log says so once."""
    port = Port(directory)
    for start in (b"\0\0\0\x14\0\x12", b"GET / HTTP/1.1\r\n"):
        for _ in range(20):
            transport = port.accept()
            transport.receive(start)
            assert transport.is_closing()
            assert not transport.sent
            transport.lose()
    assert port.metrics.handshake_failures == {"plain text": 40}
    assert not port.requests
    assert port.listener.connection_count == 0
    assert len([each for each in caplog.records if "TLS handshake" in each.message]) <= 20


@in_loop
async def test_bytes_before_the_handshake_are_no_request_when_they_follow_the_hello(
    directory: CertificateDirectory,
) -> None:
    """CVE-2023-40217: a request in plain text behind the client's first message must not be served."""
    port = Port(directory)
    client = TlsClient(port.accept(), context_of(directory))
    with contextlib.suppress(ssl.SSLWantReadError):
        client.tls.do_handshake()
    client.transport.receive(client.outgoing.read() + frame(b"smuggled"))
    for _ in range(10):
        await asyncio.sleep(0)
    assert client.transport.is_closing()
    assert not port.requests
    assert port.metrics.handshakes == 0


@in_loop
async def test_connection_ends_when_a_record_is_damaged(directory: CertificateDirectory) -> None:
    port = Port(directory)
    client = TlsClient(port.accept(), context_of(directory))
    await client.shake_hands()
    client.tls.write(frame(b"hello"))
    damaged = bytearray(client.outgoing.read())
    damaged[-1] ^= 1
    client.transport.receive(bytes(damaged))
    assert client.transport.was_aborted()
    assert not port.requests
    assert port.metrics.malformed == {"tls": 1}


@in_loop
async def test_connection_ends_when_a_handshake_never_ends(directory: CertificateDirectory) -> None:
    port = Port(directory)
    transport = port.accept()
    transport.receive(b"\x16\x03\x01\x40\x00" + bytes(16_384))
    for _ in range(10):
        await asyncio.sleep(0)
        if not transport.is_closing():
            transport.receive(b"\x16\x03\x01\x40\x00" + bytes(30_000))
    assert transport.is_closing()
    assert not port.metrics.handshakes


@in_loop
async def test_silent_clients_hold_no_place_when_they_connect(directory: CertificateDirectory) -> None:
    port = Port(directory)
    silent = [port.accept() for _ in range(500)]
    assert port.listener.handshakes.under_way == 0
    client = TlsClient(port.accept(), context_of(directory))
    await client.shake_hands()
    assert port.metrics.handshakes == 1
    for transport in silent:
        transport.lose()
    assert port.listener.connection_count == 1


@in_loop
async def test_clients_wait_unread_when_all_places_are_taken(directory: CertificateDirectory) -> None:
    port = Port(directory)
    half = [port.accept() for _ in range(limits.HANDSHAKES_PER_ADDRESS + 3)]
    for transport in half:
        transport.receive(b"\x16\x03\x01\x02\x00\x01")
    assert [transport.is_reading_paused() for transport in half[-4:]] == [False, True, True, True]
    assert port.listener.handshakes.waiting == 3
    half[0].lose()
    assert not half[-3].is_reading_paused()
    for transport in half[1:]:
        transport.lose()
    assert (port.listener.handshakes.under_way, port.listener.handshakes.waiting) == (0, 0)
    assert port.listener.connection_count == 0


# ---------------------------------------------------------------------------------- steps in another thread


@in_loop
async def test_request_is_answered_when_it_comes_while_the_last_step_is_made(directory: CertificateDirectory) -> None:
    steps = HeldSteps()
    port = Port(directory, steps)
    client = TlsClient(port.accept(), context_of(directory))
    with contextlib.suppress(ssl.SSLWantReadError):
        client.tls.do_handshake()
    await client.exchange()
    steps.make()
    await client.exchange()
    client.tls.do_handshake()
    await client.exchange()
    wanted = [bytes([number]) * 4096 for number in range(40)]  # more than may come before the handshake is over
    client.tls.write(b"".join(map(frame, wanted)))
    data = client.outgoing.read()
    position = client.transport.receive(data)
    assert 0 < position < len(data)
    assert len(steps.waiting) == 1
    assert not port.requests
    steps.make()
    for _ in range(10):
        position += client.transport.receive(data[position:])
        await asyncio.sleep(0)
    assert port.requests == wanted
    client.transport.lose()


@in_loop
async def test_nothing_breaks_when_a_client_goes_while_its_step_is_made(directory: CertificateDirectory) -> None:
    steps = HeldSteps()
    port = Port(directory, steps)
    gone = TlsClient(port.accept(), context_of(directory))
    with contextlib.suppress(ssl.SSLWantReadError):
        gone.tls.do_handshake()
    await gone.exchange()
    gone.transport.lose()
    steps.make()
    assert port.listener.handshakes.under_way == 0
    client = TlsClient(port.accept(), context_of(directory))
    with contextlib.suppress(ssl.SSLWantReadError):
        client.tls.do_handshake()
    await client.exchange()
    assert len(steps.waiting) == 1, "the next one gets its step"
    client.transport.lose()


@in_loop
async def test_nobody_is_logged_in_when_the_connection_is_ended_while_the_last_step_is_made(
    directory: CertificateDirectory,
) -> None:
    """The step opened the connection again, and the audit trail told of a login."""
    steps = HeldSteps()
    port = Port(directory, steps, client_auth="required")
    notes = port.listener.auditor = Notes()
    client = TlsClient(port.accept(), context_of(directory, "alice"))
    with contextlib.suppress(ssl.SSLWantReadError):
        client.tls.do_handshake()
    await client.exchange()
    steps.make()
    await client.exchange()
    client.tls.do_handshake()
    await client.exchange()
    assert len(steps.waiting) == 1
    link = client.transport.protocol
    assert isinstance(link, TlsLink)
    link.abort()
    steps.make()
    assert (port.metrics.handshakes, port.listener.handshakes.under_way, notes.events) == (0, 0, [])
