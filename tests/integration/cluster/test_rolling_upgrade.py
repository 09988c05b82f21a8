"""Three brokers that serve are updated one after the other, and somebody raises the level at the end."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from penstock.cluster.levels import FEATURE, LevelRange
from penstock.cluster.store.interface import StoreError
from penstock.cluster.store.memory import MemoryStore, MemoryTree
from penstock.core.config.broker_config import BrokerConfig
from penstock.server.broker_server import BrokerServer
from tests.clients.cli_runner import Cli, Result

OLD, NEW = LevelRange(1, 1), LevelRange(1, 2)


def test_command_raises_the_level_when_the_last_broker_was_updated(tmp_path: Path) -> None:
    tree = MemoryTree()

    async def start(node_id: int, levels: LevelRange) -> BrokerServer:
        settings = {
            "broker.id": str(node_id),
            "log.dirs": str(tmp_path / str(node_id)),
            "listeners": "PLAINTEXT://127.0.0.1:0",
        }
        return await BrokerServer.start(BrokerConfig.parse(settings), store=MemoryStore(tree), levels=levels)

    async def upgrade(broker: BrokerServer, *options: str) -> Result:
        return await asyncio.to_thread(Cli(broker.bootstrap_servers).try_run, "cluster", "upgrade", *options)

    async def main() -> None:
        brokers = [await start(node_id, OLD) for node_id in (1, 2, 3)]
        assert "nothing to do" in (await upgrade(brokers[0])).err
        for place, node_id in enumerate((1, 2, 3)):
            await brokers[place].stop()
            brokers[place] = await start(node_id, NEW)
            dry = await upgrade(brokers[place], "--dry-run")
            if node_id < 3:
                assert (dry.code, "only supports versions 1-1" in dry.err) == (1, True)
        assert f"{FEATURE} can rise from 1 to 2" in dry.err
        assert f"{FEATURE} has risen from 1 to 2" in (await upgrade(brokers[1])).err
        await brokers[0].stop()
        with pytest.raises(StoreError, match="update this broker"):
            await start(1, OLD)
        brokers[0] = await start(1, NEW)
        for broker in reversed(brokers):
            await broker.stop()

    asyncio.run(main())
