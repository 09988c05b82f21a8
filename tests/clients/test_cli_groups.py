from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.clients.cli_runner import Cli
from tests.clients.conftest import RunningBroker

BASE_MS = 1_700_000_000_000


@pytest.fixture(scope="module")
def cli(broker: RunningBroker) -> Cli:
    return Cli(broker.bootstrap_servers)


@pytest.fixture
def topic(cli: Cli) -> str:
    """Two partitions with ten records each, one a millisecond."""
    name = cli.new_topic("-p", "2")
    lines = [b'{"value": "x", "partition": %d, "timestamp": %d}\n' % (n % 2, BASE_MS + n // 2) for n in range(20)]
    cli.run("produce", name, "--format", "json", stdin=b"".join(lines))
    return name


@pytest.fixture
def group(cli: Cli, topic: str) -> str:
    """Has read everything and is empty."""
    name = f"group-of-{topic}"
    cli.run("consume", topic, "--group", name, "--from", "beginning", "--exit")
    return name


def committed(cli: Cli, group: str) -> dict[int, int]:
    (described,) = cli.run("groups", "describe", group, "--json").json
    return {line["partition"]: line["committed_offset"] for line in described["offsets"]}


def plan(cli: Cli, group: str, *options: str) -> dict[int, int]:
    planned: list[dict[str, Any]] = cli.run("groups", "reset-offsets", group, *options, "--json").json
    return {line["partition"]: line["new_offset"] for line in planned}


def test_lag_is_shown_for_each_partition_when_group_is_described(cli: Cli, topic: str, group: str) -> None:
    cli.run("produce", topic, "-p", "1", stdin=b"more\nrecords\n")
    (described,) = cli.run("groups", "describe", group, "--json").json
    assert described["state"] == "Empty"
    assert [(line["partition"], line["lag"]) for line in described["offsets"]] == [(0, 0), (1, 2)]
    assert described["total_lag"] == 2
    assert "Total lag    2" in cli.run("groups", "describe", group).text


def test_group_is_listed_with_its_state(cli: Cli, group: str) -> None:
    listed = {line["group"]: line["state"] for line in cli.run("groups", "list", "--json").json}
    assert listed[group] == "Empty"
    assert group in cli.run("groups", "list", "--state", "empty", "--quiet").text.split()
    assert group not in cli.run("groups", "list", "--state", "stable", "--quiet").text.split()


def test_members_are_shown_and_nothing_may_change_when_group_is_active(cli: Cli, topic: str, group: str) -> None:
    with cli.running("consume", topic, "--group", group) as process:
        assert process.stdout is not None
        while not cli.run("groups", "describe", group, "--json").json[0]["members"]:
            pass
        cli.run("produce", topic, "-v", "go")
        assert process.stdout.readline() == b"go\n"
        (described,) = cli.run("groups", "describe", group, "--members", "--json").json
        assert described["state"] == "Stable"
        (member,) = described["members"]
        assert [partition["partition"] for partition in member["partitions"]] == [0, 1]
        reset = cli.try_run("groups", "reset-offsets", group, "--topic", topic, "--to-earliest", "--execute")
        assert reset.code == 1
        assert "stop the consumers" in reset.err
        assert cli.try_run("groups", "delete", group, "--yes").code == 1
        assert cli.try_run("groups", "delete-offsets", group, "--topic", topic, "--yes").code == 1


def test_nothing_changes_when_reset_is_not_executed(cli: Cli, topic: str, group: str) -> None:
    shown = cli.run("groups", "reset-offsets", group, "--topic", topic, "--to-earliest")
    assert "--execute" in shown.err
    assert committed(cli, group) == {0: 10, 1: 10}


def test_every_way_leads_to_its_offsets_when_planned(cli: Cli, topic: str, group: str) -> None:
    ways = {
        ("--to-earliest",): 0,
        ("--to-latest",): 10,
        ("--to-current",): 10,
        ("--to-offset", "4"): 4,
        ("--to-offset", "99"): 10,
        ("--shift-by", "-3"): 7,
        ("--to-datetime", str(BASE_MS + 6)): 6,
        ("--to-datetime", "2023-11-14T22:13:20.002"): 2,
        ("--by-duration", "P9999D"): 0,
        ("--by-duration", "1s"): 10,
    }
    for options, expected in ways.items():
        assert plan(cli, group, "--topic", topic, *options) == {0: expected, 1: expected}, options


def test_offsets_move_when_reset_is_executed(cli: Cli, topic: str, group: str, tmp_path: Path) -> None:
    cli.run("groups", "reset-offsets", group, "--topic", f"{topic}:1", "--to-offset", "3", "--execute")
    assert committed(cli, group) == {0: 10, 1: 3}
    exported = cli.run("groups", "reset-offsets", group, "--all-topics", "--shift-by", "-1", "--export").text
    assert exported == f"{topic},0,9\n{topic},1,2\n"
    (tmp_path / "offsets.csv").write_text(exported)
    cli.run("groups", "reset-offsets", group, "--from-file", str(tmp_path / "offsets.csv"), "--execute")
    assert committed(cli, group) == {0: 9, 1: 2}


def test_group_gets_offsets_to_start_from_when_it_was_never_used(cli: Cli, topic: str) -> None:
    fresh = f"fresh-{topic}"
    cli.run("groups", "reset-offsets", fresh, "--topic", topic, "--to-offset", "9", "--execute")
    assert cli.run("consume", topic, "--group", fresh, "--exit").out == b"x\nx\n"


def test_offset_is_forgotten_when_deleted(cli: Cli, topic: str, group: str) -> None:
    cli.run("groups", "delete-offsets", group, "--topic", f"{topic}:0", "--yes")
    assert committed(cli, group) == {1: 10}
    assert cli.try_run("groups", "delete-offsets", group, "--topic", f"{topic}:0", "--yes").code == 1


def test_group_is_gone_when_deleted(cli: Cli, group: str) -> None:
    cli.run("groups", "delete", group, "--yes")
    result = cli.try_run("groups", "describe", group)
    assert result.code == 1
    assert "no such group" in result.err
