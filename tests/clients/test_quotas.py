"""Real clients within quotas: they are told to wait, they wait, and nothing is lost."""

from __future__ import annotations

import json
from typing import Any

from confluent_kafka import Producer, TopicPartition

import penstock
from penstock.client.connection import BlockingConnection
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.describe_client_quotas import DescribeClientQuotasRequest
from penstock.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.clients import confluent, kafka_python
from tests.clients.conftest import RunningBroker
from tests.clients.quotas import quotas, set_quotas
from tests.clients.support import PATIENCE_S, eventually, new_name

# A second more than the quota: enough to be told to wait, and no long test.
RATE = 200_000
VALUES = [bytes(10_000)] * 45


def test_librdkafka_is_told_to_wait_and_delivers_everything_when_it_writes_too_fast(broker: RunningBroker) -> None:
    servers, client_id, waits = broker.bootstrap_servers, new_name("client"), []
    topic = confluent.create_topic(servers)

    def on_throttle(event: Any) -> None:
        waits.append(event.throttle_time)

    with quotas(servers, {"client-id": client_id}, producer_byte_rate=RATE):
        producer = Producer(
            {"bootstrap.servers": servers, "client.id": client_id, "throttle_cb": on_throttle, "linger.ms": 0}
        )
        assert len(confluent.produce(producer, topic, VALUES)) == len(VALUES)
        producer.flush(PATIENCE_S)
        producer.poll(0)
    assert any(wait > 0 for wait in waits)


def test_librdkafka_reads_everything_when_it_reads_too_fast(broker: RunningBroker) -> None:
    servers, client_id = broker.bootstrap_servers, new_name("client")
    topic = confluent.create_topic(servers)
    confluent.produce(confluent.producer_of(servers, batch_num_messages=1), topic, VALUES)
    waits: list[int] = []

    def on_statistics(text: str) -> None:
        waits.extend(each["throttle"]["max"] for each in json.loads(text)["brokers"].values())

    with (
        quotas(servers, {"client-id": client_id}, consumer_byte_rate=RATE),
        confluent.consumer_of(
            servers, client_id=client_id, statistics_interval_ms=100, stats_cb=on_statistics
        ) as consumer,
    ):
        consumer.assign([TopicPartition(topic, 0, 0)])
        seen: list[bytes | None] = []
        while len(seen) < len(VALUES):
            seen += [message.value() for message in consumer.consume(10, 0.2) if message.error() is None]
        eventually(lambda: consumer.poll(0.05) is None and any(waits), "a throttled fetch")
    assert seen == VALUES


def test_kafka_python_is_told_to_wait_and_delivers_everything(broker: RunningBroker) -> None:
    servers, client_id = broker.bootstrap_servers, new_name("client")
    topic = kafka_python.create_topic(servers)
    with (
        quotas(servers, {"client-id": client_id}, producer_byte_rate=RATE),
        kafka_python.producer_of(servers, client_id=client_id, batch_size=0) as producer,
    ):
        futures = [producer.send(topic, value) for value in VALUES]
        producer.flush(PATIENCE_S)
        assert [future.get(PATIENCE_S).offset for future in futures] == list(range(len(VALUES)))

        def was_told_to_wait() -> bool:
            return any(each.get("throttle-time-max", 0.0) > 0 for each in producer.metrics().values())

        # The client gives the records of an answer their offsets before it notes the time in that answer.
        eventually(was_told_to_wait, "the client was told to wait")


def test_topics_that_come_by_being_used_are_charged_to_their_client_by_whichever_broker_is_asked() -> None:
    """One bucket at the controller, which is asked in the client's name."""
    with penstock.Cluster(2, store="memory") as cluster:
        servers = cluster.bootstrap_servers.split(",")
        set_quotas(servers[0], {"client-id": "app"}, {"controller_mutation_rate": 0.01})  # one partition in 100 s
        eventually(lambda: all(quotas_of(server) == {"app"} for server in servers), "the quota on both brokers")
        assert use_topic(servers[0], "app", "first") == ErrorCode.NONE
        for server in servers:
            assert use_topic(server, "app", "second") == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert [use_topic(server, f"other-{server}", f"of-{server.rpartition(':')[2]}") for server in servers] == [0, 0]


def use_topic(server: str, client_id: str, topic: str) -> int:
    host, _, port = server.rpartition(":")
    with BlockingConnection(host, int(port), client_id=client_id) as connection:
        response: Any = connection.request(MetadataRequest(topics=[MetadataRequestTopic(name=topic)]), 9)
    return int(response.topics[0].error_code)


def quotas_of(server: str) -> set[str | None]:
    host, _, port = server.rpartition(":")
    with BlockingConnection(host, int(port)) as connection:
        response: Any = connection.request(DescribeClientQuotasRequest(components=[]), 1)
    return {each.entity_name for entry in response.entries or () for each in entry.entity}
