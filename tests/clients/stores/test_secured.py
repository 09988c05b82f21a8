"""Stores behind TLS and logins: users of the server, and users whom the brokers know and allow to read."""

from __future__ import annotations

import base64
import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.client.connection import BlockingConnection
from penstock.core.config.keys.authorization import STANDARD_AUTHORIZER
from penstock.core.config.types import ConfigError
from penstock.protocol.messages.create_acls import AclCreation, CreateAclsRequest
from penstock.security.acls.types import Operation, ResourceType
from penstock.streams.stores.client import StoreClient, StoreError
from tests.certificates import broker_settings, new_directory
from tests.clients.conftest import RunningBroker
from tests.clients.sasl_broker import PASSWORD, USER, SaslBroker, run_sasl_broker
from tests.clients.stores.talking import Changelogs, Stores, running_stores

_ALLOW, _LITERAL = 3, 3


def basic(user: str, password: str = PASSWORD) -> str:
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


def test_only_users_are_answered_over_tls_when_the_server_has_users(broker: RunningBroker, tmp_path: Path) -> None:
    changelogs = Changelogs(broker.bootstrap_servers)
    changelogs.create("counts")
    changelogs.write("counts", {"a": 1})
    papers = new_directory(tmp_path / "certificates")
    settings = {
        "listeners": "https://localhost:0",
        "authentication.method": "BASIC",
        "penstock.http.users": "ann:secret",
        **broker_settings(papers),
    }
    tls = ssl.create_default_context(cafile=str(papers.trusted))
    with running_stores(changelogs.application, broker.bootstrap_servers, **settings) as server:
        assert Stores(server.url, tls).get("/stores/counts/keys/a").status == 401
        assert Stores(server.url, tls).get("/health").status == 200
        assert Stores(server.url, tls).get("/openapi.json").status == 401
        assert Stores(server.url, tls, basic("ann", "wrong")).get("/stores").status == 401
        assert Stores(server.url, tls, basic("ann", "secret")).value("counts", "a") == 1
        login = {"basic.auth.user.info": "ann:secret", "ssl.truststore.location": str(papers.trusted)}
        client = StoreClient(server.url, {**login, "ssl.truststore.type": "PEM"})
        row = client.get("counts", "a")
        assert row is not None
        assert row.value == 1
        client.close()
        with pytest.raises(StoreError, match="no server of stores answers"):
            StoreClient(server.url, {"basic.auth.user.info": "ann:secret"}).stores()


def test_the_server_does_not_start_when_it_would_be_open_to_everybody(broker: RunningBroker) -> None:
    with (
        pytest.raises(ConfigError, match="open to everybody"),
        running_stores("app", broker.bootstrap_servers, listeners="http://0.0.0.0:0"),
    ):
        pass


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SaslBroker]:
    config = {"authorizer.class.name": STANDARD_AUTHORIZER, "super.users": "User:ANONYMOUS;User:server"}
    with run_sasl_broker(tmp_path_factory.mktemp("guarded-stores"), config) as broker:
        for user in ("carol", "server"):
            broker.add_user(user, PASSWORD)
        yield broker


def test_a_store_is_read_when_the_brokers_let_the_caller_read_its_changelog(guarded: SaslBroker) -> None:
    changelogs = Changelogs("{}:{}".format(*guarded.plain_address))
    for store in ("mine", "seen", "hidden"):
        changelogs.create(store)
        changelogs.write(store, {"a": store})
    rules = [("mine", Operation.READ), ("mine", Operation.DESCRIBE), ("seen", Operation.DESCRIBE)]
    creations = [
        AclCreation(
            resource_type=ResourceType.TOPIC,
            resource_name=changelogs.topic(store),
            resource_pattern_type=_LITERAL,
            principal=f"User:{USER}",
            host="*",
            operation=operation,
            permission_type=_ALLOW,
        )
        for store, operation in rules
    ]
    with BlockingConnection(*guarded.plain_address) as connection:
        connection.request(CreateAclsRequest(creations=creations), 2)
    login = f'org.apache.kafka.common.security.scram.ScramLoginModule required username="server" password="{PASSWORD}";'
    settings = {
        "authentication.method": "BASIC",
        "penstock.http.broker.logins": "true",
        "client.security.protocol": "SASL_PLAINTEXT",
        "client.sasl.mechanism": "SCRAM-SHA-512",
        "client.sasl.jaas.config": login,
    }
    with running_stores(changelogs.application, guarded.bootstrap_servers, **settings) as server:
        alice, carol = (Stores(server.url, authorization=basic(user)) for user in (USER, "carol"))
        assert alice.value("mine", "a") == "mine"
        assert [each["name"] for each in alice.get("/stores").json["stores"]] == ["mine"]
        # Whether there is such a store is not told to those who may not know.
        for store in ("seen", "hidden", "never"):
            assert alice.get(f"/stores/{store}/keys/a").status == 403
        assert carol.get("/stores").json["stores"] == []
        assert carol.get("/stores/mine/keys/a").status == 403
        assert carol.post("/stores/mine/keys", {"keys": ["a"]}).status == 403
        assert Stores(server.url, authorization=basic(USER, "wrong")).get("/stores").status == 401
