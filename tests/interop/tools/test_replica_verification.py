"""`penstock cluster verify-replicas` reads the replicas of Apache Kafka as it reads ours."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

from confluent_kafka.cimpl import NewTopic

from apache_kafka.cluster import ApacheKafkaCluster
from tests.clients.cli_runner import Cli
from tests.clients.confluent import admin_of, produce, producer_of

PATIENCE_S = 120.0


def test_replicas_of_apache_kafka_are_the_same_when_nothing_happened_to_them(tmp_path: Path) -> None:
    with ExitStack() as stack:
        kafka = ApacheKafkaCluster(tmp_path)
        kafka.start_all(stack)
        topics = {"plain": {}, "compacted": {"cleanup.policy": "compact"}}
        wanted = [NewTopic(name, 2, 3, config=config) for name, config in topics.items()]
        for made in admin_of(kafka.bootstrap_servers).create_topics(wanted).values():
            made.result(PATIENCE_S)
        producer = producer_of(kafka.bootstrap_servers)
        for name in topics:
            for partition in range(2):
                produce(producer, name, [b"%d" % number for number in range(50)], partition=partition, key=b"k")
        found = Cli(kafka.bootstrap_servers).run("cluster", "verify-replicas", "--json").json
        assert found["problems"] == []
        assert found["partitions"] == 4
        assert found["batches"] >= 4
