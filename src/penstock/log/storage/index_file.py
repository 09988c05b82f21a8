"""The file of an index: the first entries of the index, one after the other, and nothing else.

An index only grows, so a write adds the entries that the file lacks. After a truncation or a rebuild of the index, the
file holds other entries and is written whole.
"""

from __future__ import annotations

from typing import Protocol

from penstock.log.formats import names
from penstock.log.storage.files import Files
from penstock.log.storage.indexes import OFFSET_ENTRY_SIZE, TIME_ENTRY_SIZE


class Entries(Protocol):
    def __len__(self) -> int: ...

    def encode(self, start: int = 0) -> bytes:
        """The entries from number `start` on."""


class IndexFile:
    __slots__ = ("_entry_size", "_files", "_is_synced", "_path", "_written")

    def __init__(self, files: Files, path: str, entry_size: int) -> None:
        self._files = files
        self._path = path
        self._entry_size = entry_size
        self._written: int | None = None  # the number of entries in the file; None when it holds others
        self._is_synced = False

    def read(self) -> bytes:
        return self._files.read_file(self._path)

    def note_read(self, entries: Entries) -> None:
        """`entries` are the file's content, as it was found on disk."""
        self._written = len(entries)
        self._is_synced = True

    def note_empty(self) -> None:
        """The file was made and is empty: only its name can be lost."""
        self._written = 0
        self._is_synced = True

    def relocate(self, path: str, written: int | None) -> None:
        """`written` is the number of entries in the file there; None when it is unknown."""
        self._path, self._written, self._is_synced = path, written, False

    def is_empty(self) -> bool:
        """Whether the file on disk is empty. False when there is no file."""
        try:
            return self._files.size(self._path) == 0
        except FileNotFoundError:
            return False

    def note_replaced(self) -> None:
        """The file no longer holds the beginning of the index."""
        self._written = None

    def write(self, entries: Entries) -> None:
        """Afterwards the file holds all of `entries`. After an OSError the next call writes the same ones again.

        Costs 10 us for a few entries, most of it for the open and close of the file: segments that are read need
        descriptors more.
        """
        written = self._written
        if written == len(entries):
            return
        self._is_synced = False
        if written is None or not self._append(entries.encode(written), self._entry_size * written):
            self._written = None  # should the write fail, the file holds less than it did
            self._files.write_file(self._path, entries.encode())
        self._written = len(entries)

    def _append(self, data: bytes, position: int) -> bool:
        """False when another program has removed the file."""
        try:
            file = self._files.open(self._path)
        except FileNotFoundError:
            return False
        try:
            file.write((data,), position, len(data))
        finally:
            file.close()
        return True

    @property
    def unsynced_path(self) -> str | None:
        """None when the content of the file is durable."""
        return None if self._is_synced else self._path


class IndexFiles:
    """The files of both indexes of one segment."""

    __slots__ = ("offsets", "times")

    def __init__(self, files: Files, path: str) -> None:
        """`path` is the path of the segment, without a suffix."""
        self.offsets = IndexFile(files, path + names.OFFSET_INDEX, OFFSET_ENTRY_SIZE)
        self.times = IndexFile(files, path + names.TIME_INDEX, TIME_ENTRY_SIZE)

    def note_replaced(self) -> None:
        self.offsets.note_replaced()
        self.times.note_replaced()

    def note_empty(self) -> None:
        self.offsets.note_empty()
        self.times.note_empty()

    def are_empty(self) -> bool:
        return self.offsets.is_empty() and self.times.is_empty()

    def unsynced_paths(self) -> list[str]:
        """The files that were written and may not be durable yet."""
        paths = (self.offsets.unsynced_path, self.times.unsynced_path)
        return [path for path in paths if path is not None]

    def relocate(self, path: str, counts: tuple[int, int] | None) -> None:
        """The files lie elsewhere, with these numbers of entries."""
        offset_count, time_count = counts or (None, None)
        self.offsets.relocate(path + names.OFFSET_INDEX, offset_count)
        self.times.relocate(path + names.TIME_INDEX, time_count)
