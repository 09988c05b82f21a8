"""A broker that asks for logins, as settings for any broker, and as a whole broker in memory without sockets."""

from __future__ import annotations

import json
import random
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

from penstock.cluster.store.memory import MemoryStore, MemoryTree
from penstock.core.clock import Clock, SystemClock
from penstock.core.config.broker_config import BrokerConfig
from penstock.core.metrics.counters import BrokerMetrics
from penstock.protocol.errors import ErrorCode
from penstock.security.sasl.scram import MIN_ITERATIONS, SCRAM_HASHES, encode_credential, make_credential
from penstock.server.assembly import Surroundings
from penstock.server.broker_server import BrokerServer
from penstock.server.limits import connection_limits
from penstock.server.net.listener import TcpListener
from penstock.testing.disks.memory import MemoryFiles

USER, PASSWORD = "alice", "alice's secret"
LISTENER = "SASL_PLAINTEXT"
ISSUER = "https://issuer.test"
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
_SALT = b"a salt of some length too"
_DATA = "/data"
_JAAS = f'org.apache.kafka.common.security.plain.PlainLoginModule required user_{USER}="{PASSWORD}";'


class Issuer:
    """Signs tokens; its keys are in a file."""

    def __init__(self, directory: Path) -> None:
        self.key = self.new_key()
        self.path = directory / "jwks.json"
        self.path.write_text(json.dumps({"keys": [self.key.as_dict(private=False)]}))

    @staticmethod
    def new_key() -> Any:
        from joserfc.jwk import ECKey

        return ECKey.generate_key("P-256", {"use": "sig"}, auto_kid=True)

    def token(self, key: Any = None) -> str:
        """For the user, for an hour. With another key it is a stranger's."""
        from joserfc import jwt

        now, signing = int(time.time()), key or self.key
        claims = {"sub": USER, "iss": ISSUER, "iat": now, "exp": now + 3600}
        return jwt.encode({"alg": "ES256", "kid": signing.kid}, claims, signing)


def login_settings(directory: Path, issuer: Issuer) -> dict[str, str]:
    """Of a listener that serves one user by every mechanism. Refusals come at once."""
    users = directory / "users.json"
    users.write_text(json.dumps({USER: {name: _credential(name) for name in SCRAM_HASHES}}))
    return {
        "sasl.enabled.mechanisms": ",".join(MECHANISMS),
        "listener.name.sasl_plaintext.plain.sasl.jaas.config": _JAAS,
        "sasl.oauthbearer.jwks.endpoint.url": issuer.path.as_uri(),
        "penstock.sasl.oauthbearer.allowed.files": str(directory),
        "sasl.oauthbearer.expected.issuer": ISSUER,
        "penstock.first.users.file": str(users),
        "connection.failed.authentication.delay.ms": "0",
    }


def _credential(mechanism: str) -> str:
    hashing = SCRAM_HASHES[mechanism]
    salted = hashing.salted_password(PASSWORD, _SALT, MIN_ITERATIONS)
    return encode_credential(make_credential(hashing, salted, _SALT, MIN_ITERATIONS))


class LoginBroker(NamedTuple):
    server: BrokerServer
    listener: TcpListener  # with logins
    issuer: Issuer
    metrics: BrokerMetrics


@asynccontextmanager
async def running(
    directory: Path, config: Mapping[str, str] | None = None, clock: Clock | None = None
) -> AsyncIterator[LoginBroker]:
    """Connections to it are to be over before it ends: nobody else tells them that they are."""
    issuer, clock = Issuer(directory), clock or SystemClock()
    parsed = BrokerConfig.parse(
        {
            "log.dirs": _DATA,
            "listeners": f"PLAINTEXT://127.0.0.1:9091,{LISTENER}://127.0.0.1:9092",
            "offsets.topic.num.partitions": "1",
            "transaction.state.log.num.partitions": "1",
            **login_settings(directory, issuer),
            **(config or {}),
        }
    )
    metrics = BrokerMetrics(lambda code: ErrorCode(code).name)
    listeners = []
    for endpoint in parsed.endpoints:
        listener = TcpListener(endpoint.name, connection_limits(parsed), metrics.sockets, clock)
        listener.port = endpoint.port
        listeners.append(listener)
    files = MemoryFiles(clock.now_ms)
    files.make_directories(_DATA)
    surroundings = Surroundings(clock, files, random.Random(1))
    server = await BrokerServer.compose(parsed, MemoryStore(MemoryTree()), surroundings, metrics, listeners)
    try:
        yield LoginBroker(server, listeners[1], issuer, metrics)
    finally:
        await server.stop()
