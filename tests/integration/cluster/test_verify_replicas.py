"""`penstock cluster verify-replicas` against three brokers: replicas that are equal, differ, or are away."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import penstock
from tests.clients.cli_runner import Cli
from tests.clients.confluent import produce, producer_of

PATIENCE_S = 60.0


@pytest.fixture(scope="module")
def cluster() -> Iterator[penstock.Cluster]:
    with penstock.Cluster(3, store="memory") as started:
        yield started


@pytest.fixture(scope="module")
def cli(cluster: penstock.Cluster) -> Cli:
    return Cli(cluster.bootstrap_servers)


def fill(cluster: penstock.Cluster, topic: str, **config: str) -> None:
    cluster.create_topic(topic, 2, config={key.replace("_", "."): value for key, value in config.items()})
    producer = producer_of(cluster.bootstrap_servers)
    for partition in range(2):
        for number in range(5):
            produce(
                producer, topic, [f"{number}-{index}".encode() for index in range(20)], partition=partition, key=b"k"
            )
    cluster.wait_until_in_sync(PATIENCE_S)


def segment_of(cli: Cli, node_id: int, name: str) -> Path:
    (found,) = cli.run("cluster", "log-dirs", "--broker", str(node_id), "--json").json
    (path,) = Path(found["directory"]).glob(f"{name}/*.log")
    return path


def test_replicas_are_the_same_when_nothing_happened_to_them(cluster: penstock.Cluster, cli: Cli) -> None:
    fill(cluster, "sound")
    fill(cluster, "sound-compacted", cleanup_policy="compact")
    found = cli.run("cluster", "verify-replicas", "--topic", "sound", "-t", "sound-compacted", "--json").json
    assert found["partitions"] == 4
    assert found["batches"] > 4
    assert found["problems"] == []
    assert "Compared the replicas of" in cli.run("cluster", "verify-replicas").err


def test_the_difference_is_told_with_its_place_when_a_byte_of_a_follower_was_changed(
    cluster: penstock.Cluster, cli: Cli
) -> None:
    fill(cluster, "damaged")
    (state,) = cli.run("topics", "describe", "damaged", "--json").json
    leader = state["partitions"][1]["leader"]
    follower = next(broker.node_id for broker in cluster.brokers if broker.node_id != leader)
    with segment_of(cli, follower, "damaged-1").open("r+b") as file:
        file.seek(-1, 2)
        last = file.read(1)
        file.seek(-1, 2)
        file.write(bytes([last[0] ^ 1]))
    result = cli.try_run("cluster", "verify-replicas", "--topic", "damaged", "--json")
    assert result.code == 1
    (problem,) = result.json["problems"]
    assert (problem["topic"], problem["partition"]) == ("damaged", 1)
    assert problem["offset"] > 0
    assert f"brokers {leader} and {follower}" in problem["problem"]
    table = cli.try_run("cluster", "verify-replicas", "--topic", "damaged")
    assert table.code == 1
    assert "have the same checksum and different bytes" in table.text


def test_a_broker_that_is_away_is_a_problem_when_it_has_replicas(cluster: penstock.Cluster, cli: Cli) -> None:
    fill(cluster, "lonely")
    away = next(broker.node_id for broker in cluster.brokers if broker.node_id != cluster.controller_id())
    cluster.stop_broker(away)
    try:
        cluster.wait_until_ready(PATIENCE_S)
        problems = cli.try_run("cluster", "verify-replicas", "--topic", "lonely", "--json").json["problems"]
    finally:
        cluster.start_broker(away)
        cluster.wait_until_in_sync(PATIENCE_S)
    assert [problem["problem"] for problem in problems] == [f"broker {away} does not answer"] * 2


def test_the_topic_is_named_when_it_does_not_exist(cli: Cli) -> None:
    result = cli.try_run("cluster", "verify-replicas", "--topic", "nowhere")
    assert result.code == 1
    assert "topic nowhere" in result.err
