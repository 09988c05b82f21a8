"""Callers with certificates at a TLS listener of the proxy: the broker decides by the principal of the certificate."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Any

import pytest
import requests

from penstock.client.connection import BlockingConnection
from penstock.core.config.keys.authorization import STANDARD_AUTHORIZER
from penstock.protocol.messages.create_acls import AclCreation, CreateAclsRequest
from penstock.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from penstock.security.acls.types import Operation, ResourceType
from penstock.security.certificates.directory import CertificateDirectory
from tests.certificates import broker_settings, new_directory
from tests.clients.rest.talking import V2, embedded, running_rest
from tests.clients.sasl_broker import PASSWORD, USER, SaslBroker, run_sasl_broker
from tests.clients.support import PATIENCE_S, eventually

SERVICE = "proxy"
MINE, OTHERS = "of-meter", f"of-{USER}"
_ALLOW, _LITERAL = 3, 3
_RULES = (
    (ResourceType.TOPIC, MINE, "meter", Operation.ALL),
    (ResourceType.TOPIC, OTHERS, USER, Operation.ALL),
    (ResourceType.GROUP, "readings", "meter", Operation.READ),
    # The proxy may stand for the meter, and for nobody else.
    (ResourceType.USER, "User:meter", SERVICE, Operation.CREATE_TOKENS),
)


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SaslBroker]:
    config = {"authorizer.class.name": STANDARD_AUTHORIZER, "super.users": "User:ANONYMOUS"}
    with run_sasl_broker(tmp_path_factory.mktemp("guarded-certificates"), config) as broker:
        broker.add_user(SERVICE, PASSWORD)
        with BlockingConnection(*broker.plain_address) as connection:
            topics = [CreatableTopic(name=each, num_partitions=1, replication_factor=1) for each in (MINE, OTHERS)]
            connection.request(CreateTopicsRequest(topics=topics, timeout_ms=10_000), 5)
            rules = [
                AclCreation(
                    resource_type=kind,
                    resource_name=name,
                    resource_pattern_type=_LITERAL,
                    principal=f"User:{user}",
                    host="*",
                    operation=operation,
                    permission_type=_ALLOW,
                )
                for kind, name, user, operation in _RULES
            ]
            answer = connection.request(CreateAclsRequest(creations=rules), 3)
            assert not any(each.error_code for each in answer.results)
        yield broker


@pytest.fixture(scope="module")
def papers(tmp_path_factory: pytest.TempPathFactory) -> CertificateDirectory:
    return new_directory(tmp_path_factory.mktemp("papers") / "certificates", meter=None, stranger=None)


@pytest.fixture(scope="module")
def url(guarded: SaslBroker, papers: CertificateDirectory) -> Iterator[str]:
    """Certificates may be shown; who shows none logs in by name and password."""
    login = f'org.apache.kafka.common.security.scram.ScramLoginModule required username="{SERVICE}" '
    settings = {
        "listeners": "https://localhost:0",
        "authentication.method": "BASIC",
        "penstock.http.broker.logins": "true",
        **broker_settings(papers, client_auth="requested"),
        "ssl.principal.mapping.rules": "RULE:^CN=([^,]+).*$/$1/",
        "client.security.protocol": "SASL_SSL",
        "client.ssl.truststore.type": "PEM",
        "client.ssl.truststore.location": str(guarded.authority),
        "client.sasl.mechanism": "SCRAM-SHA-512",
        "client.sasl.jaas.config": f'{login} password="{PASSWORD}";',
    }
    with running_rest(guarded.servers("SASL_SSL"), **settings) as rest:
        yield rest.url


class TlsCaller:
    def __init__(self, url: str, papers: CertificateDirectory, name: str | None, login: tuple[str, str] | None) -> None:
        self._url = url
        self._session = requests.Session()
        self._session.trust_env = False  # a bundle of the machine would take the place of ours
        self._session.verify = str(papers.trusted)
        self._session.cert = None if name is None else str(papers.file(name))
        self._session.auth = login

    def ask(self, method: str, path: str, body: Any = None, content_type: str = V2) -> requests.Response:
        return self._session.request(
            method, f"{self._url}{path}", json=body, headers={"Content-Type": content_type}, timeout=PATIENCE_S
        )

    def produce(self, topic: str, value: Any) -> requests.Response:
        return self.ask("POST", f"/topics/{topic}", {"records": [{"value": value}]}, embedded("json"))

    def close(self) -> None:
        self._session.close()


@pytest.fixture
def meter(url: str, papers: CertificateDirectory) -> Iterator[TlsCaller]:
    caller = TlsCaller(url, papers, "meter", None)
    yield caller
    caller.close()


def test_caller_with_a_certificate_writes_and_reads_when_the_rules_allow_its_principal(meter: TlsCaller) -> None:
    value = uuid.uuid4().hex
    written = meter.produce(MINE, value)
    assert written.status_code == 200, written.text
    assert written.json()["offsets"][0]["error_code"] is None

    made = meter.ask("POST", "/consumers/readings", {"format": "json", "auto.offset.reset": "earliest"})
    assert made.status_code == 200, made.text
    path = f"/consumers/readings/instances/{made.json()['instance_id']}"
    assert meter.ask("POST", f"{path}/subscription", {"topics": [MINE]}).status_code == 204
    found: list[Any] = []

    def has_come() -> bool:
        answer = meter.ask("GET", f"{path}/records", content_type=embedded("json"))
        assert answer.status_code == 200, answer.text
        found.extend(each["value"] for each in answer.json())
        return value in found

    eventually(has_come, "the record")
    assert meter.ask("DELETE", path).status_code == 204


def test_caller_with_a_certificate_is_refused_when_the_rules_allow_others_alone(meter: TlsCaller) -> None:
    refused = meter.produce(OTHERS, 1)
    assert (refused.status_code, refused.json()["error_code"]) == (403, 40301)
    clusters = meter.ask("GET", "/v3/clusters").json()
    records = f"/v3/clusters/{clusters['data'][0]['cluster_id']}/topics/{OTHERS}/records"
    assert meter.ask("POST", records, {}, "application/json").json()["error_code"] == 40301
    assert OTHERS not in meter.ask("GET", "/topics").json()


def test_caller_is_refused_when_the_proxy_may_not_stand_for_its_principal(
    url: str, papers: CertificateDirectory
) -> None:
    stranger = TlsCaller(url, papers, "stranger", None)
    try:
        assert stranger.ask("GET", "/topics").status_code == 403
    finally:
        stranger.close()


def test_caller_without_a_certificate_is_who_its_login_says_when_the_listener_has_tls(
    url: str, papers: CertificateDirectory
) -> None:
    named, nobody = TlsCaller(url, papers, None, (USER, PASSWORD)), TlsCaller(url, papers, None, None)
    try:
        assert named.produce(OTHERS, 1).status_code == 200
        assert named.produce(MINE, 1).status_code == 403
        assert nobody.produce(OTHERS, 1).status_code == 401
    finally:
        named.close()
        nobody.close()
