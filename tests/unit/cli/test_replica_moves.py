"""What commands that move replicas say when they are done."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.admin.state.partitions import PartitionState
from penstock.cli.access.cluster_client import ClusterClient
from penstock.cli.access.throttles import SetThrottles
from penstock.cli.commands import replica_moves
from penstock.cli.commands.reassign import election_hint
from penstock.cli.commands.replica_moves import end_throttles
from penstock.cli.errors import CliError, ExitCode
from penstock.cli.plans.assignments import ClusterNow
from penstock.cli.plans.throttles import may_keep_rates
from penstock.core.config.keys.throttles import DIRECTORY_RATE, FOLLOWER_REPLICAS, LEADER_RATE, LEADER_REPLICAS
from penstock.core.types import TopicPartition

NOBODY_ASKED = ClusterClient("127.0.0.1:1")


def test_brokers_that_are_away_are_not_named_when_nothing_was_throttled(capsys: pytest.CaptureFixture[str]) -> None:
    partitions = {TopicPartition("t", 0): PartitionState("t", 0, 1, (1, 4), (1,))}
    end_throttles(NOBODY_ASKED, ClusterNow(None, {}, partitions, frozenset({3})), set())
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("topics", "brokers", "kept"),
    [
        ({}, {}, []),
        ({}, {1: {LEADER_RATE: "1"}}, []),
        ({"t": {LEADER_REPLICAS: "0:1,1:3", FOLLOWER_REPLICAS: "0:2"}}, {}, [3]),
        ({"t": {LEADER_REPLICAS: "0:1", FOLLOWER_REPLICAS: "0:2,1:4"}, "u": {LEADER_REPLICAS: "7:3"}}, {}, [3, 4]),
        ({"t": {FOLLOWER_REPLICAS: "*"}}, {}, [3, 4, 13]),
        ({"t": {FOLLOWER_REPLICAS: "of another tool"}}, {}, [3, 4, 13]),
        ({}, {1: {DIRECTORY_RATE: "1"}}, [3, 4, 13]),
    ],
)
def test_brokers_that_are_away_may_keep_a_rate_where_throttles_name_them(
    topics: dict[str, dict[str, str]], brokers: dict[int, dict[str, str]], kept: list[int]
) -> None:
    assert may_keep_rates({13, 4, 3}, topics, brokers) == kept


def test_a_broker_that_is_away_is_named_when_the_answer_to_the_removal_was_lost(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    throttled = {"t": {LEADER_REPLICAS: "0:3"}}
    tries = 0

    def find(*_: Any) -> SetThrottles:
        return SetThrottles(dict(throttled), {})

    def remove(*_: Any) -> list[int]:
        nonlocal tries
        tries += 1
        throttled.clear()
        if tries == 1:
            raise CliError("no answer", exit_code=ExitCode.UNREACHABLE)
        return []

    monkeypatch.setattr(replica_moves, "find_throttles", find)
    monkeypatch.setattr(replica_moves, "remove_throttles", remove)
    end_throttles(NOBODY_ASKED, ClusterNow(None, {}, {}, frozenset({3})), {"t"})
    assert tries == 2
    said = capsys.readouterr().err
    assert "Broker 3 is away and may keep a throttle" in said
    assert "Removed the throttles of topic t." in said


def test_nothing_is_said_when_no_broker_is_away(capsys: pytest.CaptureFixture[str]) -> None:
    end_throttles(NOBODY_ASKED, ClusterNow(None, {}, {}), set())
    assert capsys.readouterr().err == ""


def test_settings_are_mentioned_when_the_command_had_some() -> None:
    assert election_hint(NOBODY_ASKED).endswith("penstock leaders elect --all")
    assert "--command-config" in election_hint(ClusterClient("h:1", {"security.protocol": "SSL"}))
