"""`penstock reassign`, `brokers` and `leaders` against three brokers of Apache Kafka, and against three of our own:
they speak Kafka's protocol alone, and write and read the files of Kafka's tools."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest
from confluent_kafka.cimpl import NewTopic

import penstock
from apache_kafka.cluster import ApacheKafkaCluster
from apache_kafka.commands import run_command
from apache_kafka.jars import UNMEASURED_OPTIONS
from apache_kafka.node import ApacheKafkaNode
from penstock.cli.access.cluster_client import ClusterClient
from penstock.cli.access.moves import start_moves
from penstock.core.types import TopicPartition
from tests.clients.cli_runner import Cli
from tests.clients.confluent import admin_of, produce, producer_of
from tests.clients.support import eventually
from tests.interop.cluster.cluster_view import PATIENCE_S, bystander

RECORDS = 500
Pausing = Callable[[int], object]


class Peer(NamedTuple):
    """Three brokers, and how to make one of them hang."""

    bootstrap_servers: str
    pause: Pausing
    resume: Pausing
    spare: Callable[[], int]  # one that nobody needs now

    def without(self, node_id: int) -> Peer:
        """A broker that hangs accepts connections, and would be waited for."""
        servers = self.bootstrap_servers.split(",")
        return self._replace(bootstrap_servers=",".join(servers[: node_id - 1] + servers[node_id:]))


@pytest.fixture(scope="module")
def apache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Peer]:
    settings = {"auto.leader.rebalance.enable": "false", "min.insync.replicas": "1"}
    with ApacheKafkaCluster(tmp_path_factory.mktemp("apache-kafka-cluster"), config=settings) as cluster:

        def pause(node_id: int) -> None:
            cluster.nodes[node_id - 1].pause()

        def resume(node_id: int) -> None:
            cluster.nodes[node_id - 1].resume()

        yield Peer(cluster.bootstrap_servers, pause, resume, lambda: 3)


@pytest.fixture(params=["apache", "penstock"])
def peer(request: pytest.FixtureRequest) -> Peer:
    if request.param == "apache":
        found = request.getfixturevalue("apache")
        assert isinstance(found, Peer)
        return found
    cluster = request.getfixturevalue("cluster")
    assert isinstance(cluster, penstock.Cluster)
    return Peer(cluster.bootstrap_servers, cluster.pause, cluster.resume, lambda: bystander(cluster).node_id)


@pytest.fixture
def cli(peer: Peer) -> Cli:
    return Cli(peer.bootstrap_servers)


def put(peer: Peer, topic: str, *replicas: Sequence[int]) -> None:
    wanted = NewTopic(topic, len(replicas), replica_assignment=[list(each) for each in replicas])
    admin_of(peer.bootstrap_servers).create_topics([wanted])[topic].result(PATIENCE_S)
    produce(producer_of(peer.bootstrap_servers), topic, [b"x" * 100] * RECORDS, partition=0)


def shown(cli: Cli, topic: str) -> list[tuple[list[int], int]]:
    """The replicas and the leader of each partition."""
    (described,) = cli.run("topics", "describe", topic, "--json").json
    return [(partition["replicas"], partition["leader"]) for partition in described["partitions"]]


def throttled(cli: Cli, topic: str) -> dict[str, set[str]]:
    (described,) = cli.run("topics", "describe", topic, "--json").json
    return {key: set(value.split(",")) for key, value in described["configs"].items() if "throttled" in key}


def rates(cli: Cli) -> dict[str, str | None]:
    found = {}
    for node in ("1", "2", "3"):
        for each in cli.run("configs", "describe", "--broker", node, "--json").json["settings"]:
            if each["name"].endswith("replication.throttled.rate"):
                found[f"{node} {each['name']}"] = each["value"]
    return found


def write(path: Path, topic: str, *replicas: Sequence[int]) -> str:
    partitions = [{"topic": topic, "partition": index, "replicas": list(each)} for index, each in enumerate(replicas)]
    path.write_text(json.dumps({"version": 1, "partitions": partitions}))
    return str(path)


def reassign(peer: Peer, *arguments: str) -> str:
    servers = ("--bootstrap-server", peer.bootstrap_servers)
    return run_command("kafka-reassign-partitions", *servers, *arguments).stdout


@contextmanager
def hanging(peer: Peer, node_id: int) -> Iterator[None]:
    peer.pause(node_id)
    try:
        yield
    finally:
        peer.resume(node_id)


def test_kafkas_tool_finds_the_moves_done_when_our_plan_was_applied(
    peer: Peer, cli: Cli, topic: str, tmp_path: Path
) -> None:
    put(peer, topic, [1, 2], [2, 1], [1, 2])
    plan, rollback = str(tmp_path / "plan.json"), str(tmp_path / "rollback.json")
    planned = cli.run("reassign", "plan", "-t", topic, "-o", plan, "--rollback", rollback, "--json").json
    assert planned["replicas_to_move"] == 2
    assert planned["bytes_to_move"] >= 0
    assert "Done: " in cli.run("reassign", "apply", plan).err
    verified = reassign(peer, "--reassignment-json-file", plan, "--verify", "--preserve-throttles")
    assert verified.count("is completed.") == planned["partitions"]
    assert throttled(cli, topic) == {}
    assert rates(cli) == {}
    assert sorted(node for replicas, _ in shown(cli, topic) for node in replicas) == [1, 1, 2, 2, 3, 3]
    (offsets, *_) = cli.run("topics", "offsets", topic, "--json").json
    assert offsets["latest"] == RECORDS
    cli.run("reassign", "apply", rollback, "--throttle", "none")
    assert [replicas for replicas, _ in shown(cli, topic)] == [[1, 2], [2, 1], [1, 2]]


def test_throttles_are_those_of_kafkas_tool_when_all_replicas_of_a_plan_move(
    peer: Peer, cli: Cli, topic: str, tmp_path: Path
) -> None:
    seen = []
    for name in (f"{topic}-ours", f"{topic}-kafkas"):
        put(peer, name, [1, 2], [2, 1])
        plan = write(tmp_path / "plan.json", name, [2, 3], [1, 3])
        if name.endswith("ours"):
            cli.run("reassign", "apply", plan, "--no-wait", "--throttle", "30000000")
        else:
            reassign(peer, "--reassignment-json-file", plan, "--execute", "--throttle", "30000000")
        seen.append((throttled(cli, name), rates(cli)))
        status = cli.run("reassign", "status", plan, "--wait", "--json")
        assert [move["state"] for move in status.json["moves"]] == ["done", "done"]
        assert "Removed the throttles of broker 1, broker 2, broker 3" in status.err
        assert (throttled(cli, name), rates(cli)) == ({}, {})
    assert seen[0] == seen[1]
    assert len(seen[0][1]) == 6


def test_replicas_stay_when_a_move_to_a_broker_that_hangs_is_cancelled(
    peer: Peer, cli: Cli, topic: str, tmp_path: Path
) -> None:
    target = peer.spare()
    stays, leaves = (node for node in (1, 2, 3) if node != target)
    put(peer, topic, [stays, leaves], [stays, leaves])
    plan = write(tmp_path / "plan.json", topic, [stays, target], [stays, leaves])
    others = peer.without(target)
    looking = Cli(others.bootstrap_servers)
    with hanging(peer, target):
        assert start_moves(ClusterClient(others.bootstrap_servers), {TopicPartition(topic, 0): (stays, target)}) == {}
        status = looking.run("reassign", "status", plan, "--json").json
        assert [move["state"] for move in status["moves"]] == ["moving", "done"]
        assert status["moves"][0]["adding"] == [target]
        assert status["bytes_left"] > 0
        under = looking.run("topics", "describe", "--under-replicated", "--json").json
        assert topic not in [each["name"] for each in under]
        assert "ADDING" in looking.run("topics", "describe", topic).text
        assert "Cancelled 1 move." in looking.run("reassign", "cancel", plan).err
    assert [sorted(replicas) for replicas, _ in shown(cli, topic)] == [sorted((stays, leaves))] * 2

    def addresses() -> list[str | None]:
        return [row["address"] for row in cli.run("brokers", "list", "--json").json]

    eventually(lambda: len(addresses()) == 3 and None not in addresses(), "the broker is back", PATIENCE_S)


def test_broker_leads_again_when_its_demotion_is_undone(peer: Peer, cli: Cli, topic: str, tmp_path: Path) -> None:
    put(peer, topic, [2, 1], [1, 2])
    put(peer, f"{topic}-alone", [2])
    memory = str(tmp_path / "before.json")
    demoted = cli.run("brokers", "demote", "2", "--file", memory, "--json").json
    assert f"{topic}-alone-0" in demoted["alone"]
    eventually(lambda: shown(cli, topic) == [([1, 2], 1), ([1, 2], 1)], "the leaders are others", PATIENCE_S)
    cli.run("brokers", "demote", "2", "--undo", "--file", memory)
    eventually(lambda: shown(cli, topic) == [([2, 1], 2), ([1, 2], 1)], "the leaders are back", PATIENCE_S)
    assert [each["result"] for each in cli.run("leaders", "elect", "-t", f"{topic}:0", "--json").json] == ["not_needed"]


def test_filters_find_the_topic_when_its_settings_say_so(peer: Peer, cli: Cli, topic: str) -> None:
    put(peer, topic, [1, 2])

    def found(*arguments: str) -> bool:
        return topic in [each["name"] for each in cli.run("topics", "describe", "--json", *arguments).json]

    eventually(lambda: not found("--under-replicated"), "all replicas are in sync", PATIENCE_S)
    assert not found("--with-overrides")
    cli.run("configs", "alter", "--topic", topic, "--set", "min.insync.replicas=1")
    assert not found("--at-min-isr", "--under-min-isr", "--unavailable")
    cli.run("configs", "alter", "--topic", topic, "--set", "min.insync.replicas=2")
    assert found("--at-min-isr")
    assert found("--with-overrides")


def test_apache_kafkas_broker_may_stop_when_it_was_decommissioned(apache: Peer, topic: str) -> None:
    cli = Cli(apache.bootstrap_servers)
    put(apache, topic, [1, 3], [3, 2])
    put(apache, f"{topic}-alone", [3])
    drained = cli.run("brokers", "decommission", "3", "--json")
    assert drained.json == {"broker": 3, "replicas": 0, "may_stop": True}
    assert [replicas for replicas, _ in shown(cli, topic)] == [[1, 2], [2, 1]]
    put(apache, f"{topic}-wide", [1, 2, 3])
    refused = cli.try_run("brokers", "decommission", "3")
    assert refused.code == 1
    assert f"{topic}-wide (3)" in refused.err


def test_replica_moves_to_the_other_disk_when_the_file_names_its_directory(tmp_path: Path, topic: str) -> None:
    disks = [str(tmp_path / "node" / name) for name in ("data", "more-data")]
    with ApacheKafkaNode(tmp_path / "node", config={"log.dirs": ",".join(disks)}, options=UNMEASURED_OPTIONS) as node:
        cli = Cli(node.bootstrap_servers)
        cli.run("topics", "create", topic)
        produce(producer_of(node.bootstrap_servers), topic, [b"x" * 100] * RECORDS)

        def directory() -> str:
            found = cli.run("cluster", "log-dirs", "--topic", topic, "--json").json
            (path,) = (each["directory"] for each in found if each["partitions"])
            return str(path)

        (other,) = (path for path in disks if path != directory())
        plan = tmp_path / "plan.json"
        entry = {"topic": topic, "partition": 0, "replicas": [1], "log_dirs": [other]}
        plan.write_text(json.dumps({"version": 1, "partitions": [entry]}))
        assert "Done: " in cli.run("reassign", "apply", str(plan)).err
        assert directory() == other
        assert "Done: " in cli.run("reassign", "apply", str(plan)).err  # again: nothing happens
        settings = cli.run("configs", "describe", "--broker", "1", "--json").json["settings"]
        assert "replica.alter.log.dirs.io.max.bytes.per.second" not in [each["name"] for each in settings]
