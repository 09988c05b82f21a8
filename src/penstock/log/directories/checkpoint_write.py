"""The checkpoint files of the data directories: the owner's thread takes the offsets, any thread encodes and writes.

With 10,000 partitions the capture of the offsets needs 40 ms, so `CheckpointCapture` takes them a few logs at a time.
The four offsets of one log are taken together; two logs may be captured at different moments: the files promise no
more.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from penstock.core.types import TopicPartition
from penstock.log.directories.namesakes import Mark
from penstock.log.formats import names
from penstock.log.formats.checkpoints import encode_offsets
from penstock.log.partition_log import PartitionLog
from penstock.log.storage.files import Files

logger = logging.getLogger(__name__)


def _log_start_offset(log: PartitionLog) -> int | None:
    """Only where the file names do not show it."""
    return log.log_start_offset if log.log_start_offset > log.segments.first.base_offset else None


_CHECKPOINTS: tuple[tuple[str, Callable[[PartitionLog], int | None]], ...] = (
    (names.RECOVERY_POINTS, lambda log: log.recovery_point),
    (names.LOG_START_OFFSETS, _log_start_offset),
    (names.HIGH_WATERMARKS, lambda log: log.high_watermark),
    (names.CLEANER_OFFSETS, lambda log: log.compaction.cleaned_end),
)


class Standby:
    """A second directory of a log, from which the next start may have to load the log: the copy that is about to take
    the log's place, and then the directory that the log has left. Checkpoint files have entries for it as well.
    """

    __slots__ = ("directory", "is_left", "is_written", "log", "recovery_point")

    def __init__(self, log: PartitionLog, directory: Path, recovery_point: int, *, is_left: bool) -> None:
        self.log = log
        self.directory = directory  # the data directory
        self.recovery_point = recovery_point
        self.is_left = is_left
        self.is_written = False  # a checkpoint with its entry is durable; set in the writing thread

    def row(self) -> _Row:
        log = self.log
        offsets = (self.recovery_point, log.log_start_offset, log.high_watermark, log.compaction.cleaned_end)
        return _Row(log, self.directory, offsets)


class _Row(NamedTuple):
    log: PartitionLog
    directory: Path
    offsets: tuple[int | None, ...]  # in the order of `_CHECKPOINTS`


class CheckpointCapture:
    def __init__(self) -> None:
        self.rows: list[_Row] = []

    def add(self, log: PartitionLog) -> None:
        """Costs 4 us."""
        self.rows.append(_Row(log, log.directory.parent, tuple(offset_of(log) for _, offset_of in _CHECKPOINTS)))

    def drop_stale(self, logs: Mapping[TopicPartition, PartitionLog]) -> None:
        """Drops logs that were deleted since their capture: a new log of the same name must not pass for durable up to
        there. Captures the recovery point of a log again that has changed its directory since.
        """
        rows, self.rows = self.rows, []
        for row in rows:
            if logs.get(row.log.topic_partition) is not row.log:
                continue
            if row.directory == row.log.directory.parent:
                self.rows.append(row)
            else:
                self.add(row.log)


class CheckpointContent(NamedTuple):
    directory: Path
    name: str
    content: bytes


class CheckpointWrite:
    """Like `Flush`: each file costs an fsync, for which the event loop must not wait. `failures` keeps the errors for
    the owner, who checks them before the next write; an error does not stop the other directories.
    """

    __slots__ = (
        "_files",
        "_is_encoded",
        "_metadata_number",
        "_rows",
        "_standbys",
        "_written",
        "contents",
        "failures",
        "marks",
        "removed_marks",
    )

    def __init__(
        self,
        files: Files,
        capture: CheckpointCapture,
        written: dict[Path, dict[str, bytes]],
        standbys: Sequence[Standby] = (),
        metadata_number: int = 0,
        marks: Sequence[Mark] = (),
    ) -> None:
        """`written`: the last known contents of the files in each online data directory. `metadata_number` is noted
        beside them; 0 is not. `marks` are removed once the files are written.
        """
        self._files = files
        self._metadata_number = metadata_number
        self._standbys = standbys
        self._rows = [*capture.rows, *(standby.row() for standby in standbys)]
        self._written = written
        self._is_encoded = False
        self.contents: list[CheckpointContent] = []  # the files that are out of date, after `encode`
        self.failures: dict[Path, OSError] = {}
        self.marks = marks
        self.removed_marks: list[Mark] = []

    def encode(self) -> list[CheckpointContent]:
        if not self._is_encoded:
            self._is_encoded = True
            self.contents = [
                CheckpointContent(directory, name, content)
                for directory, written in self._written.items()
                for name, content in self._encode_files(directory)
                if written.get(name) != content
            ]
        return self.contents

    def _encode_files(self, directory: Path) -> Iterator[tuple[str, bytes]]:
        rows = [row for row in self._rows if row.directory == directory]
        for column, (name, _) in enumerate(_CHECKPOINTS):
            table = {}
            for row in rows:
                if (offset := row.offsets[column]) is not None:
                    table[row.log.topic_partition] = offset
            yield name, encode_offsets(table)
        if self._metadata_number:
            yield names.METADATA_NUMBER, f"{self._metadata_number}\n".encode()

    def run(self) -> None:
        for directory, name, content in self.encode():
            if directory in self.failures:
                continue
            try:
                self._files.write_atomically(directory / name, content)
            except OSError as error:
                self.failures[directory] = error
        for standby in self._standbys:
            standby.is_written |= standby.directory not in self.failures
        for mark in self.marks:
            if mark.directory in self._written and mark.directory not in self.failures:
                self._remove_mark(mark)

    def _remove_mark(self, mark: Mark) -> None:
        try:
            self._files.unlink(mark.path)
            self._files.sync_directory(os.path.dirname(mark.path))  # otherwise a power cut could bring it back
        except OSError as error:
            # While the mark exists, recovery reads all of the log.
            logger.warning("cannot remove %s for now: %s", mark.path, error)
        else:
            self.removed_marks.append(mark)
