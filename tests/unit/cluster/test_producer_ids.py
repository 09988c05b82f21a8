from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import chain, repeat
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.broker.producer_ids import ProducerIds
from penstock.cluster.producer_ids import allocate_producer_id_block
from penstock.cluster.store import znodes
from penstock.cluster.store.interface import Operation, Result, StoreError, StoreErrorKind
from penstock.cluster.store.memory import MemoryStore, MemoryTree
from penstock.cluster.store.sqlite import SqliteStore
from penstock.core.limits import MAX_PRODUCER_ID
from penstock.protocol.errors import ApiError, ErrorCode
from tests.unit.cluster.harness import run

CLAIM_AND_HANG = """
import asyncio, sys, time
from pathlib import Path
from penstock.cluster.producer_ids import allocate_producer_id_block
from penstock.cluster.store.sqlite import SqliteStore

async def main():
    store = await SqliteStore.open(Path(sys.argv[1]))
    print((await allocate_producer_id_block(store, 1, 0)).first_producer_id, flush=True)
    await asyncio.Event().wait()

asyncio.run(main())
"""


def test_blocks_do_not_overlap_when_many_are_claimed_at_once() -> None:
    async def main() -> None:
        tree = MemoryTree()
        stores = [MemoryStore(tree) for _ in range(5)]
        claims = [allocate_producer_id_block(store, number, 0) for number, store in enumerate(stores * 3)]
        blocks = await asyncio.gather(*claims)
        assert sorted(block.first_producer_id for block in blocks) == [1000 * number for number in range(15)]

    run(main())


class Forgetful(MemoryStore):
    """Makes some changes, and loses the answer to them; others are lost on the way."""

    def __init__(self, tree: MemoryTree, lost: Iterator[bool | None]) -> None:
        """For each change: whether it is made before the answer is lost; None where nothing is lost."""
        super().__init__(tree)
        self._lost = lost

    async def transaction(self, operations: Sequence[Operation]) -> Sequence[Result]:
        is_made = next(self._lost)
        results: Sequence[Result] = [] if is_made is False else await super().transaction(operations)
        if is_made is not None:
            raise StoreError(StoreErrorKind.OUTCOME_UNKNOWN, znodes.PRODUCER_ID_BLOCK)
        return results


@given(fates=st.lists(st.tuples(st.booleans(), st.sampled_from([None, None, True, False])), max_size=40))
def test_no_id_is_given_twice_when_two_brokers_ask_and_answers_of_the_store_are_lost(
    fates: list[tuple[bool, bool | None]],
) -> None:
    """`fates`: which broker asks next, and what becomes of its claim."""

    async def main() -> None:
        tree = MemoryTree()
        stores = {
            side: Forgetful(tree, chain((fate for who, fate in fates if who is side), repeat(None)))
            for side in (False, True)
        }
        brokers = {
            side: ProducerIds(partial(allocate_producer_id_block, store, int(side), 0))
            for side, store in stores.items()
        }
        given_out: list[int] = []
        for who, _ in fates:
            given_out += await asyncio.gather(brokers[who].next(), brokers[not who].next())
        assert len(set(given_out)) == len(given_out)

    run(main())


def test_another_block_is_claimed_when_it_is_not_known_whether_the_first_is_ours() -> None:
    async def main() -> None:
        tree = MemoryTree()
        store = Forgetful(tree, iter([True, False, None]))
        assert (await allocate_producer_id_block(store, 1, 0)).first_producer_id == 1000
        assert (await allocate_producer_id_block(MemoryStore(tree), 2, 0)).first_producer_id == 2000

    run(main())


def test_producers_are_told_to_try_again_when_the_store_is_away() -> None:
    """A Java producer takes any other error for the end."""

    async def main() -> None:
        store = MemoryStore(MemoryTree())
        store.session.suspend()
        with pytest.raises(ApiError) as error:
            await allocate_producer_id_block(store, 1, 0)
        assert error.value.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        store.session.heal()
        assert (await allocate_producer_id_block(store, 1, 0)).first_producer_id == 0

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
        block = await allocate_producer_id_block(store, 1, 0)
        await store.close()
        return block.first_producer_id

    assert [*claimed, run(last())] == [0, 1000, 2000, 3000]


def test_claim_is_refused_when_all_ids_are_used_up() -> None:
    async def main() -> None:
        store = MemoryStore()
        block = znodes.ProducerIdBlock(MAX_PRODUCER_ID - 999, 1000)
        await store.create(znodes.PRODUCER_ID_BLOCK, znodes.encode_producer_id_block(block, 1))
        with pytest.raises(ApiError, match="used up"):
            await allocate_producer_id_block(store, 1, 0)

    run(main())
