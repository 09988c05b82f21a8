"""The directories of partitions that come and go, captured on the owner's thread and made or renamed in any.

Like `Flush`: making or renaming a directory waits for the file system's journal, and a rename that must not be undone
by a power failure needs an fsync. What fails is kept for the owner, who takes directories offline.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from penstock.core.log_settings import LogSettings
from penstock.core.types import TopicId, TopicPartition
from penstock.log.formats import names
from penstock.log.formats.metadata_files import encode_partition_metadata
from penstock.log.storage.files import FULL_DISK, Files

logger = logging.getLogger(__name__)


class Retired(NamedTuple):
    """A partition that is deleted: its directory, the name it gets, and when its files may go; None: never."""

    directory: Path
    target: Path
    due_ms: int | None


class DirectoryRenames:
    """Renames the directories of deleted partitions out of the way. Once `run` has returned, their names may be used
    again: a power failure that brought an old directory back would put it in the new one's place.
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
                self.failures[parent] = f"deleting partitions failed: {error}"


class DirectoryRemoval:
    """Removes the directories of partitions that were made for a change that was not made. One that a failing disk
    keeps is removed by the next start, whose metadata does not know the partition.
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
    is_disk_full: bool


class DirectoryCreation:
    """Makes the directories of new partitions, each in the first data directory that takes it."""

    def __init__(self, files: Files, wanted: Sequence[tuple[NewPartition, Sequence[Path]]]) -> None:
        self._files = files
        self._wanted = wanted
        self.made: dict[TopicPartition, Path] = {}  # the data directory
        self.refused: dict[TopicPartition, str] = {}
        self.failures: list[FailedCreation] = []

    def run(self) -> None:
        failed: set[Path] = set()
        for partition, candidates in self._wanted:
            reason = "every data directory is offline"
            for path in candidates:
                if path in failed:
                    continue
                try:
                    make_partition_directory(self._files, path, partition)
                except OSError as error:
                    reason = f"creating {partition.topic_partition} in {path} failed: {error}"
                    self.failures.append(FailedCreation(path, reason, error.errno in FULL_DISK))
                    if error.errno not in FULL_DISK:
                        failed.add(path)
                else:
                    self.made[partition.topic_partition] = path
                    break
            else:
                self.refused[partition.topic_partition] = reason


def make_partition_directory(files: Files, data_directory: Path, partition: NewPartition) -> None:
    """The directory, whose it is, and an empty first segment; or nothing and OSError."""
    directory = f"{data_directory}/{names.partition_directory(partition.topic_partition)}"
    files.make_directory(directory)  # what is there already is not ours to remove
    try:
        # Not synced, as the segment is not: a power failure that takes it takes the topic's first records too, and
        # the broker's own metadata still knows the id.
        files.write_file(f"{directory}/{names.PARTITION_METADATA}", encode_partition_metadata(partition.topic_id))
        make_first_segment(files, directory, preallocated_size=partition.preallocated_size)
    except OSError:
        # Half a partition would be loaded as a whole one by the next start.
        remove_quietly(files, directory)
        raise


def make_first_segment(files: Files, directory: str, base_offset: int = 0, *, preallocated_size: int = 0) -> None:
    for suffix in (names.LOG, names.OFFSET_INDEX, names.TIME_INDEX):
        file = files.open(f"{directory}/{names.segment_file(base_offset, suffix)}", create=True)
        try:
            if suffix == names.LOG and preallocated_size:
                file.truncate(preallocated_size)
        finally:
            file.close()


def remove_quietly(files: Files, path: str) -> None:
    try:
        files.remove_tree(path)
    except OSError as error:
        logger.warning("cannot remove %s: %s", path, error)
