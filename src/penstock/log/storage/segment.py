"""One segment: a `.log` file of batches and its two indexes.

The active segment keeps its indexes in memory and writes them out when it is sealed; after a crash they are rebuilt
from the log. A sealed segment reads them back when somebody asks, and may be told to forget them again.
"""

from __future__ import annotations

import contextlib
import logging
import zlib
from collections.abc import Callable, Iterator, Sequence

from penstock.core.log_settings import LogSettings
from penstock.core.types import NO_TIMESTAMP, Buffer
from penstock.log.formats import names
from penstock.log.storage.files import OpenFile
from penstock.log.storage.index_check import find_search_start
from penstock.log.storage.indexes import (
    OFFSET_ENTRY_SIZE,
    TIME_ENTRY_SIZE,
    CorruptIndexError,
    OffsetIndex,
    TimeIndex,
)
from penstock.log.storage.open_files import LogFile, OpenResources
from penstock.log.storage.scan import CorruptLogError, scan_batches, scan_headers
from penstock.protocol.batch import BatchHeader

logger = logging.getLogger(__name__)

# The batches appended last, by base offset: a consumer that keeps up asks for one of them, and finds it without a
# search.
_RECENT_BATCHES = 64


class Segment:
    __slots__ = (
        "_first_timestamp",
        "_offset_index",
        "_offset_of_max_timestamp",
        "_path",
        "_recent",
        "_time_index",
        "base_offset",
        "bytes_since_index_entry",
        "checked_end",
        "created_ms",
        "index_interval_bytes",
        "is_active",
        "log_file",
        "max_offset_entries",
        "max_time_entries",
        "max_timestamp",
        "recently_used",
        "resources",
        "roll_jitter_ms",
        "size",
        "unchecked_end",
    )

    def __init__(
        self,
        directory: str,
        base_offset: int,
        settings: LogSettings,
        resources: OpenResources,
        now_ms: int,
        size: int = 0,
    ) -> None:
        self._path = f"{directory}/{base_offset:020d}"
        self.base_offset = base_offset
        self.size = size
        # Bytes from checked_end to unchecked_end were found on disk and not read by this process yet: see first_read.
        self.checked_end, self.unchecked_end = 0, size
        self.created_ms = now_ms
        self.resources = resources
        self.log_file = LogFile(self._path + names.LOG, resources)
        self.is_active = False
        self.recently_used = False
        self.index_interval_bytes = settings.index_interval_bytes
        self.max_offset_entries = settings.segment_index_bytes // OFFSET_ENTRY_SIZE
        self.max_time_entries = settings.segment_index_bytes // TIME_ENTRY_SIZE
        # Spread by name and offset instead of by chance: the same for every replica and every run, as even as a random
        # one.
        jitter_range = min(settings.segment_jitter_ms, settings.segment_ms)
        self.roll_jitter_ms = zlib.crc32(self._path.encode()) % jitter_range if jitter_range > 0 else 0
        self.bytes_since_index_entry = 0
        self.max_timestamp = NO_TIMESTAMP
        self._offset_of_max_timestamp = base_offset
        self._first_timestamp: int | None = None
        self._offset_index: OffsetIndex | None = None
        self._time_index: TimeIndex | None = None
        self._recent: dict[int, int] = {}

    @classmethod
    def create(
        cls, directory: str, base_offset: int, settings: LogSettings, resources: OpenResources, now_ms: int
    ) -> Segment:
        segment = cls(directory, base_offset, settings, resources, now_ms)
        segment.log_file.create()
        if settings.preallocate:
            segment.log_file.get().truncate(settings.segment_bytes)
        segment.start_empty()
        return segment

    def start_empty(self) -> None:
        self.is_active = True
        self._offset_index = OffsetIndex(self.base_offset)
        self._time_index = TimeIndex(self.base_offset)

    def path(self, suffix: str) -> str:
        return self._path + suffix

    # ---- append

    def append(self, buffers: Sequence[Buffer], size: int) -> int:
        """Write one or several whole batches at the end; the position they begin at. `note_batch` must follow for each.

        Costs the write; finding the open file is 0.05 us of it, so the descriptor of the active segment can be in the
        cache like any other. Shown by the produce rows of `make bench`.
        """
        position = self.size
        file = self.log_file.get()
        try:
            file.write(buffers, position, size)
        except OSError:
            # Part of the batch may be on disk. Cut it off, so that nothing is ever appended behind a torn batch; when
            # that fails as well, recovery cuts it: the caller takes the partition offline either way.
            with contextlib.suppress(OSError):
                file.truncate(position)
            raise
        self.size = position + size
        return position

    def note_batch(self, position: int, size: int, base_offset: int, last_offset: int, max_timestamp: int) -> None:
        """Remember a batch that stands at `position`: indexes, largest timestamp, and where to find it again soon."""
        if position == 0:
            self._first_timestamp = max_timestamp
        if max_timestamp > self.max_timestamp:
            self.max_timestamp = max_timestamp
            self._offset_of_max_timestamp = last_offset
        if self.bytes_since_index_entry > self.index_interval_bytes:
            assert self._offset_index is not None
            assert self._time_index is not None
            self._offset_index.append(last_offset, position)
            self._time_index.append(self.max_timestamp, self._offset_of_max_timestamp)
            self.bytes_since_index_entry = 0
        self.bytes_since_index_entry += size
        recent = self._recent
        recent[base_offset] = position
        if len(recent) > _RECENT_BATCHES:
            del recent[next(iter(recent))]

    @property
    def are_indexes_full(self) -> bool:
        """One slot of the time index is kept for the entry that sealing adds."""
        return self._offset_index is not None and (
            len(self._offset_index) >= self.max_offset_entries
            or (self._time_index is not None and len(self._time_index) >= self.max_time_entries - 1)
        )

    def first_timestamp(self) -> int:
        """The largest timestamp of the first batch: what the age of a segment is counted from."""
        if self._first_timestamp is None:
            if self.size == 0:
                return NO_TIMESTAMP
            _, header = next(scan_headers(self.log_file.get(), 0, self.size))
            self._first_timestamp = header.max_timestamp
        return self._first_timestamp

    # ---- find

    def find_batch(self, offset: int) -> tuple[int, BatchHeader] | None:
        """(position, header) of the first batch that ends at or after `offset`; None when every batch ends before it.

        Costs 2.5 us for one of the batches appended last. Any other costs a binary search, a read of 16 KiB and 1 us
        per batch stepped over: 25 to 40 us when batches are small. Tried: without remembering the last ones, the same
        40 us at the tail, where most consumers are. Shown by the one-record row of `make bench`.
        """
        position = self._recent.get(offset)
        if position is None:
            position = find_search_start(self, offset)
        for at, header in scan_headers(self.log_file.get(), position, self.size):
            if header.base_offset + header.last_offset_delta >= offset:
                return at, header
        return None

    def scan_from(self, offset: int) -> Iterator[tuple[int, BatchHeader]]:
        """Every batch that ends at or after `offset`, headers only."""
        found = self.find_batch(offset)
        if found is not None:
            yield from scan_headers(self.log_file.get(), found[0], self.size)

    def offset_index(self) -> OffsetIndex:
        self.recently_used = True
        if self._offset_index is None:
            self._load_indexes()
        assert self._offset_index is not None
        return self._offset_index

    def time_index(self) -> TimeIndex:
        self.recently_used = True
        if self._time_index is None:
            self._load_indexes()
        assert self._time_index is not None
        return self._time_index

    def largest_timestamp(self) -> int:
        """The newest record's timestamp; the file's age when its records have none."""
        timestamp = self.max_record_timestamp()
        return timestamp if timestamp >= 0 else self.resources.files.modified_ms(self.log_file.path)

    def max_record_timestamp(self) -> int:
        if self.max_timestamp == NO_TIMESTAMP and not self.is_active and self.size:
            self.max_timestamp, self._offset_of_max_timestamp = self.time_index().last_entry()
        return self.max_timestamp

    def offset_of_max_timestamp(self) -> int:
        """The last offset of the batch that holds the newest record."""
        self.max_record_timestamp()
        return self._offset_of_max_timestamp

    # ---- indexes on disk

    def _load_indexes(self) -> None:
        """From their files; from the log itself when a file is missing or cannot be right."""
        try:
            files = self.resources.files
            self._offset_index = OffsetIndex.decode(
                self.base_offset, files.read_file(self.path(names.OFFSET_INDEX)), self.size
            )
            self._time_index = TimeIndex.decode(self.base_offset, files.read_file(self.path(names.TIME_INDEX)))
            if self.size and not len(self._time_index):
                # Sealing adds the newest record's time, so only a log without any timestamp has none; searches by time
                # and retention would otherwise pass over the segment.
                raise CorruptIndexError("the time index is empty and the log is not")
        except (FileNotFoundError, CorruptIndexError) as error:
            logger.warning("rebuilding the indexes of %s: %s", self.log_file.path, error)
            self.rebuild_indexes()
            if not self.is_active:
                self.write_indexes()
        if not self.is_active:
            self.resources.indexes.add(self, self._index_bytes())

    def _index_bytes(self) -> int:
        assert self._offset_index is not None
        assert self._time_index is not None
        return OFFSET_ENTRY_SIZE * len(self._offset_index) + TIME_ENTRY_SIZE * len(self._time_index)

    def evict(self) -> None:
        """Called by the index cache, which holds sealed segments only."""
        self._offset_index = self._time_index = None

    def rebuild_indexes(self) -> None:
        """Headers only; the batches are taken to be sound."""
        self._reset_indexes()
        for position, header in scan_headers(self.log_file.get(), 0, self.size):
            self.note_batch(position, header.size, header.base_offset, header.last_offset, header.max_timestamp)
        self._add_final_time_entry()

    def _reset_indexes(self) -> None:
        self._offset_index = OffsetIndex(self.base_offset)
        self._time_index = TimeIndex(self.base_offset)
        self.max_timestamp = NO_TIMESTAMP
        self._offset_of_max_timestamp = self.base_offset
        self.bytes_since_index_entry = 0
        self._recent.clear()

    def _add_final_time_entry(self) -> None:
        assert self._time_index is not None
        self._time_index.append(self.max_timestamp, self._offset_of_max_timestamp)

    def write_indexes(self) -> None:
        files = self.resources.files
        files.write_file(self.path(names.OFFSET_INDEX), self.offset_index().encode())
        files.write_file(self.path(names.TIME_INDEX), self.time_index().encode())

    def seal(self, trim: bool) -> None:
        """No batch is appended any more: the indexes go to disk. `trim` cuts off preallocated space."""
        self.max_record_timestamp()
        if trim:
            self.log_file.get().truncate(self.size)
        self._add_final_time_entry()
        self.write_indexes()
        self.is_active = False
        self._recent.clear()
        self.resources.indexes.add(self, self._index_bytes())

    # ---- open, recover, truncate

    def open_active(self) -> int:
        """Make a loaded segment the active one and find where it ends: the offset the next batch gets.

        Reads the indexes and the headers behind the last entry, not the data. CorruptLogError when the tail is not
        whole batches.
        """
        self.is_active = True
        self.resources.indexes.remove(self)
        next_offset = self.base_offset
        if self.size == 0:
            self.start_empty()
            return next_offset
        index = self.offset_index()
        self.max_timestamp, self._offset_of_max_timestamp = self.time_index().last_entry()
        start = index.last_position()
        self.bytes_since_index_entry = self.size - start
        for position, header in scan_headers(self.log_file.get(), start, self.size):
            if header.base_offset < next_offset:
                raise CorruptLogError(self.log_file.path, position, f"offset {header.base_offset} is out of order")
            next_offset = header.base_offset + header.last_offset_delta + 1
            if header.max_timestamp > self.max_timestamp:
                self.max_timestamp, self._offset_of_max_timestamp = header.max_timestamp, header.last_offset
        return next_offset

    def recover(self, on_batch: Callable[[BatchHeader], None]) -> int:
        """Check every batch, rebuild the indexes, and cut the file at the first bad batch; the number of bytes cut."""
        file = self.log_file.get()
        file_size = file.size()
        self.resources.indexes.remove(self)
        self._reset_indexes()
        self.size, next_offset = 0, self.base_offset
        try:
            for position, header, _ in scan_batches(file, 0, file_size):
                if header.base_offset < next_offset or header.last_offset - self.base_offset > 0x7FFFFFFF:
                    raise CorruptLogError(file.path, position, f"offset {header.base_offset} is out of order")
                self.note_batch(position, header.size, header.base_offset, header.last_offset, header.max_timestamp)
                next_offset = header.next_offset
                self.size = position + header.size
                on_batch(header)
        except CorruptLogError as error:
            logger.warning("cutting %d bytes: %s", file_size - self.size, error)
        self._add_final_time_entry()
        if file_size > self.size:
            file.truncate(self.size)
            file.sync()  # the next batch may begin a new segment, and nothing would sync this one any more
        self.unchecked_end = 0
        return file_size - self.size

    def truncate(self, offset: int, now_ms: int) -> None:
        """Remove every batch that ends at or after `offset`."""
        found = self.find_batch(offset)
        offset_index, time_index = self.offset_index(), self.time_index()
        self.is_active = True
        self.resources.indexes.remove(self)
        offset_index.truncate(offset)
        time_index.truncate(offset)
        self._recent.clear()
        if found is not None:
            self.log_file.get().truncate(found[0])
            self.size = found[0]
            # What comes next at these positions is written by this process, in batches of other sizes.
            self.checked_end, self.unchecked_end = min(self.checked_end, self.size), min(self.unchecked_end, self.size)
        if self.size == 0:
            self.created_ms, self._first_timestamp = now_ms, None
        start = offset_index.last_position()
        self.bytes_since_index_entry = self.size - start
        self.max_timestamp, self._offset_of_max_timestamp = time_index.last_entry()
        scan_start = offset_index.lookup(self._offset_of_max_timestamp)
        for _, header in scan_headers(self.log_file.get(), scan_start, self.size):
            if header.max_timestamp > self.max_timestamp:
                self.max_timestamp, self._offset_of_max_timestamp = header.max_timestamp, header.last_offset

    # ---- leave

    def mark_deleted(self) -> list[str]:
        """Rename the files out of the way; the paths that remain to be removed. Open slices stay readable."""
        self.close()
        files, marked = self.resources.files, []
        for suffix in names.SEGMENT_SUFFIXES:
            with contextlib.suppress(FileNotFoundError):
                files.rename(self.path(suffix), self.path(suffix) + names.DELETED)
                marked.append(self.path(suffix) + names.DELETED)
        return marked

    def remove_files(self) -> None:
        self.close()
        for suffix in names.SEGMENT_SUFFIXES:
            self.resources.files.unlink(self.path(suffix))

    def open_file(self) -> OpenFile:
        return self.log_file.get()

    def close(self) -> None:
        self.resources.indexes.remove(self)
        self.log_file.close()
