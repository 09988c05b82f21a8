"""The disk work of a log's copy, captured on the owner's thread and run in any thread.

A failed step keeps the reason for the owner. Bytes are copied through open files, so a segment that retention or
compaction removes meanwhile is copied to its end all the same: the owner later finds the segment removed, and removes
it from the copy. Files beside the log are copied by name, and a missing file is left out: all of them can be rebuilt.
"""

from __future__ import annotations

import contextlib
import errno
import os
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import NamedTuple

from penstock.log.formats import names
from penstock.log.storage.files import NOT_BROKEN, Files, OpenFile
from penstock.log.storage.indexes import OFFSET_ENTRY_SIZE, TIME_ENTRY_SIZE
from penstock.log.storage.segment_indexes import IndexEntries

# The room that a copy leaves free on its disk, for the logs that are there; of a small disk a hundredth.
RESERVED_BYTES = 64 * 1024 * 1024
_CHUNK = 1024 * 1024


class Failure(NamedTuple):
    reason: str
    is_of_target: bool  # the copy's disk failed, and not for want of room


class _SourceError(Exception):
    """The log itself was unreadable."""


class CopyStep(ABC):
    """`run` may run in any thread. It raises nothing: see `failure`."""

    size: int = 0  # the bytes of the log in this step

    def __init__(self, files: Files) -> None:
        self.files = files
        self.failure: Failure | None = None

    def run(self) -> None:
        try:
            self.work()
        except _SourceError as error:
            self.failure = Failure(str(error), is_of_target=False)
        except OSError as error:
            self.failure = Failure(str(error), is_of_target=error.errno not in NOT_BROKEN)

    @abstractmethod
    def work(self) -> None: ...


class Making(CopyStep):
    """The directory of the copy with the small files that every copy has."""

    def __init__(self, files: Files, directory: str, contents: dict[str, bytes]) -> None:
        super().__init__(files)
        self._directory = directory
        self._contents = contents

    def work(self) -> None:
        self.files.make_directory(self._directory)
        for name, content in self._contents.items():
            self.files.write_file(f"{self._directory}/{name}", content, sync=True)


class Part(NamedTuple):
    """Bytes of one segment, with its other new data."""

    base_offset: int
    source: OpenFile
    start: int
    end: int
    is_new: bool  # nothing of the segment has been copied before
    entries: IndexEntries | None  # of the active segment
    side_files: Sequence[str]  # with the last bytes of a sealed segment: its other files


class Copying(CopyStep):
    """Advances the copy: removes deleted segments first, then adds parts and snapshots."""

    def __init__(self, files: Files, source: str, target: str) -> None:
        super().__init__(files)
        self._source = source
        self._target = target
        self.gone: list[str] = []  # names of files
        self.parts: list[Part] = []
        self.snapshots: list[int] = []
        self.end_offset = 0  # the copy has everything before it afterwards
        self.is_last = True  # the copy has everything afterwards
        self.is_torn = False  # the log was truncated meanwhile
        self.room_needed = 0  # on the disk of the copy, or nothing is written; 0 without a check

    @property
    def size(self) -> int:  # type: ignore[override]
        return sum(part.end - part.start for part in self.parts)

    @property
    def is_empty(self) -> bool:
        return not (self.gone or self.parts or self.snapshots)

    def is_tail(self, most_bytes: int) -> bool:
        """Whether it only adds the last few bytes to existing files."""
        is_plain = not (self.gone or self.snapshots or any(part.is_new or part.side_files for part in self.parts))
        return self.is_last and is_plain and self.size <= most_bytes

    def work(self) -> None:
        if self.room_needed:
            self._check_room()
        for name in self.gone:
            self.files.unlink(f"{self._target}/{name}")
        for part in self.parts:
            self._copy_part(part)
            if self.is_torn:
                return
        for offset in self.snapshots:
            self._copy_file(names.segment_file(offset, names.SNAPSHOT))

    def _check_room(self) -> None:
        """A copy that fills a disk makes all logs on the disk fail."""
        total, usable = self.files.space(self._target)
        needed = self.room_needed + min(RESERVED_BYTES, total // 100)
        if usable < needed:
            raise OSError(errno.ENOSPC, f"the disk has {usable} bytes left, and {needed} are needed")

    def _copy_part(self, part: Part) -> None:
        path = f"{self._target}/{names.segment_file(part.base_offset, '')}"
        target = self.files.open(path + names.LOG, create=part.is_new)
        try:
            position = part.start
            while position < part.end and not self.is_torn:
                size = min(_CHUNK, part.end - position)
                data = _read(part.source, position, size)
                target.write((data,), position, len(data))
                position += len(data)
                self.is_torn = len(data) < size
            if part.side_files:
                target.sync()
            elif part.end - part.start >= _CHUNK:
                # Otherwise the kernel would later make a writer wait for the disk, and that may be the event loop.
                target.start_write_back(part.start, part.end - part.start)
        finally:
            target.close()
        if part.entries is not None:
            self._write_entries(path, part.entries, part.is_new)
        for name in part.side_files:
            self._copy_file(name)

    def _write_entries(self, path: str, entries: IndexEntries, is_new: bool) -> None:
        for suffix, position, data in (
            (names.OFFSET_INDEX, entries.offset_start * OFFSET_ENTRY_SIZE, entries.offsets),
            (names.TIME_INDEX, entries.time_start * TIME_ENTRY_SIZE, entries.times),
        ):
            if data or is_new:
                file = self.files.open(path + suffix, create=is_new)
                try:
                    file.write((data,), position, len(data))
                finally:
                    file.close()

    def _copy_file(self, name: str) -> None:
        try:
            content = self.files.read_file(f"{self._source}/{name}")
        except FileNotFoundError:
            return
        except OSError as error:
            raise _SourceError(str(error)) from error
        self.files.write_file(f"{self._target}/{name}", content, sync=True)


class Syncing(CopyStep):
    """Everything that was copied so far, and the leader epochs, are durable afterwards."""

    def __init__(self, files: Files, directory: str, paths: Sequence[str], epochs: bytes, end_offset: int) -> None:
        super().__init__(files)
        self._directory = directory
        self._paths = paths
        self._epochs = epochs
        self.end_offset = end_offset

    def work(self) -> None:
        self.files.write_file(f"{self._directory}/{names.LEADER_EPOCHS}", self._epochs, sync=True)
        for path in self._paths:
            with contextlib.suppress(FileNotFoundError):
                self.files.sync_file(path)
        self.files.sync_directory(self._directory)
        self.files.sync_directory(os.path.dirname(self._directory))


def _read(file: OpenFile, position: int, size: int) -> bytes:
    try:
        return file.read(position, size)
    except OSError as error:
        raise _SourceError(str(error)) from error
