"""fsync beside the event loop.

fsync may take tens of milliseconds, so it runs in another thread while the owner goes on appending. The owner's thread
fixes its files beforehand: `Flushing.prepare` captures open files and paths in a `Flush`, `Flush.run` in any thread
syncs them, and back on the owner's thread `Flushing.mark_flushed` raises the recovery point. The thread shares no
mutable state with the log, except for the flag that the partition was deleted and for the epoch file, which has a lock:
the open files are kept open by the Flush itself.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence
from typing import NamedTuple

from penstock.log.formats import names
from penstock.log.state.availability import Availability
from penstock.log.state.contents import LogContents
from penstock.log.state.epoch_file import EpochFile, EpochWrite
from penstock.log.storage.files import NO_DESCRIPTOR, Files, OpenFile
from penstock.log.storage.segment import Segment
from penstock.protocol.errors import ApiError


class CapturedEpochs(NamedTuple):
    file: EpochFile
    write: EpochWrite
    availability: Availability

    def run(self) -> None:
        """Does nothing where the partition was deleted meanwhile: a new partition of the same name may have the path by
        now.
        """
        if not self.availability.is_removed:
            with contextlib.suppress(FileNotFoundError):  # deleted in this moment
                self.file.write(self.write)


class Flush:
    """Everything below `offset` is durable once `run` has returned."""

    __slots__ = ("_directories", "_files", "_log_files", "_paths", "epochs", "offset", "truncation_count")

    def __init__(
        self,
        files: Files,
        offset: int,
        log_files: Sequence[OpenFile],
        paths: Sequence[str],
        directories: Sequence[str],
        truncation_count: int,
        epochs: CapturedEpochs,
    ) -> None:
        self._files = files
        self._log_files = log_files
        self._paths = paths
        self._directories = directories
        self.offset = offset
        self.truncation_count = truncation_count
        self.epochs = epochs

    def run(self) -> int:
        """The offset now durable. An OSError means that the kernel may have dropped data that it could not write: the
        owner must take the partition offline, as another attempt would only pretend to succeed. NO_DESCRIPTOR is
        different: a file was not opened, and so nothing of it was dropped.
        """
        for file in self._log_files:
            file.sync()
        self.epochs.run()
        for path in self._paths:
            # Deleted by retention in the meantime: then it need not be durable.
            with contextlib.suppress(FileNotFoundError):
                self._files.sync_file(path)
        for directory in self._directories:
            with contextlib.suppress(FileNotFoundError):
                self._files.sync_directory(directory)
        return self.offset


def capture_flush(contents: LogContents) -> Flush:
    """Everything from the recovery point on: the data, and the files of sealed segments that recovery would not
    rebuild.
    """
    segments, recovery_point = contents.segments, contents.recovery_point
    unflushed = segments.from_offset(recovery_point)
    paths = _unsynced_paths(contents)
    # A file that is new since the last flush needs its directory entry durable as well, and so does the directory
    # itself as long as nothing in it has ever been flushed, or nothing since the log came there.
    directories: list[str] = []
    if paths or recovery_point <= unflushed[0].base_offset or not contents.epoch_file.is_current:
        directories.append(contents.directory)
    if recovery_point <= segments.first.base_offset or not contents.is_place_durable:
        directories.append(os.path.dirname(contents.directory))
    return _capture(contents, unflushed, paths, directories)


def _write_near_high_watermark(contents: LogContents) -> None:
    """The next leader may lack records past the high watermark: then the log is truncated, and replayed from here
    on.
    """
    if contents.high_watermark < contents.log_end_offset:
        mark = contents.marks.find(contents.segments.active.base_offset, contents.high_watermark)
        if mark is not None:
            contents.snapshots.write(mark.offset, mark.entries)


def capture_closing(contents: LogContents) -> Flush:
    """The files of a clean shutdown: no batch comes after this. The missing data is written here.

    Snapshot, transaction index and indexes must be durable: a start after a clean shutdown would not notice their loss,
    and part of an index cannot be told from all of it. The directory entry of the partition itself is left to the
    caller, who closes many: one fsync of the data directory is enough for all of them.

    A log that is unchanged since the last clean shutdown costs nothing: no write, no fsync.
    """
    active, log_end_offset = contents.segments.active, contents.log_end_offset
    if log_end_offset > 0:
        contents.snapshots.write(log_end_offset, contents.producers.entries.values())
        _write_near_high_watermark(contents)
    has_transaction_index = contents.aborted.seal(active.base_offset)
    active.seal(trim=contents.settings.preallocate)
    unflushed: Sequence[Segment] = ()
    if contents.recovery_point < log_end_offset:
        unflushed = contents.segments.from_offset(contents.recovery_point)
    paths: list[str] = []
    directories: list[str] = []
    has_new_names = not contents.epoch_file.is_current
    if log_end_offset > 0:
        paths = _unsynced_paths(contents) + active.indexes.files.unsynced_paths()
        if has_transaction_index:
            paths.append(contents.aborted.path(active.base_offset))
        has_new_names |= bool(paths or unflushed or contents.durable_names != contents.segments.change_count)
    if has_new_names:
        directories.append(contents.directory)
    return _capture(contents, unflushed, paths, directories)


def _unsynced_paths(contents: LogContents) -> list[str]:
    """The files beside the data from the recovery point on, except for the indexes of the active segment."""
    segments, snapshots, recovery_point = contents.segments, contents.snapshots, contents.recovery_point
    paths: list[str] = []
    # A segment that was flushed to its end and then sealed lies just before the recovery point: its indexes are new.
    for segment in segments.from_offset(max(recovery_point - 1, segments.first.base_offset))[:-1]:
        paths += (segment.path(names.OFFSET_INDEX), segment.path(names.TIME_INDEX))
        if segment.base_offset in contents.aborted:
            paths.append(contents.aborted.path(segment.base_offset))
    paths += [snapshots.path(offset) for offset in snapshots.unsynced_from(recovery_point)]
    return paths


def _capture(
    contents: LogContents, unflushed: Sequence[Segment], paths: Sequence[str], directories: Sequence[str]
) -> Flush:
    epoch_file, availability = contents.epoch_file, contents.availability
    return Flush(
        contents.files,
        contents.log_end_offset,
        [segment.open_file() for segment in unflushed],
        paths,
        directories,
        contents.truncation_count,
        CapturedEpochs(epoch_file, epoch_file.capture(contents.recovery_point), availability),
    )


class Flushing:
    """The durable part of one log, and the times of its flushes."""

    __slots__ = ("_contents", "last_flush_ms")

    def __init__(self, contents: LogContents, now_ms: int) -> None:
        self._contents = contents
        self.last_flush_ms = now_ms

    @property
    def has_unflushed_segments(self) -> bool:
        """A sealed segment waits for its fsync: the server flushes it soon, as Kafka does after each roll."""
        return self._contents.recovery_point < self._contents.segments.active.base_offset

    def is_owed(self) -> bool:
        """Whether more is not durable yet than flush.messages allows."""
        contents = self._contents
        return contents.log_end_offset - contents.recovery_point >= contents.settings.flush_messages

    def is_due(self, now_ms: int) -> bool:
        """Due by flush.ms, or because a segment was sealed."""
        contents = self._contents
        if contents.availability.offline_reason is not None or contents.recovery_point >= contents.log_end_offset:
            return False
        return self.has_unflushed_segments or now_ms - self.last_flush_ms >= contents.settings.flush_ms

    def prepare(self) -> Flush | None:
        """The sync for another thread, captured on the owner's thread; None when everything is durable already."""
        contents = self._contents
        contents.availability.check_online()
        if contents.recovery_point >= contents.log_end_offset:
            return None
        with contents.availability.storage_errors("flushing", is_repeatable=True):
            return capture_flush(contents)

    def mark_flushed(self, flush: Flush, now_ms: int | None = None) -> None:
        """Call on the owner's thread after `flush.run()`: raises the recovery point to the durable end."""
        contents = self._contents
        if flush.truncation_count != contents.truncation_count:
            return  # a truncation has removed the synced part since; the next flush counts
        if flush.offset > contents.recovery_point:
            contents.recovery_point = flush.offset
        contents.is_place_durable = True  # a flush from before a move does not come here
        contents.epoch_file.mark_flushed(flush.epochs.write)
        if now_ms is not None:
            self.last_flush_ms = now_ms

    def failed(self, error: OSError) -> ApiError:
        """Turns the error of `Flush.run` into the caller's error."""
        availability = self._contents.availability
        return (availability.refuse if error.errno in NO_DESCRIPTOR else availability.fail)("flushing", error)

    def flush(self) -> int:
        """The three steps in one, for callers that may block; returns the offset now durable."""
        flush = self.prepare()
        if flush is not None:
            try:
                flush.run()
            except OSError as error:
                raise self.failed(error) from error
            self.mark_flushed(flush)
        return self._contents.recovery_point
