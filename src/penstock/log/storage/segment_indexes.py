"""The offset index and the time index of one segment: in memory, on disk, and checked against the log.

- The indexes of the active segment are writable and stay in memory. Their files lie beside the log from the first batch
  on and hold the entries up to the last `write_entries`, which housekeeping calls every second: no append waits for
  them. The files hold entries alone, without the zeros that Kafka preallocates.
- Only a start after a clean shutdown, which left them complete and durable, reads the files of an active segment. After
  any other end they may be behind the log, or ahead of it, or torn: recovery writes them again.
- The indexes of a sealed segment are read from their files when a search needs them. The index cache may evict them.
- An index has no checksum. A missing or impossible file, and an entry that leads to no batch, cost a pass over the
  headers of the log: the indexes are rebuilt and written.
"""

from __future__ import annotations

import logging
from typing import NamedTuple

from penstock.core.log_settings import LogSettings
from penstock.core.types import NO_TIMESTAMP
from penstock.log.formats import names
from penstock.log.storage.index_file import IndexFiles
from penstock.log.storage.indexes import (
    OFFSET_ENTRY_SIZE,
    TIME_ENTRY_SIZE,
    CorruptIndexError,
    OffsetIndex,
    TimeIndex,
)
from penstock.log.storage.open_files import LogFile
from penstock.log.storage.scan import CorruptLogError, parse_header, scan_headers
from penstock.protocol.batch import HEADER_SIZE

logger = logging.getLogger(__name__)


class IndexEntries(NamedTuple):
    """The last entries of both indexes as their files have them, and the number of entries before them."""

    offset_start: int
    offsets: bytes
    time_start: int
    times: bytes

    @property
    def counts(self) -> tuple[int, int]:
        """The number of entries in the files with these."""
        return (
            self.offset_start + len(self.offsets) // OFFSET_ENTRY_SIZE,
            self.time_start + len(self.times) // TIME_ENTRY_SIZE,
        )


class SegmentIndexes:
    """Calls that may have to read the log take `log_size`, the number of its bytes in batches."""

    __slots__ = (
        "_interval_bytes",
        "_log_file",
        "_max_offset_entries",
        "_max_time_entries",
        "_offset_index",
        "_resources",
        "_time_index",
        "are_full",
        "base_offset",
        "bytes_since_entry",
        "files",
        "has_unwritten",
        "is_writable",
        "max_timestamp",
        "offset_of_max_timestamp",
        "recently_used",
    )

    def __init__(self, log_file: LogFile, base_offset: int, settings: LogSettings) -> None:
        self.base_offset = base_offset
        self.is_writable = False
        self.are_full = False
        self.recently_used = False
        self.bytes_since_entry = 0
        # The newest record so far. For a sealed segment the time index has it: see `newest`.
        self.max_timestamp = NO_TIMESTAMP
        self.offset_of_max_timestamp = base_offset
        self._log_file = log_file
        self._resources = log_file.resources
        self._interval_bytes = settings.index_interval_bytes
        self._max_offset_entries = settings.segment_index_bytes // OFFSET_ENTRY_SIZE
        self._max_time_entries = settings.segment_index_bytes // TIME_ENTRY_SIZE
        self._offset_index: OffsetIndex | None = None
        self._time_index: TimeIndex | None = None
        self.has_unwritten = False
        self.files = IndexFiles(log_file.resources.files, log_file.path.removesuffix(names.LOG))

    # ---- grow

    def create(self) -> None:
        """Writable, without any entry, and with empty files."""
        self.start_empty()
        self.write_entries()

    def take_over_empty(self) -> None:
        """Writable, without any entry. The files were made before and are empty: the disk is not touched."""
        self.start_empty()
        self.files.note_empty()
        self.has_unwritten = False

    def start_empty(self) -> None:
        """Writable, without any entry."""
        self.is_writable = True
        self._clear()

    def _clear(self) -> None:
        self.bytes_since_entry = 0
        self.max_timestamp = NO_TIMESTAMP
        self.offset_of_max_timestamp = self.base_offset
        self._offset_index = OffsetIndex(self.base_offset)
        self._time_index = TimeIndex(self.base_offset)
        self._note_fullness()
        self._replace_files()

    def _replace_files(self) -> None:
        """The files do not hold the beginning of the indexes any more."""
        self.files.note_replaced()
        self.has_unwritten = True

    def note_batch(self, position: int, size: int, last_offset: int, max_timestamp: int) -> None:
        """Takes in a batch that stands at `position`, after all earlier batches."""
        if max_timestamp > self.max_timestamp:
            self.max_timestamp = max_timestamp
            self.offset_of_max_timestamp = last_offset
        if self.bytes_since_entry > self._interval_bytes:
            assert self._offset_index is not None
            assert self._time_index is not None
            self._offset_index.append(last_offset, position)
            self._time_index.append(self.max_timestamp, self.offset_of_max_timestamp)
            self.bytes_since_entry = 0
            self.has_unwritten = True
            self._note_fullness()
        self.bytes_since_entry += size

    def note_newest(self, max_timestamp: int, last_offset: int) -> None:
        """Takes in the time of a batch whose entry, if it has one, is in the index already."""
        if max_timestamp > self.max_timestamp:
            self.max_timestamp, self.offset_of_max_timestamp = max_timestamp, last_offset

    def add_final_time_entry(self) -> None:
        """Adds an entry for the newest record, so that the time index alone shows the age of the segment."""
        assert self._time_index is not None
        before = len(self._time_index)
        self._time_index.append(self.max_timestamp, self.offset_of_max_timestamp)
        self.has_unwritten |= len(self._time_index) > before

    def _note_fullness(self) -> None:
        """The time index keeps one slot for the entry that the seal adds.

        Costs 0.1 us for each entry, which is each batch of 5 KB. Kept as an attribute, since every append reads it.
        Tried: the lengths of the indexes at each append (0.3 us). Shown by the produce rows of `make bench`.
        """
        assert self._offset_index is not None
        assert self._time_index is not None
        self.are_full = (
            len(self._offset_index.offsets) >= self._max_offset_entries
            or len(self._time_index.offsets) >= self._max_time_entries - 1
        )

    # ---- find

    def find_start(self, offset: int, log_size: int) -> int:
        """The position of a batch that begins at or before `offset`.

        Checks the batch behind the entry first (2 us): a damaged index would pass over records, or condemn a sound log,
        and is rebuilt instead.
        """
        position = self.offset_index(log_size).lookup(offset)
        if position and not self._is_batch_before(position, offset, log_size):
            logger.warning(
                "rebuilding the indexes of %s: the entry for offset %d is wrong", self._log_file.path, offset
            )
            self._rebuild(log_size)
            position = self.offset_index(log_size).lookup(offset)
        return position

    def _is_batch_before(self, position: int, offset: int, log_size: int) -> bool:
        if not 0 <= position < log_size:
            return False
        file = self._log_file.get()
        try:
            header = parse_header(file.read(position, HEADER_SIZE), 0, position, log_size, file.path)
        except CorruptLogError:
            return False
        return self.base_offset <= header.base_offset <= offset

    def offset_index(self, log_size: int) -> OffsetIndex:
        self.recently_used = True
        if self._offset_index is None:
            self._load(log_size)
        assert self._offset_index is not None
        return self._offset_index

    def time_index(self, log_size: int) -> TimeIndex:
        self.recently_used = True
        if self._time_index is None:
            self._load(log_size)
        assert self._time_index is not None
        return self._time_index

    def newest(self, log_size: int) -> tuple[int, int]:
        """The newest record's timestamp and the last offset of its batch; (-1, base offset) when no record has one."""
        if self.max_timestamp == NO_TIMESTAMP and not self.is_writable and log_size:
            self.max_timestamp, self.offset_of_max_timestamp = self.time_index(log_size).last_entry()
        return self.max_timestamp, self.offset_of_max_timestamp

    # ---- files

    def _load(self, log_size: int) -> None:
        """Loads from their files; from the log itself when a file is missing or impossible."""
        try:
            self._offset_index = OffsetIndex.decode(self.base_offset, self.files.offsets.read(), log_size)
            self._time_index = TimeIndex.decode(self.base_offset, self.files.times.read())
            if log_size and not len(self._time_index):
                # The seal adds the newest record's time, so only a log without any timestamp has none; searches by time
                # and retention would otherwise pass over the segment.
                raise CorruptIndexError("the time index is empty and the log is not")
            self.files.offsets.note_read(self._offset_index)
            self.files.times.note_read(self._time_index)
            self.has_unwritten = False
        except (FileNotFoundError, CorruptIndexError) as error:
            logger.warning("rebuilding the indexes of %s: %s", self._log_file.path, error)
            self._rebuild(log_size)
        if not self.is_writable:
            self._resources.indexes.add(self, _size_of(self._offset_index, self._time_index))

    def _rebuild(self, log_size: int) -> None:
        """From headers only; the batches are taken to be sound."""
        self._clear()
        try:
            for position, header in scan_headers(self._log_file.get(), 0, log_size):
                self.note_batch(position, header.size, header.last_offset, header.max_timestamp)
        except (OSError, CorruptLogError):
            self.evict()  # half an index would pass over records
            raise
        self.add_final_time_entry()
        self.write_entries()

    def write_entries(self) -> None:
        """Updates the files. The offsets go first: a reader of a running broker's files looks up there the offsets in
        the time index. After an OSError the next call writes the missing entries.
        """
        if self.has_unwritten:
            assert self._offset_index is not None
            assert self._time_index is not None
            self.files.offsets.write(self._offset_index)
            self.files.times.write(self._time_index)
            self.has_unwritten = False

    # ---- change hands

    def encode_from(self, offset_start: int, time_start: int) -> IndexEntries:
        """The new entries in the indexes of an active segment, for a copy of its files."""
        assert self._offset_index is not None
        assert self._time_index is not None
        return IndexEntries(
            offset_start, self._offset_index.encode(offset_start), time_start, self._time_index.encode(time_start)
        )

    def end_offset_before(self, position: int) -> int:
        """An offset up to which all batches end before `position`, as far as memory has it. The disk is not touched."""
        return self.base_offset if self._offset_index is None else self._offset_index.end_offset_before(position)

    def open(self, log_size: int) -> int:
        """Makes them writable; returns the position of the last entry. Batches from there on are for `note_newest`."""
        self.is_writable = True
        self._resources.indexes.remove(self)
        if log_size == 0:
            if self.files.are_empty():
                self.take_over_empty()
            else:
                self.create()
            return 0
        start = self.offset_index(log_size).last_position()
        self.max_timestamp, self.offset_of_max_timestamp = self.time_index(log_size).last_entry()
        self.bytes_since_entry = log_size - start
        self._note_fullness()
        self.write_entries()  # recovery has rebuilt them
        return start

    def truncate(self, offset: int, log_size: int) -> None:
        """Drops the entries at and past `offset`. The log still has the `log_size` bytes of the entries; `open` must
        follow when it is cut.
        """
        offset_index, time_index = self.offset_index(log_size), self.time_index(log_size)
        self.is_writable = True
        self._resources.indexes.remove(self)
        offset_index.truncate(offset)
        time_index.truncate(offset)
        self._replace_files()

    def seal(self, log_size: int) -> None:
        """No batch follows: the files get the missing entries."""
        self.newest(log_size)
        self.add_final_time_entry()
        self.write_entries()
        self.is_writable = False
        self._resources.indexes.add(self, _size_of(self._offset_index, self._time_index))

    def evict(self) -> None:
        """Called by the index cache, which holds the indexes of sealed segments only."""
        self._offset_index = self._time_index = None

    def close(self) -> None:
        self._resources.indexes.remove(self)


def _size_of(offset_index: OffsetIndex | None, time_index: TimeIndex | None) -> int:
    assert offset_index is not None
    assert time_index is not None
    return OFFSET_ENTRY_SIZE * len(offset_index) + TIME_ENTRY_SIZE * len(time_index)
