"""The leader epochs of a partition together with their file, `leader-epoch-checkpoint`.

The epochs decide in memory (`leader_epochs`). This module decides when the file must follow, and how durably.
"""

from __future__ import annotations

from penstock.log.formats import names
from penstock.log.state.leader_epochs import LeaderEpochs
from penstock.log.storage.files import Files


class EpochFile:
    """Entries at or past the recovery point are found again in the batches after a crash, and those before the log
    start do no harm. So a change need not be on disk before the recovery point passes it:

    - A file without older entries is written at once and synced by the next flush: a new partition begins without an
      fsync.
    - A file with older entries is left as it is until the next flush writes it, durably and in a thread. Written at
      once it would need an fsync on the event loop, or a power failure could take the older entries.
    - What is cut off the end is written and synced at once: a crash must not bring the entries back.
    """

    __slots__ = ("_files", "change_count", "epochs", "is_current", "is_synced", "path")

    def __init__(self, files: Files, directory: str, epochs: LeaderEpochs, is_current: bool) -> None:
        self._files = files
        self.path = f"{directory}/{names.LEADER_EPOCHS}"
        self.epochs = epochs
        self.is_current = is_current
        self.is_synced = True
        self.change_count = 0

    def assign(self, epoch: int, start_offset: int, recovery_point: int) -> None:
        """Before the first batch of an epoch is written."""
        if epoch >= 0 and self.epochs.assign(epoch, start_offset):
            self._note_change(recovery_point)

    def truncate_from_start(self, start_offset: int, recovery_point: int) -> None:
        if self.epochs.truncate_from_start(start_offset):
            self._note_change(recovery_point)

    def truncate_from_end(self, end_offset: int, recovery_point: int) -> None:
        if self.epochs.truncate_from_end(end_offset):
            self.write(recovery_point)

    def _note_change(self, recovery_point: int) -> None:
        if self.is_current and not self._has_entries_before(recovery_point):
            self.write(recovery_point)
            return
        # A flush that runs now may be writing the file: until one has written all changes, only flushes write.
        self.change_count += 1
        self.is_current = self.is_synced = False

    def write(self, recovery_point: int) -> None:
        """For callers that may block."""
        must_sync = self._has_entries_before(recovery_point)
        self._files.write_atomically(self.path, self.epochs.encode(), sync=must_sync)
        self.change_count += 1
        self.is_current = True
        self.is_synced = must_sync

    def mark_flushed(self, change_count: int) -> None:
        """What was true after so many changes is on disk."""
        if change_count == self.change_count:
            self.is_current = self.is_synced = True

    def _has_entries_before(self, offset: int) -> bool:
        return any(entry.start_offset < offset for entry in self.epochs.entries)
