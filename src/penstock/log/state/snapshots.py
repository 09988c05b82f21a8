"""The producer snapshots of a partition on disk: one per segment, and after a clean shutdown one at the end, and one
near the high watermark if that is before the end.
"""

from __future__ import annotations

import contextlib
import logging
from bisect import insort
from collections.abc import Collection, Iterable

from penstock.log.formats import names
from penstock.log.state.producer_snapshot import decode_snapshot, encode_snapshot
from penstock.log.state.producer_state import ProducerStateEntry
from penstock.log.storage.files import Files

logger = logging.getLogger(__name__)


class Snapshots:
    __slots__ = ("_durable", "directory", "files", "offsets")

    def __init__(self, files: Files, directory: str, listing: Iterable[str]) -> None:
        self.files = files
        self.directory = directory
        parsed = (names.parse_segment_file(name) for name in listing if name.endswith(names.SNAPSHOT))
        self.offsets = sorted(entry[0] for entry in parsed if entry is not None)
        self._durable: set[int] = set()

    def relocate(self, directory: str) -> None:
        """The same files lie in another directory."""
        self.directory = directory
        self._durable.clear()

    def path(self, offset: int) -> str:
        return f"{self.directory}/{names.segment_file(offset, names.SNAPSHOT)}"

    def write(self, offset: int, entries: Collection[ProducerStateEntry], *, sync: bool = False) -> None:
        """Writes in place, not atomically: the file carries a checksum, and a damaged file is ignored."""
        if offset in self.offsets:
            return
        self.files.write_file(self.path(offset), encode_snapshot(entries), sync=sync)
        insort(self.offsets, offset)
        self._durable.discard(offset)

    def trust(self) -> None:
        """A clean shutdown left and synced all of them."""
        self._durable.update(self.offsets)

    def unsynced_from(self, offset: int) -> list[int]:
        """The snapshots from `offset` on that may not be durable."""
        return [taken for taken in self.offsets if taken >= offset and taken not in self._durable]

    def load_newest(self, limit: int | None = None) -> tuple[int, list[ProducerStateEntry]] | None:
        """The newest readable snapshot, not past `limit`; removes unreadable snapshots."""
        for offset in reversed(self.offsets):
            if limit is not None and offset > limit:
                continue
            try:
                return offset, decode_snapshot(self.files.read_file(self.path(offset)))
            except (ValueError, FileNotFoundError) as error:
                logger.warning("ignoring producer snapshot %s: %s", self.path(offset), error)
                self._remove([offset])
        return None

    def remove_stray(self, base_offsets: Collection[int]) -> None:
        """Keeps one per segment, and of the others those of a clean shutdown: the newest two, if they lie past the last
        segment's base.
        """
        last_base = max(base_offsets, default=0)
        strays = [offset for offset in self.offsets if offset not in base_offsets]
        self._remove([offset for offset in strays if offset <= last_base or offset not in strays[-2:]])

    def remove_after(self, offset: int) -> None:
        self._remove([taken for taken in self.offsets if taken > offset])

    def remove_before(self, offset: int) -> None:
        self._remove([taken for taken in self.offsets if taken < offset])

    def mark_deleted_at(self, offsets: Collection[int]) -> list[str]:
        """Renames the files out of the way; returns the paths to remove."""
        marked = []
        for offset in [taken for taken in self.offsets if taken in offsets]:
            with contextlib.suppress(FileNotFoundError):
                self.files.rename(self.path(offset), self.path(offset) + names.DELETED)
                marked.append(self.path(offset) + names.DELETED)
        self.offsets = [offset for offset in self.offsets if offset not in offsets]
        return marked

    def _remove(self, offsets: Collection[int]) -> None:
        for offset in offsets:
            self.files.unlink(self.path(offset))
        self.offsets = [offset for offset in self.offsets if offset not in offsets]
