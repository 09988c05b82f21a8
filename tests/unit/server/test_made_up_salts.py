"""The salt of a user that does not exist is the same on every broker and after every restart, as that of a user is."""

from __future__ import annotations

import asyncio
import random

from penstock.cluster.login_secret import read_login_secret
from penstock.cluster.store.memory import MemoryStore, MemoryTree
from penstock.cluster.store.znodes import LOGIN_SECRET
from penstock.server.broker_server import BrokerServer
from tests.unit.server.composed import Ground

CONFIG = {
    "listeners": "PLAINTEXT://127.0.0.1:9091,SASL_PLAINTEXT://127.0.0.1:9092",
    "sasl.enabled.mechanisms": "SCRAM-SHA-256,SCRAM-SHA-512",
}


def salt(server: BrokerServer, user: str, mechanism: str = "SCRAM-SHA-256") -> str:
    assert server.broker.logins is not None
    exchange = server.broker.logins.mechanisms("SASL_PLAINTEXT")[mechanism].begin(0)
    answer = exchange.respond(f"n,,n={user},r=abc".encode())
    assert isinstance(answer, bytes)
    return answer.decode().partition(",")[2]


def test_made_up_salt_is_the_same_when_the_broker_has_restarted() -> None:
    async def run() -> None:
        ground = Ground()
        seen = []
        for _ in range(2):
            server = await ground.start(CONFIG)
            seen.append([salt(server, "nobody"), salt(server, "other"), salt(server, "nobody", "SCRAM-SHA-512")])
            await server.stop()
        assert seen[0] == seen[1]
        assert len(set(seen[0])) == 3

    asyncio.run(run())


def test_brokers_of_a_cluster_share_one_secret_when_they_begin_at_once() -> None:
    async def run() -> None:
        tree = MemoryTree()
        stores = [MemoryStore(tree) for _ in range(3)]
        await stores[0].ensure_path(LOGIN_SECRET.rpartition("/")[0])
        secrets = await asyncio.gather(
            *(read_login_secret(store, random.Random(number).randbytes) for number, store in enumerate(stores))
        )
        assert len(set(secrets)) == 1
        assert len(secrets[0]) == 32

    asyncio.run(run())


def test_broker_without_logins_makes_no_secret() -> None:
    async def run() -> None:
        ground = Ground()
        async with ground.broker():
            assert await MemoryStore(ground.tree).read(LOGIN_SECRET) is None

    asyncio.run(run())
