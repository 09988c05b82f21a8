from __future__ import annotations

import pytest

from tests.clients.cli_runner import Cli
from tests.clients.conftest import RunningBroker
from tests.clients.raw.wire import new_name


@pytest.fixture(scope="module")
def cli(broker: RunningBroker) -> Cli:
    return Cli(broker.bootstrap_servers)


def test_quotas_are_listed_when_set_and_gone_when_removed(cli: Cli) -> None:
    user = new_name("user")
    cli.run("quotas", "set", "producer_byte_rate=100g", "request_percentage=5000", "--user", user)
    done = cli.run("quotas", "set", "consumer_byte_rate=100g", "--user", user, "--default-client-id", "--json").json
    assert done == {"entity": {"user": user, "client-id": None}, "quotas": {"consumer_byte_rate": 107374182400.0}}
    listed = cli.run("quotas", "list", "--user", user, "--json").json
    assert listed == [
        {"entity": {"user": user}, "quotas": {"producer_byte_rate": 107374182400.0, "request_percentage": 5000.0}},
        {"entity": {"user": user, "client-id": None}, "quotas": {"consumer_byte_rate": 107374182400.0}},
    ]
    assert b"100.0 GiB/s" in cli.run("quotas", "list").out
    removed = cli.run("quotas", "remove", "request_percentage", "--user", user, "--json").json
    assert removed == {"entity": {"user": user}, "quotas": {"request_percentage": None}}
    assert cli.run("quotas", "list", "--user", user, "--json").json[0]["quotas"].keys() == {"producer_byte_rate"}
    cli.run("quotas", "remove", "--user", user)
    cli.run("quotas", "remove", "--user", user, "--default-client-id")
    assert cli.run("quotas", "list", "--user", user, "--json").json == []
    assert "has no such quota" in cli.run("quotas", "remove", "--user", user).err


def test_quota_is_refused_when_it_makes_no_sense(cli: Cli) -> None:
    for arguments in (
        ("producer_byte_rate=1m",),
        ("speed=1", "--user", "a"),
        ("producer_byte_rate=fast", "--user", "a"),
        ("producer_byte_rate=1m", "--user", "a", "--default-user"),
        ("connection_creation_rate=1", "--ip", "192.0.2.1", "--user", "a"),
    ):
        assert cli.try_run("quotas", "set", *arguments).code == 2
    refused = cli.try_run("quotas", "set", "connection_creation_rate=1", "--user", "a")
    assert refused.code == 1
    assert "Invalid configuration key connection_creation_rate" in refused.err


def test_nothing_changes_when_only_validated(cli: Cli) -> None:
    cli.run("quotas", "set", "connection_creation_rate=1000000", "--ip", "192.0.2.99", "--validate-only")
    assert cli.run("quotas", "list", "--ip", "192.0.2.99", "--json").json == []
