"""Draws Kafka's nodes for tools, behind the log, from `SNAPSHOT_LEVEL` on.

Rules:
- The picture follows the log and never leads it. Several changes may be drawn at once.
- What is drawn is drawn whatever stands there: a stranger's node in the place of one of ours is written over.
- A mark says up to which number everything is drawn. The next controller draws all that the deltas since then concern,
  and everything where those deltas are not kept any more.
- An image that is begun is drawn to its end before a newer one: what the newer one takes back again is not forgotten.
- A node that the store cannot hold is left out, and so is one that cannot be deleted because a stranger has put nodes
  below it. Each is warned of once.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence

from penstock.cluster.deltas.blurring import blurred_by
from penstock.cluster.deltas.picture import picture_operations, settled_operations, settled_paths
from penstock.cluster.image import MetadataImage
from penstock.cluster.levels import SUPPORTED
from penstock.cluster.loading import read_deltas
from penstock.cluster.store import znodes
from penstock.cluster.store.interface import Check, CompareAndSet, Operation, Store, StoreError, StoreErrorKind
from penstock.cluster.store.transactions import in_transactions

logger = logging.getLogger(__name__)

_WRONG_GUESSES = (
    StoreErrorKind.NO_NODE,
    StoreErrorKind.NODE_EXISTS,
    StoreErrorKind.NOT_EMPTY,
    StoreErrorKind.NO_CHILDREN_FOR_EPHEMERALS,
)
# Changes that show nothing do not move the mark, but for every so many: the deltas behind it must be kept still.
_MARKED_EVERY = 200
# Paths that are remembered as told, so that a store full of them costs little.
_MOST_TOLD = 1_000


class Picture:
    def __init__(self, store: Store, fence: Check, drawn: MetadataImage, marked: int) -> None:
        """`drawn` is what the nodes show, as far as that is known. `marked` is the number in the mark."""
        self._store = store
        self._fence = fence
        self.drawn = drawn
        self._target: MetadataImage | None = None
        self._marked = marked
        self.left_out: set[str] = set()

    @classmethod
    async def open(
        cls, store: Store, fence: Check, image: MetadataImage, highest_level: int = SUPPORTED.highest
    ) -> Picture:
        """`image` is the newest one. All that may not be drawn is blurred."""
        node = await store.read(znodes.PICTURE)
        marked = -1 if node is None else znodes.decode_picture(node.data)
        deltas = None
        if 0 <= marked <= image.number:
            deltas = await read_deltas(store, marked, image.number, highest_level)
        if deltas is None:
            return cls(store, fence, MetadataImage(image.cluster_id), -1)
        return cls(store, fence, await asyncio.to_thread(blurred_by, image, deltas), marked)

    async def draw(self, image: MetadataImage) -> None:
        """Raises StoreError. The next call goes on from there."""
        if self._target is not None:
            await self._draw(self._target)
        if image is not self.drawn:
            self._target = image
            await self._draw(image)

    async def _draw(self, image: MetadataImage) -> None:
        operations, left_out = await asyncio.to_thread(picture_operations, self.drawn, image)
        self._leave_out(left_out)
        if operations or image.number - self._marked >= _MARKED_EVERY:
            mark = CompareAndSet(znodes.PICTURE, znodes.encode_picture(image.number))
            for part in in_transactions([*operations, mark], self._store.transaction_limit, self._fence):
                await self._write(part)
            self._marked = image.number
        self.drawn, self._target = image, None

    async def _write(self, part: Sequence[Operation]) -> None:
        try:
            await self._store.transaction(part)
        except StoreError as error:
            if not self._is_wrong_guess(error):
                raise
            await self._settle(part[1:])

    async def _settle(self, operations: Sequence[Operation]) -> None:
        paths = settled_paths(operations)
        found = await self._store.read_many(paths)
        present = {path: node for path, node in zip(paths, found, strict=True) if node is not None}
        settled = settled_operations(operations, present)
        for part in in_transactions(settled, self._store.transaction_limit, self._fence):
            try:
                await self._store.transaction(part)
            except StoreError as error:
                if not self._is_wrong_guess(error):
                    raise
                await self._write_singly(part[1:])

    async def _write_singly(self, operations: Sequence[Operation]) -> None:
        for operation in operations:
            try:
                await self._store.transaction([self._fence, operation])
            except StoreError as error:
                if not self._is_wrong_guess(error):
                    raise
                self._leave_out({operation.path: str(error)})

    def _is_wrong_guess(self, error: StoreError) -> bool:
        return error.kind in _WRONG_GUESSES and error.path != self._fence.path

    def _leave_out(self, reasons: Mapping[str, str]) -> None:
        for path, reason in reasons.items():
            if path not in self.left_out and len(self.left_out) < _MOST_TOLD:
                logger.warning("a node that tools look at is not written, and the cluster goes on without: %s", reason)
                self.left_out.add(path)
