"""Every command that asks a cluster, on a secure one of three, with the client file of its start."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

import penstock
from penstock.core.properties import read_properties
from tests.clients.cli_runner import Cli

# In their order: what a command needs was made before it.
COMMANDS = """
topics create t --partitions 3 --replication-factor 3
topics list
topics describe t
produce t --value hello
consume t --from-beginning --max-messages 1 --group readers --timeout 60
groups list
groups describe readers
groups reset-offsets readers --topic t --to-earliest
transactions list
configs describe --topic t --all
configs alter --topic t --set retention.ms=1000000
quotas set producer_byte_rate=10m --user alice
quotas list
users list
acls add --principal alice --producer --topic t
acls list
acls explain alice write --topic t
policies add no-pii --tag pii --deny --principal '*' --operation read
policies list
cluster describe
cluster status
cluster api-versions
cluster log-dirs
cluster verify-replicas
cluster upgrade --dry-run
cluster restart --dry-run
brokers list
leaders elect --topic t
reassign status
perf produce t --records 10
perf consume t --records 5
pipeline list --all
""".strip().splitlines()


@pytest.fixture(scope="module")
def client_file(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with penstock.Cluster(3, store="memory", secure=True) as cluster:
        assert cluster.setup is not None
        assert read_properties(cluster.setup.client_file)["bootstrap.servers"] == cluster.bootstrap_servers
        yield cluster.setup.client_file


def test_every_command_works_when_it_gets_the_file_of_a_secure_cluster(client_file: Path) -> None:
    cli = Cli("127.0.0.1:1")  # nobody is there: the file says where the cluster is
    for command in COMMANDS:
        cli.run(*shlex.split(command), "--command-config", str(client_file))


def test_what_a_user_still_has_is_told_when_it_is_removed(client_file: Path) -> None:
    cli, config = Cli("127.0.0.1:1"), ("--command-config", str(client_file))
    for mechanism, left in (("SCRAM-SHA-256", ["SCRAM-SHA-512"]), ("SCRAM-SHA-512", [])):
        if left:
            cli.run("users", "add", "zed", "--password", "geheim", *config)
            cli.run("acls", "add", "--principal", "zed", "--consumer", "--topic", "t", "--group", "g", *config)
        removed = cli.run("users", "remove", "zed", "--yes", "-m", mechanism, "--json", *config).json
        assert (removed["mechanisms"], removed["acls"]) == (left, 3)
        assert "tokens" in removed
    cli.run("users", "add", "zed", "--password", "geheim", *config)
    told = cli.run("users", "remove", "zed", "--yes", *config).err
    for words in ("connections.max.reauth.ms", "acls add --deny --principal User:zed", "3 ACLs"):
        assert words in told
    (denial,) = (line.partition("penstock ")[2] for line in told.splitlines() if "--deny" in line)
    cli.run(*shlex.split(denial), *config)
    assert cli.try_run("acls", "explain", "zed", "read", "--topic", "t", *config).code == 1
    cli.run("acls", "remove", "--principal", "zed", "--yes", *config)
    assert (
        cli.try_run("acls", "add", "--deny", "--principal", "zed", "-t", "t", "--host", "10.0.0.0/8", *config).code == 2
    )
