"""Whatever a crash leaves of a large change, whoever loads sees the change as a whole or not at all."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.cluster.controller.writer import Writer
from penstock.cluster.image import MetadataImage
from penstock.cluster.loading import load
from penstock.cluster.store import znodes
from penstock.cluster.store.interface import Check, Operation, Result, StoreError, StoreErrorKind, TransactionLimit
from penstock.cluster.store.memory import MemoryStore
from tests.unit.cluster.images import NODES, histories


class CrashingStore(MemoryStore):
    allowed = 1_000

    async def transaction(self, operations: Sequence[Operation]) -> Sequence[Result]:
        if self.allowed == 0:
            raise StoreError(StoreErrorKind.UNAVAILABLE, "/")
        self.allowed -= 1
        return await super().transaction(operations)


@settings(deadline=None, max_examples=60)
@given(histories(), st.integers(4, 9), st.data())
def test_change_is_whole_or_not_there_when_its_writer_crashes(
    images: list[MetadataImage], operations: int, data: st.DataObject
) -> None:
    async def main() -> None:
        store = CrashingStore(transaction_limit=TransactionLimit(1_000_000, operations))
        for path in (*znodes.PERSISTENT_PATHS, *map(znodes.broker_config_path, [None, *NODES])):
            await store.ensure_path(path)
        await store.create(znodes.CLUSTER_ID, znodes.encode_cluster_id("cluster"))
        await store.create(znodes.CONTROLLER_EPOCH, b"0")
        loaded = await load(store)
        for _, wanted in pairwise(images):
            writer = Writer(store, Check(znodes.CONTROLLER_EPOCH, 0), loaded.stored, lambda: "an-id")
            change = writer.plan(loaded.image, wanted)
            if change is None:
                continue
            store.allowed = data.draw(st.integers(0, 12), label="transactions before the crash")
            is_made = False
            try:
                await writer.write(change)
                is_made = True
                await writer.write_nodes(change.image)
            except StoreError:
                pass
            store.allowed = 1_000
            after = await load(store)
            assert after.image == (change.image if is_made else loaded.image)
            # The next controller.
            writer = Writer(store, Check(znodes.CONTROLLER_EPOCH, 0), after.stored, lambda: "another-id")
            await writer.write_nodes(after.image)
            loaded = await load(store)
            assert loaded.image == after.image
            assert not loaded.stored.position.is_unwritten
            if not is_made:
                break  # the images that follow do not follow on this one

    asyncio.run(main())
