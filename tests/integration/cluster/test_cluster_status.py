"""`penstock cluster status` against real brokers: what a user and a program see, and that nothing hangs."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Iterator

import pytest

import penstock
import penstock.admin
from penstock.admin import AsyncAdmin, ClusterState, TopicPartition
from penstock.client.addresses import Address, parse_servers
from penstock.client.brokers import Brokers
from penstock.client.routes.links import Link
from penstock.health.condition import judge
from penstock.health.findings import find
from penstock.health.measurements import LOOK
from penstock.health.rolling_restart import why_not_well
from tests.clients.cli_runner import Cli, Result
from tests.clients.confluent import produce, producer_of


@pytest.fixture(scope="module")
def cluster() -> Iterator[penstock.Cluster]:
    with penstock.Cluster(3, store="memory", config={"auto.leader.rebalance.enable": "false"}) as running:
        running.create_topic("orders", partitions=3, replication_factor=3)
        running.create_topic("strict", replication_factor=3, config={"min.insync.replicas": 3})
        yield running


@pytest.fixture(autouse=True)
def whole(cluster: penstock.Cluster) -> Iterator[None]:
    yield
    cluster.restore()
    cluster.wait_until_in_sync()


def status(cluster: penstock.Cluster, *options: str) -> Result:
    return Cli(cluster.bootstrap_servers).try_run("cluster", "status", *options)


def problems(result: Result) -> list[str]:
    """Without those of the machine's disk, which is not the test's."""
    found = [finding for finding in result.json["findings"] if finding["severity"] == "problem"]
    return [finding["name"] for finding in found if finding["name"] != "disk-full"]


def test_everything_is_counted_when_the_cluster_is_healthy(cluster: penstock.Cluster) -> None:
    result = status(cluster, "--json")
    document = result.json
    assert problems(result) == []
    assert document["controller"] == cluster.controller_id()
    assert (document["topics"], document["partitions"], document["moves"], document["gone_brokers"]) == (2, 4, [], [])
    assert sum(broker["leads"] for broker in document["brokers"]) == 4
    assert [broker["replicas"] for broker in document["brokers"]] == [4, 4, 4]
    for broker in document["brokers"]:
        (directory,) = broker["directories"]
        assert 0 < directory["usable_bytes"] <= directory["total_bytes"]
        assert "penstock.metadata" in {feature["name"] for feature in broker["features"]}
    if document["healthy"]:  # unless this machine's disk is full
        assert result.code == 0


def test_each_problem_has_its_advice_when_a_broker_is_gone(cluster: penstock.Cluster) -> None:
    gone = next(node_id for node_id in (1, 2, 3) if node_id != cluster.controller_id())
    cluster.stop_broker(gone)
    cluster.wait_until_ready()
    result = status(cluster, "--json")
    assert result.code == 1
    assert problems(result) == ["broker-gone", "below-minimum", "under-replicated"]
    assert result.json["gone_brokers"] == [{"id": gone, "replicas": 4}]
    assert [each["topic"] for each in result.json["below_minimum"]] == ["strict"]
    assert len(result.json["under_replicated"]) == 4
    shown = status(cluster)
    assert shown.code == 1
    assert f"Broker {gone} is gone, and 4 replicas with it." in shown.text
    assert "$ penstock topics describe --under-replicated" in shown.text


def test_replica_tells_how_far_it_is_when_it_does_not_lead(cluster: penstock.Cluster) -> None:
    produce(producer_of(cluster.bootstrap_servers), "orders", [b"1", b"2", b"3"], partition=0)
    with penstock.admin.connect(cluster.bootstrap_servers) as admin:
        replicas = {TopicPartition("orders", 0): (1, 2, 3), TopicPartition("nothing", 0): (1, 2, 3)}
        ends, _ = admin.log_ends(replicas)
    assert sorted((key.topic, key.node_id, end) for key, (_, end) in ends.items()) == [
        ("orders", 1, 3),
        ("orders", 2, 3),
        ("orders", 3, 3),
    ]
    assert len({epoch for epoch, _ in ends.values()}) == 1


def test_leaders_are_called_unbalanced_when_one_broker_leads_all(cluster: penstock.Cluster) -> None:
    for node_id in (2, 3):
        cluster.stop_broker(node_id)
        cluster.start_broker(node_id)
        cluster.wait_until_in_sync()
    names = {finding["name"] for finding in status(cluster, "--json").json["findings"]}
    assert "leaders-unbalanced" in names


class PartlySilent(Brokers):
    """One broker is a socket that takes connections and never answers: as if its process were paused."""

    def __init__(self, servers: str, silent: int, mute: Address) -> None:
        super().__init__(parse_servers(servers), patience_s=0.0)
        self._silent = silent
        self._mute = mute

    async def connect_node(self, node_id: int) -> Link:
        return await (self._links.get(self._mute) if node_id == self._silent else super().connect_node(node_id))


def look_without(cluster: penstock.Cluster, silent: int) -> ClusterState:
    async def read(mute: Address) -> ClusterState:
        async with AsyncAdmin(PartlySilent(cluster.bootstrap_servers, silent, mute), timeout_s=3.0) as admin:
            return await admin.read_wish(LOOK)

    with socket.create_server(("127.0.0.1", 0)) as mute:
        return asyncio.run(read(mute.getsockname()))


def test_other_brokers_are_shown_when_one_is_silent(cluster: penstock.Cluster) -> None:
    seen = look_without(cluster, 2)
    assert [node_id for node_id, broker in seen.brokers.items() if broker.silence] == [2]
    assert [node_id for node_id, broker in seen.brokers.items() if broker.directories] == [1, 3]
    assert "broker-silent" in {finding.name for finding in find(judge(seen))}


def test_cluster_is_not_well_when_the_named_controller_does_not_answer(cluster: penstock.Cluster) -> None:
    condition = judge(look_without(cluster, cluster.controller_id()))
    assert condition.observed.controller_silence
    assert "controller-silent" in {finding.name for finding in find(condition)}
    assert "does not answer" in why_not_well(condition)


def test_command_ends_with_its_own_code_when_no_broker_answers() -> None:
    with socket.create_server(("127.0.0.1", 0)) as mute:
        host, port = mute.getsockname()
        result = Cli(f"{host}:{port}").try_run("cluster", "status", "--timeout", "0.2")
    assert result.code == 3
    assert f"no broker answers at {host}:{port}" in result.err


def test_look_comes_again_and_again_when_it_is_watched(cluster: penstock.Cluster) -> None:
    with Cli(cluster.bootstrap_servers).running(
        "cluster", "status", "--watch", "--interval", "0.5", "--json"
    ) as process:
        assert process.stdout is not None
        lines = [process.stdout.readline() for _ in range(2)]
        assert all(line.startswith(b'{"cluster_id"') for line in lines)
        process.terminate()
        deadline = time.monotonic() + 30
        while process.poll() is None:
            assert time.monotonic() < deadline
            time.sleep(0.01)
