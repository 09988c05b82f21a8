"""Brokers with a port for each way in: plain, TLS, a login without TLS, a login with TLS."""

from __future__ import annotations

import datetime
import ssl
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from bench.contenders import APACHE_KAFKA, Contender
from bench.errors import BenchError
from bench.secured.sender import HOST
from penstock.client.connection import BlockingConnection, LoginRefusedError
from penstock.client.security import ClientSecurity
from penstock.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialUpsertion,
)
from penstock.security.certificates.authority import Wanted
from penstock.security.certificates.directory import CertificateDirectory
from penstock.security.sasl.scram import MIN_ITERATIONS, SHA_256
from penstock.security.sasl.scram_client import ScramCredentials
from penstock.security.tls.contexts import load_client
from penstock.security.tls.settings import TlsSettings
from penstock.testing.processes import ServerProcess, find_free_port

PLAIN, TLS, LOGIN, TLS_LOGIN = "PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"
DOORS = (PLAIN, TLS, LOGIN, TLS_LOGIN)
USER, PASSWORD = "u7", "a password of the benchmark"
SALT = b"the same salt for both"
PATIENCE_S = 30.0
# The administrator comes in by the plain port.
SUPER_USERS = {"super.users": "User:ANONYMOUS"}


def make_certificates(path: Path) -> CertificateDirectory:
    """P-256, as `penstock certificates` makes them; the same for both."""
    directory = CertificateDirectory(path, datetime.datetime.now(datetime.UTC))
    directory.create()
    directory.issue(Wanted("broker", "broker", ("localhost", HOST)))
    return directory


@dataclass(frozen=True, slots=True)
class Door:
    """One port of a broker, for clients of librdkafka."""

    server: ServerProcess
    port: int
    security: Mapping[str, str]

    @property
    def name(self) -> str:
        return self.server.name

    @property
    def bootstrap_servers(self) -> str:
        return f"{HOST}:{self.port}"

    @property
    def is_running(self) -> bool:
        return self.server.is_running


class SecuredBroker:
    def __init__(
        self,
        contender: Contender,
        directory: Path,
        certificates: CertificateDirectory,
        config: Mapping[str, str] = {},
    ) -> None:
        self.contender = contender
        self.ports = {door: find_free_port() for door in DOORS}
        self.server = contender.make(
            directory, {**self._settings(certificates), **SUPER_USERS, **config}, self.ports[PLAIN]
        )
        self._authority = certificates.trusted
        # Kept for all logins: the password is salted once, as a client does that logs in again.
        self._credentials = ScramCredentials(SHA_256, USER, PASSWORD)
        self.tls = load_client(
            TlsSettings.of_properties(
                {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(certificates.trusted)}
            )
        )

    def _settings(self, certificates: CertificateDirectory) -> dict[str, str]:
        listeners = [f"{door}://{HOST}:{port}" for door, port in self.ports.items()]
        mechanism = SHA_256.mechanism
        settings = {
            "advertised.listeners": ",".join(listeners),
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(certificates.file("broker")),
            "sasl.enabled.mechanisms": mechanism,
        }
        if self.contender is APACHE_KAFKA:
            controller = find_free_port()
            listeners.append(f"CONTROLLER://{HOST}:{controller}")
            settings["controller.quorum.voters"] = f"1@{HOST}:{controller}"
            settings["listener.security.protocol.map"] = ",".join(
                ("CONTROLLER:PLAINTEXT", *(f"{door}:{door}" for door in DOORS))
            )
            for door in (LOGIN, TLS_LOGIN):
                key = f"listener.name.{door.lower()}.{mechanism.lower()}.sasl.jaas.config"
                settings[key] = "org.apache.kafka.common.security.scram.ScramLoginModule required;"
        return {**settings, "listeners": ",".join(listeners)}

    def door(self, name: str) -> Door:
        security = {"security.protocol": name, "ssl.ca.location": str(self._authority)} if name == TLS else {}
        return Door(self.server, self.ports[name], security)

    def tls_of(self, door: str) -> ssl.SSLContext | None:
        return self.tls if door in (TLS, TLS_LOGIN) else None

    def connect(self, door: str) -> BlockingConnection:
        """A connection that has logged in, where the port asks for a login."""
        credentials = self._credentials if door in (LOGIN, TLS_LOGIN) else None
        security = ClientSecurity(self.tls_of(door), credentials)
        return BlockingConnection(HOST, self.ports[door], security=security, timeout_s=PATIENCE_S)

    def add_user(self) -> None:
        upsertion = ScramCredentialUpsertion(
            name=USER,
            mechanism=SHA_256.code,
            iterations=MIN_ITERATIONS,
            salt=SALT,
            salted_password=SHA_256.salted_password(PASSWORD, SALT, MIN_ITERATIONS),
        )
        with self.connect(PLAIN) as connection:
            response = connection.request(AlterUserScramCredentialsRequest(upsertions=[upsertion]), 0)
        if error := response.results[0].error_code:
            raise BenchError(f"{self.server.name} does not take a user: error {error}")
        deadline = time.monotonic() + PATIENCE_S
        while not self._lets_in():
            if time.monotonic() > deadline:
                raise BenchError(f"{self.server.name} does not let the new user in")

    def _lets_in(self) -> bool:
        """Kafka answers before the user may log in."""
        try:
            self.connect(LOGIN).close()
        except LoginRefusedError:
            return False
        return True
