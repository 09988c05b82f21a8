"""The checkpoint files of the data directories: offsets taken on the owner's thread, encoded and written in any.

With 10,000 partitions taking the offsets needs 40 ms, so `CheckpointCapture` takes them a few logs at a time. The four
offsets of one log are taken together; two logs may be seen at different moments, which the files never promised.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from penstock.core.types import TopicPartition
from penstock.log.formats import names
from penstock.log.formats.checkpoints import encode_offsets
from penstock.log.partition_log import PartitionLog
from penstock.log.storage.files import Files


def _log_start_offset(log: PartitionLog) -> int | None:
    """Only where the file names do not say it already."""
    return log.log_start_offset if log.log_start_offset > log.segments.first.base_offset else None


_CHECKPOINTS: tuple[tuple[str, Callable[[PartitionLog], int | None]], ...] = (
    (names.RECOVERY_POINTS, lambda log: log.recovery_point),
    (names.LOG_START_OFFSETS, _log_start_offset),
    (names.HIGH_WATERMARKS, lambda log: log.high_watermark),
    (names.CLEANER_OFFSETS, lambda log: log.compaction.cleaned_end),
)


class Standby:
    """A directory beside the one that a log is in, from which the next start may have to load the log: the copy that is
    about to take the log's place, and then the directory that the log has left. Checkpoint files speak of it as well.
    """

    __slots__ = ("directory", "is_left", "is_written", "log", "recovery_point")

    def __init__(self, log: PartitionLog, directory: Path, recovery_point: int, *, is_left: bool) -> None:
        self.log = log
        self.directory = directory  # the data directory
        self.recovery_point = recovery_point
        self.is_left = is_left
        self.is_written = False  # a checkpoint that speaks of it is durable; set in the thread that writes

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
        """Without logs that were deleted since they were added: a new log of the same name must not be taken for one
        that is durable so far. What is durable of a log that has changed its directory since is taken again.
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
    """Like `Flush`: each file costs an fsync, which the event loop must not wait for. What fails is kept in `failures`
    for the owner, who looks at it before the next write, and does not stop the other directories.
    """

    __slots__ = ("_files", "_is_encoded", "_metadata_number", "_rows", "_standbys", "_written", "contents", "failures")

    def __init__(
        self,
        files: Files,
        capture: CheckpointCapture,
        written: dict[Path, dict[str, bytes]],
        standbys: Sequence[Standby] = (),
        metadata_number: int = 0,
    ) -> None:
        """`written`: of each data directory that is online, what its files hold as far as is known. `metadata_number`
        is noted beside; 0 is not.
        """
        self._files = files
        self._metadata_number = metadata_number
        self._standbys = standbys
        self._rows = [*capture.rows, *(standby.row() for standby in standbys)]
        self._written = written
        self._is_encoded = False
        self.contents: list[CheckpointContent] = []  # the files that no longer say what is true, after `encode`
        self.failures: dict[Path, OSError] = {}

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
