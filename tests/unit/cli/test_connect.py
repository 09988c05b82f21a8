"""What a command says when the cluster does not let it in."""

from __future__ import annotations

import contextlib
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.cli.access.cluster_client import ClusterClient
from penstock.cli.access.connect import open_first
from penstock.cli.access.raw_client import open_broker
from penstock.cli.errors import CliError, UsageError
from penstock.client.addresses import Heard
from penstock.protocol.codec import encode
from penstock.protocol.framing import decode_request_header, encode_response_header
from penstock.protocol.messages.api_versions import ApiVersionsResponse
from penstock.security.certificates.directory import CertificateDirectory
from penstock.security.tls.contexts import load_server
from penstock.security.tls.settings import TlsSettings
from tests.certificates import broker_settings, client_settings, new_directory
from tests.unit.client.scripted_broker import frame, serving


@pytest.mark.parametrize("name", ["sasl.mechanism", "sasl.mechanisms"])
def test_usage_error_at_once_when_no_client_knows_the_mechanism(name: str) -> None:
    settings = {"security.protocol": "sasl_ssl", name: "SCRAM-SHA-1", "sasl.username": "a", "sasl.password": "geheim"}
    with pytest.raises(UsageError, match=r"SCRAM-SHA-1 is none of .*SCRAM-SHA-256") as caught:
        ClusterClient("127.0.0.1:1", settings).check_reachable()
    assert "--command-config" in caught.value.hint


@contextlib.contextmanager
def listening(directory: CertificateDirectory, version: ssl.TLSVersion) -> Iterator[int]:
    """A port that takes one client, whose certificate it wants to see."""
    directory.revoke("alice")
    properties = broker_settings(directory, client_auth="required")
    properties["penstock.ssl.crl.location"] = str(directory.revocations)
    context = load_server(TlsSettings.of_properties(properties)).context
    context.maximum_version = version

    def serve() -> None:
        accepted, _ = port.accept()
        encrypted = context.wrap_socket(accepted, server_side=True, do_handshake_on_connect=False)
        with contextlib.suppress(ssl.SSLError):
            encrypted.do_handshake()
        with socket.socket(fileno=encrypted.detach()) as plain:
            plain.shutdown(socket.SHUT_WR)
            while plain.recv(10_000):  # a port that is closed with something unread takes its alert back
                pass

    with socket.create_server(("127.0.0.1", 0)) as port:
        serving = threading.Thread(target=serve)
        serving.start()
        yield port.getsockname()[1]
        serving.join()


@pytest.mark.parametrize(
    ("version", "name"),
    [(ssl.TLSVersion.TLSv1_2, "alice"), (ssl.TLSVersion.TLSv1_3, "alice"), (ssl.TLSVersion.TLSv1_3, None)],
)
def test_refused_certificate_is_told_when_the_broker_sends_its_alert(
    tmp_path: Path, version: ssl.TLSVersion, name: str | None
) -> None:
    directory = new_directory(tmp_path / "certificates", alice=None)
    with listening(directory, version) as port, pytest.raises(CliError) as caught:
        open_first([("127.0.0.1", port)], client_settings(directory, name), 5.0, Heard())
    assert "the broker refuses the client's certificate: " in caught.value.message
    assert "ssl.*" in caught.value.hint


def version_answer(request: bytes) -> bytes:
    header = decode_request_header(request)
    return frame(
        encode_response_header(header.correlation_id, False) + encode(ApiVersionsResponse(), header.api_version)
    )


class Hanging:
    """A port as that of a paused broker: its kernel takes connections, and nothing answers."""

    def __init__(self, port: socket.socket) -> None:
        self._port = port
        port.setblocking(False)

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self._port.getsockname()[1]}"

    def count_connections(self) -> int:
        """Those since the last call."""
        count = 0
        with contextlib.suppress(BlockingIOError):
            while True:
                self._port.accept()[0].close()
                count += 1
        return count


@pytest.fixture
def hanging() -> Iterator[Hanging]:
    with socket.create_server(("127.0.0.1", 0)) as port:
        yield Hanging(port)


def test_paused_broker_is_waited_for_once_when_a_command_asks_again_and_again(hanging: Hanging) -> None:
    with serving(version_answer, connections=6) as port:
        cluster = ClusterClient(f"{hanging.address},127.0.0.1:{port}", patience_s=0.1)
        for _ in range(3):
            with open_broker(cluster) as broker:
                assert broker.address == ("127.0.0.1", port)
            cluster.check_reachable()
    assert hanging.count_connections() == 1


def test_client_library_is_not_sent_to_a_paused_broker_when_another_one_answers(hanging: Hanging) -> None:
    with serving(version_answer) as port:
        cluster = ClusterClient(f"{hanging.address},127.0.0.1:{port}", patience_s=0.1)
        cluster.check_reachable()
        assert cluster.answering_servers() == f"127.0.0.1:{port}"
    assert hanging.count_connections() == 1


def test_client_library_tries_them_all_when_none_answers_in_time(hanging: Hanging) -> None:
    servers = f"PLAINTEXT://{hanging.address},{hanging.address}"
    cluster = ClusterClient(servers, patience_s=0.05)
    cluster.check_reachable()
    assert cluster.answering_servers() == servers


def test_silent_broker_costs_little_when_it_is_asked_for_by_name_again(hanging: Hanging) -> None:
    cluster = ClusterClient(hanging.address)
    address = ("127.0.0.1", int(hanging.address.rpartition(":")[2]))
    took = []
    for _ in range(2):
        began = time.monotonic()
        with pytest.raises(CliError, match="no broker answers"), open_broker(cluster, address, 0.5):
            pass
        took.append(time.monotonic() - began)
    assert took[0] >= 0.5 > took[1]
