from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from penstock.cluster.producer_ids import allocate_producer_id_block
from penstock.cluster.store import znodes
from penstock.cluster.store.memory import MemoryStore, MemoryTree
from penstock.cluster.store.sqlite import SqliteStore
from penstock.core.limits import MAX_PRODUCER_ID
from penstock.protocol.errors import ApiError
from tests.unit.cluster.harness import run

CLAIM_AND_HANG = """
import asyncio, sys, time
from pathlib import Path
from penstock.cluster.producer_ids import allocate_producer_id_block
from penstock.cluster.store.sqlite import SqliteStore

async def main():
    store = await SqliteStore.open(Path(sys.argv[1]))
    print((await allocate_producer_id_block(store, 1)).first_producer_id, flush=True)
    await asyncio.Event().wait()

asyncio.run(main())
"""


def test_blocks_do_not_overlap_when_many_are_claimed_at_once() -> None:
    async def main() -> None:
        tree = MemoryTree()
        stores = [MemoryStore(tree) for _ in range(5)]
        claims = [allocate_producer_id_block(store, number) for number, store in enumerate(stores * 3)]
        blocks = await asyncio.gather(*claims)
        assert sorted(block.first_producer_id for block in blocks) == [1000 * number for number in range(15)]

    run(main())


def test_no_id_is_given_twice_when_the_process_is_killed(tmp_path: Path) -> None:
    path = tmp_path / "metadata.db"
    claimed = []
    for _ in range(3):
        command = [sys.executable, "-c", CLAIM_AND_HANG, str(path)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            claimed.append(int(process.stdout.readline()))
            os.kill(process.pid, signal.SIGKILL)

    async def last() -> int:
        store = await SqliteStore.open(path)
        block = await allocate_producer_id_block(store, 1)
        await store.close()
        return block.first_producer_id

    assert [*claimed, run(last())] == [0, 1000, 2000, 3000]


def test_claim_is_refused_when_all_ids_are_used_up() -> None:
    async def main() -> None:
        store = MemoryStore()
        block = znodes.ProducerIdBlock(MAX_PRODUCER_ID - 999, 1000)
        await store.create(znodes.PRODUCER_ID_BLOCK, znodes.encode_producer_id_block(block, 1))
        with pytest.raises(ApiError, match="used up"):
            await allocate_producer_id_block(store, 1)

    run(main())
