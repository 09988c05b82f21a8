"""Leader epochs together with the file that keeps them."""

from __future__ import annotations

from penstock.log.formats import names
from penstock.log.state.leader_epochs import LeaderEpochs
from penstock.log.storage.files import Files


class EpochFile:
    """Entries at or past the recovery point are found again in the batches after a crash. So the file is synced at once
    only when it also holds older ones, otherwise with the next flush: a new partition begins without an fsync.
    """

    __slots__ = ("_files", "epochs", "is_current", "is_synced", "path")

    def __init__(self, files: Files, directory: str, epochs: LeaderEpochs, is_current: bool) -> None:
        self._files = files
        self.path = f"{directory}/{names.LEADER_EPOCHS}"
        self.epochs = epochs
        self.is_current = is_current
        self.is_synced = True

    def assign(self, epoch: int, start_offset: int, recovery_point: int) -> None:
        """Before the first batch of an epoch is written."""
        if epoch >= 0 and self.epochs.assign(epoch, start_offset):
            self.write(recovery_point)

    def truncate_from_start(self, start_offset: int, recovery_point: int) -> None:
        if self.epochs.truncate_from_start(start_offset):
            self.write(recovery_point)

    def truncate_from_end(self, end_offset: int, recovery_point: int) -> None:
        if self.epochs.truncate_from_end(end_offset):
            self.write(recovery_point)

    def write(self, recovery_point: int) -> None:
        must_sync = any(entry.start_offset < recovery_point for entry in self.epochs.entries)
        self._files.write_atomically(self.path, self.epochs.encode(), sync=must_sync)
        self.is_current = True
        self.is_synced = must_sync
