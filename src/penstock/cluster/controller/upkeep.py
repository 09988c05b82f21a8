"""The work behind the changes of a controller from `SNAPSHOT_LEVEL` on: the picture for tools, and snapshots.
Periodically it checks whether the log is still as written, and whether a user runs tools that write past the brokers.

One task does all of it, behind the changes. No change waits for it, and an interruption loses nothing.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping

from penstock.cluster.controller.active_controller import ActiveController
from penstock.cluster.controller.log_inspection import is_damaged
from penstock.cluster.controller.picture import Picture
from penstock.cluster.controller.snapshots import is_due, remove_snapshots, trim_log, write_snapshot
from penstock.cluster.deltas.position import SnapshotMark
from penstock.cluster.image import MetadataImage
from penstock.cluster.image_publisher import ImageSubscription, Publisher
from penstock.cluster.levels import SNAPSHOT_LEVEL
from penstock.cluster.store.interface import Store, StoreError
from penstock.cluster.strangers.changed_nodes import blur_changed
from penstock.cluster.strangers.old_tools import OldTools
from penstock.cluster.strangers.reports import Told

logger = logging.getLogger(__name__)

# The pause between two attempts at a store that refuses.
_RETRY_S = 0.5
# The number of deltas removed together: each time the names of all are listed.
_TRIMMED_AT_ONCE = 100
# The pause between two checks of the log, each of which reads the nodes that a starting broker reads.
INSPECTION_S = 60.0


class Upkeep:
    """Begins with a controller's term, and ends with `stop` or with the term."""

    def __init__(
        self, store: Store, active_controller: ActiveController, publisher: Publisher, inspection_s: float, told: Told
    ) -> None:
        """`told` outlives the term."""
        self._store = store
        self._active_controller = active_controller
        self._publisher = publisher
        self._inspection_s = inspection_s
        self._told = told
        self._old_tools = OldTools(store, told)
        self._picture: Picture | None = None
        self._is_checked = False
        self._is_inspection_due = False
        self._is_look_due = True
        self._tidied: SnapshotMark | None = None  # the snapshot of the position at the last removal of others
        self._trimmed = -_TRIMMED_AT_ONCE  # the first kept delta at the last removal of others
        self._complaints: dict[str, str] = {}
        self._chores: Mapping[str, Callable[[], Awaitable[None]]] = {
            "a look at the log of the metadata": self._inspect,
            "a snapshot of the metadata": self._keep_snapshots,
            "what tools see of the metadata": self._draw,
        }
        self._woken = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._end = publisher.subscribe(ImageSubscription(self._published, None, None, None))
        self._timer: asyncio.TimerHandle | None = None
        self._wake()
        self._rest()

    def stop(self) -> None:
        self._end()
        if self._timer is not None:
            self._timer.cancel()
        if self._task is not None:
            self._task.cancel()

    def _published(self, _old: MetadataImage, _new: MetadataImage) -> None:
        self._wake()

    def _rest(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(self._inspection_s, self._begin_inspection)

    def _begin_inspection(self) -> None:
        self._is_inspection_due = self._is_look_due = True
        self._wake()
        self._rest()

    def _wake(self) -> None:
        self._woken.set()
        if (
            self._task is None
            and self._active_controller.is_open
            and self._publisher.image.metadata_level >= SNAPSHOT_LEVEL
        ):
            self._task = asyncio.create_task(self._run(), name="metadata-upkeep")

    async def _run(self) -> None:
        try:
            while self._woken.is_set() and self._active_controller.is_open:
                self._woken.clear()
                for name, chore in self._chores.items():
                    await self._do(name, chore)
        finally:
            self._task = None

    async def _do(self, name: str, chore: Callable[[], Awaitable[None]]) -> None:
        """No part of the work keeps another part from running."""
        if not self._active_controller.is_open:
            return
        try:
            await chore()
            self._complaints.pop(name, None)
        except StoreError as error:
            if self._active_controller.writer.is_fenced_by(error):
                return  # the member learns it from the store
            if self._complaints.get(name) != str(error):
                self._complaints[name] = str(error)
                logger.warning("%s: tried again later: %s", name, error)
            asyncio.get_running_loop().call_later(_RETRY_S, self._wake)
        except Exception:  # the cluster goes on without; the next change tries again
            logger.exception("%s failed", name)

    async def _inspect(self) -> None:
        if not self._is_inspection_due:
            return
        writer = self._active_controller.writer
        if await is_damaged(self._store, self._active_controller.term.fence, writer.position, writer.highest_level):
            self._active_controller.give_up()
        self._is_inspection_due = False

    async def _keep_snapshots(self) -> None:
        writer, fence = self._active_controller.writer, self._active_controller.term.fence
        named = writer.position.snapshot
        if named != self._tidied:
            await remove_snapshots(self._store, fence, named, writer.offered and writer.offered.mark)
            self._tidied = named
        first = writer.position.first
        if first - self._trimmed >= _TRIMMED_AT_ONCE:
            await trim_log(self._store, fence, first)
            self._trimmed = first
        image, position = self._publisher.image, writer.position
        # The newest change may not be published yet: its publication wakes this task.
        is_newest = position.number == image.number
        if is_newest and is_due(position) and writer.offered is None:
            mark = await write_snapshot(self._store, fence, image, position.snapshot)
            writer.offer_snapshot(mark, position.size)
            logger.info("a snapshot of the metadata at %d is written: %d bytes", mark.number, mark.size)

    async def _draw(self) -> None:
        fence, image = self._active_controller.term.fence, self._publisher.image
        if self._picture is None:
            self._picture = await Picture.open(self._store, fence, image, self._active_controller.writer.highest_level)
        await self._picture.draw(image)
        if not self._is_checked:
            drawn = self._picture.drawn
            self._picture.drawn = await blur_changed(self._store, drawn, self._picture.left_out, self._told)
            self._is_checked = True
            await self._picture.draw(drawn)
        if self._is_look_due:
            await self._old_tools.look(self._picture.drawn)
            self._is_look_due = False
