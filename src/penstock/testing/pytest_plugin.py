"""The `kafka` fixture: one real broker for the whole run, topics of its own for each test.

    def test_orders_arrive(kafka):
        topic = kafka.topic(partitions=3)
        producer = Producer({"bootstrap.servers": kafka.bootstrap_servers})

Broker settings for a run go into the `penstock_config` fixture (session scope), which a conftest.py may override.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from penstock.embedded import Broker, ConfigMapping

_NOT_IN_NAMES = re.compile(r"[^a-zA-Z0-9._-]+")
# A topic name holds 249 characters; a test's name gets most of them and a number the rest.
_NAME_CHARACTERS = 200


class KafkaFixture:
    def __init__(self, broker: Broker, name: str) -> None:
        self.broker = broker
        self._prefix = _NOT_IN_NAMES.sub("-", name)[-_NAME_CHARACTERS:]
        self._topics: list[str] = []

    @property
    def bootstrap_servers(self) -> str:
        return self.broker.bootstrap_servers

    def topic(self, name: str | None = None, partitions: int = 1, config: ConfigMapping | None = None) -> str:
        """Creates a topic that ends with the test, and returns its name."""
        name = name or f"{self._prefix}-{len(self._topics)}"
        self.broker.create_topic(name, partitions, config)
        self._topics.append(name)
        return name

    def close(self) -> None:
        for topic in self._topics:
            self.broker.delete_topic(topic)


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
