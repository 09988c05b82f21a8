"""Passwords that are set while no broker runs are in the log, and the next broker finds nothing strange about them."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from penstock.cluster.decisions.security.users import Upsertion, scram_users
from penstock.cluster.image_loader import Loaded, load
from penstock.cluster.levels import FIRST_LEVEL, SECURITY_LEVEL, SNAPSHOT_LEVEL, LevelRange
from penstock.cluster.metadata import Metadata
from penstock.cluster.store import security_nodes
from penstock.cluster.store.sqlite import SqliteStore
from penstock.cluster.store.tree_walk import walk
from penstock.core.clock import SystemClock
from penstock.protocol.errors import ApiError
from penstock.security.sasl.scram import MIN_ITERATIONS, SHA_256, SHA_512
from penstock.server.offline_passwords import write_passwords
from penstock.server.stores import METADATA_FILE
from tests.unit.cluster.harness import ENDPOINTS, FixedClock, config
from tests.waiting import eventually

LEVELS = [SECURITY_LEVEL, SNAPSHOT_LEVEL]


def password(user: str, salted: bytes, iterations: int = MIN_ITERATIONS) -> list[Upsertion]:
    return [Upsertion(user, hashing.code, iterations, b"salt", salted) for hashing in (SHA_256, SHA_512)]


async def run_broker(path: Path, level: int = SNAPSHOT_LEVEL) -> None:
    """Until Kafka's nodes show every user. `level` is the highest that its version knows."""
    store = await SqliteStore.open(path / METADATA_FILE)
    metadata = await Metadata.load(store, config(), levels=LevelRange(FIRST_LEVEL, level))
    await metadata.join(ENDPOINTS, FixedClock())

    async def is_shown() -> bool:
        nodes = await walk(store, *security_nodes.ROOTS)
        shown = security_nodes.decode_nodes({each: node.data for each, node in nodes.items()})
        return shown == metadata.image.security

    await eventually(is_shown)
    await metadata.close()
    await store.close()


async def stored(path: Path) -> Loaded:
    store = await SqliteStore.open(path / METADATA_FILE)
    loaded = await load(store)
    await store.close()
    return loaded


@pytest.mark.parametrize("level", LEVELS)
def test_password_is_a_change_in_the_log_and_the_next_broker_shows_it(
    tmp_path: Path, level: int, caplog: pytest.LogCaptureFixture
) -> None:
    async def test() -> None:
        await run_broker(tmp_path, level)
        before = (await stored(tmp_path)).image
        await write_passwords(tmp_path, password("alice", b"first"), SystemClock())
        first = (await stored(tmp_path)).image
        await write_passwords(tmp_path, password("alice", b"second"), SystemClock())
        second = (await stored(tmp_path)).image
        assert [first.number, second.number] == [before.number + 1, before.number + 2]
        assert [scram_users(each.security) for each in (before, first, second)] == [[], ["alice"], ["alice"]]
        assert first.security != second.security
        assert second.metadata_level == level
        await run_broker(tmp_path)
        assert (await stored(tmp_path)).image.security == second.security

    asyncio.run(test())
    assert not [record.getMessage() for record in caplog.records]  # of nodes that somebody else wrote


@pytest.mark.parametrize("level", [FIRST_LEVEL, *LEVELS])
def test_metadata_are_as_they_were_when_a_password_is_refused(tmp_path: Path, level: int) -> None:
    async def test() -> None:
        await run_broker(tmp_path, level)
        before = await stored(tmp_path)
        refused = [*password("alice", b"first"), *password("bob", b"x", MIN_ITERATIONS - 1)]
        with pytest.raises(ApiError, match="Too few iterations"):
            await write_passwords(tmp_path, refused, SystemClock())
        if level == FIRST_LEVEL:
            with pytest.raises(ApiError, match="cluster upgrade"):
                await write_passwords(tmp_path, password("alice", b"first"), SystemClock())
        assert await stored(tmp_path) == before

    asyncio.run(test())
