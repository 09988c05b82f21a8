"""ZooKeeper loses everything. A snapshot brings the cluster back, with every acknowledged record."""

from __future__ import annotations

import json
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import TopicPartition

import penstock
from penstock.processes.zookeeper_jars import ZooKeeperMissingError
from penstock.testing.processes import ZooKeeperProcess
from tests.clients.cli_runner import Cli
from tests.clients.confluent import consumer_of, produce, producer_of, read_topic, values

PATIENCE_S = 60.0
SETTINGS = {"offsets.topic.num.partitions": "2", "auto.create.topics.enable": "false"}


@pytest.fixture
def ensemble(tmp_path: Path) -> Iterator[ZooKeeperProcess]:
    try:
        server = ZooKeeperProcess(tmp_path / "zookeeper")
    except ZooKeeperMissingError as error:
        pytest.skip(str(error))
    with server:
        yield server


def numbers(first: int, last: int) -> list[bytes]:
    return [b"%d" % number for number in range(first, last)]


def lose(ensemble: ZooKeeperProcess) -> None:
    ensemble.terminate()
    shutil.rmtree(ensemble.data_dir)
    ensemble.start()


def commit(servers: str, offset: int) -> None:
    with consumer_of(servers, group_id="books") as consumer:
        consumer.commit(offsets=[TopicPartition("orders", 0, offset)], asynchronous=False)


def committed(servers: str) -> int:
    with consumer_of(servers, group_id="books") as consumer:
        (position,) = consumer.committed([TopicPartition("orders", 0)], timeout=PATIENCE_S)
    return int(position.offset)


def test_all_acknowledged_records_are_there_when_the_ensemble_was_lost_and_restored(
    tmp_path: Path, ensemble: ZooKeeperProcess
) -> None:
    data, file = tmp_path / "data", tmp_path / "snapshot.json"
    connect = f"{ensemble.connect}/penstock"
    cli = Cli("127.0.0.1:1")  # nothing of this goes by brokers
    with penstock.Cluster(3, data, SETTINGS, zookeeper=connect) as cluster:
        servers = cluster.bootstrap_servers
        cluster.create_topic("orders", replication_factor=3, config={"retention.ms": "7777777"})
        cluster.create_topic("gone", replication_factor=3)
        produce(producer_of(servers, enable_idempotence=True), "orders", numbers(0, 50))
        commit(servers, 20)
        assert "3 topics, 4 partitions" in cli.run("cluster", "snapshot", str(file), "--zookeeper", connect).err
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        # The snapshot's in-sync set is old: its first member lacks what was acknowledged since.
        leader = json.loads(file.read_text())["cluster"]["topics"]["orders"]["partitions"][0]["leader"]
        cluster.stop_broker(leader)
        produce(producer_of(servers, enable_idempotence=True), "orders", numbers(50, 100))
        commit(servers, 80)
        cluster.create_topic("late", replication_factor=2)
        cluster.delete_topic("gone")
    lose(ensemble)
    restore = ("cluster", "restore", str(file), "--zookeeper", connect, "--timeout", str(PATIENCE_S))
    early = cli.try_run(*restore[:-1], "1")
    assert (early.code, "nobody is here" in early.err) == (1, True)
    with penstock.Cluster(3, data, SETTINGS, zookeeper=connect) as cluster:
        servers = cluster.bootstrap_servers
        done = cli.run(*restore)
        assert "was written before" in done.err
        cluster.wait_until_in_sync()
        assert values(read_topic(servers, "orders", 100)) == numbers(0, 100)
        assert committed(servers) == 80
        produce(producer_of(servers, enable_idempotence=True), "orders", numbers(100, 110))
        assert values(read_topic(servers, "orders", 110)) == numbers(0, 110)
        state = cluster.states()[1]
        assert state is not None
        assert state.topics.keys() == {"orders", "gone", "__consumer_offsets"}
        described = Cli(servers).run("topics", "describe", "orders", "--json").text
        assert "7777777" in described
        # What came after the snapshot is kept for a person to look at.
        strays = [path for path in data.glob("broker-*/late-0.*-stray") if path.is_dir()]
        assert len(strays) == 2
    assert "already done" in cli.run(*restore).err
