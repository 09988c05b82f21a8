"""An issuer of tokens that is out of reach, or in trouble, for a while: no broker has refused anything."""

from __future__ import annotations

import asyncio
import time
import urllib.error
import urllib.request
from collections.abc import Iterator

import pytest

import penstock
from penstock.client.connection import BlockingConnection, Connection, LoginPutOffError, LoginRefusedError
from penstock.client.security import client_security
from penstock.processes.server_process import find_free_port
from tests.clients.issuer import CLIENT_SECRET
from tests.clients.sasl_broker import USER, SaslBroker, run_sasl_broker
from tests.clients.support import eventually

REAUTHENTICATION_S = 1.5


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SaslBroker]:
    """Logins end soon."""
    config = {"connections.max.reauth.ms": str(int(REAUTHENTICATION_S * 1000))}
    with run_sasl_broker(tmp_path_factory.mktemp("broker"), config) as running:
        yield running


def properties(broker: SaslBroker, url: str) -> dict[str, str]:
    module = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
    return {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.jaas.config": f'{module} required clientId="{USER}" clientSecret="{CLIENT_SECRET}";',
        "sasl.oauthbearer.token.endpoint.url": url,
    }


@pytest.mark.parametrize(
    ("status", "expected"),
    [(400, LoginRefusedError), (401, LoginRefusedError), (429, LoginPutOffError), (503, LoginPutOffError)],
)
def test_login_is_put_off_when_the_issuer_is_in_trouble(
    broker: SaslBroker, status: int, expected: type[Exception]
) -> None:
    broker.issuer.trouble = status
    try:
        check(broker, broker.issuer.token_url, expected, f"the issuer gave no token (status {status})")
    finally:
        broker.issuer.trouble = 0


def test_login_is_put_off_when_no_issuer_listens(broker: SaslBroker) -> None:
    url = f"http://127.0.0.1:{find_free_port()}/token"
    check(broker, url, LoginPutOffError, "the issuer gave no token (ConnectionRefusedError)")


def check(broker: SaslBroker, url: str, expected: type[Exception], reason: str) -> None:
    security = client_security(properties(broker, url))
    with pytest.raises(expected) as by_thread:
        BlockingConnection(*broker.sasl_address, security=security)
    with pytest.raises(expected) as by_loop:
        asyncio.run(Connection.open(*broker.sasl_address, security=security))
    assert [str(by_thread.value), str(by_loop.value)] == [f"the login failed: {reason}"] * 2


def test_registry_goes_on_when_the_issuer_was_in_trouble_for_longer_than_a_login_lasts(broker: SaslBroker) -> None:
    """Each instance of a registry ended for good at its next login."""
    client = properties(broker, broker.issuer.token_url)
    config = {f"kafkastore.{name}": value for name, value in client.items()}
    with penstock.Registry(broker.bootstrap_servers, config=config) as registry:

        def is_written(subject: str) -> bool:
            request = urllib.request.Request(
                f"{registry.url}/subjects/{subject}/versions",
                b'{"schema": "\\"string\\""}',
                {"Content-Type": "application/json"},
            )
            try:
                with urllib.request.urlopen(request, timeout=10):
                    return True
            except urllib.error.HTTPError:
                return False

        assert is_written("before")
        broker.issuer.trouble = 503
        asked = broker.issuer.asked
        eventually(lambda: broker.issuer.asked > asked + 1, "another login")
        time.sleep(1.5 * REAUTHENTICATION_S)
        broker.issuer.trouble = 0
        eventually(lambda: is_written("after"), "a registration after the trouble")
