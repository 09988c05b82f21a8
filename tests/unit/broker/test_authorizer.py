"""The broker's authorizer: what it keeps, when it forgets, and what it tells the audit trail."""

from __future__ import annotations

from dataclasses import replace

import pytest

from penstock.broker.acl_authorizer import MAX_DECISIONS, AclAuthorizer, make_authorizer
from penstock.broker.authorizer import (
    AllowEverything,
    Operation,
    ResourceType,
    authorized_operations,
    cluster_operations,
)
from penstock.broker.session import Principal, RequestContext, Session
from penstock.cluster.image import MetadataImage, TopicImage
from penstock.core.config.broker_config import BrokerConfig
from penstock.core.config.keys.authorization import STANDARD_AUTHORIZER, ZOOKEEPER_AUTHORIZER
from penstock.core.config.types import ConfigError
from penstock.protocol.messages.produce import ProduceRequest
from penstock.security.acls.types import AclEntry, PatternType, Permission, ResourcePattern
from penstock.security.audit.events import AuditEvent, AuditKind
from penstock.testing.clock import ManualClock

READ, WRITE, DESCRIBE = Operation.READ, Operation.WRITE, Operation.DESCRIBE
TOPIC, CLUSTER = ResourceType.TOPIC, ResourceType.CLUSTER
ORDERS = ResourcePattern(TOPIC, "orders")
EVERY_TOPIC = ResourcePattern(TOPIC, "*")


def allow(principal: str, operation: Operation, host: str = "*") -> AclEntry:
    return AclEntry(principal, host, operation, Permission.ALLOW)


def deny(principal: str, operation: Operation, host: str = "*") -> AclEntry:
    return AclEntry(principal, host, operation, Permission.DENY)


class Source:
    """What the broker serves, as the publisher has it."""

    def __init__(self, settings: dict[str, str]) -> None:
        self.config = BrokerConfig.parse({"authorizer.class.name": STANDARD_AUTHORIZER, **settings})
        self.image = MetadataImage("cluster")

    def set_acls(self, acls: dict[ResourcePattern, tuple[AclEntry, ...]]) -> None:
        self.image = replace(self.image, security=self.image.security._replace(acls=acls))

    def set_policies(self, policies: dict[str, dict[str, str]]) -> None:
        self.image = replace(self.image, security=self.image.security._replace(policies=policies))

    def set_tags(self, **tags: str) -> None:
        topics = {name: TopicImage(name, bytes(16), (), {"penstock.tags": text}) for name, text in tags.items()}
        self.image = replace(self.image, topics=topics)


class Noting:
    kinds = frozenset((AuditKind.DENIAL,))
    refuses = False

    def __init__(self) -> None:
        self.events: list[AuditEvent] = []

    def record(self, event: AuditEvent) -> None:
        self.events.append(event)


class Stage:
    def __init__(self, **settings: str) -> None:
        self.source = Source({name.replace("_", "."): text for name, text in settings.items()})
        self.clock = ManualClock()
        self.auditor = Noting()
        self.authorizer = AclAuthorizer(self.source, self.source.config.authorization, self.clock, self.auditor)

    def may(self, who: str, operation: Operation, name: str = "orders", *, kind: ResourceType = TOPIC) -> bool:
        return self.authorizer.is_allowed(client(who), operation, kind, name)


def client(name: str, host: str = "10.0.0.1") -> RequestContext:
    session = Session("1", host, "PLAINTEXT", Principal("User", name))
    return RequestContext(session, ProduceRequest.API_KEY, 9, "app")


def test_nobody_may_do_anything_when_there_are_no_rules() -> None:
    stage = Stage()
    assert not stage.may("alice", READ)
    assert not stage.may("alice", DESCRIBE, "kafka-cluster", kind=CLUSTER)


def test_everybody_may_use_what_no_rule_is_about_when_the_setting_says_so() -> None:
    stage = Stage(allow_everyone_if_no_acl_found="true")
    stage.source.set_acls({ORDERS: (allow("User:bob", READ),)})
    assert stage.may("alice", READ, "other")
    assert not stage.may("alice", READ, "orders")


def test_a_super_user_may_do_everything_when_rules_deny_it() -> None:
    stage = Stage(super_users="User:admin; User:CN=w1,O=Acme")
    stage.source.set_acls({EVERY_TOPIC: (deny("User:*", Operation.ALL),)})
    assert stage.may("admin", WRITE)
    assert stage.may("CN=w1,O=Acme", WRITE)
    assert not stage.may("Admin", WRITE)


def test_rules_of_a_new_image_hold_at_once() -> None:
    stage = Stage()
    assert not stage.may("alice", READ)
    stage.source.set_acls({ORDERS: (allow("User:alice", READ),)})
    assert stage.may("alice", READ)
    stage.source.set_acls({ORDERS: (allow("User:alice", READ), deny("User:alice", READ))})
    assert not stage.may("alice", READ)
    stage.source.set_acls({})
    assert not stage.may("alice", READ)


def test_a_denial_holds_when_another_rule_of_its_resource_is_removed() -> None:
    """CVE-2024-27309: removing one of several ACLs made the others of the resource void."""
    stage = Stage(allow_everyone_if_no_acl_found="true")
    rules = (allow("User:alice", READ), allow("User:bob", READ), deny("User:eve", READ))
    stage.source.set_acls({ORDERS: rules})
    assert not stage.may("eve", READ)
    stage.source.set_acls({ORDERS: (*rules[:1], *rules[2:])})
    assert not stage.may("eve", READ)
    assert not stage.may("bob", READ)
    stage.source.set_acls({ORDERS: rules[2:]})
    assert not stage.may("eve", READ)


def test_a_client_that_logs_in_as_somebody_else_has_the_rights_of_that_user() -> None:
    """CVE-2026-67420: a connection kept the rights of the user that it had before."""
    stage = Stage()
    stage.source.set_acls({ORDERS: (allow("User:alice", READ),)})
    context = client("alice")
    assert stage.authorizer.is_allowed(context, READ, TOPIC, "orders")
    context.session.principal = Principal("User", "bob")
    assert not stage.authorizer.is_allowed(context, READ, TOPIC, "orders")
    context.session.principal = Principal("User", "alice")
    context.session.client_host = "10.0.0.2"
    assert stage.authorizer.is_allowed(context, READ, TOPIC, "orders")


def test_a_user_named_like_the_wildcard_has_what_everybody_has() -> None:
    stage = Stage(super_users="User:admin")
    stage.source.set_acls({ORDERS: (allow("User:alice", WRITE), allow("User:*", READ)), EVERY_TOPIC: ()})
    assert stage.may("*", READ)
    assert not stage.may("*", WRITE)
    for alike in ("Alice", "alice ", "\u0430lice", "alice\n", "alice\u200b", "User:alice"):  # the third is Cyrillic
        assert not stage.may(alike, WRITE)


@pytest.mark.parametrize("host", ["10.0.0.1", "::ffff:10.0.0.1"])
def test_a_rule_for_an_address_applies_when_the_client_comes_from_it(host: str) -> None:
    stage = Stage()
    stage.source.set_acls({ORDERS: (allow("User:alice", READ, "10.0.0.1"),)})
    assert stage.authorizer.is_allowed(client("alice", host), READ, TOPIC, "orders")
    assert not stage.authorizer.is_allowed(client("alice", "10.0.0.2"), READ, TOPIC, "orders")


def test_a_rule_in_javas_writing_of_an_address_applies() -> None:
    stage = Stage()
    stage.source.set_acls({ORDERS: (allow("User:alice", READ, "0:0:0:0:0:0:0:1"),)})
    assert stage.authorizer.is_allowed(client("alice", "::1"), READ, TOPIC, "orders")


def test_decisions_are_kept_in_bounds_when_clients_ask_for_ever_new_names() -> None:
    stage = Stage()
    for number in range(2 * MAX_DECISIONS):
        stage.may("alice", READ, f"topic-{number}")
    stage.may("alice", READ, "x" * 30_000)
    kept = [*stage.authorizer._decisions, *stage.authorizer._older_decisions]
    assert len(kept) <= MAX_DECISIONS
    assert all(len(name) <= 512 for *_, name in kept)


def test_decision_stays_kept_when_it_is_asked_for_while_others_ask_for_ever_new_names() -> None:
    stage = Stage()
    stage.source.set_acls({ORDERS: (allow("User:alice", WRITE),)})
    assert stage.may("alice", WRITE)
    decision = stage.authorizer.decide(client("alice"), WRITE, TOPIC, "orders")
    for number in range(4 * MAX_DECISIONS):
        stage.authorizer.would_allow(client("mallory"), READ, TOPIC, f"made-up-{number}")
        if number % 1_000 == 0:
            assert stage.authorizer.decide(client("alice"), WRITE, TOPIC, "orders") is decision
    stage.source.set_acls({})
    assert not stage.may("alice", WRITE)


def test_a_refusal_is_told_with_the_rule_that_decided() -> None:
    stage = Stage()
    stage.source.set_acls({ResourcePattern(TOPIC, "ord", PatternType.PREFIXED): (deny("User:*", READ),)})
    for _ in range(2):
        assert not stage.may("alice", READ)
    event = stage.auditor.events[0]
    assert (event.what, event.principal, event.address, event.client_id) == ("Produce", "User:alice", "10.0.0.1", "app")
    assert (event.resource, event.operation, event.is_allowed) == ("Topic:orders", "Read", False)
    assert event.rule == "ACL Deny User:* Read Topic:ord* from *"
    assert len(stage.auditor.events) == 2


def test_nothing_is_told_when_a_question_only_filters() -> None:
    stage = Stage()
    assert not stage.authorizer.would_allow(client("alice"), READ, TOPIC, "orders")
    assert authorized_operations(stage.authorizer, client("alice"), TOPIC, "orders") == 0
    assert stage.auditor.events == []


def test_operations_are_those_that_rules_allow_with_what_they_imply() -> None:
    stage = Stage()
    stage.source.set_acls({ORDERS: (allow("User:alice", READ), allow("User:alice", Operation.ALTER_CONFIGS))})
    expected = sum(1 << each for each in (READ, DESCRIBE, Operation.ALTER_CONFIGS, Operation.DESCRIBE_CONFIGS))
    assert authorized_operations(stage.authorizer, client("alice"), TOPIC, "orders") == expected


def test_operations_of_the_cluster_are_none_when_the_client_may_not_describe_it() -> None:
    stage = Stage()
    cluster = ResourcePattern(CLUSTER, "kafka-cluster")
    stage.source.set_acls({cluster: (allow("User:alice", Operation.CREATE),)})
    assert cluster_operations(stage.authorizer, client("alice")) == 0
    stage.source.set_acls({cluster: (allow("User:alice", Operation.CREATE), allow("User:alice", DESCRIBE))})
    assert cluster_operations(stage.authorizer, client("alice")) == 1 << Operation.CREATE | 1 << DESCRIBE


def test_a_policy_denies_before_rules_allow() -> None:
    stage = Stage()
    stage.source.set_acls({ORDERS: (allow("User:alice", READ),)})
    assert stage.may("alice", READ)
    stage.source.set_policies({"no-pii": {"tag": "pii", "effect": "deny"}})
    assert stage.may("alice", READ)
    stage.source.set_tags(orders="pii,region:eu")
    assert not stage.may("alice", READ)
    assert stage.auditor.events[-1].rule == "policy no-pii: deny All on tag pii"
    stage.source.set_tags(orders="region:eu")
    assert stage.may("alice", READ)


def test_a_policy_allows_unless_a_rule_denies() -> None:
    stage = Stage()
    stage.source.set_policies({"readers": {"tag": "open", "effect": "allow", "operations": "Read"}})
    stage.source.set_tags(orders="open", secret="pii")
    assert stage.may("alice", READ)
    assert stage.may("alice", DESCRIBE)
    assert not stage.may("alice", WRITE)
    assert not stage.may("alice", READ, "secret")
    stage.source.set_acls({ORDERS: (deny("User:alice", READ),)})
    assert not stage.may("alice", READ)


def test_a_policy_holds_from_its_beginning_to_its_end_when_decisions_are_kept() -> None:
    stage = Stage()
    begin_ms = stage.clock.now_ms()
    stage.source.set_policies(
        {"hour": {"tag": "open", "effect": "allow", "from": iso(begin_ms + 1000), "until": iso(begin_ms + 3000)}}
    )
    stage.source.set_tags(orders="open")
    seen = []
    for _ in range(4):
        seen.append((stage.may("alice", READ), stage.may("alice", READ)))
        stage.clock.advance(1000)
    assert seen == [(False, False), (True, True), (True, True), (False, False)]


def iso(time_ms: int) -> str:
    from datetime import UTC, datetime

    return datetime.fromtimestamp(time_ms / 1000, UTC).isoformat()


def test_a_topic_has_the_tags_of_its_prefix_before_it_exists() -> None:
    stage = Stage(penstock_tags_by_prefix="secret-=pii+hr")
    stage.source.set_acls({EVERY_TOPIC: (allow("User:*", Operation.ALL),)})
    stage.source.set_policies({"no-hr": {"tag": "hr", "effect": "deny", "principals": "User:eve"}})
    assert not stage.may("eve", Operation.CREATE, "secret-salaries")
    assert stage.may("eve", Operation.CREATE, "secret")
    assert stage.may("alice", Operation.CREATE, "secret-salaries")


def test_a_name_has_the_tags_of_its_topic_after_the_topic_is_gone() -> None:
    stage = Stage()
    stage.source.set_acls({EVERY_TOPIC: (allow("User:*", Operation.ALL),)})
    stage.source.set_policies({"no-pii": {"tag": "pii", "effect": "deny"}})
    for tags, may in (("pii", False), ("", True)):
        entities = {"tags/orders": {"penstock.tags": tags}} if tags else {}
        security = stage.source.image.security._replace(entity_configs=entities)
        stage.source.image = replace(stage.source.image, security=security)
        assert stage.may("alice", Operation.CREATE, "orders") == may


def test_a_policy_that_cannot_be_read_denies_its_tag() -> None:
    stage = Stage()
    stage.source.set_acls({EVERY_TOPIC: (allow("User:*", Operation.ALL),)})
    stage.source.set_policies({"p": {"tag": "pii", "effect": "perhaps"}})
    stage.source.set_tags(orders="pii", other="open")
    assert not stage.may("alice", READ)
    assert stage.may("alice", READ, "other")


def test_an_idempotent_producer_needs_to_write_to_any_topic() -> None:
    stage = Stage()
    assert not stage.authorizer.is_allowed_anywhere(client("alice"), WRITE, TOPIC)
    stage.source.set_acls({ORDERS: (allow("User:alice", WRITE),)})
    assert stage.authorizer.is_allowed_anywhere(client("alice"), WRITE, TOPIC)
    assert not stage.authorizer.is_allowed_anywhere(client("bob"), WRITE, TOPIC)


@pytest.mark.parametrize("name", [STANDARD_AUTHORIZER, ZOOKEEPER_AUTHORIZER])
def test_both_names_of_kafkas_authorizers_mean_rules(name: str) -> None:
    source = Source({"authorizer.class.name": name})
    assert isinstance(make_authorizer(source, source.config.authorization, ManualClock()), AclAuthorizer)
    plain = Source({"authorizer.class.name": ""})
    assert isinstance(make_authorizer(plain, plain.config.authorization, ManualClock()), AllowEverything)


@pytest.mark.parametrize(
    "settings", [{"authorizer.class.name": "com.example.Mine"}, {"super.users": "admin"}, {"super.users": "User:"}]
)
def test_a_setting_is_refused_when_it_would_not_do_what_it_says(settings: dict[str, str]) -> None:
    with pytest.raises(ConfigError):
        BrokerConfig.parse(settings)
