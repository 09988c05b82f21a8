"""Kafka's tools and Java's keytool with TLS: stores that each side makes for the other."""

from __future__ import annotations

import re
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from apache_kafka.commands import run_command
from apache_kafka.jars import find_java
from penstock.core.config.types import ConfigError
from penstock.processes.server_process import find_free_port
from penstock.security.certificates.directory import CertificateDirectory
from penstock.security.certificates.key_files import to_java_truststore, to_pkcs12
from penstock.security.tls.contexts import check_own_trust, load_server
from penstock.security.tls.distinguished_names import format_name
from penstock.security.tls.settings import TlsSettings
from penstock.testing.processes import BrokerProcess
from tests.certificates import broker_settings, client_settings, new_directory

PASSWORD = "changeit-77"


class Secured(NamedTuple):
    directory: CertificateDirectory
    port: int
    folder: Path

    def properties(self, kind: str) -> str:
        """The path of a client's property file, with PEM or PKCS12 stores."""
        settings = client_settings(self.directory, "alice")
        if kind == "PKCS12":
            authorities = self.directory.trusted.read_bytes()
            stores = {
                "keystore": to_pkcs12("alice", self.directory.file("alice").read_bytes(), authorities, PASSWORD),
                "truststore": to_java_truststore(authorities, PASSWORD),
            }
            for store, data in stores.items():
                path = self.folder / f"{store}.p12"
                path.write_bytes(data)
                settings[f"ssl.{store}.type"] = kind
                settings[f"ssl.{store}.location"] = str(path)
                settings[f"ssl.{store}.password"] = PASSWORD
            settings["ssl.key.password"] = PASSWORD
        file = self.folder / f"{kind}.properties"
        file.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
        return str(file)


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    directory = new_directory(tmp_path_factory.mktemp("certificates"), alice="Acme, Inc")
    plain, mutual = find_free_port(), find_free_port()
    arguments = ["--listen", f"PLAINTEXT://127.0.0.1:{plain},SSL://localhost:{mutual}"]
    config = broker_settings(directory, client_auth="required")
    with BrokerProcess(tmp_path_factory.mktemp("data") / "d", port=plain, config=config, arguments=arguments):
        yield Secured(directory, mutual, tmp_path_factory.mktemp("clients"))


@pytest.mark.parametrize("kind", ["PEM", "PKCS12"])
def test_lines_come_back_when_kafkas_console_clients_show_a_certificate(secured: Secured, kind: str) -> None:
    where = ("--bootstrap-server", f"localhost:{secured.port}", "--command-config", secured.properties(kind))
    topic = f"tls-{kind.lower()}"
    run_command("kafka-console-producer", *where, "--topic", topic, standard_input="a\nb\nc\n")
    reading = ("--topic", topic, "--from-beginning", "--max-messages", "3", "--timeout-ms", "20000")
    assert run_command("kafka-console-consumer", *where, *reading).lines == ["a", "b", "c"]


def keytool(*arguments: str) -> None:
    program = Path(find_java("java")).with_name("keytool")
    subprocess.run([str(program), *arguments], capture_output=True, check=True, timeout=60)


def make_store(path: Path, store_type: str, name: str) -> None:
    keytool(
        "-genkeypair", "-alias", "broker", "-keyalg", "EC", "-groupname", "secp256r1", "-dname", name,
        "-ext", "san=dns:localhost", "-validity", "9", "-storetype", store_type, "-keystore", str(path),
        "-storepass", PASSWORD, "-keypass", PASSWORD,
    )  # fmt: skip


def settings_of(path: Path, **more: str) -> TlsSettings:
    stores = {"ssl.keystore.location": str(path), "ssl.keystore.password": PASSWORD}
    return TlsSettings.of_properties({**stores, **more})


def test_key_store_is_served_when_keytool_made_it(tmp_path: Path) -> None:
    store = tmp_path / "broker.keystore"
    make_store(store, "PKCS12", r"CN=b1, OU=Ops\#1, O=Acme\, Inc, C=DE")
    settings = settings_of(store, **{"ssl.truststore.location": str(store), "ssl.truststore.password": PASSWORD})
    server = load_server(settings)
    assert format_name(server.certificate.subject) == r"CN=b1,OU=Ops\#1,O=Acme\, Inc,C=DE"
    check_own_trust(settings, server)


def test_jks_store_is_served_when_the_command_of_its_refusal_has_converted_it(tmp_path: Path) -> None:
    store = tmp_path / "broker.jks"
    make_store(store, "JKS", "CN=b1")
    with pytest.raises(ConfigError) as caught:
        load_server(settings_of(store))
    command = re.search(r"keytool (-importkeystore .*?);", str(caught.value))
    assert command is not None
    keytool(*shlex.split(command[1]), "-srcstorepass", PASSWORD, "-deststorepass", PASSWORD, "-noprompt")
    load_server(settings_of(tmp_path / "broker.p12", **{"ssl.keystore.type": "PKCS12"}))
