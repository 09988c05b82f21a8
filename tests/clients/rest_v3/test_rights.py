"""Access rules by v3, and what a caller is told that they keep out."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
import requests
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

import penstock
from tests.clients.rest_v3.talking import RULE, V3, run_proxy
from tests.clients.sasl_broker import PASSWORD, USER, run_sasl_broker
from tests.fake_registry import FakeRegistry, running_registry

WAIT_S = 30
AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"


@pytest.fixture(scope="module")
def guarded_broker() -> Iterator[penstock.Broker]:
    """Everybody may do everything that no rule is about."""
    config = {"authorizer.class.name": AUTHORIZER, "allow.everyone.if.no.acl.found": "true"}
    with penstock.Broker(config=config) as broker:
        yield broker


@pytest.fixture(scope="module")
def registry() -> Iterator[FakeRegistry]:
    with running_registry() as running:
        yield running


@pytest.fixture(scope="module")
def guarded(guarded_broker: penstock.Broker, registry: FakeRegistry) -> Iterator[V3]:
    with run_proxy(guarded_broker.bootstrap_servers, schema_registry_url=registry.url) as proxy:
        yield proxy


@pytest.fixture(scope="module")
def guarded_admin(guarded_broker: penstock.Broker) -> AdminClient:
    return AdminClient({"bootstrap.servers": guarded_broker.bootstrap_servers})


def _seen_rules(admin: AdminClient) -> set[tuple[str, str]]:
    anything: Any = None  # the stubs of the client know of no filter that leaves something open
    wanted = AclBindingFilter(
        ResourceType.ANY,
        anything,
        ResourcePatternType.ANY,
        "User:v3-alice",
        anything,
        AclOperation.ANY,
        AclPermissionType.ANY,
    )
    return {(rule.name, rule.operation.name) for rule in admin.describe_acls(wanted).result(WAIT_S)}


def test_rights_are_made_searched_and_deleted(guarded: V3, guarded_admin: AdminClient) -> None:
    made = guarded.ask("POST", "/acls", RULE)
    assert (made.status_code, made.content) == (201, b"")
    (found,) = requests.get(made.headers["location"], timeout=WAIT_S).json()["data"]
    assert {name: found[name] for name in RULE} == RULE
    assert found["metadata"]["self"] == made.headers["location"]
    several = [{**RULE, "operation": "WRITE"}, {**RULE, "resource_name": "v3-other", "pattern_type": "LITERAL"}]
    assert guarded.ask("POST", "/acls:batch", {"data": several}).status_code == 201
    assert _seen_rules(guarded_admin) == {("v3-", "READ"), ("v3-", "WRITE"), ("v3-other", "READ")}

    one = {"resource_type": "topic", "pattern_type": "LITERAL", "operation": "ANY", "permission": "ANY"}
    deleted = guarded.ask("DELETE", "/acls", params={**one, "principal": "User:v3-alice"})
    assert deleted.status_code == 200
    assert [row["resource_name"] for row in deleted.json()["data"]] == ["v3-other"]
    assert _seen_rules(guarded_admin) == {("v3-", "READ"), ("v3-", "WRITE")}
    rest = guarded.ask("DELETE", "/acls", params={**one, "principal": "User:v3-alice", "pattern_type": "PREFIXED"})
    assert len(rest.json()["data"]) == 2
    assert guarded.get("/acls", params={"principal": "User:v3-alice"})["data"] == []


def _deny(admin: AdminClient, kind: ResourceType, name: str, operation: AclOperation = AclOperation.ALL) -> None:
    everybody, literal = "User:ANONYMOUS", ResourcePatternType.LITERAL
    rule = AclBinding(kind, name, literal, everybody, "*", operation, AclPermissionType.DENY)
    for result in admin.create_acls([rule]).values():
        result.result(WAIT_S)


def test_no_schema_is_registered_when_the_caller_may_not_write_the_topic(
    guarded: V3, guarded_admin: AdminClient, registry: FakeRegistry
) -> None:
    topic = guarded.make_topic("v3-read-only")
    _deny(guarded_admin, ResourceType.TOPIC, topic, AclOperation.WRITE)
    value = {"type": "AVRO", "schema": '"long"', "data": 1}
    refused = guarded.ask("POST", f"/topics/{topic}/records", {"value": value})
    assert refused.json()["error_code"] == 40301
    media_type = "application/vnd.kafka.avro.v2+json"
    body = json.dumps({"value_schema": '"long"', "records": [{"value": 1}]})
    v2 = requests.post(f"{guarded.base}/topics/{topic}", body, headers={"content-type": media_type}, timeout=WAIT_S)
    assert (v2.status_code, v2.json()["error_code"]) == (403, 40301)
    assert f"{topic}-value" not in registry.subjects


def test_a_caller_is_kept_out_when_a_rule_says_so(guarded: V3, guarded_admin: AdminClient) -> None:
    topic = guarded.make_topic("v3-closed")
    _deny(guarded_admin, ResourceType.TOPIC, topic)
    _deny(guarded_admin, ResourceType.GROUP, "v3-closed-group")
    _deny(guarded_admin, ResourceType.BROKER, "kafka-cluster", AclOperation.DELETE)
    forbidden = (403, 40301)
    assert guarded.refused("GET", f"/topics/{topic}") == forbidden
    assert guarded.refused("DELETE", f"/topics/{topic}") == forbidden
    assert guarded.refused("GET", f"/topics/{topic}/configs") == forbidden
    assert guarded.refused("PUT", f"/topics/{topic}/configs/retention.ms", {"value": "1000"}) == forbidden
    assert guarded.refused("PATCH", f"/topics/{topic}", {"partitions_count": 2}) == forbidden
    assert guarded.refused("GET", f"/topics/{topic}/partitions") == forbidden
    assert guarded.refused("GET", "/consumer-groups/v3-closed-group") == forbidden
    assert topic not in [row["topic_name"] for row in guarded.get("/topics")["data"]]


@pytest.fixture(scope="module")
def passing(tmp_path_factory: pytest.TempPathFactory, registry: FakeRegistry) -> Iterator[V3]:
    """The brokers know the callers: a name and a password are passed on to them."""
    config = {"authorizer.class.name": AUTHORIZER, "super.users": f"User:ANONYMOUS;User:{USER}"}
    with run_sasl_broker(tmp_path_factory.mktemp("passing"), config) as broker:
        broker.add_user("bob", "bob's secret")
        own = (
            f'org.apache.kafka.common.security.scram.ScramLoginModule required username="{USER}" password="{PASSWORD}";'
        )
        with run_proxy(
            broker.bootstrap_servers,
            auth=(USER, PASSWORD),
            authentication_method="BASIC",
            penstock_http_broker_logins="true",
            client_security_protocol="SASL_PLAINTEXT",
            client_sasl_mechanism="SCRAM-SHA-512",
            client_sasl_jaas_config=own,
            schema_registry_url=registry.url,
        ) as proxy:
            yield proxy


def test_a_caller_has_its_own_rights_when_logins_are_passed_on(passing: V3) -> None:
    topic = passing.make_topic("v3-passed")
    records = f"/topics/{topic}/records"
    record = {"value": {"type": "STRING", "data": "x"}}
    assert passing.ask("POST", records, record).json()["error_code"] == 200
    bob = ("bob", "bob's secret")
    assert passing.refused("GET", f"/topics/{topic}", auth=bob) == (403, 40301)
    assert passing.refused("POST", "/topics", {"topic_name": "v3-bobs"}, auth=bob) == (403, 40301)
    assert passing.refused("GET", "/acls", auth=bob) == (403, 40301)
    assert passing.refused("GET", "/broker-configs", auth=bob) == (403, 40301)
    assert passing.ask("GET", "/topics", auth=bob).json()["data"] == []
    assert passing.ask("POST", records, record, auth=bob).json()["error_code"] == 40301
    streamed = passing.ask("POST", records, data=iter([b"{}"]), auth=bob, headers={"content-type": "application/json"})
    assert (streamed.status_code, streamed.json()["error_code"]) == (200, 40301)
    assert passing.ask("GET", "/topics", auth=("bob", "wrong")).status_code == 401
    assert passing.get(f"/topics/{topic}/partitions/0/offset")["latest_offset"] == 1


def test_a_caller_hears_of_the_topic_when_it_may_read_it_but_write_to_none(passing: V3) -> None:
    topic = passing.make_topic("v3-read-only")
    rule = {**RULE, "resource_name": topic, "pattern_type": "LITERAL", "principal": "User:bob"}
    assert passing.ask("POST", "/acls", rule).status_code == 201
    record = {"value": {"type": "STRING", "data": "x"}}
    refused = passing.ask("POST", f"/topics/{topic}/records", record, auth=("bob", "bob's secret")).json()
    assert (refused["error_code"], refused["message"]) == (40301, f"not allowed to write to topic {topic}")


def test_schemas_are_registered_for_the_own_topic_alone_when_logins_are_passed_on(
    passing: V3, registry: FakeRegistry
) -> None:
    topic, other = passing.make_topic("v3-own"), "v3-of-others-value"
    value = {"type": "AVRO", "schema": '"long"', "data": 1}

    def produce(**more: str) -> int:
        code: int = passing.ask("POST", f"/topics/{topic}/records", {"value": {**value, **more}}).json()["error_code"]
        return code

    assert produce() == 200
    assert produce(subject=other) == 42205
    assert (f"{topic}-value" in registry.subjects, other in registry.subjects) == (True, False)
    registry.subjects["v3-shared"] = registry.subjects[f"{topic}-value"]
    assert produce(subject="v3-shared") == 200
