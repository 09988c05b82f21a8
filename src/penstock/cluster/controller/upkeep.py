"""What follows on the changes of a controller from `SNAPSHOT_LEVEL` on: the picture for tools, and snapshots.

One task does both, behind the changes. No change waits for it, and nothing is lost where it is cut short.
"""

from __future__ import annotations

import asyncio
import logging

from penstock.cluster.controller.office import Office
from penstock.cluster.controller.picture import Picture
from penstock.cluster.controller.snapshots import is_due, remove_snapshots, write_snapshot
from penstock.cluster.controller.strangers import blur_changed
from penstock.cluster.deltas.position import SnapshotMark
from penstock.cluster.image import MetadataImage
from penstock.cluster.levels import SNAPSHOT_LEVEL
from penstock.cluster.publishing import Publisher, Subscription
from penstock.cluster.store.interface import Store, StoreError

logger = logging.getLogger(__name__)

# Between two attempts at a store that refuses.
_RETRY_S = 0.5


class Upkeep:
    """Begins with an office, and ends with `stop` or when the office is closed."""

    def __init__(self, store: Store, office: Office, publisher: Publisher) -> None:
        self._store = store
        self._office = office
        self._publisher = publisher
        self._picture: Picture | None = None
        self._is_checked = False
        self._tidied: SnapshotMark | None = None  # what the position named when others were last removed
        self._complaint = ""
        self._woken = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._end = publisher.subscribe(Subscription(self._published, None, None, None))
        self._wake()

    def stop(self) -> None:
        self._end()
        if self._task is not None:
            self._task.cancel()

    def _published(self, _old: MetadataImage, _new: MetadataImage) -> None:
        self._wake()

    def _wake(self) -> None:
        self._woken.set()
        if self._task is None and self._publisher.image.metadata_level >= SNAPSHOT_LEVEL:
            self._task = asyncio.create_task(self._run(), name="metadata-upkeep")

    async def _run(self) -> None:
        try:
            while self._woken.is_set() and self._office.is_open:
                self._woken.clear()
                try:
                    await self._work(self._publisher.image)
                    self._complaint = ""
                except StoreError as error:
                    if self._office.writer.is_fenced_by(error):
                        return
                    self._complain(error)
                    self._woken.set()
                    await asyncio.sleep(_RETRY_S)
                except Exception:  # the cluster goes on without; the next change tries again
                    logger.exception("the upkeep of the metadata failed")
        finally:
            self._task = None

    def _complain(self, error: StoreError) -> None:
        if str(error) != self._complaint:
            self._complaint = str(error)
            logger.warning("what tools see of the metadata, or a snapshot, is written later: %s", error)

    async def _work(self, image: MetadataImage) -> None:
        fence = self._office.term.fence
        if self._picture is None:
            self._picture = await Picture.open(self._store, fence, image, self._office.writer.highest_level)
        await self._picture.draw(image)
        if not self._is_checked:
            drawn = self._picture.drawn
            self._picture.drawn = await blur_changed(self._store, drawn, self._picture.left_out)
            self._is_checked = True
            await self._picture.draw(drawn)
        await self._keep_snapshots(image)

    async def _keep_snapshots(self, image: MetadataImage) -> None:
        writer, fence = self._office.writer, self._office.term.fence
        position = writer.position
        if position.snapshot != self._tidied:
            await remove_snapshots(self._store, fence, position.snapshot, writer.offered and writer.offered.mark)
            self._tidied = position.snapshot
        # The newest change is not published yet: what publishes it wakes this task.
        is_newest = position.number == image.number
        if is_newest and is_due(position) and writer.offered is None:
            mark = await write_snapshot(self._store, fence, image, position.snapshot)
            writer.offer_snapshot(mark, position.size)
            logger.info("a snapshot of the metadata at %d is written: %d bytes", mark.number, mark.size)
