"""`penstock reassign` and the moves between the data directories of one broker."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.core.config.keys.throttles import DIRECTORY_RATE
from penstock.protocol.errors import ErrorCode
from penstock.testing.processes import BrokerProcess
from tests.clients.cli_runner import Cli
from tests.clients.confluent import create_topic, produce, producer_of
from tests.integration.moving import QUICK_MOVES, ask_to_move


@pytest.fixture
def disks(tmp_path: Path) -> list[Path]:
    return [tmp_path / "a", tmp_path / "b"]


@pytest.fixture
def process(disks: list[Path]) -> Iterator[BrokerProcess]:
    with BrokerProcess(disks[0], config={"log.dirs": ",".join(map(str, disks)), **QUICK_MOVES}) as broker:
        yield broker


def write_plan(path: Path, topic: str, directory: Path) -> str:
    entry = {"topic": topic, "partition": 0, "replicas": [1], "log_dirs": [str(directory)]}
    path.write_text(json.dumps({"version": 1, "partitions": [entry]}))
    return str(path)


def rates(cli: Cli) -> list[str]:
    settings = cli.run("configs", "describe", "--broker", "1", "--json").json["settings"]
    return [each["value"] for each in settings if each["name"] == DIRECTORY_RATE]


def test_rate_between_disks_stays_until_the_move_has_ended_or_is_cancelled(
    process: BrokerProcess, disks: list[Path], tmp_path: Path
) -> None:
    servers = process.bootstrap_servers
    cli = Cli(servers)
    topic = create_topic(servers)
    produce(producer_of(servers), topic, [b"x" * 100_000] * 40)
    cli.run("configs", "alter", "--broker", "1", "--set", f"{DIRECTORY_RATE}=1")
    assert ask_to_move(servers, topic, disks[1]) == [ErrorCode.NONE]
    assert "Broker 1 moves replicas between its directories" in cli.run("reassign", "status").err
    assert rates(cli) == ["1"]
    refused = cli.try_run("reassign", "cancel", "--all")  # nobody is there to confirm it
    assert refused.code == 2
    assert "Cancelled 1 move." in cli.run("reassign", "cancel", "--all", "--yes").err
    assert rates(cli) == []
    assert (disks[0] / f"{topic}-0").is_dir()
    plan = write_plan(tmp_path / "plan.json", topic, disks[1])
    for option in ([], ["--wait"]):  # to look begins nothing
        assert cli.try_run("reassign", "status", plan, *option).code == 1
        assert (disks[0] / f"{topic}-0").is_dir()
    assert "Done: " in cli.run("reassign", "apply", plan).err
    assert (disks[1] / f"{topic}-0").is_dir()
    assert rates(cli) == []


def test_wait_goes_on_without_the_rate_when_a_slow_move_between_disks_is_applied_again(
    process: BrokerProcess, disks: list[Path], tmp_path: Path
) -> None:
    servers = process.bootstrap_servers
    cli = Cli(servers)
    topic = create_topic(servers)
    produce(producer_of(servers), topic, [b"x" * 100_000] * 40)
    plan = write_plan(tmp_path / "plan.json", topic, disks[1])
    cli.run("reassign", "apply", plan, "--throttle", "1", "--no-wait")
    assert rates(cli) == ["1"]
    assert "Done: " in cli.run("reassign", "apply", plan, "--throttle", "none").err
    assert (disks[1] / f"{topic}-0").is_dir()
    assert rates(cli) == []
