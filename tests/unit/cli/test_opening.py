"""What a command says when the cluster does not let it in."""

from __future__ import annotations

import contextlib
import socket
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.cli.access.cluster_client import Cluster
from penstock.cli.access.opening import open_first
from penstock.cli.errors import CliError, UsageError
from penstock.security.certificates.directory import CertificateDirectory
from penstock.security.tls.contexts import load_server
from penstock.security.tls.settings import TlsSettings
from tests.certificates import broker_settings, client_settings, new_directory


@pytest.mark.parametrize("name", ["sasl.mechanism", "sasl.mechanisms"])
def test_usage_error_at_once_when_no_client_knows_the_mechanism(name: str) -> None:
    settings = {"security.protocol": "sasl_ssl", name: "SCRAM-SHA-1", "sasl.username": "a", "sasl.password": "geheim"}
    with pytest.raises(UsageError, match=r"SCRAM-SHA-1 is none of .*SCRAM-SHA-256") as caught:
        Cluster("127.0.0.1:1", settings).check_reachable()
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
        open_first([("127.0.0.1", port)], client_settings(directory, name), 5.0)
    assert "the broker refuses the client's certificate: " in caught.value.message
    assert "ssl.*" in caught.value.hint
