"""Three brokers that serve are updated one after the other, and somebody raises the level at the end."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from penstock.cluster.levels import FEATURE, LevelRange
from penstock.cluster.store.interface import StoreError
from penstock.cluster.store.memory import MemoryStore, MemoryTree
from penstock.core.config.broker_config import BrokerConfig
from penstock.server.broker_server import BrokerServer
from penstock.testing.processes import BrokerProcess, ZooKeeperProcess
from proof.cluster.builds import (
    LEVEL_AFTER,
    LEVELS_BEFORE,
    make_build_after,
    make_build_up_to,
    run_by,
    unpack_build_before,
)
from tests.clients.cli_runner import Cli, Result
from tests.integration.cluster.application import Application, check
from tests.integration.zookeeper import own_connect

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


@contextmanager
def brokers_of(build: Path, directory: Path, connect: str) -> Iterator[list[BrokerProcess]]:
    settings = {
        "zookeeper.connect": connect,
        "zookeeper.session.timeout.ms": "2000",
        "default.replication.factor": "3",
        "min.insync.replicas": "2",
        "offsets.topic.num.partitions": "3",
        "offsets.topic.replication.factor": "3",
        "group.initial.rebalance.delay.ms": "0",
    }
    with ExitStack() as stack:
        brokers = [
            BrokerProcess(
                directory / f"broker-{node_id}",
                config={"broker.id": str(node_id), **settings},
                environment=run_by(build),
            )
            for node_id in (1, 2, 3)
        ]
        for broker in brokers:
            stack.callback(broker.kill)
            broker.spawn()
        for broker in brokers:
            broker.wait_until_ready()
        yield brokers


def levels_known(cli: Cli) -> list[int]:
    document = cli.try_run("cluster", "status", "--json").json
    known = {broker["id"]: broker["features"] for broker in document["brokers"]}
    return [feature["highest"] for node_id in sorted(known) for feature in known[node_id] if feature["name"] == FEATURE]


# Each takes 15 s of the processors, so the newest is tried every time and those before it in `make soak`.
@pytest.mark.parametrize(
    "level", [*(pytest.param(level, marks=pytest.mark.soak) for level in LEVELS_BEFORE[:-1]), LEVELS_BEFORE[-1]]
)
def test_application_hears_of_nothing_when_brokers_of_the_build_before_are_replaced_one_by_one(
    tmp_path: Path, zookeeper: ZooKeeperProcess, level: int
) -> None:
    # Without its history this tree takes the place of the build before: the levels still differ.
    before = unpack_build_before(tmp_path / "before", level) or make_build_up_to(level, tmp_path / "before")
    after = make_build_after(tmp_path / "after")
    with brokers_of(before, tmp_path, own_connect(zookeeper)) as brokers:
        cli = Cli(",".join(broker.bootstrap_servers for broker in brokers))
        cli.run("topics", "create", "t", "--partitions", "6", "--replication-factor", "3")
        assert levels_known(cli) == [level] * 3
        with Application(cli.bootstrap_servers, "t") as application:
            for node_id, broker in enumerate(brokers, start=1):
                cli.run("cluster", "restart", "--check", str(node_id))
                broker.terminate()
                broker.environment = run_by(after)
                broker.start()
                cli.run("cluster", "restart", "--wait", str(node_id))
                assert levels_known(cli) == [LEVEL_AFTER] * node_id + [level] * (3 - node_id)
                if node_id == 1:
                    assert cli.try_run("cluster", "upgrade").code == 1
            assert f"{FEATURE} has risen from {level} to {LEVEL_AFTER}" in cli.run("cluster", "upgrade").err
            cli.run("topics", "create", "after", "--partitions", "3", "--replication-factor", "3")
        check(application)
