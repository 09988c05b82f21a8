"""The leader epochs of a partition together with their file, `leader-epoch-checkpoint`.

The epochs decide in memory (`leader_epochs`). This module decides when the file must follow, and how durably.
"""

from __future__ import annotations

import threading
from typing import NamedTuple

from penstock.log.formats import names
from penstock.log.state.leader_epochs import LeaderEpochs
from penstock.log.storage.files import Files


class EpochWrite(NamedTuple):
    """The leader epochs after a number of changes; no content when the file has them already."""

    content: bytes | None
    change_count: int
    # The file holds nothing that a power failure must not take.
    is_first: bool
    path: str


class EpochFile:
    """After a crash, recovery finds entries at or past the recovery point again in the batches, and entries before the
    log start do no harm. So a change need not be on disk before the recovery point passes it:

    - A new entry goes to memory alone, since the append that brings it runs on the event loop. The next flush writes
      the file, durably and in a thread, before it raises the recovery point.
    - A truncation writes and syncs the file at once: a crash must not bring the entries back.

    A flush may write in its thread during a truncation. The lock lets one of them write at a time. The count of changes
    keeps the file from going back to the flush's capture from before the truncation.
    """

    __slots__ = ("_change_count", "_files", "_lock", "_path", "_written_count", "epochs", "is_current")

    def __init__(self, files: Files, directory: str, epochs: LeaderEpochs, is_current: bool) -> None:
        self._files = files
        self._path = f"{directory}/{names.LEADER_EPOCHS}"
        self.epochs = epochs
        self.is_current = is_current
        self._change_count = 0
        self._lock = threading.Lock()  # for the file and the fields below:
        self._written_count = -1  # the number of changes in the file

    def assign(self, epoch: int, start_offset: int) -> None:
        """Call before the write of an epoch's first batch."""
        if epoch >= 0 and self.epochs.assign(epoch, start_offset):
            self._note_change()

    def begin(self, leader_epoch: int, end_offset: int) -> int:
        """A leader notes the begin of its epoch before it writes (KAFKA-7415): at the end of the log, unless the epoch
        has records already. Returns the offset.
        """
        if leader_epoch != self.epochs.latest:
            self.assign(leader_epoch, end_offset)
        return self.epochs.entries[-1].start_offset if self.epochs.latest == leader_epoch else end_offset

    def truncate_from_start(self, start_offset: int) -> None:
        if self.epochs.truncate_from_start(start_offset):
            self._note_change()

    def truncate_from_end(self, end_offset: int) -> None:
        """For callers that may block."""
        if self.epochs.truncate_from_end(end_offset):
            self._note_change()
            self.write(EpochWrite(self.epochs.encode(), self._change_count, is_first=False, path=self._path))
            self.is_current = True

    def forget_empty(self, end_offset: int) -> None:
        """A leader that has become a follower forgets epochs without records. In memory alone: an entry that a crash
        brings back begins at the end of the log, and is removed when the log is opened.
        """
        if self.epochs.truncate_from_end(end_offset):
            self._note_change()

    def relocate(self, directory: str) -> None:
        """The next flush writes a file in another directory. A running flush writes in the old directory."""
        self._path = f"{directory}/{names.LEADER_EPOCHS}"
        self._note_change()

    def _note_change(self) -> None:
        self._change_count += 1
        self.is_current = False

    def capture(self, recovery_point: int) -> EpochWrite:
        """The write for a flush."""
        if self.is_current:
            return EpochWrite(None, self._change_count, False, self._path)
        is_first = all(entry.start_offset >= recovery_point for entry in self.epochs.entries)
        return EpochWrite(self.epochs.encode(), self._change_count, is_first, self._path)

    def write(self, captured: EpochWrite) -> None:
        """In any thread."""
        if captured.content is None:
            return
        with self._lock:
            if captured.change_count <= self._written_count:
                return
            self._files.write_atomically(captured.path, captured.content, sync=not captured.is_first)
            if captured.is_first:
                self._files.sync_file(captured.path)
            self._written_count = captured.change_count

    def mark_flushed(self, captured: EpochWrite) -> None:
        """The captured epochs are on disk."""
        if captured.change_count == self._change_count:
            self.is_current = True
