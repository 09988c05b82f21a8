"""Issuers of tokens over HTTP and HTTPS that misbehave: the broker believes nobody, in bounded time and memory."""

from __future__ import annotations

import contextlib
import http.server
import json
import os
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from penstock.client.connection import BlockingConnection
from penstock.protocol.messages.metadata import MetadataRequest
from penstock.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from penstock.protocol.messages.sasl_handshake import SaslHandshakeRequest
from penstock.security.certificates.authority import Wanted
from penstock.security.certificates.directory import CertificateDirectory
from penstock.security.sasl.asking_issuers import MAX_BYTES, read_url
from penstock.security.sasl.jwks import KeyNotFoundError, KeySource
from tests.certificates import new_directory
from tests.clients.sasl_broker import PASSWORD, USER, SaslBroker, run_sasl_broker
from tests.clients.support import PATIENCE_S, eventually

KEYS = b'{"keys": []}'
TIMEOUT_S = 0.5
# A question that is not cut off takes for ever, or a minute and more.
FOR_EVER_S = 30.0

Answer = Callable[[Any], None]


@contextlib.contextmanager
def issuer(answer: Answer, context: ssl.SSLContext | None = None) -> Iterator[tuple[str, list[str]]]:
    """Its URL, and the paths that it was asked for."""
    asked: list[str] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            with contextlib.suppress(OSError):
                answer(self)

        def log_message(self, *args: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        if context is not None:
            server.socket = context.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield f"{'http' if context is None else 'https'}://127.0.0.1:{server.server_address[1]}", asked
        finally:
            server.shutdown()
            thread.join()


def say(body: bytes, status: int = 200, **headers: str) -> Answer:
    def answer(handler: Any) -> None:
        handler.send_response(status)
        for name, value in headers.items():
            handler.send_header(name, value)
        handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        handler.wfile.write(body)

    return answer


def drip(before: bytes) -> Answer:
    """A byte every now and then: no single wait takes long."""

    def answer(handler: Any) -> None:
        handler.wfile.write(before)
        end = time.monotonic() + FOR_EVER_S
        while time.monotonic() < end:
            handler.wfile.write(b"x")
            time.sleep(0.05)

    return answer


def flood(handler: Any) -> None:
    """An answer without an end."""
    handler.wfile.write(b"HTTP/1.1 200 OK\r\n\r\n")
    while True:
        handler.wfile.write(bytes(65_536))


def server_context(directory: CertificateDirectory, name: str) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(directory.file(name))
    return context


@contextlib.contextmanager
def trusting(path: Path) -> Iterator[None]:
    """As a broker that is started with this list of authorities."""
    before = os.environ.get("SSL_CERT_FILE")
    os.environ["SSL_CERT_FILE"] = str(path)
    try:
        yield
    finally:
        if before is None:
            del os.environ["SSL_CERT_FILE"]
        else:
            os.environ["SSL_CERT_FILE"] = before


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> CertificateDirectory:
    made = new_directory(tmp_path_factory.mktemp("certificates"))
    made.issue(Wanted("broker", "elsewhere", ("elsewhere.test",)))
    return made


def test_keys_are_read_when_the_issuer_answers() -> None:
    with issuer(say(KEYS)) as (url, asked):
        assert read_url(f"{url}/jwks?a=b", refuses_link_local=True) == KEYS
        assert asked == ["/jwks?a=b"]


def test_keys_are_read_when_the_certificate_of_the_issuer_is_trusted(directory: CertificateDirectory) -> None:
    with issuer(say(KEYS), server_context(directory, "broker")) as (url, _), trusting(directory.trusted):
        assert read_url(url) == KEYS


def test_nothing_is_asked_when_the_certificate_of_the_issuer_is_a_strangers(directory: CertificateDirectory) -> None:
    """CVE-2026-67404."""
    with issuer(say(KEYS), server_context(directory, "broker")) as (url, asked):
        with pytest.raises(ssl.SSLCertVerificationError):
            read_url(url)
        assert not asked


def test_nothing_is_asked_when_the_certificate_of_the_issuer_is_for_another_host(
    directory: CertificateDirectory,
) -> None:
    """CVE-2026-67404."""
    with issuer(say(KEYS), server_context(directory, "elsewhere")) as (url, asked), trusting(directory.trusted):
        with pytest.raises(ssl.SSLCertVerificationError, match="mismatch"):
            read_url(url)
        assert not asked


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_redirect_is_not_followed_when_the_issuer_sends_one(status: int) -> None:
    with issuer(say(KEYS)) as (other, asked), issuer(say(b"", status, Location=f"{other}/keys")) as (url, _):
        with pytest.raises(OSError, match=f"status {status}"):
            read_url(url)
        assert not asked


@pytest.mark.parametrize("status", [204, 401, 404, 500])
def test_answer_is_none_when_the_issuer_says_no(status: int) -> None:
    with issuer(say(b"", status)) as (url, _), pytest.raises(OSError, match=f"status {status}"):
        read_url(url)


@pytest.mark.parametrize(
    "answer",
    [
        drip(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n"),
        drip(b"HTTP/1.1 200 OK\r\nX-Header: "),
        drip(b""),
        lambda _: time.sleep(FOR_EVER_S),
    ],
    ids=["body", "headers", "first line", "silence"],
)
def test_question_ends_in_time_when_the_issuer_is_slow(answer: Answer) -> None:
    with issuer(answer) as (url, _):
        began = time.monotonic()
        with contextlib.suppress(OSError):
            assert len(read_url(url, timeout_s=TIMEOUT_S)) < 1_000  # what there was is no set of keys
        assert time.monotonic() - began < FOR_EVER_S / 2


def test_question_ends_in_time_when_the_handshake_of_the_issuer_is_slow() -> None:
    import socket

    with socket.create_server(("127.0.0.1", 0)) as listening:
        stopped = threading.Event()

        def serve() -> None:
            client, _ = listening.accept()
            with client, contextlib.suppress(OSError):
                client.sendall(b"\x16\x03\x03\x40\x00")  # a record of 16 KiB begins
                while not stopped.wait(0.05):
                    client.sendall(b"\x02")

        thread = threading.Thread(target=serve)
        thread.start()
        began = time.monotonic()
        with pytest.raises(OSError):
            read_url(f"https://127.0.0.1:{listening.getsockname()[1]}/", timeout_s=TIMEOUT_S)
        assert time.monotonic() - began < FOR_EVER_S / 2
        stopped.set()
        thread.join()


def test_answer_is_refused_when_it_is_larger_than_any_set_of_keys() -> None:
    with issuer(flood) as (url, _), pytest.raises(ValueError, match=f"more than {MAX_BYTES} bytes"):
        read_url(url)


def test_nobody_is_believed_when_the_issuer_answers_nonsense() -> None:
    for body in (b"", b"<html>", json.dumps({"keys": "none"}).encode()):
        with issuer(say(body)) as (url, _):
            source = KeySource(lambda url=url: read_url(url), 3_600_000, lambda: 0)  # type: ignore[misc]
            source.read("a", 0)
            with pytest.raises(KeyNotFoundError):
                source.find("a", 0)


# ---------------------------------------------------------------------------------- a broker with an issuer


class Published:
    """What the issuer of a broker publishes, which may be nothing for a while."""

    def __init__(self) -> None:
        self.keys: list[Any] = []
        self.may_answer = threading.Event()
        self.may_answer.set()

    def __call__(self, handler: Any) -> None:
        self.may_answer.wait(FOR_EVER_S)
        say(json.dumps({"keys": [key.as_dict(private=False) for key in self.keys]}).encode())(handler)


def log_in(broker: SaslBroker, mechanism: str, token: bytes) -> bool:
    with BlockingConnection(*broker.sasl_address, timeout_s=PATIENCE_S) as connection:
        connection.request(SaslHandshakeRequest(mechanism=mechanism), 1)
        answer = connection.request(SaslAuthenticateRequest(auth_bytes=token), 2, timeout_s=PATIENCE_S)
        if answer.error_code or answer.auth_bytes:
            return False
        return bool(connection.request(MetadataRequest(topics=[]), 12).brokers)


def bearer(broker: SaslBroker, key: Any) -> bytes:
    return f"n,,\x01auth=Bearer {broker.token(key)}\x01\x01".encode()


def test_logins_follow_the_keys_and_others_do_not_wait_when_the_issuer_is_slow(tmp_path: Path) -> None:
    from joserfc.jwk import RSAKey

    first, second, strange = (RSAKey.generate_key(2048, {"use": "sig"}, auto_kid=True) for _ in range(3))
    published = Published()
    published.keys = [first]
    plain = f"\0{USER}\0{PASSWORD}".encode()
    with issuer(published) as (address, asked):
        url = f"{address}/jwks"
        key = "sasl.oauthbearer.jwks.endpoint.url"
        settings = {key: url, f"listener.name.sasl_ssl.{key}": url, "penstock.sasl.oauthbearer.allowed.urls": url}
        with run_sasl_broker(tmp_path, settings) as broker, ThreadPoolExecutor(1) as threads:
            assert log_in(broker, "OAUTHBEARER", bearer(broker, first))
            assert not log_in(broker, "PLAIN", b"\0alice\0wrong")
            published.keys = [first, second]  # the keys are rotated
            published.may_answer.clear()
            waiting = threads.submit(log_in, broker, "OAUTHBEARER", bearer(broker, second))
            eventually(lambda: len(asked) == 2, "the unknown key had the broker ask")
            assert log_in(broker, "PLAIN", plain)
            assert log_in(broker, "OAUTHBEARER", bearer(broker, first)), "a known key needs no issuer"
            assert not waiting.done()
            published.may_answer.set()
            assert waiting.result(PATIENCE_S)
            assert not log_in(broker, "OAUTHBEARER", bearer(broker, strange))
            assert len(asked) == 2, "made-up keys have the issuer asked once a minute"
