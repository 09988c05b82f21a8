"""Consumers read from the replica in their rack (KIP-392): three real brokers, and a client that names its rack."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from confluent_kafka import TopicPartition

from penstock.core.config.keys.coordination import RACK_AWARE_SELECTOR
from penstock.testing.processes import ZooKeeperProcess
from tests.clients.confluent import consumer_of, produce, producer_of, read, values
from tests.clients.support import PATIENCE_S
from tests.integration.cluster.racks import RackedBrokers, racked_brokers

LEADER, NEAR = 1, 3
RACKS = {1: "a", 2: "b", 3: "c"}


@pytest.fixture(scope="module")
def brokers(zookeeper: ZooKeeperProcess, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RackedBrokers]:
    configs = {
        node_id: {"broker.rack": rack, "replica.selector.class": RACK_AWARE_SELECTOR} for node_id, rack in RACKS.items()
    }
    with racked_brokers(zookeeper, tmp_path_factory.mktemp("racks"), configs) as started:
        yield started


def test_the_follower_in_the_consumers_rack_serves_it_and_the_leader_does_when_that_dies(
    brokers: RackedBrokers,
) -> None:
    brokers.create_topic("near", [1, 2, 3], {"min.insync.replicas": "2"})
    producer = producer_of(brokers.servers)
    first = [b"%d" % number for number in range(100)]
    produce(producer, "near", first)
    with consumer_of(brokers.servers, client_rack=RACKS[NEAR]) as consumer:
        consumer.assign([TopicPartition("near", 0, 0)])
        assert values(read(consumer, 100)) == first
        assert (brokers.bytes_out(LEADER, "near"), brokers.bytes_out(2, "near")) == (0, 0)
        assert brokers.bytes_out(NEAR, "near") > 0
        # What comes later is served there, too.
        produce(producer, "near", [b"later"])
        assert values(read(consumer, 1)) == [b"later"]
        assert brokers.bytes_out(LEADER, "near") == 0
        brokers.processes[NEAR].kill()
        second = [b"second-%d" % number for number in range(100)]
        produce(producer, "near", second)
        assert values(read(consumer, 100)) == second
        assert brokers.bytes_out(LEADER, "near") > 0
    brokers.processes[NEAR].start()
    brokers.await_in_sync("near", {1, 2, 3})


def test_the_follower_serves_committed_records_alone_when_a_consumer_asks_for_them(brokers: RackedBrokers) -> None:
    brokers.create_topic("committed", [1, 2, 3], {"min.insync.replicas": "2"})
    producer = producer_of(brokers.servers, transactional_id="nearest")
    producer.init_transactions(PATIENCE_S)
    for turn in range(4):
        producer.begin_transaction()
        produce(producer, "committed", [b"%d-%d" % (turn, number) for number in range(10)])
        if turn % 2:
            producer.abort_transaction(PATIENCE_S)
        else:
            producer.commit_transaction(PATIENCE_S)
    producer.begin_transaction()
    produce(producer, "committed", [b"open"])
    with consumer_of(brokers.servers, client_rack=RACKS[NEAR], isolation_level="read_committed") as consumer:
        consumer.assign([TopicPartition("committed", 0, 0)])
        expected = [b"%d-%d" % (turn, number) for turn in (0, 2) for number in range(10)]
        assert values(read(consumer, 20)) == expected
        assert consumer.consume(1, timeout=0.5) == []
        producer.commit_transaction(PATIENCE_S)
        assert values(read(consumer, 1)) == [b"open"]
    assert brokers.bytes_out(LEADER, "committed") == 0
    assert brokers.bytes_out(NEAR, "committed") > 0
