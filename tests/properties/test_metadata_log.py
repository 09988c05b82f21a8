"""Whatever a crash leaves of a large change, whoever loads sees the change as a whole or not at all."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

from hypothesis import given, reject, settings
from hypothesis import strategies as st

from penstock.cluster.controller.writer import PreparedChange, Writer
from penstock.cluster.image import MetadataImage
from penstock.cluster.image_loader import load
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


# So few bytes for a delta that most changes of the histories are made in several steps.
SMALL_DELTAS = 8_192 + 500


def _planned(writer: Writer, old: MetadataImage, new: MetadataImage) -> Sequence[PreparedChange]:
    try:
        return writer.plan(old, new)
    except StoreError:
        reject()  # a single topic has more bytes


@settings(deadline=None, max_examples=60)
@given(histories(), st.integers(4, 9), st.sampled_from([1_000_000, SMALL_DELTAS]), st.data())
def test_change_is_whole_or_not_there_when_its_writer_crashes(
    images: list[MetadataImage], operations: int, size: int, data: st.DataObject
) -> None:
    """The same holds for each step of a change that is too large for one delta."""

    async def main() -> None:
        store = CrashingStore(transaction_limit=TransactionLimit(size, operations))
        for path in (*znodes.PERSISTENT_PATHS, *map(znodes.broker_config_path, [None, *NODES])):
            await store.ensure_path(path)
        await store.create(znodes.CLUSTER_ID, znodes.encode_cluster_id("cluster"))
        await store.create(znodes.CONTROLLER_EPOCH, b"0")
        loaded = await load(store)
        for _, wanted in pairwise(images):
            writer = Writer(store, Check(znodes.CONTROLLER_EPOCH, 0), loaded.stored, lambda: "an-id")
            changes = _planned(writer, loaded.image, wanted)
            store.allowed = data.draw(st.integers(0, 12), label="transactions before the crash")
            made = loaded.image
            try:
                for change in changes:
                    await writer.write(change)
                    made = change.image
                    await writer.write_nodes(change.image)
            except StoreError:
                pass
            store.allowed = 1_000
            after = await load(store)
            assert after.image == made
            # The next controller.
            writer = Writer(store, Check(znodes.CONTROLLER_EPOCH, 0), after.stored, lambda: "another-id")
            await writer.write_nodes(after.image)
            loaded = await load(store)
            assert loaded.image == after.image
            assert not loaded.stored.position.is_unwritten
            for change in _planned(writer, loaded.image, wanted):
                await writer.write(change)
                await writer.write_nodes(change.image)
            loaded = await load(store)
            assert replace(loaded.image, number=0) == replace(wanted, number=0)

    asyncio.run(main())
