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
from penstock.admin import Admin, ApiError, AsyncAdmin, NewTopic
from penstock.client.addresses import Address
from penstock.client.brokers import Brokers
from penstock.testing.processes import ServerProcess

POLL_S = 0.002

_topic_numbers = itertools.count(1)


def replicas_led_by(leader: int) -> list[int]:
    return [leader, *(node_id for node_id in NODE_IDS if node_id != leader)]


def create_topic(cluster: BrokerCluster, leaders: Sequence[int]) -> str:
    """One partition for each leader. Returns when all of them take records with acks=all; each then has one."""
    name = f"bench-cluster-{next(_topic_numbers)}"
    request_creation(cluster, NewTopic(name, replicas=[replicas_led_by(leader) for leader in leaders]))
    for index, leader in enumerate(leaders):
        wait_until_acknowledged([cluster.brokers[leader]], name, index)
    return name


def request_creation(cluster: BrokerCluster, topic: NewTopic) -> None:
    """Again and again while the brokers start: at first they do not listen, then they know too few of each other."""
    deadline = time.monotonic() + PATIENCE_S
    address = _address_of_one(cluster)
    with _administration(address) as admin:
        while True:
            try:
                problem = _try_to_create(admin, address, topic)
            except (OSError, ApiError) as error:
                problem = str(error)
            if not problem:
                return
            if time.monotonic() > deadline or not cluster.is_running:
                raise BenchError(cluster.describe(f"could not create a topic: {problem}"))
            time.sleep(POLL_S)


def _try_to_create(admin: Admin, address: Address, topic: NewTopic) -> str:
    """What is in the way; empty when the topic is made. Until there is a controller it is looked for here: a change
    looks for it with pauses, which would count as the cluster's.
    """
    views, failures = admin.nodes.views([address])
    if failures:
        return str(failures[0])
    if views[address].controller_id is None:
        return "there is no controller"
    refusal = admin.create_topics([topic]).get(topic.name)
    return "" if refusal is None else f"{refusal.code.name}, {refusal.message}"


def delete_topic(cluster: BrokerCluster, name: str) -> None:
    with _administration(_address_of_one(cluster)) as admin:
        refused = admin.delete_topics([name])
    if refused:
        raise BenchError(f"{cluster.name} refuses to delete a topic: {refused[name].message}")


def _address_of_one(cluster: BrokerCluster) -> Address:
    broker = next(each for each in cluster.brokers.values() if each.is_running)
    return broker.host, broker.port


def _administration(address: Address) -> Admin:
    """A change may take as long as the bench is patient; that nobody listens is told at once."""
    return Admin(lambda: AsyncAdmin(Brokers([address], timeout_s=PATIENCE_S, patience_s=0.0)))


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
