"""What the driver asks a cluster, while its broker goes away and comes back."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from penstock.core.types import TopicPartition
from penstock.pipelines.source.cluster import Cluster
from penstock.testing.processes import BrokerProcess

PLACE = TopicPartition("numbers", 0)


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path / "broker") as process:
        admin = AdminClient({"bootstrap.servers": process.bootstrap_servers})
        admin.create_topics([NewTopic(PLACE.topic, 1, 1)])[PLACE.topic].result(30)
        producer = Producer({"bootstrap.servers": process.bootstrap_servers})
        for number in range(3):
            producer.produce(PLACE.topic, str(number))
        assert producer.flush(30) == 0
        yield process


@pytest.mark.parametrize("away_s", [0.0, 0.1, 1.0])
def test_offsets_are_right_when_the_broker_was_killed_and_comes_back(broker: BrokerProcess, away_s: float) -> None:
    cluster = Cluster({"bootstrap.servers": broker.bootstrap_servers})
    assert cluster.latest([PLACE]) == {PLACE: 3}
    for _ in range(3):
        broker.kill()
        comes_back = threading.Timer(away_s, broker.start)
        comes_back.start()
        try:
            assert cluster.latest([PLACE]) == {PLACE: 3}
            assert cluster.earliest([PLACE]) == {PLACE: 0}
        finally:
            comes_back.join()


def test_a_partition_is_left_out_when_its_topic_is_gone(broker: BrokerProcess) -> None:
    cluster = Cluster({"bootstrap.servers": broker.bootstrap_servers})
    gone = TopicPartition("gone", 0)
    assert cluster.latest([gone]) == {}
    assert cluster.latest([PLACE, gone]) == {PLACE: 3}
