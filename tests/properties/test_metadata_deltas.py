"""A delta makes one image of another, however much of it the image has already."""

from __future__ import annotations

import asyncio
import itertools
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.cluster.deltas.delta import Delta, Replay, difference, replay
from penstock.cluster.deltas.encoding import decode_delta, encode_delta
from penstock.cluster.deltas.nodes import write_operations
from penstock.cluster.image import MetadataImage
from penstock.cluster.image_loader import load_image
from penstock.cluster.levels import SECURITY_LEVEL, SNAPSHOT_LEVEL
from penstock.cluster.store import znodes
from penstock.cluster.store.interface import Store
from penstock.cluster.store.memory import MemoryStore
from tests.unit.cluster.images import NODES, histories


def deltas_of(images: list[MetadataImage]) -> list[Delta]:
    pairs = itertools.pairwise(images)
    return [delta for old, new in pairs if (delta := difference(old, new, f"id-{new.number}")) is not None]


@settings(deadline=None)
@given(histories())
def test_image_is_the_next_one_when_the_difference_is_replayed(images: list[MetadataImage]) -> None:
    for old, new in itertools.pairwise(images):
        delta = difference(old, new, "an-id")
        if delta is None:
            assert replace(old, number=new.number) == new
        else:
            assert replay(old, delta) == new
            assert decode_delta("/x", encode_delta(delta)) == delta
        assert difference(new, replace(new)) is None


@settings(deadline=None, max_examples=25)
@given(histories(), st.sampled_from([SECURITY_LEVEL, SNAPSHOT_LEVEL]))
def test_image_is_the_last_one_when_all_differences_are_replayed_at_once(
    images: list[MetadataImage], level: int
) -> None:
    images = [replace(image, metadata_level=level) for image in images]
    way = Replay(images[0])
    for delta in deltas_of(images):
        way.follow(delta)
    assert replace(way.image, number=images[-1].number) == images[-1]


@settings(deadline=None)
@given(histories(), st.data())
def test_image_is_the_newest_when_it_has_parts_of_the_deltas_already(
    images: list[MetadataImage], data: st.DataObject
) -> None:
    """As it is loaded: each part from another moment."""
    newest = images[-1]
    names = sorted({name for image in images for name in image.topics})
    moments = {name: data.draw(st.sampled_from(images)) for name in names}
    torn = replace(
        data.draw(st.sampled_from(images)),
        topics={name: image.topics[name] for name, image in moments.items() if name in image.topics},
        brokers=data.draw(st.sampled_from(images)).brokers,
        group_configs=data.draw(st.sampled_from(images)).group_configs,
        security=data.draw(st.sampled_from(images)).security,
    )
    for delta in deltas_of(images):
        torn = replay(torn, delta)
    assert replace(torn, number=newest.number) == newest
    again = newest
    for delta in deltas_of(images)[-2:]:
        again = replay(again, delta)
    assert replace(again, number=newest.number) == newest


@settings(deadline=None)
@given(histories())
def test_store_has_the_image_when_the_operations_are_made(images: list[MetadataImage]) -> None:
    async def main() -> None:
        store: Store = MemoryStore()
        for path in (*znodes.PERSISTENT_PATHS, *map(znodes.broker_config_path, [None, *NODES])):
            await store.ensure_path(path)
        await store.create(znodes.CLUSTER_ID, znodes.encode_cluster_id("cluster"))
        await store.create(znodes.CONTROLLER_EPOCH, b"0")
        for old, new in itertools.pairwise(images):
            await store.transaction(write_operations(old, new))
            loaded = await load_image(store)
            brokers = await store.read(znodes.BROKERS)
            assert brokers is not None
            assert znodes.decode_brokers(brokers.data) == (new.brokers, new.directories, new.away)
            assert (loaded.topics, loaded.group_configs) == (new.topics, new.group_configs)
            assert loaded.broker_configs == new.broker_configs
            assert loaded.security == new.security
            assert loaded.default_broker_config == new.default_broker_config

    asyncio.run(main())
