"""kafka-acls against Apache Kafka and Penstock, and `penstock acls` against both."""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

import pytest

from apache_kafka.commands import run_command
from apache_kafka.jars import UNMEASURED_OPTIONS
from apache_kafka.node import ApacheKafkaNode
from penstock.core.config.keys.authorization import STANDARD_AUTHORIZER
from penstock.testing.processes import BrokerProcess, ServerProcess
from tests.clients.cli_runner import Cli

CONFIG = {"node.id": "1", "authorizer.class.name": STANDARD_AUTHORIZER, "super.users": "User:ANONYMOUS"}


@pytest.fixture(scope="module")
def kafka_with_rules(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApacheKafkaNode]:
    with ApacheKafkaNode(
        tmp_path_factory.mktemp("kafka-rules") / "node", config=CONFIG, options=UNMEASURED_OPTIONS
    ) as node:
        yield node


@pytest.fixture(scope="module")
def penstock_with_rules(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path_factory.mktemp("penstock-rules") / "data", config=CONFIG) as broker:
        yield broker


@pytest.fixture(scope="module", params=["kafka_with_rules", "penstock_with_rules"])
def guarded(request: pytest.FixtureRequest) -> ServerProcess:
    return cast("ServerProcess", request.getfixturevalue(request.param))


def acl_tool(server: ServerProcess, *arguments: str) -> list[str]:
    result = run_command("kafka-acls", "--bootstrap-server", server.bootstrap_servers, *arguments)
    return sorted(line.strip() for line in result.lines if line.strip())


def entry(operation: str, permission: str = "ALLOW", host: str = "*") -> str:
    return f"(principal=User:alice, host={host}, operation={operation}, permissionType={permission})"


def test_the_tool_adds_lists_and_removes_rules(guarded: ServerProcess) -> None:
    alice = ("--allow-principal", "User:alice")
    acl_tool(guarded, "--add", *alice, "--producer", "--topic", "orders", "--transactional-id", "tx", "--idempotent")
    acl_tool(
        guarded,
        *("--add", "--deny-principal", "User:alice", "--deny-host", "10.0.0.1", "--operation", "Read"),
        *("--topic", "ord", "--resource-pattern-type", "prefixed"),
    )
    matching = acl_tool(guarded, "--list", "--topic", "orders", "--resource-pattern-type", "match")
    assert matching == sorted(
        [
            "Current ACLs for resource `ResourcePattern(resourceType=TOPIC, name=ord, patternType=PREFIXED)`:",
            "Current ACLs for resource `ResourcePattern(resourceType=TOPIC, name=orders, patternType=LITERAL)`:",
            entry("READ", "DENY", "10.0.0.1"),
            *(entry(operation) for operation in ("CREATE", "DESCRIBE", "WRITE")),
        ]
    )
    everything = acl_tool(guarded, "--list")
    assert entry("IDEMPOTENT_WRITE") in everything
    acl_tool(guarded, "--remove", "--force", *alice, "--producer", "--topic", "orders")
    left = acl_tool(guarded, "--list", "--topic", "orders", "--resource-pattern-type", "match")
    assert [line for line in left if line.startswith("(")] == [entry("READ", "DENY", "10.0.0.1")]


def test_our_command_and_the_tool_see_the_same_rules(guarded: ServerProcess) -> None:
    cli = Cli(guarded.bootstrap_servers)
    cli.run("acls", "add", "-p", "bob", "--consumer", "-t", "bills", "-g", "readers")
    listed = acl_tool(guarded, "--list", "--principal", "User:bob")
    assert "(principal=User:bob, host=*, operation=READ, permissionType=ALLOW)" in listed
    assert len(cli.run("acls", "list", "-p", "bob", "--json").json) == 3
    explained = cli.run("acls", "explain", "bob", "read", "--topic", "bills", "--json").json
    assert explained["rule"] == "ACL Allow User:bob Read Topic:bills from *"
    assert cli.try_run("acls", "explain", "bob", "write", "--topic", "bills").code == 1
    assert len(cli.run("acls", "remove", "-p", "bob", "--yes", "--json").json) == 3
    assert cli.run("acls", "list", "-p", "bob", "--json").json == []
