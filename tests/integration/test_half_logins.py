"""Clients that begin to log in and never end it: memory stays bounded, and others are served."""

from __future__ import annotations

import contextlib
import socket
import ssl
import struct
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from penstock.client.connection import BlockingConnection
from penstock.protocol.codec import encode
from penstock.protocol.framing import encode_request_header
from penstock.protocol.message import Message
from penstock.protocol.messages.api_versions import ApiVersionsRequest
from penstock.protocol.messages.metadata import MetadataRequest
from penstock.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from penstock.protocol.messages.sasl_handshake import SaslHandshakeRequest
from penstock.testing.processes import BrokerProcess, find_free_port
from proof.logins.broker import PASSWORD, USER, Issuer, login_settings
from tests.certificates import broker_settings, new_directory
from tests.clients.support import PATIENCE_S, eventually
from tests.unit.server.tls_harness import context_of

MB = 1000 * 1000


def request(message: Message, version: int) -> bytes:
    header = encode_request_header(type(message).API_KEY, version, 1, "half", version >= type(message).FLEXIBLE_FROM)
    payload = header + encode(message, version)
    return struct.pack(">i", len(payload)) + payload


VERSIONS = request(ApiVersionsRequest(), 0)
HANDSHAKE = request(SaslHandshakeRequest(mechanism="SCRAM-SHA-512"), 1)
FIRST = request(SaslAuthenticateRequest(auth_bytes=b"n,,n=alice,r=abcdefghijklmnopqrstuvwx"), 1)
BARE = request(SaslHandshakeRequest(mechanism="OAUTHBEARER"), 0)
REFUSED_TOKEN = b"n,,\x01auth=Bearer " + b"x" * 20_000 + b"\x01\x01"
# How far clients come: nothing said, half a frame, one step more each, and a token that was refused half.
STAGES = (
    b"",
    VERSIONS[:9],
    VERSIONS,
    VERSIONS + HANDSHAKE,
    HANDSHAKE + FIRST,
    HANDSHAKE + FIRST + FIRST[:50],
    BARE + struct.pack(">i", len(REFUSED_TOKEN)) + REFUSED_TOKEN,
)


@contextlib.contextmanager
def half_finished(port: int, count: int) -> Iterator[None]:
    """Clients from fifty addresses that never go on."""
    with contextlib.ExitStack() as stack:
        for number in range(count):
            client = stack.enter_context(socket.socket())
            client.bind((f"127.0.{number % 50}.7", 0))
            client.connect(("127.0.0.1", port))
            client.sendall(STAGES[number % len(STAGES)])
        yield


def log_in(port: int) -> None:
    with BlockingConnection("127.0.0.1", port, timeout_s=PATIENCE_S) as connection:
        connection.request(SaslHandshakeRequest(mechanism="PLAIN"), 1, timeout_s=PATIENCE_S)
        token = f"\0{USER}\0{PASSWORD}".encode()
        answer = connection.request(SaslAuthenticateRequest(auth_bytes=token), 2, timeout_s=PATIENCE_S)
        assert answer.error_code == 0
        assert connection.request(MetadataRequest(topics=[]), 12, timeout_s=PATIENCE_S).brokers


def attack(path: Path, count: int) -> int:
    """How many bytes the broker grew by while `count` clients held it up and another one was served all the same."""
    plain, sasl = find_free_port(), find_free_port()
    settings = {
        "listeners": f"PLAINTEXT://127.0.0.1:{plain},SASL_PLAINTEXT://127.0.0.1:{sasl}",
        "penstock.sasl.login.timeout.ms": "120000",  # all of them at once
        **login_settings(path, Issuer(path)),
    }
    with BrokerProcess(path / "data", port=plain, config=settings) as broker:
        process = psutil.Process(broker.pid)
        with half_finished(sasl, 200):  # so that nothing is loaded or grown for the first time below
            log_in(sasl)
        before, files = process.memory_info().rss, process.num_fds()
        with half_finished(sasl, count):
            log_in(sasl)
            eventually(lambda: process.num_fds() - files >= count * 3 // 4, "the broker has accepted them")
            return process.memory_info().rss - before


def test_memory_stays_bounded_and_others_are_served_when_a_thousand_logins_are_half_finished(tmp_path: Path) -> None:
    added = attack(tmp_path, 1_000)
    print(f"1,000 half-finished logins: {added / MB:.1f} MB")
    assert added < 5 * MB


@pytest.mark.soak
def test_memory_stays_bounded_and_others_are_served_when_ten_thousand_logins_are_half_finished(tmp_path: Path) -> None:
    added = attack(tmp_path, 10_000)
    print(f"10,000 half-finished logins: {added / MB:.1f} MB")
    assert added < 50 * MB


@pytest.mark.soak
def test_memory_stays_bounded_and_others_are_served_when_ten_thousand_encrypted_logins_are_half_finished(
    tmp_path: Path,
) -> None:
    """The handshake is over, and nothing follows. Each connection with TLS holds 21 KB: all would hold 210 MB."""
    directory = new_directory(tmp_path / "certificates")
    plain, sasl = find_free_port(), find_free_port()
    jaas = "listener.name.sasl_{}.plain.sasl.jaas.config"
    logins = login_settings(tmp_path, Issuer(tmp_path))
    settings = {
        "listeners": f"PLAINTEXT://127.0.0.1:{plain},SASL_SSL://localhost:{sasl}",
        **logins,
        jaas.format("ssl"): logins[jaas.format("plaintext")],
        **broker_settings(directory),
    }
    context = context_of(directory)
    with BrokerProcess(tmp_path / "data", port=plain, config=settings) as broker, contextlib.ExitStack() as stack:
        process = psutil.Process(broker.pid)

        def connect(number: int) -> ssl.SSLSocket:
            client = socket.socket()
            client.bind((f"127.0.{number % 50}.7", 0))
            client.settimeout(PATIENCE_S)
            client.connect(("127.0.0.1", sasl))
            return stack.enter_context(context.wrap_socket(client, server_hostname="localhost"))

        for number in range(200):
            connect(number)
        before = process.memory_info().rss
        for number in range(10_000):
            connect(number)
        added = process.memory_info().rss - before
        print(f"10,000 half-finished logins with TLS: {added / MB:.1f} MB")
        assert added < 50 * MB
        client = connect(0)
        client.sendall(HANDSHAKE)
        assert client.recv(100)
