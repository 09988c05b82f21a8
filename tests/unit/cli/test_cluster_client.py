from __future__ import annotations

import socket
from pathlib import Path

import pytest

from penstock.cli.access.cluster_client import ClusterClient, parse_servers, raise_failures
from penstock.cli.errors import CliError, ExitCode, UsageError
from penstock.cli.options import BOOTSTRAP_VARIABLE, DEFAULT_BOOTSTRAP, choose_cluster


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("h:1", [("h", 1)]),
        ("h", [("h", 9092)]),
        ("a:1, b:2,", [("a", 1), ("b", 2)]),
        ("[::1]:9093", [("::1", 9093)]),
        ("[::1]", [("::1", 9092)]),
        ("SASL_SSL://h:1", [("h", 1)]),
    ],
)
def test_servers_are_read_when_written_as_kafka_users_do(text: str, expected: list[tuple[str, int]]) -> None:
    assert parse_servers(text) == expected


@pytest.mark.parametrize("text", ["", ",", "h:", "h:x", ":1", "h:0", "h:65536"])
def test_usage_error_when_server_is_no_address(text: str) -> None:
    with pytest.raises(UsageError):
        parse_servers(text)


def test_exit_code_3_and_what_to_do_when_nothing_listens() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))  # bound but not listening: connections are refused
        port = unused.getsockname()[1]
        with pytest.raises(CliError, match=f"127.0.0.1:{port}") as caught:
            ClusterClient(f"127.0.0.1:{port}").check_reachable()
    assert caught.value.exit_code is ExitCode.UNREACHABLE
    assert "--bootstrap-server" in caught.value.hint


def test_option_beats_file_beats_environment_when_cluster_is_chosen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = tmp_path / "client.properties"
    config.write_text("bootstrap.servers=file:1\nsecurity.protocol=SSL\nclient.id=mine\n")
    monkeypatch.delenv(BOOTSTRAP_VARIABLE, raising=False)
    assert choose_cluster(None, None, None).bootstrap_servers == DEFAULT_BOOTSTRAP
    monkeypatch.setenv(BOOTSTRAP_VARIABLE, "environment:1")
    assert choose_cluster(None, None, None).bootstrap_servers == "environment:1"
    assert choose_cluster(None, config, None).bootstrap_servers == "file:1"
    chosen = choose_cluster("option:1", config, ["client.id=beaten"])
    assert chosen.bootstrap_servers == "option:1"
    assert chosen.settings == {"security.protocol": "SSL", "client.id": "beaten"}


def test_usage_error_when_command_config_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="missing"):
        choose_cluster(None, tmp_path / "missing", None)


def test_every_message_and_each_hint_once_when_failures_are_raised() -> None:
    raise_failures([])
    failures = [CliError("a", "try x"), CliError("b", "try x"), CliError("c", "try y")]
    with pytest.raises(CliError) as caught:
        raise_failures(failures)
    assert caught.value.message == "a\nError: b\nError: c"
    assert caught.value.hint == "try x\ntry y"


@pytest.mark.parametrize("settings", [{}, {"group.id": ""}])
def test_usage_error_when_the_group_of_a_consumer_has_no_name(settings: dict[str, str]) -> None:
    cluster = ClusterClient("127.0.0.1:1", settings)
    with pytest.raises(UsageError, match="name of the group is empty"):
        cluster.consumer({"group.id": ""})
