"""fsync beside the event loop.

fsync may take tens of milliseconds, so it runs in another thread while the owner goes on appending. What it touches is
fixed beforehand, on the owner's thread: `PartitionLog.prepare_flush` captures open files and paths in a `Flush`,
`Flush.run` in any thread syncs them, and back on the owner's thread `PartitionLog.mark_flushed` moves the recovery
point. The thread shares no mutable state with the log: the open files are kept open by the Flush itself.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence

from penstock.log.formats import names
from penstock.log.state.aborted_transactions import AbortedTransactions
from penstock.log.state.epoch_file import EpochFile
from penstock.log.state.snapshots import Snapshots
from penstock.log.storage.files import Files, OpenFile
from penstock.log.storage.segments import Segments


class Flush:
    """Everything below `offset` is durable once `run` has returned."""

    __slots__ = ("_directories", "_files", "_log_files", "_paths", "offset", "truncation_count")

    def __init__(
        self,
        files: Files,
        offset: int,
        log_files: Sequence[OpenFile],
        paths: Sequence[str],
        directories: Sequence[str],
        truncation_count: int,
    ) -> None:
        self._files = files
        self._log_files = log_files
        self._paths = paths
        self._directories = directories
        self.offset = offset
        self.truncation_count = truncation_count

    def run(self) -> int:
        """The offset now durable. An OSError means that the kernel may have dropped what it could not write: the owner
        must take the partition offline, as trying again would only pretend to succeed."""
        for file in self._log_files:
            file.sync()
        for path in self._paths:
            # Deleted by retention in the meantime: then nobody needs it durable.
            with contextlib.suppress(FileNotFoundError):
                self._files.sync_file(path)
        for directory in self._directories:
            with contextlib.suppress(FileNotFoundError):
                self._files.sync_directory(directory)
        return self.offset


def capture_flush(
    segments: Segments,
    snapshots: Snapshots,
    aborted: AbortedTransactions,
    epoch_file: EpochFile,
    recovery_point: int,
    log_end_offset: int,
    truncation_count: int,
) -> Flush:
    """Everything from the recovery point on: the data, and the files of sealed segments that recovery would not
    rebuild.
    """
    unflushed = segments.from_offset(recovery_point)
    paths: list[str] = []
    # A segment that was flushed to its end and then sealed lies just before the recovery point: its indexes are new.
    for segment in segments.from_offset(max(recovery_point - 1, segments.first.base_offset))[:-1]:
        paths += (segment.path(names.OFFSET_INDEX), segment.path(names.TIME_INDEX))
        if segment.base_offset in aborted:
            paths.append(aborted.path(segment.base_offset))
    paths += [snapshots.path(offset) for offset in snapshots.offsets if offset >= recovery_point]
    if not epoch_file.is_synced:
        paths.append(epoch_file.path)
    # A file that is new since the last flush needs its directory entry durable as well, and so does the directory
    # itself as long as nothing in it has ever been flushed.
    directories: list[str] = []
    if paths or recovery_point <= unflushed[0].base_offset:
        directories.append(snapshots.directory)
    if recovery_point <= segments.first.base_offset:
        directories.append(os.path.dirname(snapshots.directory))
    return Flush(
        snapshots.files,
        log_end_offset,
        [segment.open_file() for segment in unflushed],
        paths,
        directories,
        truncation_count,
    )
