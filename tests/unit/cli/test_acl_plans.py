"""From options to rules, as kafka-acls has its shortcuts."""

from __future__ import annotations

import pytest

from penstock.cli.errors import UsageError
from penstock.cli.plans.acls import (
    Resources,
    Shortcuts,
    Subjects,
    parse_host,
    parse_operation,
    parse_principal,
    plan_filters,
    plan_rules,
)
from penstock.cli.views.acls import describe_rule
from penstock.security.acls.types import Operation, PatternType, Permission, ResourceType

ALICE = Subjects(("User:alice",))


def lines(resources: Resources, shortcuts: Shortcuts) -> list[str]:
    return [describe_rule(acl) for acl in plan_rules(resources, ALICE, (), shortcuts)]


def test_a_producer_gets_what_kafka_acls_gives_it() -> None:
    resources = Resources(topics=("orders",), transactional_ids=("tx",))
    assert lines(resources, Shortcuts(is_producer=True, is_idempotent=True)) == [
        "Allow User:alice Write on Topic orders",
        "Allow User:alice Describe on Topic orders",
        "Allow User:alice Create on Topic orders",
        "Allow User:alice Write on TransactionalId tx",
        "Allow User:alice Describe on TransactionalId tx",
        "Allow User:alice IdempotentWrite on Cluster kafka-cluster",
    ]


def test_a_consumer_gets_what_kafka_acls_gives_it() -> None:
    resources = Resources(topics=("orders",), groups=("g",), pattern=PatternType.PREFIXED)
    assert lines(resources, Shortcuts(is_consumer=True)) == [
        "Allow User:alice Read on Topic orders*",
        "Allow User:alice Describe on Topic orders*",
        "Allow User:alice Read on Group g*",
    ]


def test_a_rule_is_made_for_each_combination_when_much_is_named() -> None:
    subjects = Subjects(("User:a", "User:b"), ("10.0.0.1", "*"), Permission.DENY)
    rules = plan_rules(Resources(topics=("t",), is_cluster=True), subjects, (Operation.READ,), Shortcuts())
    assert len(rules) == 8
    assert describe_rule(rules[0]) == "Deny User:a Read on Topic t from 10.0.0.1"


@pytest.mark.parametrize(
    ("resources", "operations", "shortcuts"),
    [
        (Resources(), (), Shortcuts()),
        (Resources(), (), Shortcuts(is_producer=True)),
        (Resources(topics=("t",)), (), Shortcuts(is_consumer=True)),
        (Resources(topics=("t",)), (Operation.READ,), Shortcuts(is_producer=True)),
    ],
)
def test_options_are_refused_when_they_mean_no_rule(
    resources: Resources, operations: tuple[Operation, ...], shortcuts: Shortcuts
) -> None:
    with pytest.raises(UsageError):
        plan_rules(resources, ALICE, operations, shortcuts)


def test_what_is_not_named_is_any_when_rules_are_looked_for() -> None:
    (everything,) = plan_filters(Resources(), (), (), (), Permission.ANY)
    assert everything.type is ResourceType.ANY
    assert everything.name is None
    two = plan_filters(Resources(topics=("a", "b"), pattern=PatternType.MATCH), ("User:x",), (), (), Permission.DENY)
    assert [(each.name, each.pattern, each.principal) for each in two] == [
        ("a", PatternType.MATCH, "User:x"),
        ("b", PatternType.MATCH, "User:x"),
    ]


@pytest.mark.parametrize(
    ("text", "principal"),
    [("alice", "User:alice"), ("User:a:b", "User:a:b"), ("CN=w1,OU=a:b", "User:CN=w1,OU=a:b"), ("User:*", "User:*")],
)
def test_a_user_may_be_named_shortly(text: str, principal: str) -> None:
    assert parse_principal(text) == principal


def test_an_operation_may_be_written_in_any_case() -> None:
    assert parse_operation("describe_configs") is Operation.DESCRIBE_CONFIGS
    assert parse_operation("AlterConfigs") is Operation.ALTER_CONFIGS
    with pytest.raises(UsageError):
        parse_operation("fly")


@pytest.mark.parametrize("host", ["*", "10.0.0.1", "::1", "0:0:0:0:0:0:0:1"])
def test_host_is_taken_when_it_is_an_address(host: str) -> None:
    assert parse_host(host) == host


@pytest.mark.parametrize("host", ["10.0.0.0/8", "host.example", "10.0.0.*", "localhost", ""])
def test_host_is_refused_when_a_rule_for_it_would_never_match(host: str) -> None:
    with pytest.raises(UsageError, match="no address") as caught:
        parse_host(host)
    assert "policies" in caught.value.hint
