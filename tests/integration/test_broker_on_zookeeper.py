"""A broker whose metadata are in ZooKeeper."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from penstock.cluster.store import znodes
from penstock.cluster.store.interface import Node
from penstock.cluster.store.zookeeper.store import ZooKeeperStore
from penstock.testing.processes import ServerProcessError, ZooKeeperProcess, find_free_port
from tests.integration.conftest import StartBroker
from tests.integration.zookeeper import LONG_SESSION_MS, settings_for


def test_broker_is_registered_while_it_runs_when_zookeeper_is_named(
    start_broker: StartBroker, zookeeper: ZooKeeperProcess
) -> None:
    connect = f"{zookeeper.connect}/broker"

    async def registration() -> Node | None:
        store = await ZooKeeperStore.open(settings_for(connect, session_timeout_ms=LONG_SESSION_MS))
        node = await store.read(znodes.broker_path(7))
        await store.close()
        return node

    broker = start_broker(config={"zookeeper.connect": connect, "node.id": "7"})
    node = asyncio.run(registration())
    assert node is not None
    assert node.owner is not None
    broker.terminate()
    assert asyncio.run(registration()) is None
    broker.start()
    assert asyncio.run(registration()) is not None


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"zookeeper.connection.timeout.ms": "200"}, "the broker cannot start: .*no answer within 200 ms"),
        (
            {"zookeeper.connect": "localhost:0"},
            "the broker cannot start: zookeeper.connect: 'localhost:0' is not HOST:PORT",
        ),
    ],
)
def test_broker_says_why_when_it_cannot_reach_zookeeper(
    start_broker: StartBroker, tmp_path: Path, settings: dict[str, str], expected: str
) -> None:
    with pytest.raises(ServerProcessError, match=expected):
        start_broker(config={"zookeeper.connect": f"127.0.0.1:{find_free_port()}", **settings})
