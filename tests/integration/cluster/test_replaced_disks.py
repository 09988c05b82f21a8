"""What becomes of a cluster's data when a disk is replaced, and when replicas move while their broker is away."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, NewTopic, ResourceType
from kafka import TopicPartition as KafkaPartition
from kafka.admin import KafkaAdminClient

import penstock
from tests.clients.confluent import admin_of, produce, producer_of, read_topic, values

PATIENCE_S = 60.0
NUMBERS = [b"%d" % number for number in range(50)]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[penstock.Cluster]:
    with penstock.Cluster(3, tmp_path_factory.mktemp("cluster") / "data") as started:
        yield started


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def state_of(servers: str, topic: str) -> tuple[int, list[int], list[int]]:
    """The leader, the replicas and those in sync of its only partition."""
    (state,) = admin_of(servers).list_topics(topic, timeout=PATIENCE_S).topics[topic].partitions.values()
    return state.leader, state.replicas, state.isrs


def create(servers: str, topic: str, *replicas: int) -> None:
    """On these brokers, with records."""
    new = NewTopic(topic, num_partitions=1, replica_assignment=[list(replicas)])
    admin_of(servers).create_topics([new])[topic].result(PATIENCE_S)
    produce(producer_of(servers, acks="all"), topic, NUMBERS)


def directory_of(cluster: penstock.Cluster, node_id: int) -> Path:
    log_path = cluster.broker(node_id).log_path
    assert log_path is not None
    return log_path.with_suffix("")


def test_empty_disk_leads_nothing_until_somebody_accepts_the_loss_when_it_comes_back_first(
    cluster: penstock.Cluster,
) -> None:
    create(cluster.bootstrap_servers, "kept", 2, 1, 3)
    create(cluster.bootstrap_servers, "lost", 2)
    for node_id in (1, 2, 3):  # all at once: the last one would elect itself when it sees the others die
        cluster.pause(node_id)
    for node_id in (1, 2, 3):
        cluster.kill(node_id)
    shutil.rmtree(directory_of(cluster, 2))
    cluster.start_broker(2)
    second = cluster.broker(2).bootstrap_servers
    wait_for(lambda: state_of(second, "kept")[0] not in (1, 3))  # their end is noticed, by their closed ports
    assert state_of(second, "kept") == (-1, [2, 1, 3], [1, 3])
    assert state_of(second, "lost") == (-1, [2], [])
    cluster.start_broker(1)
    cluster.start_broker(3)
    wait_for(lambda: sorted(state_of(second, "kept")[2]) == [1, 2, 3])
    for node_id in (1, 3):
        assert values(read_topic(cluster.broker(node_id).bootstrap_servers, "kept", 50)) == NUMBERS
    assert state_of(second, "lost") == (-1, [2], [])
    entry = ConfigEntry("unclean.leader.election.enable", "true", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, "lost", incremental_configs=[entry])
    admin_of(second).incremental_alter_configs([resource])[resource].result(PATIENCE_S)
    wait_for(lambda: state_of(second, "lost") == (2, [2], [2]))
    cluster.wait_until_in_sync(PATIENCE_S)


def test_files_are_removed_when_a_replica_moved_away_while_its_broker_was_down(cluster: penstock.Cluster) -> None:
    create(cluster.bootstrap_servers, "moved", 2, 3)
    cluster.stop_broker(3)
    servers = cluster.broker(2).bootstrap_servers
    client = KafkaAdminClient(bootstrap_servers=[servers])
    try:
        client.alter_partition_reassignments({KafkaPartition("moved", 0): [2, 1]})
    finally:
        client.close()
    wait_for(lambda: state_of(servers, "moved")[1] == [2, 1])
    assert (directory_of(cluster, 3) / "moved-0").is_dir()
    cluster.start_broker(3)
    assert not (directory_of(cluster, 3) / "moved-0").exists()
    assert values(read_topic(servers, "moved", 50)) == NUMBERS
