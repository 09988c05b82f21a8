"""One broker for the tests of registries; each registry has a topic and a group of its own."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

import penstock
from tests.integration.registry.node.rounds import BROKER_CONFIG, REGISTRY_CONFIG

StartRegistry = Callable[..., "penstock.Registry"]

_numbers = itertools.count(1)


@pytest.fixture(scope="module")
def quick_broker() -> Iterator[penstock.Broker]:
    """Notices within half a second that a registry is gone."""
    with penstock.Broker(config=BROKER_CONFIG) as broker:
        yield broker


@pytest.fixture
def topic() -> str:
    """Of one test, and of its group."""
    return f"_schemas_{next(_numbers)}"


@pytest.fixture
def start_registry(quick_broker: penstock.Broker, topic: str) -> Iterator[StartRegistry]:
    """Starts an instance of the test's registry; whatever still runs at the end of the test is stopped."""
    with ExitStack() as stack:

        def start(**config: str) -> penstock.Registry:
            own = {"kafkastore.topic": topic, "schema.registry.group.id": f"group-of-{topic}"}
            given = {name.replace("__", "."): text for name, text in config.items()}
            registry = penstock.Registry(quick_broker, config={**REGISTRY_CONFIG, **own, **given})
            stack.callback(registry.stop)
            registry.start()
            return registry

        yield start
