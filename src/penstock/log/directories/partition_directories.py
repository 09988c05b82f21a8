"""Directories of new and deleted partitions, captured on the owner's thread and made or renamed in any thread.

Like `Flush`: the creation or rename of a directory waits for the file system's journal, and a rename that a power
failure must not undo needs an fsync. Errors are kept for the owner, who takes directories offline.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from penstock.core.log_settings import LogSettings
from penstock.core.types import TopicId, TopicPartition
from penstock.log.directories.namesakes import Mark, Named, new_mark
from penstock.log.directories.placement import rank_directories
from penstock.log.formats import names
from penstock.log.formats.metadata_files import encode_partition_metadata
from penstock.log.storage.files import NOT_BROKEN, PASSING, Files

logger = logging.getLogger(__name__)

_SUFFIXES = (names.LOG, names.OFFSET_INDEX, names.TIME_INDEX)  # of the first segment


class Retired(NamedTuple):
    """A deleted partition: its directory, its new name, and the time at which its files may be removed; None: never."""

    directory: Path
    target: Path
    due_ms: int | None
    named: Named

    @classmethod
    def of(cls, directory: Path, topic_partition: TopicPartition, due_ms: int | None) -> Retired:
        name = names.retired_directory(topic_partition, is_kept=due_ms is None)
        return cls(directory, directory.with_name(name), due_ms, Named(directory.parent, topic_partition))


class DirectoryRenames:
    """Renames the directories of deleted partitions out of the way. Once `run` has returned, their names may be used
    again: otherwise a power failure that brought an old directory back would put it in the new one's place.
    """

    def __init__(self, files: Files, retired: Sequence[Retired]) -> None:
        self._files = files
        self._retired = retired
        self.renamed: list[Retired] = []
        self.failures: dict[Path, str] = {}

    def run(self) -> None:
        for each in self._retired:
            try:
                self._files.rename(each.directory, each.target)
            except OSError as error:
                self.failures[each.directory.parent] = f"deleting {each.directory.name} failed: {error}"
            else:
                self.renamed.append(each)
        for parent in dict.fromkeys(each.directory.parent for each in self.renamed):
            try:
                self._files.sync_directory(parent)
            except OSError as error:
                if error.errno in PASSING:
                    # The next rename in the directory makes these durable, too.
                    logger.warning("deleted partitions of %s may come back after a power failure: %s", parent, error)
                else:
                    self.failures[parent] = f"deleting partitions failed: {error}"


class DirectoryRemoval:
    """Removes directories of partitions that were made for an abandoned change. If a failing disk keeps one, the next
    start removes it, because its metadata does not know the partition.
    """

    def __init__(self, files: Files, directories: Sequence[Path]) -> None:
        self._files = files
        self._directories = directories

    def run(self) -> None:
        for directory in self._directories:
            remove_quietly(self._files, str(directory))


class NewPartition(NamedTuple):
    topic_partition: TopicPartition
    topic_id: TopicId
    preallocated_size: int = 0  # of the first segment

    @classmethod
    def of(cls, topic_partition: TopicPartition, topic_id: TopicId, settings: LogSettings) -> NewPartition:
        return cls(topic_partition, topic_id, settings.segment_bytes if settings.preallocate else 0)


class FailedCreation(NamedTuple):
    directory: Path
    reason: str
    is_of_disk: bool  # caused by the disk, and not by a full disk or a lack of descriptors


class Made(NamedTuple):
    directory: Path  # the data directory
    marks: Sequence[Mark]


class DirectoryCreation:
    """Makes the directories of new partitions, each in the best data directory that takes it. The query of a hanging
    disk's free space hangs, so a thread makes it.
    """

    def __init__(
        self,
        files: Files,
        wanted: Sequence[NewPartition],
        counts: Mapping[Path, int],
        preferred: Mapping[TopicPartition, Path],
        namesakes: Collection[Named] = (),
    ) -> None:
        """`counts` has the number of partitions in each usable data directory. Those of `namesakes` get a mark."""
        self._files = files
        self._wanted = wanted
        self._counts = dict(counts)
        self._preferred = preferred
        self._namesakes = namesakes
        self.made: dict[TopicPartition, Made] = {}
        self.refused: dict[TopicPartition, str] = {}
        self.failures: list[FailedCreation] = []

    def run(self) -> None:
        failed: set[Path] = set()
        usable_bytes = self._measure() if len(self._counts) > 1 else {}
        for partition in self._wanted:
            reason = "every data directory is offline"
            candidates = rank_directories(self._counts, usable_bytes)
            preferred = self._preferred.get(partition.topic_partition)
            candidates.sort(key=lambda path, preferred=preferred: path != preferred)  # type: ignore[misc]
            for path in candidates:
                if path in failed:
                    continue
                named = Named(path, partition.topic_partition)
                mark = new_mark(named) if named in self._namesakes else None
                try:
                    make_partition_directory(self._files, path, partition, mark)
                except OSError as error:
                    reason = f"creating {partition.topic_partition} in {path} failed: {error}"
                    self.failures.append(FailedCreation(path, reason, error.errno not in NOT_BROKEN))
                    if error.errno not in NOT_BROKEN:
                        failed.add(path)
                else:
                    self.made[partition.topic_partition] = Made(path, () if mark is None else (mark,))
                    self._counts[path] += 1
                    break
            else:
                self.refused[partition.topic_partition] = reason

    def _measure(self) -> dict[Path, int]:
        usable_bytes = {}
        for path in self._counts:
            with contextlib.suppress(OSError):
                usable_bytes[path] = self._files.space(path).usable_bytes
        return usable_bytes


def make_partition_directory(
    files: Files, data_directory: Path, partition: NewPartition, mark: Mark | None = None
) -> None:
    """The directory with its owner's file and an empty first segment; or nothing and OSError."""
    directory = f"{data_directory}/{names.partition_directory(partition.topic_partition)}"
    files.make_directory(directory)  # an existing directory must not be removed
    try:
        if mark is not None:
            files.write_file(mark.path, b"")
        # Not synced, as the segment is not: a power failure that takes the file takes the topic's first records too,
        # and the broker's own metadata still has the id.
        files.write_file(f"{directory}/{names.PARTITION_METADATA}", encode_partition_metadata(partition.topic_id))
        make_first_segment(files, directory, preallocated_size=partition.preallocated_size)
    except OSError:
        # The next start would load half a partition as a whole one, and it would block the next attempt.
        _remove_new(files, directory, mark)
        raise


def make_first_segment(files: Files, directory: str, base_offset: int = 0, *, preallocated_size: int = 0) -> None:
    for suffix in _SUFFIXES:
        file = files.open(f"{directory}/{names.segment_file(base_offset, suffix)}", create=True)
        try:
            if suffix == names.LOG and preallocated_size:
                file.truncate(preallocated_size)
        finally:
            file.close()


def _remove_new(files: Files, directory: str, mark: Mark | None) -> None:
    """Removes by the names of the possible files: a process without descriptors cannot list a directory."""
    paths = [f"{directory}/{names.segment_file(0, suffix)}" for suffix in _SUFFIXES]
    if mark is not None:
        paths.append(mark.path)
    try:
        for path in (*paths, f"{directory}/{names.PARTITION_METADATA}"):
            files.unlink(path)
        files.remove_tree(directory)
    except OSError as error:
        logger.warning("cannot remove %s: %s", directory, error)


def remove_quietly(files: Files, path: str) -> None:
    try:
        files.remove_tree(path)
    except OSError as error:
        logger.warning("cannot remove %s: %s", path, error)
