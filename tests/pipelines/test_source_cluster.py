"""What the driver asks a cluster, while its broker goes away and comes back."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.core.types import TopicPartition
from penstock.pipelines.source.cluster import SourceCluster
from penstock.testing.processes import BrokerProcess
from tests.pipelines.committed import make_topic, produce


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path / "broker") as process:
        yield process


@pytest.fixture
def place(broker: BrokerProcess) -> TopicPartition:
    """One that has three records."""
    topic = make_topic(broker.bootstrap_servers, "numbers")
    produce(broker.bootstrap_servers, topic, "1", "2", "3")
    return TopicPartition(topic, 0)


@pytest.mark.parametrize("away_s", [0.0, 0.1, 1.0])
def test_offsets_are_right_when_the_broker_was_killed_and_comes_back(
    broker: BrokerProcess, place: TopicPartition, away_s: float
) -> None:
    cluster = SourceCluster({"bootstrap.servers": broker.bootstrap_servers})
    assert cluster.latest([place]) == {place: 3}
    for _ in range(3):
        broker.kill()
        comes_back = threading.Timer(away_s, broker.start)
        comes_back.start()
        try:
            assert cluster.latest([place]) == {place: 3}
            assert cluster.earliest([place]) == {place: 0}
        finally:
            comes_back.join()


def test_a_partition_is_left_out_when_its_topic_is_gone(broker: BrokerProcess, place: TopicPartition) -> None:
    cluster = SourceCluster({"bootstrap.servers": broker.bootstrap_servers})
    gone = TopicPartition("gone", 0)
    assert cluster.latest([gone]) == {}
    assert cluster.latest([place, gone]) == {place: 3}
