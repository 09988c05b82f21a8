"""Logs with the name of a deleted log, while the checkpoint files may still have the deleted log's entry.

The entry of a deleted log stays in the checkpoint files until they are written again, and its name may be in use before
that. After a crash a start would take such a log for durable where nothing was synced, or drop it because it ends
before the other began. So it is created with a mark in its directory: for a log with a mark, a start believes no entry
of the checkpoint files. The mark is removed once files were written for this log. Each mark has a name of its own, so a
thread that removes a mark never removes that of the next log.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from penstock.core.types import TopicPartition
from penstock.log.formats import names
from penstock.log.partition_log import PartitionLog


class Named(NamedTuple):
    """A name of a log in one data directory."""

    directory: Path
    topic_partition: TopicPartition


class Mark(NamedTuple):
    directory: Path  # the data directory
    path: str


def new_mark(named: Named) -> Mark:
    place = f"{named.directory}/{names.partition_directory(named.topic_partition)}"
    return Mark(named.directory, f"{place}/{names.namesake_mark()}")


def find_marks(data_directory: Path, directory: str, listing: Iterable[str]) -> list[Mark]:
    found = filter(names.is_namesake_mark, listing)
    return [Mark(data_directory, f"{directory}/{name}") for name in found]


class Namesakes:
    def __init__(self) -> None:
        self._gone: set[Named] = set()  # names in the checkpoint files whose logs are deleted
        self._gone_before: set[Named] = set()  # those that leave the files being written
        self._marks: dict[PartitionLog, Sequence[Mark]] = {}

    def note_gone(self, names_of_logs: Iterable[Named]) -> None:
        self._gone.update(names_of_logs)

    def among(self, directories: Iterable[Path], wanted: Iterable[TopicPartition]) -> set[Named]:
        """The logs that would get the name of a deleted log, if they were created in these data directories."""
        if not self._gone and not self._gone_before:
            return set()
        named = {Named(path, topic_partition) for topic_partition in wanted for path in directories}
        return named & (self._gone | self._gone_before)

    def add(self, log: PartitionLog, marks: Sequence[Mark]) -> None:
        if marks:
            self._marks[log] = marks

    def forget(self, log: PartitionLog) -> None:
        self._marks.pop(log, None)

    def begin(self, written: Iterable[PartitionLog]) -> list[Mark]:
        """The write of the files for these logs begins. Returns the marks that may be removed afterwards."""
        self._gone, self._gone_before = set(), self._gone
        return [mark for log in written for mark in self._marks.get(log, ())] if self._marks else []

    def settle(self, failed: Iterable[Path], removed: Iterable[Mark]) -> None:
        """The files were written, except for those of the failed directories."""
        failed, removed = set(failed), set(removed)
        self._gone |= {each for each in self._gone_before if each.directory in failed}
        self._gone_before = set()
        if removed:
            left = {log: [mark for mark in marks if mark not in removed] for log, marks in self._marks.items()}
            self._marks = {log: marks for log, marks in left.items() if marks}
