"""The files of a segment that a cleaning writes, and their installation in the log.

    .cleaned  being written; a start removes them
    .swap     complete and synced; the rename of the `.log`, last of all, makes the replacement final: a start that
              finds it completes it
    no suffix in use

The replaced segments are renamed to .deleted in between, and the `.log` loses its .swap first, so that a start can
complete or undo the replacement at every step (swap_files).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from penstock.core.types import NO_TIMESTAMP, Buffer
from penstock.log.formats import names
from penstock.log.state.transaction_index import AbortedTransaction, TransactionIndex
from penstock.log.storage.files import Files
from penstock.log.storage.indexes import OffsetIndex, TimeIndex
from penstock.protocol.batch import read_header

_BUFFER_SIZE = 512 * 1024
# One sync of a gigabyte would make every other fsync on the disk wait for it.
_SYNC_INTERVAL = 16 * 1024 * 1024


class Replacement(NamedTuple):
    """A cleaned segment that is ready to replace the segments that begin at `replaced`."""

    directory: str
    base_offset: int
    size: int
    replaced: tuple[int, ...]
    suffixes: tuple[str, ...]

    def path(self, suffix: str) -> str:
        return f"{self.directory}/{names.segment_file(self.base_offset, suffix)}"

    def commit(self, files: Files) -> None:
        """From .cleaned to .swap, for good once this has returned. Any thread may call this."""
        for suffix in (*self.suffixes[1:], names.LOG):
            files.rename(self.path(suffix) + names.CLEANED, self.path(suffix) + names.SWAP)
        files.sync_directory(self.directory)

    def install(self, files: Files) -> None:
        """From .swap to the final names. The replaced segments have given up theirs."""
        for suffix in self.suffixes:
            files.rename(self.path(suffix) + names.SWAP, self.path(suffix))


class CleanedSegment:
    """Written front to back, with its indexes; `finish` makes it durable."""

    def __init__(self, files: Files, directory: str, base_offset: int, index_interval_bytes: int) -> None:
        self._files = files
        self._directory = directory
        self._base_offset = base_offset
        self._interval_bytes = index_interval_bytes
        self._offset_index = OffsetIndex(base_offset)
        self._time_index = TimeIndex(base_offset)
        self._newest = (NO_TIMESTAMP, base_offset)
        self._newest_emptied = self._newest
        self._bytes_since_entry = 0
        self._bytes_since_sync = 0
        self._pending: list[Buffer] = []
        self._pending_size = 0
        self._written = 0
        files.unlink(self._path(names.LOG))  # a leftover would show through where the new file is shorter
        self._file = files.open(self._path(names.LOG), create=True)

    def _path(self, suffix: str) -> str:
        return f"{self._directory}/{names.segment_file(self._base_offset, suffix)}{names.CLEANED}"

    @property
    def size(self) -> int:
        return self._written + self._pending_size

    def append(self, batch: Buffer) -> None:
        """The indexes are those of `Segment.note_batch`, except that the time of a batch without records is not
        searched, and so counts only where there is no other.
        """
        header, position = read_header(batch), self.size
        last_offset = header.last_offset
        if header.record_count == 0:
            self._newest_emptied = max(self._newest_emptied, (header.max_timestamp, last_offset))
        elif header.max_timestamp > self._newest[0]:
            self._newest = (header.max_timestamp, last_offset)
        if self._bytes_since_entry > self._interval_bytes:
            self._offset_index.append(last_offset, position)
            self._time_index.append(*self._newest)
            self._bytes_since_entry = 0
        self._bytes_since_entry += len(batch)
        self._pending.append(batch)
        self._pending_size += len(batch)
        if self._pending_size >= _BUFFER_SIZE:
            self._write()

    def _write(self) -> None:
        data = b"".join(self._pending)
        self._file.write((data,), self._written, len(data))
        self._written += len(data)
        self._pending, self._pending_size = [], 0
        self._bytes_since_sync += len(data)
        if self._bytes_since_sync >= _SYNC_INTERVAL:
            self._file.sync()
            self._bytes_since_sync = 0

    def finish(self, replaced: Sequence[int], aborted: Iterable[AbortedTransaction], modified_ms: int) -> Replacement:
        """Everything but its name is on disk afterwards."""
        self._write()
        self._file.sync()
        self._file.close()
        self._time_index.append(*(self._newest if self._newest[0] >= 0 else self._newest_emptied))
        contents = {names.OFFSET_INDEX: self._offset_index.encode(), names.TIME_INDEX: self._time_index.encode()}
        transactions = TransactionIndex(self._base_offset)
        for each in aborted:
            transactions.append(each)
        if len(transactions):
            contents[names.TRANSACTION_INDEX] = transactions.encode()
        for suffix, content in contents.items():
            self._files.write_file(self._path(suffix), content, sync=True)
        self._files.set_modified_ms(self._path(names.LOG), modified_ms)
        return Replacement(self._directory, self._base_offset, self._written, tuple(replaced), (names.LOG, *contents))

    def discard(self) -> None:
        """Discards an unused segment. A committed replacement has other names and stays. This must succeed before the
        commit of another replacement (see `remove_leftovers`).
        """
        self._file.close()
        for suffix in names.SEGMENT_SUFFIXES:
            self._files.unlink(self._path(suffix))


def remove_leftovers(files: Files, directory: str) -> None:
    """Removes files that an earlier cleaning could not remove: beside a later .swap they would make a start discard
    that.
    """
    for name in files.list_names(directory):
        if name.endswith(names.CLEANED):
            files.unlink(f"{directory}/{name}")
