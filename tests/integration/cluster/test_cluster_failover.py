"""Three brokers with a real ZooKeeper and real clients: brokers are killed, and nothing acknowledged is lost."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial

import pytest
from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from kazoo.client import KazooClient

import penstock
from penstock.client.connection import BlockingConnection
from penstock.local_cluster.process_members import ProcessMembers
from penstock.protocol.errors import ApiError, ErrorCode
from penstock.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from penstock.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from penstock.replication.lease import LEASE_MS
from tests.clients.cli_runner import Cli
from tests.clients.confluent import admin_of, read_topic, values
from tests.clients.support import eventually
from tests.integration.cluster.stranger import stranger_at

PARTITIONS = 3
PATIENCE_S = 60
LEAVE_S = 15.0  # a broker that gets no leave to stop waits so long
SESSION_S = 2.0  # of the brokers of `penstock.Cluster`


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[penstock.Cluster]:
    settings = {"offsets.topic.num.partitions": 3, "transaction.state.log.num.partitions": 3}
    with penstock.Cluster(3, tmp_path_factory.mktemp("cluster") / "data", settings) as started:
        yield started


class Writer(threading.Thread):
    """An idempotent producer that numbers its records, one partition after the other, until it is stopped."""

    def __init__(self, servers: str, topic: str) -> None:
        super().__init__(daemon=True)
        self._producer = Producer({"bootstrap.servers": servers, "enable.idempotence": True, "linger.ms": 0})
        self._topic = topic
        self._is_stopping = threading.Event()
        self.acknowledged: list[int] = []
        self.errors: list[str] = []
        self.sent = 0

    def run(self) -> None:
        while not self._is_stopping.wait(0.005):
            number, self.sent = self.sent, self.sent + 1
            partition = number % PARTITIONS
            self._producer.produce(self._topic, b"%d" % number, partition=partition, on_delivery=self._delivered)
            self._producer.poll(0)

    def _delivered(self, error: object, message: Message) -> None:
        if error is None:
            value = message.value()
            assert value is not None
            self.acknowledged.append(int(value))
        else:
            self.errors.append(str(error))

    def wait_for_more(self, count: int) -> None:
        """Until so many more records are acknowledged."""
        wanted, patience = len(self.acknowledged) + count, time.monotonic() + PATIENCE_S
        while len(self.acknowledged) < wanted:
            assert time.monotonic() < patience, "the writer does not go on"
            self.join(0.05)

    def stop(self) -> None:
        self._is_stopping.set()
        self.join()
        assert self._producer.flush(PATIENCE_S) == 0


def leaders_of(cluster: penstock.Cluster, topic: str) -> dict[int, int]:
    metadata = admin_of(cluster.bootstrap_servers).list_topics(topic, timeout=PATIENCE_S)
    return {each.id: each.leader for each in metadata.topics[topic].partitions.values()}


def numbers_in(cluster: penstock.Cluster, topic: str, count: int, partition: int = 0) -> list[int]:
    read = values(read_topic(cluster.bootstrap_servers, topic, count, partition))
    return [int(value) for value in read if value is not None]


def logs_of(cluster: penstock.Cluster, topic: str, partition: int) -> list[bytes]:
    """Of all brokers that have the partition; every file of it in one piece."""
    logs = []
    for broker in cluster.brokers:
        assert broker.log_path is not None
        directory = broker.log_path.with_suffix("") / f"{topic}-{partition}"
        if directory.is_dir():
            logs.append(b"".join(path.read_bytes() for path in sorted(directory.glob("*.log"))))
    return logs


def test_nothing_acknowledged_is_lost_or_doubled_when_leaders_and_controllers_are_killed(
    cluster: penstock.Cluster,
) -> None:
    cluster.create_topic("orders", PARTITIONS, 3, {"min.insync.replicas": "2"})
    writer = Writer(cluster.bootstrap_servers, "orders")
    writer.start()
    for turn in range(4):
        writer.wait_for_more(50)
        controller = cluster.controller_id()
        leaders = leaders_of(cluster, "orders")
        victim = controller if turn % 2 else next(node for node in leaders.values() if node != controller)
        cluster.kill(victim)
        writer.wait_for_more(50)  # the others go on without it
        cluster.start_broker(victim)
        cluster.wait_until_in_sync(PATIENCE_S)
    writer.stop()
    assert writer.errors == []
    assert len(writer.acknowledged) == writer.sent > 400
    for partition in range(PARTITIONS):
        expected = list(range(partition, writer.sent, PARTITIONS))
        assert numbers_in(cluster, "orders", len(expected), partition) == expected
        first, *others = logs_of(cluster, "orders", partition)
        assert len(others) == 2
        assert all(other == first for other in others)


def test_transactions_and_groups_go_on_when_their_coordinators_are_killed(cluster: penstock.Cluster) -> None:
    cluster.create_topic("paid", PARTITIONS, 3, {"min.insync.replicas": "2"})
    servers = cluster.bootstrap_servers
    producer = Producer({"bootstrap.servers": servers, "transactional.id": "payments"})
    producer.init_transactions(PATIENCE_S)
    consumer = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": "books",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    consumer.subscribe(["paid"])
    seen: list[int] = []
    for turn in range(3):
        producer.begin_transaction()
        for number in range(turn * 30, turn * 30 + 30):
            producer.produce("paid", b"%d" % number, partition=number % PARTITIONS)
        if turn == 1:
            producer.flush(PATIENCE_S)
            leaders = set(leaders_of(cluster, "__transaction_state").values())
            leaders |= set(leaders_of(cluster, "__consumer_offsets").values())
            victim = min(leaders)
            cluster.kill(victim)
        producer.commit_transaction(PATIENCE_S)
        while len(seen) < turn * 30 + 30:
            message = consumer.poll(PATIENCE_S)
            assert message is not None
            assert message.error() is None
            seen.append(int(message.value() or b""))
        consumer.commit(asynchronous=False)
    committed = consumer.committed([TopicPartition("paid", index) for index in range(PARTITIONS)], timeout=PATIENCE_S)
    consumer.close()
    cluster.start_broker(victim)
    cluster.wait_until_in_sync(PATIENCE_S)
    assert sorted(seen) == list(range(90))
    assert all(each.offset > 30 for each in committed)


def are_there(client: KazooClient, paths: Sequence[str]) -> bool:
    return all(client.exists(path) for path in paths)


def problems_of(cluster: penstock.Cluster) -> list[str]:
    """As `penstock cluster status` tells them, but for the machine's disk."""
    found = Cli(cluster.bootstrap_servers).try_run("cluster", "status", "--json").json["findings"]
    return [each["name"] for each in found if each["severity"] == "problem" and each["name"] != "disk-full"]


def test_topics_are_made_and_brokers_stop_when_a_stranger_has_deleted_what_the_controller_needs(
    cluster: penstock.Cluster,
) -> None:
    """The ZooKeeper of this cluster has no access lists. `test_mending` has all other nodes."""
    admin = admin_of(cluster.bootstrap_servers)

    def is_made(name: str) -> bool:
        (future,) = admin.create_topics([NewTopic(name, 1, 3)]).values()
        error = future.exception(PATIENCE_S)
        return error is None or error.args[0].code() == KafkaError.TOPIC_ALREADY_EXISTS

    with stranger_at(cluster) as client:
        for number, paths in enumerate(
            (
                ("/controller_epoch", "/controller"),
                ("/penstock/log",),
                ("/brokers/seqid", "/brokers/ids/1", "/brokers/ids/2", "/brokers/ids/3"),
            )
        ):
            for path in paths:
                client.delete(path, recursive=True)
            eventually(partial(is_made, f"mended-{number}"), f"a topic is made without {paths}")
            eventually(partial(are_there, client, paths), f"{paths} are there again")
            # Afterwards: a broker that is registered anew has still to be known to the others, by the controller.
            eventually(lambda: not problems_of(cluster), f"all is well after {paths}")
        client.delete("/controller")
        client.create("/controller", b"{}", ephemeral=True)  # as long as the stranger stays, nobody is elected
        # Brokers that were just registered anew may still be out of sync, and without a controller they stay so.
        eventually(lambda: "controller-silent" in problems_of(cluster), "the broker that was the controller is none")
    eventually(lambda: not problems_of(cluster), "a controller is elected")
    controller, began = cluster.controller_id(), time.monotonic()
    cluster.stop_broker(controller)
    assert time.monotonic() - began < LEAVE_S
    cluster.start_broker(controller)
    cluster.wait_until_in_sync(PATIENCE_S)


def test_replicas_move_when_a_reassignment_asks_for_it(cluster: penstock.Cluster) -> None:
    admin: AdminClient = admin_of(cluster.bootstrap_servers)
    cluster.create_topic("moved", 1, 2)
    (before,) = admin.list_topics("moved", timeout=PATIENCE_S).topics["moved"].partitions.values()
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers})
    for number in range(100):
        producer.produce("moved", b"%d" % number)
    assert producer.flush(PATIENCE_S) == 0
    third = next(node for node in (1, 2, 3) if node not in before.replicas)
    wanted = [third, before.replicas[0]]
    topic = ReassignableTopic(name="moved", partitions=[ReassignablePartition(partition_index=0, replicas=wanted)])
    host, _, port = cluster.bootstrap_servers.split(",")[0].rpartition(":")
    with BlockingConnection(host, int(port)) as connection:
        answer = connection.request(AlterPartitionReassignmentsRequest(timeout_ms=10_000, topics=[topic]), 0)
    assert answer.error_code == ErrorCode.NONE
    assert answer.responses[0].partitions[0].error_code == ErrorCode.NONE
    replicas: list[int] = []
    while replicas != wanted:
        (state,) = admin.list_topics("moved", timeout=PATIENCE_S).topics["moved"].partitions.values()
        replicas = state.replicas
    assert numbers_in(cluster, "moved", 100) == list(range(100))


@contextmanager
def no_zookeeper(cluster: penstock.Cluster) -> Iterator[None]:
    """ZooKeeper hangs, and answers nobody."""
    members = cluster.members
    assert isinstance(members, ProcessMembers)
    assert members.zookeeper is not None
    members.zookeeper.pause()
    try:
        yield
    finally:
        members.zookeeper.resume()


def can_create_topics(cluster: penstock.Cluster, name: str = "afterwards") -> bool:
    try:
        cluster.create_topic(name, 1, 3)
    except ApiError as error:
        return error.code is ErrorCode.TOPIC_ALREADY_EXISTS
    return True


def test_cluster_is_not_called_healthy_when_zookeeper_stands_still(cluster: penstock.Cluster) -> None:
    with no_zookeeper(cluster):
        eventually(lambda: "controller-silent" in problems_of(cluster), "ZooKeeper answers nobody")
    eventually(lambda: not problems_of(cluster), "ZooKeeper is back")
    assert can_create_topics(cluster, "after-standstill")


def test_writers_go_on_when_a_broker_stood_still_while_zookeeper_is_away(cluster: penstock.Cluster) -> None:
    """The broker leads one partition and follows in two, so nobody is sure to lead any of them until it is back."""
    cluster.create_topic("outage", PARTITIONS, 3, {"min.insync.replicas": "2"})
    cluster.wait_until_in_sync(PATIENCE_S)
    assert sorted(leaders_of(cluster, "outage").values()) == [1, 2, 3]
    writer = Writer(cluster.bootstrap_servers, "outage")
    writer.start()
    writer.wait_for_more(30)
    with no_zookeeper(cluster):
        writer.wait_for_more(30)
        cluster.pause(2)
        time.sleep(2 * LEASE_MS / 1000)  # all leases end: the pause is longer than they are
        cluster.resume(2)
        writer.wait_for_more(writer.sent - len(writer.acknowledged) + 100)
    # All sessions may have ended, and begin anew.
    eventually(lambda: can_create_topics(cluster), "a new topic", PATIENCE_S)
    cluster.wait_until_in_sync(PATIENCE_S)
    writer.stop()
    assert writer.errors == []
    for partition in range(PARTITIONS):
        expected = list(range(partition, writer.sent, PARTITIONS))
        assert numbers_in(cluster, "outage", len(expected), partition) == expected


def terms_of(cluster: penstock.Cluster, topic: str) -> list[tuple[int, int, int]]:
    """(partition, leader, leader epoch)"""
    host, _, port = cluster.bootstrap_servers.split(",")[0].rpartition(":")
    with BlockingConnection(host, int(port)) as connection:
        answer = connection.request(MetadataRequest(topics=[MetadataRequestTopic(name=topic)]), 9)
    return sorted((each.partition_index, each.leader_id, each.leader_epoch) for each in answer.topics[0].partitions)


def committed_by(consumer: Consumer, topic: str, offset: int) -> int:
    """What the coordinator says after it has taken this offset."""
    consumer.commit(offsets=[TopicPartition(topic, 0, offset)], asynchronous=False)
    (committed,) = consumer.committed([TopicPartition(topic, 0)], timeout=PATIENCE_S)
    return committed.offset


def test_all_lead_on_in_their_terms_when_zookeeper_was_frozen_for_longer_than_sessions_last(
    cluster: penstock.Cluster,
) -> None:
    """All sessions end when it goes on. One broker led everything then, and the others cut their logs."""
    cluster.create_topic("frozen", PARTITIONS, 3, {"min.insync.replicas": "2"})
    cluster.wait_until_in_sync(PATIENCE_S)
    before = terms_of(cluster, "frozen")
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap_servers, "group.id": "skaters"})
    assert committed_by(consumer, "frozen", 1) == 1
    writer = Writer(cluster.bootstrap_servers, "frozen")
    writer.start()
    writer.wait_for_more(30)
    with no_zookeeper(cluster):
        time.sleep(3 * SESSION_S)
        writer.wait_for_more(30)
        # Nobody's session is sure, so coordinators ask their followers.
        assert [committed_by(consumer, "frozen", offset) for offset in (2, 3, 4)] == [2, 3, 4]
    consumer.close()
    eventually(lambda: can_create_topics(cluster, "thawed"), "a new topic", PATIENCE_S)
    cluster.wait_until_in_sync(PATIENCE_S)
    writer.wait_for_more(30)
    writer.stop()
    assert writer.errors == []
    assert terms_of(cluster, "frozen") == before
    for partition in range(PARTITIONS):
        expected = list(range(partition, writer.sent, PARTITIONS))
        assert numbers_in(cluster, "frozen", len(expected), partition) == expected
