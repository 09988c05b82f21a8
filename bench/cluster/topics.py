"""Topics with three replicas, whose leaders the bench chooses: then bare sockets know whom to ask."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from bench.cluster.clusters import NODE_IDS, BrokerCluster
from bench.errors import BenchError
from bench.loads import PATIENCE_S, now_ms
from bench.wire import RawConnection, produce_error, produce_request, record_batch
from penstock.admin import connect
from penstock.protocol.errors import ApiError
from penstock.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from penstock.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse, DeleteTopicState
from penstock.testing.processes import ServerProcess

POLL_S = 0.002

_topic_numbers = itertools.count(1)


def replicas_led_by(leader: int) -> list[int]:
    return [leader, *(node_id for node_id in NODE_IDS if node_id != leader)]


def create_topic(cluster: BrokerCluster, leaders: Sequence[int]) -> str:
    """One partition for each leader. Returns when all of them take records with acks=all; each then has one."""
    assignments = [
        CreatableReplicaAssignment(partition_index=index, broker_ids=replicas_led_by(leader))
        for index, leader in enumerate(leaders)
    ]
    name = f"bench-cluster-{next(_topic_numbers)}"
    request_creation(
        cluster, CreatableTopic(name=name, num_partitions=-1, replication_factor=-1, assignments=assignments)
    )
    for index, leader in enumerate(leaders):
        wait_until_acknowledged([cluster.brokers[leader]], name, index)
    return name


def request_creation(cluster: BrokerCluster, topic: CreatableTopic) -> None:
    """Again and again while the brokers start: at first they do not listen, then they know too few of each other."""
    request = CreateTopicsRequest(topics=[topic], timeout_ms=int(PATIENCE_S * 1000))
    broker = next(each for each in cluster.brokers.values() if each.is_running)
    deadline = time.monotonic() + PATIENCE_S
    address = broker.host, broker.port
    with connect([address]) as admin:
        while True:
            try:
                answer: CreateTopicsResponse = admin.nodes.ask(address, request, timeout_s=PATIENCE_S)
                (result,) = answer.topics
                problem = f"error {result.error_code}, {result.error_message}" if result.error_code else ""
            except (OSError, ApiError) as error:
                problem = str(error)
            if not problem:
                return
            if time.monotonic() > deadline or not cluster.is_running:
                raise BenchError(cluster.describe(f"could not create a topic: {problem}"))
            time.sleep(POLL_S)


def delete_topic(cluster: BrokerCluster, name: str) -> None:
    request = DeleteTopicsRequest(topics=[DeleteTopicState(name=name)], topic_names=[name], timeout_ms=60_000)
    broker = next(each for each in cluster.brokers.values() if each.is_running)
    address = broker.host, broker.port
    with connect([address]) as admin:
        answer: DeleteTopicsResponse = admin.nodes.ask(address, request, timeout_s=PATIENCE_S)
    (result,) = answer.responses
    if result.error_code:
        raise BenchError(f"{cluster.name} answers the deletion of a topic with error {result.error_code}")


@contextmanager
def topic_of(cluster: BrokerCluster, leaders: Sequence[int]) -> Iterator[str]:
    name = create_topic(cluster, leaders)
    yield name
    delete_topic(cluster, name)


def wait_until_acknowledged(brokers: Sequence[ServerProcess], topic: str, partition: int = 0) -> None:
    """Asks the brokers in turn until one acknowledges a record with acks=all."""
    request = produce_request(topic, partition, record_batch(b"one", now_ms()))
    deadline = time.monotonic() + PATIENCE_S
    connections: dict[int, RawConnection] = {}
    try:
        for broker in itertools.cycle(brokers):
            try:
                connection = connections.get(broker.port)
                if connection is None:
                    connection = connections[broker.port] = RawConnection(broker.host, broker.port)
                if produce_error(connection.exchange(request), topic) == 0:
                    return
            except (OSError, BenchError):
                connections.pop(broker.port, None)
            if time.monotonic() > deadline:
                raise BenchError(broker.describe(f"acknowledges nothing for {topic}-{partition} in {PATIENCE_S} s"))
            time.sleep(POLL_S / len(brokers))
    finally:
        for connection in connections.values():
            connection.close()
