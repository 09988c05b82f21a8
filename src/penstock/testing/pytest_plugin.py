"""The fixtures `kafka`, `secure_kafka` and `kafka_cluster`: a real broker, one that asks for TLS and a login, or a real
cluster, for the whole run; topics for each test. `schema_registry` is a schema registry beside the broker of `kafka`,
for the whole run as well.

    def test_orders_arrive(kafka):
        topic = kafka.topic(partitions=3)
        producer = Producer({"bootstrap.servers": kafka.bootstrap_servers})

    def test_orders_arrive_encrypted(secure_kafka):
        producer = Producer(secure_kafka.client_config)

    def test_orders_survive_a_crash(kafka_cluster):
        topic = kafka_cluster.topic(replication_factor=3)
        ...
        kafka_cluster.cluster.kill(1)

    def test_orders_have_a_schema(kafka, schema_registry):
        client = SchemaRegistryClient({"url": schema_registry.url})

Broker settings for a run go into the `penstock_config` fixture (session scope), which a conftest.py may override;
`penstock_cluster_options` has the arguments of the cluster, `penstock_registry_config` the settings of the registry.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from penstock.core.properties import ConfigMapping
    from penstock.embedded import Broker
    from penstock.embedded_registry import Registry
    from penstock.local_cluster.cluster import Cluster

_NOT_IN_NAMES = re.compile(r"[^a-zA-Z0-9._-]+")
# A topic name holds 249 characters; a test's name gets most of them and a number the rest.
_NAME_CHARACTERS = 200


class _TopicsOfATest(list[str]):
    """Its topics, and the number of the next one's name."""

    def __init__(self, test_name: str) -> None:
        super().__init__()
        self._prefix = _NOT_IN_NAMES.sub("-", test_name)[-_NAME_CHARACTERS:]

    def next_name(self) -> str:
        return f"{self._prefix}-{len(self)}"


class KafkaFixture:
    def __init__(self, broker: Broker, name: str) -> None:
        self.broker = broker
        self._topics = _TopicsOfATest(name)

    @property
    def bootstrap_servers(self) -> str:
        return self.broker.bootstrap_servers

    @property
    def client_config(self) -> dict[str, Any]:
        """Settings for confluent-kafka's clients."""
        return self.broker.client_config

    def topic(self, name: str | None = None, partitions: int = 1, config: ConfigMapping | None = None) -> str:
        """Creates a topic that ends with the test, and returns its name."""
        name = name or self._topics.next_name()
        self.broker.create_topic(name, partitions, config)
        self._topics.append(name)
        return name

    def close(self) -> None:
        for topic in self._topics:
            self.broker.delete_topic(topic)


class KafkaClusterFixture:
    def __init__(self, cluster: Cluster, name: str) -> None:
        self.cluster = cluster
        self._topics = _TopicsOfATest(name)

    @property
    def bootstrap_servers(self) -> str:
        return self.cluster.bootstrap_servers

    def topic(
        self,
        name: str | None = None,
        partitions: int = 1,
        replication_factor: int | None = None,
        config: ConfigMapping | None = None,
    ) -> str:
        """Creates a topic that ends with the test, and returns its name. Without a factor it has three replicas, or as
        many as there are brokers.
        """
        name = name or self._topics.next_name()
        self.cluster.create_topic(name, partitions, replication_factor, config)
        self._topics.append(name)
        return name

    def close(self) -> None:
        """The next test finds all brokers running. A broker that ended by itself fails this one."""
        ends = [broker.unasked_end for broker in self.cluster.brokers if broker.unasked_end]
        self.cluster.restore()
        for topic in self._topics:
            self.cluster.delete_topic(topic)
        if ends:
            pytest.fail("\n".join(ends))


@pytest.fixture(scope="session")
def penstock_config() -> dict[str, str]:
    """Broker settings of the run, under Kafka's names."""
    return {}


@pytest.fixture(scope="session")
def penstock_broker(penstock_config: dict[str, str]) -> Iterator[Broker]:
    from penstock.embedded import Broker

    with Broker(config=penstock_config) as broker:
        yield broker


@pytest.fixture
def kafka(penstock_broker: Broker, request: pytest.FixtureRequest) -> Iterator[KafkaFixture]:
    fixture = KafkaFixture(penstock_broker, request.node.name)
    yield fixture
    fixture.close()


@pytest.fixture(scope="session")
def penstock_registry_config() -> dict[str, str]:
    """Registry settings of the run, under Confluent's names."""
    return {}


@pytest.fixture(scope="session")
def schema_registry(penstock_broker: Broker, penstock_registry_config: dict[str, str]) -> Iterator[Registry]:
    from penstock.embedded_registry import Registry

    with Registry(penstock_broker, config=penstock_registry_config) as registry:
        yield registry


@pytest.fixture(scope="session")
def penstock_secure_broker(penstock_config: dict[str, str]) -> Iterator[Broker]:
    from penstock.embedded import Broker

    with Broker(config=penstock_config, secure=True) as broker:
        yield broker


@pytest.fixture
def secure_kafka(penstock_secure_broker: Broker, request: pytest.FixtureRequest) -> Iterator[KafkaFixture]:
    fixture = KafkaFixture(penstock_secure_broker, request.node.name)
    yield fixture
    fixture.close()


@pytest.fixture(scope="session")
def penstock_cluster_options(penstock_config: dict[str, str]) -> dict[str, Any]:
    """The arguments of `penstock.Cluster`: how many brokers, their settings, where they keep their metadata."""
    return {"brokers": 3, "config": penstock_config}


@pytest.fixture(scope="session")
def penstock_cluster(penstock_cluster_options: dict[str, Any]) -> Iterator[Cluster]:
    from penstock.local_cluster.cluster import Cluster

    with Cluster(**penstock_cluster_options) as cluster:
        yield cluster


@pytest.fixture
def kafka_cluster(penstock_cluster: Cluster, request: pytest.FixtureRequest) -> Iterator[KafkaClusterFixture]:
    fixture = KafkaClusterFixture(penstock_cluster, request.node.name)
    yield fixture
    fixture.close()
