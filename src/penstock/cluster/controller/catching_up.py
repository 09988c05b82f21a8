"""Catches a broker up with the log: it replays the missing deltas, or loads everything where these are not kept."""

from __future__ import annotations

import asyncio
import logging

from penstock.cluster.image_loader import StoredPosition, load, read_deltas, read_position, replayed
from penstock.cluster.image_publisher import Publisher
from penstock.cluster.store import znodes
from penstock.cluster.store.interface import Store, StoreError, StoreErrorKind

logger = logging.getLogger(__name__)


async def follow_log(store: Store, publisher: Publisher, highest_level: int) -> None:
    async with publisher.turn:
        await catch_up(store, publisher, highest_level)


async def catch_up(store: Store, publisher: Publisher, highest_level: int) -> StoredPosition:
    """Call with the turn held. Returns the position of the log and the number of the image."""
    image = publisher.image
    stored = await read_position(store, highest_level)
    if stored.position.number < image.number:
        await store.sync(znodes.LOG)  # a new session may be with a server that lags
        stored = await read_position(store, highest_level)
    position = stored.position
    if publisher.is_set_back:  # the log may have advanced since, on another path
        raise _set_back(position.number, image.number)
    if position.number == image.number:
        return stored
    if not position.number:
        raise StoreError(StoreErrorKind.NO_NODE, znodes.LOG, "the log is gone; the controller begins it anew")
    if position.number < image.number:
        publisher.is_set_back = await store.read(znodes.delta_path(image.number)) is None
        raise _set_back(position.number, image.number)
    deltas = None
    if position.first <= image.number + 1 <= position.number:
        deltas = await read_deltas(store, image.number, position.number, highest_level)
    if deltas is None:
        logger.info("loading the metadata: the log has moved from %d to %d", image.number, position.number)
        loaded, stored = await load(store, highest_level)
        if loaded.cluster_id != image.cluster_id:
            detail = f"the store belongs to cluster {loaded.cluster_id} now, not to {image.cluster_id}"
            raise StoreError(StoreErrorKind.CORRUPT, znodes.CLUSTER_ID, detail)
    else:
        loaded = await asyncio.to_thread(replayed, image, deltas)
    await publisher.follow(loaded)
    return stored


def _set_back(number: int, seen: int) -> StoreError:
    detail = (
        f"the log stands at {number}, and this broker has seen {seen}: the store has lost changes. Bring back its "
        "newest files if there are any, and restart the brokers: they go on with what it has, and set aside logs of "
        "topics that it does not know"
    )
    return StoreError(StoreErrorKind.CORRUPT, znodes.LOG, detail)
