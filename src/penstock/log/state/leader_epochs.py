"""The offsets of each leader epoch (KIP-101): epochs with the offset each began at, both growing."""

from __future__ import annotations

import logging
from bisect import bisect_right
from typing import NamedTuple

from penstock.core.types import NO_LEADER_EPOCH, NO_OFFSET
from penstock.log.formats.checkpoints import decode_lines, encode_lines

logger = logging.getLogger(__name__)


class EpochEntry(NamedTuple):
    epoch: int
    start_offset: int


class LeaderEpochs:
    __slots__ = ("entries", "latest")

    def __init__(self, entries: list[EpochEntry] | None = None) -> None:
        self.entries: list[EpochEntry] = []
        self.latest = NO_LEADER_EPOCH  # kept beside the list: the append path compares with it
        for entry in entries or []:
            self.assign(entry.epoch, entry.start_offset)

    def assign(self, epoch: int, start_offset: int) -> bool:
        """Returns whether anything changed. Drops entries that the new entry contradicts."""
        if self.entries and epoch == self.latest and start_offset >= self.entries[-1].start_offset:
            return False
        while self.entries and (self.entries[-1].epoch >= epoch or self.entries[-1].start_offset >= start_offset):
            self.entries.pop()
        self.entries.append(EpochEntry(epoch, start_offset))
        self.latest = epoch
        return True

    def end_offset_for(self, epoch: int, log_end_offset: int) -> tuple[int, int]:
        """(epoch, end offset) of the largest epoch not above the requested epoch; (-1, -1) when there is none."""
        if epoch == NO_LEADER_EPOCH or not self.entries or epoch > self.latest:
            return NO_LEADER_EPOCH, NO_OFFSET
        if epoch == self.latest:
            return epoch, log_end_offset
        higher = bisect_right(self.entries, epoch, key=lambda entry: entry.epoch)
        at_most = self.entries[higher - 1].epoch if higher else epoch
        return at_most, self.entries[higher].start_offset

    def epoch_for_offset(self, offset: int) -> int:
        slot = bisect_right(self.entries, offset, key=lambda entry: entry.start_offset) - 1
        return self.entries[slot].epoch if slot >= 0 else NO_LEADER_EPOCH

    def truncate_from_end(self, end_offset: int) -> bool:
        """Drops the epochs that began at or after `end_offset`; returns whether there were any."""
        before = len(self.entries)
        while self.entries and self.entries[-1].start_offset >= end_offset:
            self.entries.pop()
        self.latest = self.entries[-1].epoch if self.entries else NO_LEADER_EPOCH
        return len(self.entries) != before

    def truncate_from_start(self, start_offset: int) -> bool:
        """Forgets the epochs that ended before `start_offset`; the epoch that covers it now begins there."""
        covered = bisect_right(self.entries, start_offset, key=lambda entry: entry.start_offset)
        if covered == 0 or (covered == 1 and self.entries[0].start_offset == start_offset):
            return False
        self.entries[:covered] = [EpochEntry(self.entries[covered - 1].epoch, start_offset)]
        return True

    def encode(self) -> bytes:
        return encode_lines([f"{entry.epoch} {entry.start_offset}" for entry in self.entries])

    @classmethod
    def decode(cls, data: bytes) -> LeaderEpochs:
        """ValueError when the file has another format."""
        entries = []
        for line in decode_lines(data):
            epoch, start_offset = line.split(" ")
            entries.append(EpochEntry(int(epoch), int(start_offset)))
        return cls(entries)
