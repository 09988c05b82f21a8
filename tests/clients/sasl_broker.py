"""A broker process with two listeners: one without logins, for the tests' own administration, and one with SASL."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from penstock.client.versioned import VersionedClient
from penstock.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    ScramCredentialUpsertion,
)
from penstock.security.sasl.scram import MIN_ITERATIONS, SCRAM_HASHES
from penstock.testing.processes import BrokerProcess, find_free_port

USER, PASSWORD = "alice", "alice's, = secret"
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
ISSUER, AUDIENCE = "https://issuer.test", "kafka"
PLAIN_JAAS = (
    'org.apache.kafka.common.security.plain.PlainLoginModule required username="broker" password="b" '
    f'user_broker="b" user_{USER}="{PASSWORD}";'
)


class SaslBroker(NamedTuple):
    plain_address: tuple[str, int]
    sasl_address: tuple[str, int]
    key: Any  # the issuer's
    log_path: Path

    @property
    def bootstrap_servers(self) -> str:
        return "{}:{}".format(*self.sasl_address)

    def token(self, key: Any = None, header: dict[str, Any] | None = None, **claims: Any) -> str:
        """A signed token for the user, valid for an hour unless the claims say otherwise."""
        from joserfc import jwt

        now = int(time.time())
        usual = {"sub": USER, "iss": ISSUER, "aud": AUDIENCE, "iat": now, "exp": now + 3600, "scope": "kafka"}
        given = {name: value for name, value in {**usual, **claims}.items() if value is not None}
        signing = key or self.key
        return jwt.encode(header or {"alg": "RS256", "kid": signing.kid}, given, signing)

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
    from joserfc.jwk import RSAKey

    key = RSAKey.generate_key(2048, {"use": "sig"}, auto_kid=True)
    keys = directory / "jwks.json"
    keys.write_text(json.dumps({"keys": [key.as_dict(private=False)]}))
    plain_port, sasl_port = find_free_port(), find_free_port()
    settings = {
        "listeners": f"PLAINTEXT://127.0.0.1:{plain_port},SASL_PLAINTEXT://127.0.0.1:{sasl_port}",
        "sasl.enabled.mechanisms": ",".join(MECHANISMS),
        "listener.name.sasl_plaintext.plain.sasl.jaas.config": PLAIN_JAAS,
        "sasl.oauthbearer.jwks.endpoint.url": keys.as_uri(),
        "penstock.sasl.oauthbearer.allowed.files": str(directory),
        "sasl.oauthbearer.expected.issuer": ISSUER,
        "sasl.oauthbearer.expected.audience": AUDIENCE,
        "delegation.token.secret.key": "the brokers' own",
        "connection.failed.authentication.delay.ms": "10",
        "group.initial.rebalance.delay.ms": "0",
        **(config or {}),
    }
    for name in without:
        del settings[name]
    with BrokerProcess(directory / "data", port=plain_port, config=settings) as process:
        broker = SaslBroker(("127.0.0.1", plain_port), ("127.0.0.1", sasl_port), key, process.log_path)
        broker.add_user(USER, PASSWORD)
        yield broker
