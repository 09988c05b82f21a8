"""What several tests of the cluster package need."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from random import Random
from typing import Any, TypeVar

from penstock.cluster.decisions.topics import Choices
from penstock.cluster.image import BrokerRegistration, MetadataImage
from penstock.core.config.broker_config import BrokerConfig
from penstock.core.listeners import Endpoint

Value = TypeVar("Value")
ENDPOINTS = (Endpoint("PLAINTEXT", "127.0.0.1", 9092, "PLAINTEXT"),)


def run(coroutine: Coroutine[Any, Any, Value]) -> Value:
    return asyncio.run(coroutine)


def broker(node_id: int, rack: str | None = None) -> BrokerRegistration:
    return BrokerRegistration(node_id, ENDPOINTS, rack, epoch=node_id)


def cluster(*node_ids: int) -> MetadataImage:
    brokers = {node_id: broker(node_id) for node_id in node_ids or (1,)}
    return MetadataImage("cluster", controller_id=1, controller_epoch=1, brokers=brokers)


def choices(seed: int = 0) -> Choices:
    """Chance that is the same in every run."""
    random = Random(seed)
    return Choices(random, lambda: random.randbytes(16))


def config(**properties: str) -> BrokerConfig:
    """Keys in snake case."""
    return BrokerConfig.parse({name.replace("_", "."): value for name, value in properties.items()})


class FixedClock:
    def now_ms(self) -> int:
        return 1_700_000_000_000

    def monotonic_ms(self) -> int:
        return 0
