"""ACLs and policies with real clients, against brokers that have an authorizer. Clients are told apart by the address
that they come from: the administrator of these tests is whoever comes from 127.0.0.1.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)
from kafka.admin import ACL, ACLFilter, ACLOperation, ACLPermissionType, KafkaAdminClient, ResourcePattern
from kafka.admin import ResourceType as KafkaPythonType

import penstock
from penstock.core.config.keys.authorization import STANDARD_AUTHORIZER
from tests.clients.cli_runner import Cli
from tests.clients.support import PATIENCE_S

CONFIG = {"authorizer.class.name": STANDARD_AUTHORIZER, "super.users": "User:ANONYMOUS"}


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with penstock.Broker(data_dir=tmp_path_factory.mktemp("acls"), config=CONFIG) as broker:
        yield broker.bootstrap_servers


def binding(name: str, principal: str, permission: AclPermissionType = AclPermissionType.ALLOW) -> AclBinding:
    return AclBinding(
        ResourceType.TOPIC, name, ResourcePatternType.LITERAL, principal, "*", AclOperation.READ, permission
    )


def any_rule(kind: ResourceType, name: Any, pattern: ResourcePatternType, principal: Any) -> AclBindingFilter:
    """None matches everything, which the library's types do not say."""
    host: Any = None
    return AclBindingFilter(kind, name, pattern, principal, host, AclOperation.ANY, AclPermissionType.ANY)


def test_rules_are_made_found_and_deleted_by_confluent_kafka(servers: str) -> None:
    admin = AdminClient({"bootstrap.servers": servers})
    wanted = [binding("orders", "User:a"), binding("orders", "User:b", AclPermissionType.DENY)]
    for _ in range(2):  # a rule that is there already is no error
        for future in admin.create_acls(wanted).values():
            future.result(PATIENCE_S)
    everything = any_rule(ResourceType.TOPIC, "orders", ResourcePatternType.MATCH, None)
    assert sorted(admin.describe_acls(everything).result(PATIENCE_S)) == sorted(wanted)
    mine = any_rule(ResourceType.ANY, None, ResourcePatternType.ANY, "User:a")
    (deleted,) = admin.delete_acls([mine]).values()
    assert deleted.result(PATIENCE_S) == [wanted[0]]
    assert admin.describe_acls(everything).result(PATIENCE_S) == [wanted[1]]


def test_a_rule_is_refused_when_it_names_another_cluster(servers: str) -> None:
    admin = AdminClient({"bootstrap.servers": servers})
    wrong = AclBinding(
        ResourceType.BROKER,
        "another",
        ResourcePatternType.LITERAL,
        "User:a",
        "*",
        AclOperation.ALTER,
        AclPermissionType.ALLOW,
    )
    (future,) = admin.create_acls([wrong]).values()
    with pytest.raises(KafkaException) as caught:
        future.result(PATIENCE_S)
    assert caught.value.args[0].name() == "INVALID_REQUEST"


def test_rules_are_made_found_and_deleted_by_kafka_python(servers: str) -> None:
    admin = KafkaAdminClient(bootstrap_servers=servers)
    try:
        rule = ACL(
            principal="User:python",
            host="*",
            operation=ACLOperation.WRITE,
            permission_type=ACLPermissionType.ALLOW,
            resource_pattern=ResourcePattern(KafkaPythonType.TOPIC, "snakes"),
        )
        admin.create_acls([rule])
        asked = ACLFilter(
            principal="User:python",
            host="*",
            operation=ACLOperation.ANY,
            permission_type=ACLPermissionType.ANY,
            resource_pattern=ResourcePattern(KafkaPythonType.TOPIC, "snakes"),
        )
        found, error = admin.describe_acls(asked)
        assert [acl.principal for acl in found] == ["User:python"]
        assert error.errno == 0
        ((_, deleted, _),) = admin.delete_acls([asked])
        assert len(deleted) == 1
    finally:
        admin.close()


class TestCommands:
    def test_rules_are_added_listed_explained_and_removed(self, servers: str) -> None:
        cli = Cli(servers)
        cli.run("acls", "add", "--principal", "alice", "--producer", "--topic", "bills")
        cli.run("acls", "add", "-p", "alice", "--deny", "-o", "write", "-t", "bills-se", "--prefixed")
        listed = cli.run("acls", "list", "--topic", "bills-secret", "--matching", "--json").json
        assert [(rule["name"], rule["pattern"], rule["permission"]) for rule in listed] == [
            ("bills-se", "Prefixed", "Deny")
        ]
        allowed = cli.run("acls", "explain", "alice", "write", "--topic", "bills")
        assert allowed.text == (
            "User:alice may Write on Topic bills from 127.0.0.1: ACL Allow User:alice Write Topic:bills from *\n"
        )
        denied = cli.try_run("acls", "explain", "alice", "write", "--topic", "bills-secret", "--json")
        assert denied.code == 1
        assert denied.json["rule"] == "ACL Deny User:alice Write Topic:bills-se* from *"
        assert cli.run("acls", "explain", "ANONYMOUS", "alter", "--cluster", "--json").json["reason"] == "super user"
        assert cli.try_run("acls", "explain", "bob", "read", "--topic", "bills").code == 1
        removed = cli.run("acls", "remove", "-p", "alice", "--producer", "--topic", "bills", "--yes", "--json").json
        assert {rule["operation"] for rule in removed} == {"Write", "Describe", "Create"}
        cli.run("acls", "remove", "--principal", "alice", "--yes")
        assert cli.run("acls", "list", "--principal", "alice", "--json").json == []

    def test_a_hint_says_what_to_do_when_options_mean_nothing(self, servers: str) -> None:
        cli = Cli(servers)
        for arguments in (
            ("add", "--principal", "a"),
            ("add", "--topic", "t"),
            ("remove", "--yes"),
            ("explain", "a", "fly", "--topic", "t"),
            ("explain", "a", "read"),
            ("explain", "User:*", "read", "--topic", "t"),
        ):
            assert cli.try_run("acls", *arguments).code == 2
        gone = cli.try_run("acls", "remove", "--topic", "nowhere", "--yes")
        assert gone.code == 1
        assert "no such rules" in gone.err

    def test_policies_are_added_listed_explained_and_removed(self, servers: str) -> None:
        cli = Cli(servers)
        cli.run("topics", "create", "people", "--config", "penstock.tags=pii,region:eu")
        cli.run("acls", "add", "-p", "alice", "-o", "read", "-t", "people")
        assert cli.run("acls", "explain", "alice", "read", "-t", "people").code == 0
        cli.run("policies", "add", "no-pii", "--tag", "pii", "--deny", "-o", "Read", "--address", "127.0.0.0/8")
        (listed,) = cli.run("policies", "list", "--json").json
        assert listed == {
            "policy": "no-pii",
            "tag": "pii",
            "effect": "deny",
            "operations": "Read",
            "addresses": "127.0.0.0/8",
        }
        assert "no-pii" in cli.run("policies", "list").text
        denied = cli.try_run("policies", "explain", "alice", "read", "-t", "people", "--json")
        assert denied.code == 1
        assert denied.json["rule"] == "policy no-pii: deny Read on tag pii"
        assert denied.json["tags"] == ["pii", "region:eu"]
        assert cli.run("policies", "explain", "alice", "read", "-t", "people", "--host", "10.0.0.1").code == 0
        assert cli.run("policies", "remove", "no-pii", "--yes", "--json").json == listed
        assert cli.run("policies", "list", "--json").json == []
        assert cli.try_run("policies", "remove", "no-pii", "--yes").code == 1
        assert cli.try_run("policies", "add", "x", "--tag", "pii", "--allow", "--deny").code == 2
        assert cli.try_run("policies", "add", "x", "--tag", "p i", "--deny").code == 2

    def test_an_authorizer_is_missed_when_there_is_none(self, broker: Any) -> None:
        result = Cli(broker.bootstrap_servers).try_run("acls", "list")
        assert result.code == 1
        assert "no authorizer" in result.err
        assert "authorizer.class.name" in result.err


def test_tags_are_there_when_their_topic_is_deleted_and_made_anew(tmp_path: Path) -> None:
    """Whoever may delete and create a topic cannot take its tags off in that way."""

    def tags(cli: Cli) -> str:
        return str(cli.try_run("policies", "explain", "alice", "read", "-t", "people", "--json").json["tags"])

    with penstock.Broker(data_dir=tmp_path, config=CONFIG) as broker:
        cli = Cli(broker.bootstrap_servers)
        cli.run("topics", "create", "people", "--config", "penstock.tags=pii")
        cli.run("topics", "delete", "people", "--yes")
        assert tags(cli) == "['pii']", "also before there is a topic"
    with penstock.Broker(data_dir=tmp_path, config=CONFIG) as broker:
        cli = Cli(broker.bootstrap_servers)
        cli.run("topics", "create", "people")
        assert tags(cli) == "['pii']"
        cli.run("topics", "delete", "people", "--yes")
        cli.run("configs", "alter", "--topic", "people", "--delete", "penstock.tags")
        cli.run("topics", "create", "people")
        assert tags(cli) == "[]"


def test_tags_stay_when_their_owner_may_delete_and_create_the_topic_but_not_change_tags(tmp_path: Path) -> None:
    def as_owner(cli: Cli) -> None:
        deleted = cli.try_run("topics", "delete", "people", "--yes")
        cleared = cli.try_run("configs", "alter", "--topic", "people", "--delete", "penstock.tags")
        created = cli.try_run("topics", "create", "people")
        assert (deleted.code, cleared.code, created.code) == (0, 1, 0), (deleted.err, cleared.err, created.err)

    config = {**CONFIG, "super.users": "User:nobody", "allow.everyone.if.no.acl.found": "false"}
    with penstock.Broker(data_dir=tmp_path, config=CONFIG) as broker:
        cli = Cli(broker.bootstrap_servers)
        cli.run("topics", "create", "people", "--config", "penstock.tags=pii")
        rights = [word for right in ("describe", "delete", "create") for word in ("--operation", right)]
        cli.run("acls", "add", "--principal", "User:ANONYMOUS", *rights, "--topic", "people")
    with penstock.Broker(data_dir=tmp_path, config=config) as broker:
        as_owner(Cli(broker.bootstrap_servers))
    with penstock.Broker(data_dir=tmp_path, config=CONFIG) as broker:
        told = Cli(broker.bootstrap_servers).try_run("policies", "explain", "alice", "read", "-t", "people", "--json")
        assert told.json["tags"] == ["pii"]


def test_rules_and_policies_are_there_when_the_broker_has_restarted(tmp_path: Path) -> None:
    """CVE-2024-27309: also after a restart a denial holds when another rule of its resource was removed."""
    with penstock.Broker(data_dir=tmp_path, config=CONFIG) as broker:
        cli = Cli(broker.bootstrap_servers)
        for name, kind in (("alice", ()), ("bob", ()), ("eve", ("--deny",))):
            cli.run("acls", "add", "-p", name, "-o", "read", "-t", "orders", *kind)
        cli.run("acls", "remove", "-p", "bob", "--yes")
        cli.run("policies", "add", "p", "--tag", "pii", "--deny")
    with penstock.Broker(data_dir=tmp_path, config=CONFIG) as broker:
        cli = Cli(broker.bootstrap_servers)
        rules = cli.run("acls", "list", "--json").json
        assert [(rule["principal"], rule["permission"]) for rule in rules] == [
            ("User:alice", "Allow"),
            ("User:eve", "Deny"),
        ]
        assert [each["policy"] for each in json.loads(cli.run("policies", "list", "--json").text)] == ["p"]
