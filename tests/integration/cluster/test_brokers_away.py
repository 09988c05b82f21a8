"""Three brokers with a real ZooKeeper, one of them killed while the cluster is young: clients miss nothing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import NewPartitions, NewTopic
from kafka.admin import KafkaAdminClient

import penstock
from penstock.client.connection import BlockingConnection
from penstock.protocol.errors import ErrorCode
from penstock.protocol.message import Message
from penstock.protocol.messages.unregister_broker import UnregisterBrokerRequest
from tests.clients.confluent import admin_of, consumer_of, produce, producer_of, read, read_topic, values
from tests.clients.support import PATIENCE_S, eventually

RECORDS = [b"%d" % number for number in range(20)]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[penstock.Cluster]:
    """Broker 3 was here once, and is dead before the first topic is made."""
    settings = {"offsets.topic.num.partitions": 3, "transaction.state.log.num.partitions": 3}
    with penstock.Cluster(3, tmp_path_factory.mktemp("cluster") / "data", settings) as started:
        started.kill(3)
        started.wait_until_ready()
        yield started


def sets_of(cluster: penstock.Cluster, topic: str) -> list[tuple[set[int], set[int]]]:
    """The replicas and the in-sync set of each partition, as librdkafka reads them from Metadata."""
    described = admin_of(cluster.bootstrap_servers).list_topics(topic, timeout=PATIENCE_S).topics[topic]
    return [(set(each.replicas), set(each.isrs)) for each in described.partitions.values()]


def test_topics_groups_and_transactions_begin_when_one_of_three_brokers_is_dead(cluster: penstock.Cluster) -> None:
    servers = cluster.bootstrap_servers
    admin = admin_of(servers)
    admin.create_topics([NewTopic("orders", 2, 3)])["orders"].result(PATIENCE_S)
    admin.create_partitions([NewPartitions("orders", 3)])["orders"].result(PATIENCE_S)
    assert sets_of(cluster, "orders") == [({1, 2, 3}, {1, 2})] * 3

    produce(producer_of(servers, acks="all"), "orders", RECORDS)
    produce(producer_of(servers, acks="all"), "made-by-its-first-record", RECORDS)
    transactional = producer_of(servers, transactional_id="young")
    transactional.init_transactions(PATIENCE_S)
    transactional.begin_transaction()
    for value in RECORDS:
        transactional.produce("orders", value)
    transactional.commit_transaction(PATIENCE_S)

    with consumer_of(servers, isolation_level="read_committed") as consumer:
        consumer.subscribe(["orders"])
        assert sorted(map(bytes, filter(None, values(read(consumer, 2 * len(RECORDS)))))) == sorted(2 * RECORDS)
        consumer.commit(asynchronous=False)
    for internal in ("__consumer_offsets", "__transaction_state", "made-by-its-first-record"):
        assert all(sets == ({1, 2, 3}, {1, 2}) for sets in sets_of(cluster, internal)), internal

    cluster.start_broker(3)
    cluster.wait_until_in_sync()
    for topic in ("orders", "__consumer_offsets", "__transaction_state", "made-by-its-first-record"):
        assert all(sets == ({1, 2, 3}, {1, 2, 3}) for sets in sets_of(cluster, topic)), topic
    cluster.kill(1)
    with consumer_of(servers, isolation_level="read_committed") as consumer:
        consumer.subscribe(["orders"])
        assert len(read(consumer, 2 * len(RECORDS))) == 2 * len(RECORDS)
    cluster.start_broker(1)


def ask(cluster: penstock.Cluster, node_id: int, request: Message, version: int = 0) -> Any:
    broker = cluster.broker(node_id)
    with BlockingConnection(broker.host, broker.port) as connection:
        return connection.request(request, version)


def described(cluster: penstock.Cluster, node_id: int = 1) -> dict[int, tuple[str, bool]]:
    """As kafka-python reads DescribeCluster: it asks for fenced brokers as well."""
    admin = KafkaAdminClient(bootstrap_servers=cluster.broker(node_id).bootstrap_servers)
    try:
        brokers = admin.describe_cluster()["brokers"]
    finally:
        admin.close()
    return {each["broker_id"]: (f"{each['host']}:{each['port']}", each["is_fenced"]) for each in brokers}


def test_broker_counts_until_it_is_unregistered_when_it_is_dead(cluster: penstock.Cluster) -> None:
    cluster.restore()
    servers = cluster.bootstrap_servers
    admin = admin_of(servers)
    cluster.create_topic("kept", 1, 3)
    cluster.kill(3)
    cluster.wait_until_ready()
    addresses = {each.node_id: each.bootstrap_servers for each in cluster.brokers}
    assert described(cluster) == {node_id: (address, node_id == 3) for node_id, address in addresses.items()}
    other = next(node_id for node_id in (1, 2) if node_id != cluster.controller_id())
    unknown = ask(cluster, other, UnregisterBrokerRequest(broker_id=9))
    assert (unknown.error_code, unknown.error_message) == (102, "Broker ID 9 is not currently registered")

    assert ask(cluster, other, UnregisterBrokerRequest(broker_id=3)).error_code == ErrorCode.NONE
    eventually(lambda: 3 not in described(cluster, other), "the broker that passed it on knows")
    with pytest.raises(KafkaException, match=r"only 2 broker\(s\) are registered"):
        admin.create_topics([NewTopic("refused", 1, 3)])["refused"].result(PATIENCE_S)
    assert sets_of(cluster, "kept") == [({1, 2, 3}, {1, 2})]

    cluster.start_broker(3)
    cluster.wait_until_in_sync()
    assert described(cluster) == {node_id: (address, False) for node_id, address in addresses.items()}
    admin.create_topics([NewTopic("made", 1, 3)])["made"].result(PATIENCE_S)
    assert sets_of(cluster, "kept") == [({1, 2, 3}, {1, 2, 3})]


@pytest.mark.parametrize("who", ["controller", "other"])
def test_broker_registers_anew_when_it_is_unregistered_while_it_runs(cluster: penstock.Cluster, who: str) -> None:
    cluster.restore()
    controller = cluster.controller_id()
    victim = controller if who == "controller" else controller % 3 + 1
    answer = ask(cluster, victim % 3 + 1, UnregisterBrokerRequest(broker_id=victim))
    assert answer.error_code == ErrorCode.NONE
    cluster.wait_until_in_sync()
    assert described(cluster).keys() == {1, 2, 3}
    produce(producer_of(cluster.bootstrap_servers, acks="all"), f"after-{who}", RECORDS)


def test_broker_has_the_new_topic_alone_when_one_of_that_name_was_deleted_while_it_was_dead(
    cluster: penstock.Cluster,
) -> None:
    cluster.restore()
    servers = cluster.bootstrap_servers
    cluster.create_topic("anew", 1, 3)
    produce(producer_of(servers, acks="all"), "anew", [b"old"] * 50)
    cluster.wait_until_in_sync()
    cluster.kill(3)
    cluster.wait_until_ready()
    cluster.delete_topic("anew")
    cluster.create_topic("anew", 1, 3)
    produce(producer_of(servers, acks="all"), "anew", RECORDS)
    cluster.start_broker(3)
    cluster.wait_until_in_sync()
    for node_id in (1, 2):
        cluster.kill(node_id)
    cluster.wait_until_ready()
    assert values(read_topic(servers, "anew", len(RECORDS))) == RECORDS  # from broker 3, which leads alone
    cluster.restore()
