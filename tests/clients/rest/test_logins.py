"""Callers whose logins the proxy passes on: the broker lets them in, and its rules decide."""

from __future__ import annotations

import base64
from collections.abc import Iterator

import pytest

from penstock.client.connection import BlockingConnection
from penstock.core.config.keys.authorization import STANDARD_AUTHORIZER
from penstock.protocol.messages.create_acls import AclCreation, CreateAclsRequest
from penstock.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from penstock.security.acls.types import Operation, ResourceType
from tests.clients.rest.talking import Rest, embedded, running_rest
from tests.clients.sasl_broker import PASSWORD, USER, SaslBroker, run_sasl_broker

_ALLOW, _LITERAL = 3, 3
_RULES = (
    (ResourceType.TOPIC, f"of-{USER}", USER, Operation.ALL),
    (ResourceType.TOPIC, "of-carol", "carol", Operation.ALL),
    (ResourceType.GROUP, "shared", USER, Operation.READ),
    (ResourceType.GROUP, "shared", "carol", Operation.READ),
)


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SaslBroker]:
    config = {"authorizer.class.name": STANDARD_AUTHORIZER, "super.users": "User:ANONYMOUS"}
    with run_sasl_broker(tmp_path_factory.mktemp("guarded-rest"), config) as broker:
        broker.add_user("carol", PASSWORD)
        with BlockingConnection(*broker.plain_address) as connection:
            topics = [
                CreatableTopic(name=f"of-{each}", num_partitions=1, replication_factor=1) for each in (USER, "carol")
            ]
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
            connection.request(CreateAclsRequest(creations=rules), 2)
        yield broker


@pytest.fixture(scope="module")
def proxy(guarded: SaslBroker) -> Iterator[Rest]:
    settings = {
        "authentication.method": "BASIC,BEARER",
        "penstock.http.broker.logins": "true",
        "penstock.rest.login.mechanisms": "PLAIN,SCRAM-SHA-512",
    }
    with running_rest(guarded.bootstrap_servers, **settings) as rest:
        yield rest


def basic(user: str, password: str = PASSWORD) -> str:
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


def test_caller_is_refused_when_the_broker_does_not_know_the_login(proxy: Rest) -> None:
    for headers in ({}, {"authorization": basic(USER, "wrong")}, {"authorization": "Bearer abc"}):
        answer = proxy.get("/topics", **headers)
        assert answer.status == 401
        assert answer.json["error_code"] == 401


def test_health_is_told_to_strangers_and_numbers_are_not_when_callers_log_in(proxy: Rest) -> None:
    assert proxy.get("/livez").status == 200
    assert proxy.get("/readyz").json == {"status": "ready"}
    assert proxy.get("/metrics").status == 401
    numbers = proxy.get("/metrics", authorization=basic(USER)).body.decode()
    assert "penstock_rest_consumer_instances 0" in numbers


def test_rules_of_the_broker_decide_when_callers_log_in(proxy: Rest, guarded: SaslBroker) -> None:
    assert proxy.get("/topics", authorization=basic(USER)).json == [f"of-{USER}"]
    assert proxy.get("/topics", authorization=basic("carol")).json == ["of-carol"]
    assert proxy.get("/topics", authorization=f"Bearer {guarded.token()}").json == [f"of-{USER}"]
    body = {"records": [{"value": 1}]}
    for topic, status in (("of-carol", 200), (f"of-{USER}", 403)):
        answer = proxy.post(f"/topics/{topic}", body, embedded("json"), authorization=basic("carol"))
        assert answer.status == status, answer
    assert answer.code == 40301


def test_instances_are_their_callers_own_when_names_are_the_same(proxy: Rest) -> None:
    mine, theirs = basic(USER), basic("carol")
    path = "/consumers/shared/instances/one"
    for authorization in (mine, theirs):
        created = proxy.post("/consumers/shared", {"name": "one", "format": "json"}, authorization=authorization)
        assert created.status == 200, created
    partition = {"partitions": [{"topic": f"of-{USER}", "partition": 0}]}
    assert proxy.post(f"{path}/assignments", partition, authorization=mine).status == 204
    assert proxy.get(f"{path}/assignments", authorization=theirs).json == {"partitions": []}
    assert proxy.post(f"{path}/assignments", partition, authorization=theirs).status == 403
    assert proxy.ask("DELETE", path, authorization=mine).status == 204
    assert proxy.get(f"{path}/assignments", authorization=mine).code == 40403
    assert proxy.ask("DELETE", path, authorization=theirs).status == 204


def test_group_is_refused_when_the_caller_may_not_join_it(proxy: Rest) -> None:
    authorization = basic("carol")
    created = proxy.post("/consumers/closed", {"name": "c", "format": "json"}, authorization=authorization)
    assert created.status == 200
    path = "/consumers/closed/instances/c"
    proxy.post(f"{path}/subscription", {"topics": ["of-carol"]}, authorization=authorization)
    refused = proxy.get(f"{path}/records?timeout=20000", authorization=authorization)
    assert (refused.status, refused.code) == (403, 40301), refused
    proxy.ask("DELETE", path, authorization=authorization)
