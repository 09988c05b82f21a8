"""What is counted of a session with the store."""

from __future__ import annotations

import asyncio

from penstock.cluster.store.memory import MemoryStore
from penstock.core.metrics.cluster_counters import StoreMetrics
from penstock.server.monitoring.cluster_gauges import watch_session


def counted(metrics: StoreMetrics) -> tuple[int, int, int]:
    return metrics.connects, metrics.disconnects, metrics.expirations


def test_losses_returns_and_ends_are_counted_apart_when_a_session_is_hurt() -> None:
    async def run() -> None:
        store, metrics = MemoryStore(), StoreMetrics()
        await store.ensure_path("/a")
        watch_session(store, metrics)
        assert counted(metrics) == (0, 0, 0)
        store.session.suspend()
        assert counted(metrics) == (0, 1, 0)
        store.session.heal()
        assert counted(metrics) == (1, 1, 0)
        store.session.expire()
        await asyncio.sleep(0)
        assert counted(metrics) == (2, 1, 1)
        await store.close()

    asyncio.run(run())


def test_nothing_is_told_of_a_store_when_it_is_part_of_the_broker() -> None:
    metrics = StoreMetrics()
    assert list(metrics.samples("expirations")) == []
    metrics.is_remote = True
    assert list(metrics.samples("expirations")) == [((), 0)]
