"""Draws Kafka's nodes for tools, behind the log, from `SNAPSHOT_LEVEL` on.

Rules:
- The picture follows the log and never leads it. One drawing may cover several changes.
- A drawing overwrites whatever is there: also another program's node in the place of ours.
- A mark has the number up to which everything is drawn. The next controller draws all nodes that the deltas since then
  concern, and everything where those deltas are not kept any more.
- A drawing that has begun is completed before a newer image is drawn: nodes that the newer image takes back again are
  not forgotten.
- A drawing that the store has cut short goes on with the transaction that failed.
- A node is left out that the store cannot hold, that the store does not let us write (an access list, a quota), or that
  cannot be deleted because another program has put nodes below it. The log warns of each once, without the nodes below.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from penstock.cluster.deltas.blurred_image import blurred_by
from penstock.cluster.deltas.delta import Delta
from penstock.cluster.deltas.picture import is_left_out, picture_operations, settled_operations, settled_paths
from penstock.cluster.deltas.position import DELTAS_KEPT
from penstock.cluster.image import MetadataImage
from penstock.cluster.image_loader import read_deltas
from penstock.cluster.levels import SUPPORTED
from penstock.cluster.store import znodes
from penstock.cluster.store.interface import (
    Check,
    CompareAndSet,
    Node,
    Operation,
    Store,
    StoreError,
    StoreErrorKind,
    TransactionLimit,
)
from penstock.cluster.store.transactions import in_transactions
from penstock.cluster.store.tree_walk import AT_ONCE, AllowedReads
from penstock.core.limits import MAX_STORE_TRANSACTION_BYTES

logger = logging.getLogger(__name__)

_WRONG_GUESSES = (
    StoreErrorKind.NO_NODE,
    StoreErrorKind.NODE_EXISTS,
    StoreErrorKind.NOT_EMPTY,
    StoreErrorKind.NO_CHILDREN_FOR_EPHEMERALS,
)
# Changes that the picture does not show do not move the mark, except once per this number: the deltas behind the mark
# must be kept.
_MARKED_EVERY = 200
# The limit of deltas to read behind the mark: a log keeps about half as many.
_MOST_DELTAS = 2 * DELTAS_KEPT
# The loop spends some 5 us on each operation that the store gets, in one turn.
_PART = TransactionLimit(MAX_STORE_TRANSACTION_BYTES, 500)
# The number of paths that are remembered as warned of, so that a store full of them costs little.
_MOST_TOLD = 1_000


class _Drawing:
    """An image, and the transactions that are still missing for it."""

    def __init__(
        self, image: MetadataImage, parts: Iterator[Sequence[Operation]], marked: int, *, is_small: bool
    ) -> None:
        self.image = image
        self.marked = marked  # the number in the mark when all is written
        self._parts = parts
        self._is_small = is_small
        self._part: Sequence[Operation] | None = None

    async def part(self) -> Sequence[Operation] | None:
        """The same part until it is written. None: all parts are written."""
        if self._part is None:
            # A thread for a few operations would only delay the next change.
            is_small, parts = self._is_small, self._parts
            self._part = next(parts, None) if is_small else await asyncio.to_thread(next, parts, None)
        return self._part

    def is_written(self) -> None:
        self._part = None


class _Begun(NamedTuple):
    drawing: _Drawing
    left_out: Mapping[str, str]


class Picture:
    def __init__(self, store: Store, fence: Check, drawn: MetadataImage, marked: int) -> None:
        """`drawn` is the image that the nodes show, as far as known. `marked` is the number in the mark."""
        self._store = store
        self._fence = fence
        self.drawn = drawn
        self._drawing: _Drawing | None = None
        self._marked = marked
        self.left_out: set[str] = set()

    @classmethod
    async def open(
        cls, store: Store, fence: Check, image: MetadataImage, highest_level: int = SUPPORTED.highest
    ) -> Picture:
        """`image` is the newest image. The parts that may not be drawn are blurred."""
        node = await store.read(znodes.PICTURE)
        marked = -1 if node is None else znodes.decode_picture(node.data)
        deltas = await _deltas_since(store, marked, image.number, highest_level)
        if deltas is None:
            return cls(store, fence, MetadataImage(image.cluster_id), -1)
        return cls(store, fence, await asyncio.to_thread(blurred_by, image, deltas), marked)

    async def draw(self, image: MetadataImage) -> None:
        """Raises StoreError. The next call goes on from there."""
        if self._drawing is not None:
            await self._go_on(self._drawing)
        if image is not self.drawn:
            begun = await asyncio.to_thread(self._begin, self.drawn, image)
            self._leave_out(begun.left_out)
            self._drawing = begun.drawing
            await self._go_on(begun.drawing)

    def _begin(self, drawn: MetadataImage, image: MetadataImage) -> _Begun:
        """In a thread."""
        guesses = picture_operations(drawn, image)
        operations, marked = deque(guesses.operations), self._marked
        if operations or image.number - marked >= _MARKED_EVERY:
            marked = image.number
            operations.append(CompareAndSet(znodes.PICTURE, znodes.encode_picture(marked)))
        is_small = len(operations) <= _PART.operation_count
        parts = self._transactions(_taken(operations))
        return _Begun(_Drawing(image, parts, marked, is_small=is_small), guesses.left_out)

    async def _go_on(self, drawing: _Drawing) -> None:
        while (part := await drawing.part()) is not None:
            await self._write(part)
            drawing.is_written()
        self.drawn, self._marked, self._drawing = drawing.image, drawing.marked, None

    def _transactions(self, operations: Iterable[Operation]) -> Iterator[Sequence[Operation]]:
        limit = self._store.transaction_limit or _PART
        limit = TransactionLimit(min(limit.size, _PART.size), min(limit.operation_count, _PART.operation_count))
        return in_transactions(operations, limit, self._fence)

    async def _write(self, part: Sequence[Operation]) -> None:
        try:
            await self._store.transaction(part)
        except StoreError as error:
            self._check(error)
            await self._settle(part[1:])

    async def _settle(self, operations: Sequence[Operation]) -> None:
        present = await self._read(await asyncio.to_thread(settled_paths, operations))
        settled = await asyncio.to_thread(settled_operations, operations, present)
        for part in await asyncio.to_thread(list, self._transactions(settled)):
            try:
                await self._store.transaction(part)
            except StoreError as error:
                self._check(error)
                await self._write_singly(part[1:])

    async def _read(self, paths: Sequence[str]) -> Mapping[str, Node]:
        """The existing nodes. A node that we may not read exists, with unknown content."""
        reads = AllowedReads(self._store)
        present: dict[str, Node] = {}
        for start in range(0, len(paths), AT_ONCE):
            present |= await reads.read(paths[start : start + AT_ONCE])
        return present | {path: Node(b"", -1) for path in reads.refused}

    async def _write_singly(self, operations: Sequence[Operation]) -> None:
        for operation in operations:
            try:
                await self._store.transaction([self._fence, operation])
            except StoreError as error:
                self._check(error)
                self._leave_out({operation.path: str(error)})

    def _check(self, error: StoreError) -> None:
        """Raises the error unless its cause is a node that differs from the guess, or that we may not write."""
        is_of_node = error.kind in _WRONG_GUESSES or error.is_refusal
        if not is_of_node or error.path == self._fence.path:
            raise error

    def _leave_out(self, reasons: Mapping[str, str]) -> None:
        for path, reason in reasons.items():
            if not is_left_out(path, self.left_out) and len(self.left_out) < _MOST_TOLD:
                logger.warning("a node that tools look at is not written, and the cluster goes on without: %s", reason)
                self.left_out.add(path)


async def _deltas_since(store: Store, marked: int, newest: int, highest_level: int) -> Sequence[Delta] | None:
    """None where the deltas are not known, so the drawn image is not either. A load looks for damage, a drawing does
    not.
    """
    if not max(0, newest - _MOST_DELTAS) <= marked <= newest:
        return None
    try:
        return await read_deltas(store, marked, newest, highest_level)
    except StoreError as error:
        if error.kind is not StoreErrorKind.CORRUPT and not error.is_refusal:
            raise
        return None


def _taken(operations: deque[Operation]) -> Iterator[Operation]:
    """One by one: the release of hundreds of thousands at once would hold the loop."""
    while operations:
        yield operations.popleft()
