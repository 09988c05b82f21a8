"""A single node with all that it holds becomes a broker of a cluster, grows to three replicas, and is killed."""

from __future__ import annotations

import time
from pathlib import Path

from confluent_kafka import Producer, TopicCollection, TopicPartition
from kafka import TopicPartition as KafkaPartition
from kafka.admin import KafkaAdminClient

from penstock.testing.processes import BrokerProcess, ZooKeeperProcess
from tests.clients.cli_runner import Cli
from tests.clients.confluent import admin_of, consumer_of, create_topic, produce, producer_of, read, read_topic, values
from tests.integration.conftest import StartBroker

PATIENCE_S = 60.0
SMALL = {"offsets.topic.num.partitions": "2", "transaction.state.log.num.partitions": "2"}
INTERNAL = ("__consumer_offsets", "__transaction_state")
NODES = [1, 2, 3]


def numbers(first: int, last: int) -> list[bytes]:
    return [b"%d" % number for number in range(first, last)]


def transactional(servers: str, name: str) -> Producer:
    producer = producer_of(servers, transactional_id=name)
    producer.init_transactions(PATIENCE_S)
    producer.begin_transaction()
    return producer


def committed(servers: str, group: str, topic: str) -> int:
    with consumer_of(servers, group_id=group) as consumer:
        (position,) = consumer.committed([TopicPartition(topic, 0)], timeout=PATIENCE_S)
    return int(position.offset)


def topic_id(servers: str, topic: str) -> str:
    described = admin_of(servers).describe_topics(TopicCollection([topic]), request_timeout=PATIENCE_S)[topic]
    return str(described.result(PATIENCE_S).topic_id)


def live_alone(broker: BrokerProcess) -> Producer:
    """Topics with settings, a group, a transaction that ended. Returns the producer of one that did not."""
    servers = broker.bootstrap_servers
    create_topic(servers, config={"retention.ms": "7777777"}, name="orders")
    create_topic(servers, name="payments")
    produce(producer_of(servers, enable_idempotence=True), "orders", numbers(0, 100))
    with consumer_of(servers, group_id="books") as consumer:
        consumer.subscribe(["orders"])
        read(consumer, 40)
        consumer.commit(offsets=[TopicPartition("orders", 0, 40)], asynchronous=False)
    ended = transactional(servers, "ended")
    produce(ended, "payments", numbers(0, 5))
    ended.commit_transaction(PATIENCE_S)
    ongoing = transactional(servers, "ongoing")
    produce(ongoing, "payments", numbers(5, 10))
    return ongoing


def check_contents(servers: str, orders: int, payments: int) -> None:
    assert values(read_topic(servers, "orders", orders)) == numbers(0, orders)
    read_committed = read_topic(servers, "payments", payments, isolation_level="read_committed")
    assert values(read_committed) == [*numbers(0, 5), *numbers(10, 10 + payments - 5)]


def grow(servers: str, topics: list[str]) -> None:
    """Each partition gets a replica on each broker."""
    metadata = admin_of(servers).list_topics(timeout=PATIENCE_S)
    wanted = {KafkaPartition(topic, index): NODES for topic in topics for index in metadata.topics[topic].partitions}
    client = KafkaAdminClient(bootstrap_servers=servers.split(","))
    try:
        assert set(client.alter_partition_reassignments(wanted).values()) == {None}
    finally:
        client.close()
    deadline = time.monotonic() + PATIENCE_S
    while not all(
        sorted(state.isrs) == NODES
        for topic in topics
        for state in admin_of(servers).list_topics(topic, timeout=PATIENCE_S).topics[topic].partitions.values()
    ):
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_node_serves_all_it_had_and_may_die_when_it_has_come_into_a_cluster(
    start_broker: StartBroker, zookeeper: ZooKeeperProcess, tmp_path: Path
) -> None:
    single = start_broker(config=SMALL)
    servers, data = single.bootstrap_servers, str(single.data_dir)
    ongoing = live_alone(single)
    ids = {topic: topic_id(servers, topic) for topic in ("orders", "payments", *INTERNAL)}
    connect = f"{zookeeper.connect}/adopted"
    cli = Cli(servers)
    refused = cli.try_run("cluster", "adopt", "--data", data, "--zookeeper", connect)
    assert refused.code == 1
    assert "in use by a broker" in refused.err
    single.terminate()
    adopted = cli.run("cluster", "adopt", "--data", data, "--zookeeper", connect)
    assert "4 topics, 6 partitions" in adopted.err

    in_cluster = {**SMALL, "zookeeper.connect": connect, "zookeeper.session.timeout.ms": "2000"}
    first = start_broker(config={**in_cluster, "broker.id": "1"}, port=single.port)
    assert {topic: topic_id(servers, topic) for topic in ids} == ids
    assert "retention.ms" in cli.run("configs", "describe", "--topic", "orders").text
    assert committed(servers, "books", "orders") == 40
    ongoing.abort_transaction(PATIENCE_S)
    check_contents(servers, 100, 5)

    others = [
        start_broker(tmp_path / f"data-{node_id}", config={**in_cluster, "broker.id": str(node_id)})
        for node_id in NODES[1:]
    ]
    grow(servers, ["orders", "payments", *INTERNAL])
    first.kill()
    left = ",".join(broker.bootstrap_servers for broker in others)
    produce(producer_of(left, enable_idempotence=True, acks="all"), "orders", numbers(100, 150))
    again = transactional(left, "ongoing")
    produce(again, "payments", numbers(10, 15))
    again.commit_transaction(PATIENCE_S)
    check_contents(left, 150, 10)
    assert committed(left, "books", "orders") == 40
    for broker in others:
        broker.terminate()
