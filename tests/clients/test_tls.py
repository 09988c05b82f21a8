"""Every client library over TLS, with and without a certificate of its own, against one real broker process."""

from __future__ import annotations

import asyncio
import contextlib
import re
import shutil
import socket
import ssl
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple
from xml.etree import ElementTree

import confluent_kafka
import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from kafka import KafkaConsumer, KafkaProducer

from penstock.client.connection import BlockingConnection, Connection
from penstock.client.java_settings import translate_client_settings
from penstock.client.security import ClientSecurity, client_security, why_not_ours
from penstock.core.types import TopicPartition
from penstock.processes.server_process import find_free_port
from penstock.protocol.messages.api_versions import ApiVersionsRequest
from penstock.security.certificates.authority import Wanted
from penstock.security.certificates.directory import CertificateDirectory
from penstock.security.certificates.key_files import split_pem
from penstock.security.tls.ciphers import TLS_1_2, TLS_1_3
from penstock.testing.processes import BrokerProcess
from tests.certificates import LOCAL, broker_settings, client_settings, new_directory
from tests.clients.cli_runner import Cli
from tests.clients.support import PATIENCE_S, eventually, new_name
from tests.servers import give_up_without

VALUES = [f"{number}".encode() * 200 for number in range(50)]
VERSIONS = ApiVersionsRequest(client_software_name="test", client_software_version="1")


class Secured(NamedTuple):
    directory: CertificateDirectory
    process: BrokerProcess
    tls_port: int
    mutual_port: int

    def servers(self, name: str | None) -> str:
        """`localhost`, so that names are checked; the listener that demands a certificate for a client with one."""
        return f"localhost:{self.tls_port if name is None else self.mutual_port}"


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    directory = new_directory(tmp_path_factory.mktemp("certificates"), alice=None)
    plain, tls, mutual = (find_free_port() for _ in range(3))
    listeners = f"PLAINTEXT://127.0.0.1:{plain},SSL://localhost:{tls},MUTUAL://localhost:{mutual}"
    config = {
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SSL:SSL,MUTUAL:SSL",
        "group.initial.rebalance.delay.ms": "0",
        **broker_settings(directory),
        "listener.name.mutual.ssl.client.auth": "required",
        "listener.name.mutual.penstock.ssl.crl.location": str(directory.revocations),
    }
    data, arguments = tmp_path_factory.mktemp("tls-broker"), ["--listen", listeners]
    with BrokerProcess(data, port=plain, config=config, arguments=arguments) as process:
        yield Secured(directory, process, tls, mutual)


CERTIFICATES = pytest.mark.parametrize("name", [None, "alice"], ids=["tls", "mutual"])


@CERTIFICATES
def test_records_come_back_when_confluent_kafka_speaks_tls(secured: Secured, name: str | None) -> None:
    topic = new_name("tls")
    settings = {
        "bootstrap.servers": secured.servers(name),
        **translate_client_settings(client_settings(secured.directory, name)),
    }
    producer = confluent_kafka.Producer(settings)
    for value in VALUES:
        producer.produce(topic, value)
    assert producer.flush(PATIENCE_S) == 0
    consumer = confluent_kafka.Consumer({**settings, "group.id": new_name("g"), "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    received: list[bytes] = []

    def poll() -> bool:
        messages = consumer.consume(100, timeout=1)
        received.extend(message.value() or b"" for message in messages if message.error() is None)
        return len(received) >= len(VALUES)

    try:
        eventually(poll, "everything is consumed")
    finally:
        consumer.close()
    assert received == VALUES


def python_options(secured: Secured, name: str | None, folder: Path) -> dict[str, Any]:
    options = {"security_protocol": "SSL", "ssl_cafile": str(secured.directory.trusted)}
    if name is not None:
        key, certificate = split_pem(secured.directory.file(name).read_bytes())
        (folder / "key.pem").write_bytes(key)
        (folder / "certificate.pem").write_bytes(certificate)
        options |= {"ssl_certfile": str(folder / "certificate.pem"), "ssl_keyfile": str(folder / "key.pem")}
    return {"bootstrap_servers": secured.servers(name), **options}


@CERTIFICATES
def test_records_come_back_when_kafka_python_speaks_tls(secured: Secured, name: str | None, tmp_path: Path) -> None:
    topic, options = new_name("tls"), python_options(secured, name, tmp_path)
    producer = KafkaProducer(**options)
    for value in VALUES:
        producer.send(topic, value)
    producer.flush(timeout=PATIENCE_S)
    producer.close()
    consumer = KafkaConsumer(topic, auto_offset_reset="earliest", consumer_timeout_ms=int(PATIENCE_S * 1000), **options)
    received = [next(consumer).value for _ in VALUES]
    consumer.close()
    assert received == VALUES


@CERTIFICATES
def test_records_come_back_when_aiokafka_speaks_tls(secured: Secured, name: str | None, tmp_path: Path) -> None:
    topic, options = new_name("tls"), python_options(secured, name, tmp_path)
    context = ssl.create_default_context(cafile=options.pop("ssl_cafile"))
    if name is not None:
        context.load_cert_chain(options.pop("ssl_certfile"), options.pop("ssl_keyfile"))

    async def scenario() -> list[bytes]:
        producer = AIOKafkaProducer(ssl_context=context, **options)
        await producer.start()
        for value in VALUES:
            await producer.send(topic, value)
        await producer.stop()
        consumer = AIOKafkaConsumer(topic, auto_offset_reset="earliest", ssl_context=context, **options)
        await consumer.start()
        try:
            async with asyncio.timeout(PATIENCE_S):
                return [(await consumer.getone()).value for _ in VALUES]
        finally:
            await consumer.stop()

    assert asyncio.run(scenario()) == VALUES


@CERTIFICATES
def test_our_own_clients_are_served_when_their_properties_say_tls(secured: Secured, name: str | None) -> None:
    security = client_security(client_settings(secured.directory, name))
    port = secured.tls_port if name is None else secured.mutual_port
    with BlockingConnection("localhost", port, security=security) as connection:
        assert connection.request(VERSIONS, ApiVersionsRequest.MAX_VERSION).error_code == 0

    async def ask() -> int:
        async with await Connection.open("127.0.0.1", port, security=security) as connection:
            answer = await connection.request(VERSIONS, ApiVersionsRequest.MAX_VERSION)
            return int(answer.error_code)

    assert asyncio.run(ask()) == 0


def test_commands_are_served_when_their_property_file_says_tls(secured: Secured, tmp_path: Path) -> None:
    properties = tmp_path / "client.properties"
    properties.write_text(
        "".join(f"{key}={value}\n" for key, value in client_settings(secured.directory, "alice").items())
    )
    cli, where = Cli(secured.servers("alice")), ["--command-config", str(properties)]
    cli.run("topics", "create", topic := new_name("tls"), *where)
    assert topic in cli.run("topics", "list", *where).text
    assert "Fetch" in cli.run("cluster", "api-versions", *where).text


def test_task_of_spark_fetches_directly_when_the_broker_asks_for_a_certificate(secured: Secured) -> None:
    pytest.importorskip("pyarrow")
    from penstock.pipelines.source.offset_ranges import OffsetRange
    from penstock.pipelines.source.read_options import FetchOptions
    from penstock.pipelines.source.tasks import read_range

    settings = {
        "bootstrap.servers": secured.servers("alice"),
        **translate_client_settings(client_settings(secured.directory, "alice")),
    }
    producer = confluent_kafka.Producer(settings)
    topic = new_name("spark")
    for value in VALUES:
        producer.produce(topic, value)
    assert producer.flush(PATIENCE_S) == 0
    assert not why_not_ours(settings)
    whole = OffsetRange(TopicPartition(topic, 0), 0, len(VALUES))
    rows = [row for batch in read_range(whole, FetchOptions(settings, is_direct=True)) for row in batch.to_pylist()]
    assert [row["value"] for row in rows] == VALUES


def test_nothing_is_sent_when_the_certificate_names_another_host(secured: Secured) -> None:
    """The first bytes of a login would go to whoever sits there."""
    security = client_security(client_settings(secured.directory))
    with _fake_broker(secured.directory) as (port, received):
        with pytest.raises(ssl.SSLCertVerificationError, match="mismatch"):
            BlockingConnection("127.0.0.2", port, security=security)
        assert not received


@contextlib.contextmanager
def _fake_broker(directory: CertificateDirectory) -> Iterator[tuple[int, list[bytes]]]:
    """Has the broker's certificate, on an address that the certificate does not name."""
    import threading

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(directory.file("broker"))
    received: list[bytes] = []

    def serve(listening: socket.socket) -> None:
        with contextlib.suppress(OSError):
            plain, _ = listening.accept()
            with context.wrap_socket(plain, server_side=True) as encrypted:
                received.extend(filter(None, [encrypted.recv(1000)]))

    with socket.create_server(("127.0.0.2", 0)) as listening:
        thread = threading.Thread(target=serve, args=(listening,))
        thread.start()
        yield listening.getsockname()[1], received
    thread.join()


def test_client_is_refused_when_it_has_no_certificate_and_must_have_one(secured: Secured) -> None:
    security = client_security(client_settings(secured.directory))
    with pytest.raises(OSError, match=r"(?i)certificate|closed|reset"):
        _ask_versions(secured.mutual_port, security)


def _ask_versions(port: int, security: ClientSecurity) -> None:
    with BlockingConnection("localhost", port, security=security) as connection:
        connection.request(VERSIONS, ApiVersionsRequest.MAX_VERSION)


def test_connection_is_closed_without_an_answer_when_plain_bytes_come(secured: Secured) -> None:
    with socket.create_connection(("localhost", secured.tls_port), timeout=PATIENCE_S) as plain:
        plain.sendall(b"\0\0\0\x1a\0\x12\0\0\0\0\0\1\0\4test" + bytes(10))
        with contextlib.suppress(ConnectionResetError):
            assert plain.recv(100) == b""
    _ask_versions(secured.tls_port, client_security(client_settings(secured.directory)))


def test_new_certificate_is_served_when_its_file_changes(secured: Secured) -> None:
    """Connections that are open stay. That of a client whose certificate is revoked ends, and it gets no other."""
    security = client_security(client_settings(secured.directory))
    secured.directory.issue(Wanted("client", "mallory", ()))
    mallory = client_security(client_settings(secured.directory, "mallory"))
    before = _served_certificate(secured.tls_port, security)
    with (
        BlockingConnection("localhost", secured.tls_port, security=security) as connection,
        BlockingConnection("localhost", secured.mutual_port, security=mallory) as revoked,
    ):
        assert revoked.request(VERSIONS, ApiVersionsRequest.MAX_VERSION).error_code == 0
        secured.directory.revoke("mallory")
        secured.directory.renew(["broker"])
        eventually(lambda: _served_certificate(secured.tls_port, security) != before, "the new certificate is served")
        assert connection.request(VERSIONS, ApiVersionsRequest.MAX_VERSION).error_code == 0
        with pytest.raises(OSError, match=r"(?i)closed|reset"):
            revoked.receive_frame(timeout_s=PATIENCE_S)
    with pytest.raises(OSError, match=r"(?i)certificate|closed|reset"):
        _ask_versions(secured.mutual_port, mallory)


def test_settings_take_effect_or_are_refused_when_a_listener_is_given_another_key_store(secured: Secured) -> None:
    """The broker that is asked looks at the files itself; what it cannot use is refused and changes nothing."""
    key, directory = "listener.name.ssl.ssl.keystore.location", secured.directory
    security = client_security(client_settings(directory))
    cli = Cli(secured.process.bootstrap_servers)
    directory.issue(Wanted("broker", "another", LOCAL))
    for location, words in (
        (directory.path / "nowhere.pem", "No such file"),
        (directory.trusted, "expected one private key"),
        (directory.file("another"), "ssl.allow.dn.changes"),
    ):
        outcome = cli.try_run("configs", "alter", "--broker", "1", "--set", f"{key}={location}")
        assert outcome.code != 0
        assert words in outcome.err
    before = _served_certificate(secured.tls_port, security)
    directory.renew(["broker"])
    newer = directory.path / "newer.pem"
    newer.write_bytes(directory.file("broker").read_bytes())
    cli.run("configs", "alter", "--broker", "1", "--set", f"{key}={newer}")
    eventually(lambda: _served_certificate(secured.tls_port, security) != before, "the new certificate is served")
    shown = cli.run("configs", "describe", "--broker", "1", "--json").text
    assert str(newer) in shown


def test_secrets_are_not_shown_when_a_broker_is_described(secured: Secured) -> None:
    key, certificate = (part.decode() for part in split_pem(secured.directory.file("broker").read_bytes()))
    cli = Cli(secured.process.bootstrap_servers)
    given = {"ssl.keystore.key": key, "ssl.keystore.certificate.chain": certificate, "ssl.key.password": "secret-33"}
    changes = [part for name, value in given.items() for part in ("--set", f"listener.name.nobody.{name}={value}")]
    cli.run("configs", "alter", "--broker", "1", *changes)
    described = cli.run("configs", "describe", "--broker", "1", "--all", "--json").text
    assert "listener.name.nobody.ssl.key.password" in described
    for secret in ("PRIVATE KEY", "secret-33", *key.splitlines()[1:2], *certificate.splitlines()[1:2]):
        assert secret not in described
        assert secret not in secured.process.log_path.read_text()


def _served_certificate(port: int, security: ClientSecurity) -> bytes:
    assert security.tls is not None
    with (
        socket.create_connection(("localhost", port)) as plain,
        security.tls.wrap_socket(plain, server_hostname="localhost") as encrypted,
    ):
        return encrypted.getpeercert(binary_form=True) or b""


def test_scanner_finds_nothing_old_or_weak_when_it_tries_every_version_and_suite(secured: Secured) -> None:
    if shutil.which("sslscan") is None:
        give_up_without("sslscan", "broker")
    command = ["sslscan", "--no-colour", "--xml=-", f"localhost:{secured.tls_port}"]
    report = subprocess.run(command, capture_output=True, timeout=PATIENCE_S, check=True).stdout
    (found,) = ElementTree.fromstring(report).iter("ssltest")
    enabled = {
        f"{each.get('type')}{each.get('version')}" for each in found.iter("protocol") if each.get("enabled") == "1"
    }
    assert enabled == {"tls1.2", "tls1.3"}
    suites = {each.get("cipher") or "" for each in found.iter("cipher")}
    assert {each for each in suites if each not in (*TLS_1_3, *TLS_1_2.values())} == set()
    assert {each.get("strength") for each in found.iter("cipher")} <= {"strong", "acceptable"}
    assert [each.get("supported") for each in found.iter("renegotiation")] == ["0"]
    assert all(each.get("supported") == "0" for each in found.iter("compression"))
    assert all(each.get("vulnerable") == "0" for each in found.iter("heartbleed"))


def test_broker_does_not_start_when_its_key_store_cannot_be_used(tmp_path: Path) -> None:
    (tmp_path / "broker.jks").write_bytes(b"\xfe\xed\xfe\xed\0\0\0\2")
    command = [
        sys.executable, "-m", "penstock.cli.main", "broker", "start", "--data", str(tmp_path / "data"), "--set", "listeners=SSL://127.0.0.1:0",
        "--set", f"ssl.keystore.location={tmp_path / 'broker.jks'}", "--set", "ssl.keystore.password=secret-77",
    ]  # fmt: skip
    # In a process of its own, because a broker that starts sets up the log of its process.
    outcome = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    text = outcome.stdout + outcome.stderr
    assert outcome.returncode != 0
    assert "keytool -importkeystore" in text
    assert re.search(r"ssl\.keystore\.location", text)
    assert "secret-77" not in text
