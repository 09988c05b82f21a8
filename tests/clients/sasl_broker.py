"""A broker process with three listeners: one without logins, for the tests' own administration, one with SASL, and one
with SASL and TLS. Tokens are checked by keys from a file, and on the listener with TLS by keys from the issuer itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from penstock.client.versioned_client import VersionedClient
from penstock.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    ScramCredentialUpsertion,
)
from penstock.security.sasl.scram import MIN_ITERATIONS, SCRAM_HASHES
from penstock.testing.processes import BrokerProcess, find_free_port
from tests.certificates import broker_settings, new_directory
from tests.clients.issuer import AUDIENCE, CLIENT_ID, ISSUER, Issuer

USER, PASSWORD = CLIENT_ID, "alice's, = secret"
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
PLAIN_JAAS = (
    'org.apache.kafka.common.security.plain.PlainLoginModule required username="broker" password="b" '
    f'user_broker="b" user_{USER}="{PASSWORD}";'
)


class SaslBroker(NamedTuple):
    plain_address: tuple[str, int]
    sasl_address: tuple[str, int]
    tls_address: tuple[str, int]
    issuer: Issuer
    log_path: Path
    authority: Path  # trusted certificates

    @property
    def bootstrap_servers(self) -> str:
        return self.servers("SASL_PLAINTEXT")

    def servers(self, protocol: str) -> str:
        return "{}:{}".format(*(self.sasl_address if protocol == "SASL_PLAINTEXT" else self.tls_address))

    @property
    def key(self) -> Any:
        return self.issuer.key

    def token(self, key: Any = None, header: dict[str, Any] | None = None, **claims: Any) -> str:
        return self.issuer.token(key, header, **claims)

    def add_user(self, user: str, password: str, mechanisms: tuple[str, ...] = tuple(SCRAM_HASHES)) -> None:
        with VersionedClient.open(self.plain_address, client_id="tests", software="tests") as client:
            for name in mechanisms:
                hashing, salt = SCRAM_HASHES[name], b"a salt of some length"
                upsertion = ScramCredentialUpsertion(
                    name=user,
                    mechanism=hashing.code,
                    iterations=MIN_ITERATIONS,
                    salt=salt,
                    salted_password=hashing.salted_password(password, salt, MIN_ITERATIONS),
                )
                request = AlterUserScramCredentialsRequest(upsertions=[upsertion])
                response = client.request(request, AlterUserScramCredentialsResponse)
                assert [result.error_code for result in response.results] == [0]


@contextmanager
def run_sasl_broker(
    directory: Path, config: dict[str, str] | None = None, without: tuple[str, ...] = ()
) -> Iterator[SaslBroker]:
    issuer = Issuer()
    keys = directory / "jwks.json"
    keys.write_text(issuer.keys)
    certificates = new_directory(directory / "certificates")
    plain_port, sasl_port, tls_port = find_free_port(), find_free_port(), find_free_port()
    with issuer.serving():
        settings = {
            "listeners": f"PLAINTEXT://127.0.0.1:{plain_port},SASL_PLAINTEXT://127.0.0.1:{sasl_port},"
            f"SASL_SSL://localhost:{tls_port}",
            "sasl.enabled.mechanisms": ",".join(MECHANISMS),
            "listener.name.sasl_plaintext.plain.sasl.jaas.config": PLAIN_JAAS,
            "listener.name.sasl_ssl.plain.sasl.jaas.config": PLAIN_JAAS,
            "sasl.oauthbearer.jwks.endpoint.url": keys.as_uri(),
            "listener.name.sasl_ssl.sasl.oauthbearer.jwks.endpoint.url": issuer.keys_url,
            "penstock.sasl.oauthbearer.allowed.files": str(directory),
            "penstock.sasl.oauthbearer.allowed.urls": issuer.keys_url,
            "sasl.oauthbearer.expected.issuer": ISSUER,
            "sasl.oauthbearer.expected.audience": AUDIENCE,
            "delegation.token.secret.key": "the brokers' own",
            "connection.failed.authentication.delay.ms": "10",
            "group.initial.rebalance.delay.ms": "0",
            **broker_settings(certificates),
            **(config or {}),
        }
        for name in without:
            del settings[name]
        with BrokerProcess(directory / "data", port=plain_port, config=settings) as process:
            broker = SaslBroker(
                ("127.0.0.1", plain_port),
                ("127.0.0.1", sasl_port),
                ("localhost", tls_port),
                issuer,
                process.log_path,
                certificates.trusted,
            )
            broker.add_user(USER, PASSWORD)
            yield broker
