"""One change of the metadata by a tool, not a broker. The brokers of the cluster may run or not.

The tool takes the controller's role for the duration of its change. The new epoch fences the controller before, which
learns that by the node, and follows the log like the others. When the tool's session ends, the brokers elect a
controller. So a tool that dies half-way leaves the same state as a dying controller: the next controller writes the
rest.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace

from penstock.cluster.controller.registration import Term, election_operations
from penstock.cluster.controller.writer import Writer
from penstock.cluster.image import NO_CONTROLLER, MetadataImage
from penstock.cluster.image_loader import load
from penstock.cluster.store import znodes
from penstock.cluster.store.interface import Delete, Operation, Store, StoreError, StoreErrorKind
from penstock.core.types import format_topic_id, new_topic_id

# Each lost race means that a broker was elected meanwhile.
_ATTEMPTS = 20
_LOST_RACES = (StoreErrorKind.BAD_VERSION, StoreErrorKind.NODE_EXISTS, StoreErrorKind.NO_NODE)


async def change_from_outside(
    store: Store,
    decide: Callable[[MetadataImage], MetadataImage],
    now_ms: int,
    *,
    can_take_steps: bool,
) -> MetadataImage:
    """The image after the change. `leave_office`, or the close of the store, gives the controller's role up.

    `can_take_steps`: a change that is too large for one delta is made in several deltas, and a crash leaves it
    half-made. Raises StoreError; with OUTCOME_UNKNOWN the image shows the outcome when it is loaded again.
    """
    term = await _take_office(store, now_ms)
    await store.sync(znodes.LOG)
    image, stored = await load(store)
    writer = Writer(store, term.fence, stored, lambda: format_topic_id(new_topic_id()))
    await writer.write_nodes(image)  # the unwritten nodes of the controller before
    wanted = replace(decide(image), controller_id=NO_CONTROLLER, controller_epoch=term.epoch)
    changes = await asyncio.to_thread(writer.plan if can_take_steps else writer.plan_whole, image, wanted)
    assert changes, "the controller's epoch is another at the least"
    for change in changes:
        await writer.write(change)
        await writer.write_nodes(change.image)
    return changes[-1].image


async def leave_office(store: Store) -> None:
    """For a tool that goes on: the brokers elect a controller at once."""
    controller = await store.read(znodes.CONTROLLER)
    if controller is not None and controller.owner == store.session_id:
        await store.delete(znodes.CONTROLLER, controller.version)


async def _take_office(store: Store, now_ms: int) -> Term:
    for _ in range(_ATTEMPTS):
        epoch, controller = await store.read_many([znodes.CONTROLLER_EPOCH, znodes.CONTROLLER])
        term, election = election_operations(NO_CONTROLLER, epoch, now_ms)
        operations: list[Operation] = [] if controller is None else [Delete(znodes.CONTROLLER, controller.version)]
        try:
            await store.transaction([*operations, *election])
        except StoreError as error:
            if error.kind not in _LOST_RACES:
                raise
            await store.sync(znodes.CONTROLLER)
        else:
            return term
    raise StoreError(StoreErrorKind.UNAVAILABLE, znodes.CONTROLLER, "the brokers keep electing controllers; try again")
