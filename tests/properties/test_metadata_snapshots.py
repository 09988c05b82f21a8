"""Whatever a controller that dies has written of a change, of a snapshot, of a rise of the level or of the picture: who
loads has every change that was acknowledged, and the next controller ends up with the same picture.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

from hypothesis import example, given, settings
from hypothesis import strategies as st

from penstock.cluster.controller.picture import Picture
from penstock.cluster.controller.registration import first_snapshot
from penstock.cluster.controller.snapshots import write_snapshot
from penstock.cluster.controller.writer import Writer
from penstock.cluster.deltas import snapshot as snapshots
from penstock.cluster.deltas.delta import replay
from penstock.cluster.deltas.encoding import decode_delta
from penstock.cluster.deltas.picture import picture_operations
from penstock.cluster.image import MetadataImage
from penstock.cluster.image_loader import load
from penstock.cluster.levels import SECURITY_LEVEL, SNAPSHOT_LEVEL
from penstock.cluster.store import znodes
from penstock.cluster.store.interface import (
    Check,
    CompareAndSet,
    Create,
    Operation,
    Result,
    StoreError,
    StoreErrorKind,
    TransactionLimit,
)
from penstock.cluster.store.memory import MemoryStore, MemoryTree
from penstock.cluster.strangers.changed_nodes import blur_changed
from penstock.cluster.strangers.reports import Told
from tests.unit.cluster.images import NODES, histories

FENCE = Check(znodes.CONTROLLER_EPOCH, 0)
FOREVER = 1_000_000
SMALL_CHANGES = TransactionLimit(8_192 + 320, 60)
EMPTY = MetadataImage("cluster")
LARGE = replace(EMPTY, default_broker_config={f"key{number}": f"{number**9}" for number in range(90)})


class DyingStore(MemoryStore):
    """Its owner is killed before the transaction after so many, or behind that one, before the answer."""

    allowed = FOREVER
    is_answer_lost = False

    async def transaction(self, operations: Sequence[Operation]) -> Sequence[Result]:
        if self.allowed == 0:
            if self.is_answer_lost:
                self.is_answer_lost = False
                await super().transaction(operations)
            raise StoreError(StoreErrorKind.UNAVAILABLE, "/")
        self.allowed -= 1
        return await super().transaction(operations)


async def founded(level: int, limit: TransactionLimit | None = None) -> DyingStore:
    store = DyingStore(MemoryTree(), transaction_limit=limit)
    for path in (*znodes.PERSISTENT_PATHS, *map(znodes.broker_config_path, [None, *NODES])):
        await store.ensure_path(path)
    await store.create(znodes.CLUSTER_ID, znodes.encode_cluster_id("cluster"))
    await store.create(znodes.CONTROLLER_EPOCH, b"0")
    await store.create(znodes.FEATURES, znodes.encode_features(level))
    if level >= SNAPSHOT_LEVEL:
        position, nodes = first_snapshot(MetadataImage("cluster"), level)
        await store.compare_and_set(znodes.LOG, position, None)
        await store.transaction([Create(path, data) for path, data in nodes.items()])
    return store


def shown(store: MemoryStore) -> dict[str, bytes]:
    """What tools see, but for who wrote a state and when."""
    roots = ("/brokers/topics/", "/config/", "/kafka-acl", "/delegation_token", "/penstock/policies", "/feature")
    return _that_hold({path: entry.data for path, entry in store._tree.entries.items() if path.startswith(roots)})


def expected(image: MetadataImage) -> dict[str, bytes]:
    operations = picture_operations(MetadataImage("cluster"), image).operations
    return _that_hold({each.path: each.data for each in operations if isinstance(each, Create | CompareAndSet)})


def _that_hold(nodes: dict[str, bytes]) -> dict[str, bytes]:
    empty = (b"", znodes.encode_settings({}))
    return {path: re.sub(rb'"controller_epoch":\d+', b"", data) for path, data in nodes.items() if data not in empty}


@settings(deadline=None, max_examples=20)
@given(histories(), st.sampled_from([150, 600, 400_000]))
def test_snapshot_is_the_image_when_its_parts_are_replayed(images: list[MetadataImage], size: int) -> None:
    before, snapshots._PART_CHARACTERS = snapshots._PART_CHARACTERS, size
    try:
        for image in images:
            image = replace(image, metadata_level=SNAPSHOT_LEVEL)
            replayed = MetadataImage("cluster")
            for number, part in enumerate(snapshots.snapshot_parts(image)):
                replayed = replay(replayed, decode_delta(f"/{number}", part))
            assert replayed == image
    finally:
        snapshots._PART_CHARACTERS = before


async def controlled(store: DyingStore, wanted: MetadataImage, made: list[MetadataImage]) -> None:
    """All that a controller does in its time: it takes over, makes the change, draws, and writes a snapshot that a
    second change names. `made` gets what was acknowledged.
    """
    loaded = await load(store)
    writer = Writer(store, FENCE, loaded.stored, lambda: f"id-{len(made)}")
    await writer.write_nodes(loaded.image)
    image = loaded.image
    for target in (wanted, replace(wanted, default_broker_config={"x": f"{image.number}"})):
        for change in writer.plan(image, target):
            await writer.write(change)
            made.append(change.image)
            image = change.image
            await writer.write_nodes(image)
        if image.metadata_level < SNAPSHOT_LEVEL:
            continue
        picture = await Picture.open(store, FENCE, image)
        await picture.draw(image)
        picture.drawn = await blur_changed(store, image, picture.left_out, Told())
        assert picture.drawn is image, "all is drawn"
        position = writer.position
        if writer.offered is None and position.snapshot is not None and position.snapshot.number < image.number:
            writer.offer_snapshot(await write_snapshot(store, FENCE, image, position.snapshot), position.size)


@settings(deadline=None, max_examples=8)
@given(
    histories(),
    st.sampled_from([SECURITY_LEVEL, SNAPSHOT_LEVEL]),
    st.sampled_from([None, TransactionLimit(1_000_000, 6), TransactionLimit(8_192 + 700, 60), SMALL_CHANGES]),
    st.booleans(),
)
@example([EMPTY, LARGE, replace(EMPTY, group_configs={"g": {"x": "1"}})], SNAPSHOT_LEVEL, SMALL_CHANGES, False)
@example([EMPTY, LARGE], SECURITY_LEVEL, SMALL_CHANGES, True)
def test_nothing_acknowledged_is_lost_when_the_controller_dies_after_any_transaction(
    images: list[MetadataImage], level: int, limit: TransactionLimit | None, is_answer_lost: bool
) -> None:
    """From level 2 the first change is the rise."""

    async def main() -> None:
        store = await founded(level, limit)
        allowed = 0
        for _, image in pairwise(images):
            wanted = replace(image, metadata_level=SNAPSHOT_LEVEL)
            is_through = False
            while not is_through:
                store.allowed, store.is_answer_lost = allowed, is_answer_lost
                made = [(await load(MemoryStore(store._tree))).image]
                try:
                    await controlled(store, wanted, made)
                except StoreError as error:
                    if error.kind is StoreErrorKind.TOO_LARGE and error.path == znodes.LOG:
                        # Nothing of the change is there. A small one is made in its place.
                        store.allowed = FOREVER
                        before = (await load(store)).image
                        assert before == made[-1]
                        assert wanted != replace(before, metadata_level=SNAPSHOT_LEVEL), "no small change is refused"
                        wanted, allowed = replace(before, metadata_level=SNAPSHOT_LEVEL), 0
                        continue
                    if error.kind is not StoreErrorKind.UNAVAILABLE:
                        raise
                    allowed += 1
                else:
                    is_through, allowed = True, 0
                store.allowed = FOREVER
                after = (await load(MemoryStore(store._tree))).image
                assert after.number in (made[-1].number, made[-1].number + is_answer_lost)
                assert is_answer_lost or after == made[-1]
            assert replace(after, number=0, default_broker_config={}) == replace(
                wanted, number=0, default_broker_config={}
            )
            assert shown(store) == expected(after)
            names = await store.children(znodes.SNAPSHOTS)
            assert len(names) <= 2, "those that are not named are removed"

    asyncio.run(main())
