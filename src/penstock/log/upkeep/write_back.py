"""Begins write-back early, from a thread.

A write goes to the kernel's page cache and returns at once, until too much of the cache waits for the disk: then the
kernel makes the writer wait, and the writer is the event loop. So write-back gives the disk work before that (see
`core.limits.WRITE_BACK_BYTES`). It makes nothing durable; fsync alone does that, and finds less to do.

`WriteBack.take` runs on the owner's thread, `start_write_back` in any thread: the call waits when the disk's queue is
full.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple
from weakref import WeakKeyDictionary

from penstock.core.limits import WRITE_BACK_BYTES
from penstock.log.storage.files import OpenFile
from penstock.log.storage.segments import Segments


class WriteBackRange(NamedTuple):
    file: OpenFile  # kept open by the range itself
    position: int
    size: int


class WriteBack:
    """The position up to which write-back has begun in the active segment of each log."""

    def __init__(self, least_bytes: int = WRITE_BACK_BYTES) -> None:
        self._least_bytes = least_bytes
        self._begun: WeakKeyDictionary[Segments, tuple[int, int]] = WeakKeyDictionary()

    def take(self, segments: Segments) -> WriteBackRange | None:
        """The new bytes of a log since the last call; None while they are few. The end of a segment is left to the
        fsync that follows each roll.
        """
        segment = segments.active
        base_offset, begun = self._begun.get(segments, (segment.base_offset, 0))
        if base_offset != segment.base_offset:
            begun = 0
        size = segment.size - begun
        if size < self._least_bytes:
            return None
        self._begun[segments] = (segment.base_offset, segment.size)
        return WriteBackRange(segment.open_file(), begun, size)


def start_write_back(ranges: Iterable[WriteBackRange]) -> None:
    for file, position, size in ranges:
        file.start_write_back(position, size)
