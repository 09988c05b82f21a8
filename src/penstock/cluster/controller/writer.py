"""Writes changes of the metadata to the store, as the controller of one epoch.

Rules:
- Every transaction checks the controller's epoch: it fails once another controller has been elected. A change also
  moves the position of the log from the version that the writer knows, and creates the next delta by its number. So of
  two writers one fails.
- A change that is too large for one delta is made in steps (`deltas.steps`), each of which is a change by itself.
- From `SNAPSHOT_LEVEL` on a change is one transaction: position and delta. Nodes are drawn later, by `picture`. The
  change that rises to that level first writes a snapshot of the image before it.
- Below that level the nodes are part of a change. A change that fits one transaction is written by one: position,
  nodes, delta. A change that does not fit begins with the delta, and from then on it is made. The position shows that
  nodes are still missing; a loading broker overlays them with the delta. The nodes follow, part by part. The next
  change or the next controller writes the rest after a crash. Nothing of a change is written before all its writes are
  known to fit: a delta whose nodes can never be written would hold up every later change.
- The outcome of a change is not known after a lost connection. The delta's unique id in the store shows it. Until then
  nothing else is written.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

from penstock.cluster.controller.snapshots import presence, write_snapshot
from penstock.cluster.deltas.delta import Delta, difference
from penstock.cluster.deltas.encoding import decode_delta, encode_delta
from penstock.cluster.deltas.nodes import delta_operations, remaining_operations, touched_paths
from penstock.cluster.deltas.position import LogPosition, SnapshotMark, decode_position, encode_position, next_position
from penstock.cluster.deltas.steps import steps
from penstock.cluster.image import MetadataImage
from penstock.cluster.image_loader import StoredPosition, read_deltas
from penstock.cluster.levels import SNAPSHOT_LEVEL, SUPPORTED
from penstock.cluster.store import znodes
from penstock.cluster.store.interface import (
    Check,
    CompareAndSet,
    Create,
    Delete,
    Operation,
    Store,
    StoreError,
    StoreErrorKind,
    check_operation,
    is_too_large,
)
from penstock.cluster.store.transactions import fits, in_transactions, write_operation
from penstock.core.limits import MAX_PARTITIONS_PER_REQUEST, MAX_STORE_VALUE_BYTES

# The room for the other operations of a delta's transaction: two checks, the position, and the deletion of at most 21
# deltas.
_LOG_OVERHEAD = 8_192
# The number of partitions whose changes go into one delta: a request for the most partitions that a request may name is
# made at once or not at all. A delta has some 130 KB then, and brokers follow it in a few turns of the loop.
_PARTITIONS_AT_ONCE = MAX_PARTITIONS_PER_REQUEST
# NO_NODE: another program has deleted the node, and the version that it had is of no use any more.
_FENCES = (StoreErrorKind.BAD_VERSION, StoreErrorKind.NODE_EXISTS, StoreErrorKind.NO_NODE)


class PreparedChange(NamedTuple):
    """A change, or a step of a change, that is ready to be written."""

    image: MetadataImage  # the image afterwards, with the number of the delta
    delta: Delta
    data: bytes
    operations: Sequence[Operation]  # on nodes, below `SNAPSHOT_LEVEL`
    # The image before, where the change rises to `SNAPSHOT_LEVEL`.
    risen_from: MetadataImage | None = None


class Offer(NamedTuple):
    """A snapshot that the next change names, and the value of `LogPosition.size` at its number."""

    mark: SnapshotMark
    size: int


class Writer:
    def __init__(
        self,
        store: Store,
        fence: Check,
        stored: StoredPosition,
        new_id: Callable[[], str],
        highest_level: int = SUPPORTED.highest,
    ) -> None:
        self._store = store
        self._fence = fence
        self.position = stored.position
        self._version = stored.version
        self._attempt = stored.position  # the position after the newest write, if it was made
        self.offered: Offer | None = None
        self._new_id = new_id
        self.highest_level = highest_level
        # The nodes of a change that did not fit one transaction, until the first attempt to write them.
        self._operations: Sequence[Operation] | None = None

    def plan(self, old: MetadataImage, new: MetadataImage) -> list[PreparedChange]:
        """The changes that lead to the new image, to be written one after another; none where there is nothing to
        write. Takes some 20 us for each changed partition, and no turn of the loop: meant for a thread. Raises
        StoreError(TOO_LARGE) where the store cannot take all of it.
        """
        changes: list[PreparedChange] = []
        for image in steps(old, new, _PARTITIONS_AT_ONCE):
            changes += self._plan(changes[-1].image if changes else old, image, _PARTITIONS_AT_ONCE)
        return changes

    def plan_whole(self, old: MetadataImage, new: MetadataImage) -> list[PreparedChange]:
        """The same with at most one change, for changes that must be made at once or not at all."""
        return self._plan(old, new, 1)

    def _plan(self, old: MetadataImage, new: MetadataImage, most: int) -> list[PreparedChange]:
        """`most` limits the partitions or rules of the step: a step is divided where its delta is too large."""
        delta = difference(old, new, self._new_id())
        if delta is None:
            return []
        image = replace(new, number=delta.number)
        data = encode_delta(delta, new.metadata_level)
        if len(data) <= self._most_bytes:
            if new.metadata_level >= SNAPSHOT_LEVEL:
                return [PreparedChange(image, delta, data, (), old if old.metadata_level < SNAPSHOT_LEVEL else None)]
            operations = delta_operations(delta, image)
            for operation in operations:
                check_operation(operation)
            return [PreparedChange(image, delta, data, operations)]
        images = [new]
        while len(images) == 1 and most > 1:
            most //= 2
            images = steps(old, new, most)
        if len(images) == 1:
            detail = f"the change would have {len(data)} bytes in the log, where {self._most_bytes} are the most"
            raise StoreError(StoreErrorKind.TOO_LARGE, znodes.LOG, detail)
        changes: list[PreparedChange] = []
        for each in images:
            changes += self._plan(changes[-1].image if changes else old, each, most)
        return changes

    @property
    def _most_bytes(self) -> int:
        limit = self._store.transaction_limit
        return (MAX_STORE_VALUE_BYTES if limit is None else limit.size) - _LOG_OVERHEAD

    async def write(self, change: PreparedChange) -> None:
        """Returns when the change is made. Raises StoreError: with OUTCOME_UNKNOWN, call `is_made` before the next
        write.
        """
        position = self._next_position(change)
        assert position.number == change.delta.number, "a change follows on the image that the log stands at"
        operations = change.operations
        if change.risen_from is not None:
            mark = await write_snapshot(self._store, self._fence, change.risen_from, None)
            position = position._replace(snapshot=mark, size=len(change.data))
            operations = await self._begin_picture(change.risen_from.number, change.image.metadata_level)
        whole = self._log_operations(position, change, operations)
        if change.operations and not fits(whole, self._store.transaction_limit):
            position = position._replace(is_unwritten=True)
            whole = self._log_operations(position, change, ())
        self._attempt = position
        try:
            await self._store.transaction(whole)
        except StoreError as error:
            if error.path.startswith(f"{znodes.SNAPSHOTS}/"):
                self.offered = None  # the snapshot is not there: the snapshot before stays
            raise
        self._made(position)
        self._operations = change.operations if position.is_unwritten else None

    def offer_snapshot(self, mark: SnapshotMark, size: int) -> None:
        """The next change names this snapshot. `size` is that of the position whose number the snapshot has."""
        self.offered = Offer(mark, size)

    def _next_position(self, change: PreparedChange) -> LogPosition:
        position, delta = self.position, change.delta
        if self.offered is not None:
            position = position._replace(snapshot=self.offered.mark, size=position.size - self.offered.size)
        return next_position(position, delta.controller_id, delta.controller_epoch, len(change.data))

    async def _begin_picture(self, number: int, level: int) -> list[Operation]:
        """The nodes show the image from before the rise as a whole, except for the level: see `node_repair`."""
        wanted = {znodes.PICTURE: znodes.encode_picture(number), znodes.FEATURES: znodes.encode_features(level)}
        nodes = await self._store.read_many(list(wanted))
        return [write_operation(path, node, wanted[path]) for path, node in zip(wanted, nodes, strict=True)]

    async def is_made(self, change: PreparedChange) -> bool:
        """Call after a write of unknown outcome. Raises StoreError as long as the outcome stays unknown, and
        BAD_VERSION when another controller has written meanwhile.
        """
        path = znodes.delta_path(change.delta.number)
        await self._store.sync(path)
        node, log = await self._store.read_many([path, znodes.LOG])
        if node is None:
            return False
        if log is None or decode_delta(path, node.data, self.highest_level).unique_id != change.delta.unique_id:
            raise StoreError(StoreErrorKind.BAD_VERSION, path)
        self._made(self._attempt)
        return True

    async def write_nodes(self, image: MetadataImage) -> None:
        """Writes the nodes of the newest delta where they were too many for its transaction. `image` contains it."""
        if not self.position.is_unwritten:
            return
        operations, self._operations = self._operations, None
        if operations is None:
            operations = await self._remaining(await self._newest_delta(), image)
        await self._write_parts(operations)
        position = self.position._replace(is_unwritten=False)
        data = encode_position(position, image.metadata_level)
        await self._store.transaction([self._fence, CompareAndSet(znodes.LOG, data, self._version)])
        self._made(position)

    async def write_what_fits(self, image: MetadataImage) -> dict[str, list[int]]:
        """Call before the first change of a controller. Where the newest delta has topics whose nodes no store can
        take, this writes all other nodes. Returns these topics with the partitions that the delta changed. Earlier
        versions wrote deltas without a look at the nodes that follow from them.
        """
        if not self.position.is_unwritten:
            return {}
        delta = await self._newest_delta()
        operations = await self._remaining(delta, image)
        too_large = {each.path for each in operations if is_too_large(each)}
        topics = [change for change in delta.changed if znodes.topic_path(change.name) in too_large]
        if topics:
            await self._write_parts([operation for operation in operations if operation.path not in too_large])
        else:
            self._operations = operations
        return {change.name: [state.partition for state in change.states] for change in topics}

    async def _write_parts(self, operations: Sequence[Operation]) -> None:
        for part in in_transactions(operations, self._store.transaction_limit, self._fence):
            await self._store.transaction(part)

    async def _newest_delta(self) -> Delta:
        number = self.position.number
        deltas = await read_deltas(self._store, number - 1, number, self.highest_level)
        if not deltas:
            raise StoreError(StoreErrorKind.CORRUPT, znodes.delta_path(number), "the node is missing")
        return deltas[0]

    async def _remaining(self, delta: Delta, image: MetadataImage) -> Sequence[Operation]:
        """The remaining operations of the newest delta. This writer tried before, or another writer wrote the delta."""
        paths = await asyncio.to_thread(touched_paths, delta, image)
        found = await self._store.read_many(paths)
        nodes = {path: node for path, node in zip(paths, found, strict=True) if node is not None}
        return await asyncio.to_thread(remaining_operations, delta, image, nodes)

    async def has_its_log(self) -> bool:
        """Whether this writer can have written the position in the store."""
        version = self._version
        node = await self._store.read(znodes.LOG)
        try:
            return (
                node is not None
                and node.version >= version
                and bool(decode_position(node.data, self.highest_level).number)
            )
        except StoreError:
            return False

    def is_fenced_by(self, error: StoreError) -> bool:
        """Whether the error means that another controller writes, or that another program has overwritten the log."""
        is_log = error.path in (znodes.CONTROLLER_EPOCH, znodes.LOG) or error.path.startswith(f"{znodes.LOG}/")
        return error.kind in _FENCES and is_log

    def _log_operations(
        self, position: LogPosition, change: PreparedChange, operations: Sequence[Operation]
    ) -> list[Operation]:
        named = position.snapshot if position.snapshot != self.position.snapshot else None
        # From `SNAPSHOT_LEVEL` on old deltas are removed later (`upkeep`): a delta that another program has deleted
        # must not stop a change.
        first = self.position.first if position.snapshot is not None else min(position.first, position.number)
        trimmed = range(self.position.first, first)
        return [
            self._fence,
            CompareAndSet(znodes.LOG, encode_position(position, change.image.metadata_level), self._version),
            *([] if named is None else [presence(named)]),
            *operations,
            Create(znodes.delta_path(position.number), change.data),
            *(Delete(znodes.delta_path(number)) for number in trimmed),
        ]

    def _made(self, position: LogPosition) -> None:
        self.position = position
        self._version += 1
        if self.offered is not None and position.snapshot == self.offered.mark:
            self.offered = None
