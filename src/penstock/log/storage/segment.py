"""One segment: a `.log` file of batches, and its indexes (`segment_indexes`).

Only the active segment gets new batches. A sealed segment never changes again, unless a truncation makes it the active
segment. After a crash `recover` checks every batch and builds the indexes from the log.
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
from penstock.log.storage.indexes import MAX_RELATIVE_OFFSET
from penstock.log.storage.open_files import LogFile, OpenResources
from penstock.log.storage.scan import CorruptLogError, scan_batches, scan_headers
from penstock.log.storage.segment_indexes import SegmentIndexes
from penstock.protocol.batch import BatchHeader

logger = logging.getLogger(__name__)

# The last appended batches, by base offset: a consumer that keeps up asks for one of them, and finds it without a
# search.
_RECENT_BATCHES = 64


class Segment:
    __slots__ = (
        "_first_timestamp",
        "_path",
        "_recent",
        "base_offset",
        "checked_end",
        "created_ms",
        "indexes",
        "is_active",
        "log_file",
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
        self.indexes = SegmentIndexes(self.log_file, base_offset, settings)
        self.is_active = False
        # Spread by name and offset instead of by chance: the same for every replica and every run, as even as a random
        # one.
        jitter_range = min(settings.segment_jitter_ms, settings.segment_ms)
        self.roll_jitter_ms = zlib.crc32(self._path.encode()) % jitter_range if jitter_range > 0 else 0
        self._first_timestamp: int | None = None
        self._recent: dict[int, int] = {}

    @classmethod
    def create(
        cls, directory: str, base_offset: int, settings: LogSettings, resources: OpenResources, now_ms: int
    ) -> Segment:
        """Creates the files or raises OSError, and then removes them as far as the disk allows: records behind its base
        offset may still come into the segment before it.
        """
        segment = cls(directory, base_offset, settings, resources, now_ms)
        try:
            segment.log_file.create()
            if settings.preallocate:
                segment.log_file.get().truncate(settings.segment_bytes)
            segment.is_active = True
            segment.indexes.create()
        except OSError:
            with contextlib.suppress(OSError):
                segment.remove_files()
            raise
        return segment

    def take_over_empty(self) -> None:
        """The first segment of a new log. Its files were made before, in a thread, and the disk is not touched: the
        first append or read opens the log.
        """
        self.is_active = True
        self.indexes.take_over_empty()

    def start_empty(self) -> None:
        """A stand-in without files."""
        self.is_active = True
        self.indexes.start_empty()

    def path(self, suffix: str) -> str:
        return self._path + suffix

    # ---- append

    def append(self, buffers: Sequence[Buffer], size: int) -> int:
        """Writes one or several whole batches at the end; returns their position. `note_batch` must follow for each.

        Costs the write; the lookup of the open file is 0.05 us of it, so the descriptor of the active segment can be in
        the cache like any other. Shown by the produce rows of `make bench`.
        """
        position = self.size
        file = self.log_file.get()
        try:
            file.write(buffers, position, size)
        except OSError:
            # Part of the batch may be on disk. This cuts it off, so that nothing is ever appended behind a torn batch;
            # when that fails as well, recovery cuts it: the caller takes the partition offline either way.
            with contextlib.suppress(OSError):
                file.truncate(position)
            raise
        self.size = position + size
        return position

    def note_batch(self, position: int, size: int, base_offset: int, last_offset: int, max_timestamp: int) -> None:
        """Takes in a batch that stands at `position`: in the indexes, and among the last batches."""
        if position == 0:
            self._first_timestamp = max_timestamp
        self.indexes.note_batch(position, size, last_offset, max_timestamp)
        recent = self._recent
        recent[base_offset] = position
        if len(recent) > _RECENT_BATCHES:
            del recent[next(iter(recent))]

    def first_timestamp(self) -> int:
        """The largest timestamp of the first batch: the start of a segment's age."""
        if self._first_timestamp is None:
            if self.size == 0:
                return NO_TIMESTAMP
            _, header = next(scan_headers(self.log_file.get(), 0, self.size))
            self._first_timestamp = header.max_timestamp
        return self._first_timestamp

    # ---- find

    def find_batch(self, offset: int) -> tuple[int, BatchHeader] | None:
        """(position, header) of the first batch that ends at or after `offset`; None when every batch ends before it.

        Costs 2.5 us for one of the last appended batches. Any other costs a binary search, a read of 16 KiB and 1 us
        per skipped batch: 25 to 40 us when batches are small. Tried: without the memory of the last batches, the same
        40 us at the tail, where most consumers are. Shown by the one-record row of `make bench`.
        """
        position = self._recent.get(offset)
        if position is None:
            position = self.indexes.find_start(offset, self.size)
        for batch_position, header in scan_headers(self.log_file.get(), position, self.size):
            if header.base_offset + header.last_offset_delta >= offset:
                return batch_position, header
        return None

    def scan_from(self, offset: int) -> Iterator[tuple[int, BatchHeader]]:
        """Every batch that ends at or after `offset`, headers only."""
        first = self.find_batch(offset)
        if first is not None:
            yield from scan_headers(self.log_file.get(), first[0], self.size)

    def find_end_offset(self, position: int) -> int | None:
        """An offset that no batch before `position` reaches; None when the index ends before that."""
        return self.indexes.offset_index(self.size).find_end_offset(position)

    def find_offset_before(self, timestamp: int) -> int:
        """An offset at or before the first record as new as `timestamp`."""
        return self.indexes.time_index(self.size).lookup(timestamp)

    def max_timestamp(self) -> int:
        """The newest record's; -1 when no record has one."""
        return self.indexes.newest(self.size)[0]

    def offset_of_max_timestamp(self) -> int:
        """The last offset of the batch that holds the newest record."""
        return self.indexes.newest(self.size)[1]

    def age_timestamp(self) -> int:
        """The newest record's timestamp; the file's when its records have none."""
        timestamp = self.max_timestamp()
        return timestamp if timestamp >= 0 else self.resources.files.modified_ms(self.log_file.path)

    # ---- change hands

    def write_out(self, trim: bool) -> None:
        """Writes everything that `seal` writes, while batches may still come. `trim` cuts off preallocated space."""
        if trim:
            self.log_file.get().truncate(self.size)
        self.indexes.add_final_time_entry()
        self.indexes.write_entries()

    def seal(self, trim: bool) -> None:
        """No batch follows: the indexes go to disk, unless `write_out` was called just before."""
        if trim:
            self.log_file.get().truncate(self.size)
        self.indexes.seal(self.size)
        self.is_active = False
        self._recent.clear()

    def open_active(self) -> int:
        """Makes a loaded segment the active segment and finds its end: the offset of the next batch.

        Reads the indexes and the headers behind the last entry, not the data. CorruptLogError when the tail is not
        whole batches.
        """
        self.is_active = True
        start, next_offset = self.indexes.open(self.size), self.base_offset
        if self.size == 0:
            return next_offset
        for position, header in scan_headers(self.log_file.get(), start, self.size):
            if header.base_offset < next_offset:
                raise CorruptLogError(self.log_file.path, position, f"offset {header.base_offset} is out of order")
            next_offset = header.base_offset + header.last_offset_delta + 1
            self.indexes.note_newest(header.max_timestamp, header.last_offset)
        return next_offset

    def recover(self, on_batch: Callable[[BatchHeader], None]) -> int:
        """Checks every batch, rebuilds the indexes, and cuts the file at the first bad batch; returns the number of
        bytes cut. `seal` or `open_active` must follow.
        """
        file = self.log_file.get()
        file_size = file.size()
        self.indexes.close()
        self.indexes.start_empty()
        self._recent.clear()
        self.size, next_offset = 0, self.base_offset
        try:
            for position, header, _ in scan_batches(file, 0, file_size):
                if header.base_offset < next_offset or header.last_offset - self.base_offset > MAX_RELATIVE_OFFSET:
                    raise CorruptLogError(file.path, position, f"offset {header.base_offset} is out of order")
                self.note_batch(position, header.size, header.base_offset, header.last_offset, header.max_timestamp)
                next_offset = header.next_offset
                self.size = position + header.size
                on_batch(header)
        except CorruptLogError as error:
            logger.warning("cutting %d bytes: %s", file_size - self.size, error)
        self.indexes.add_final_time_entry()
        if file_size > self.size:
            file.truncate(self.size)
            file.sync()  # the next batch may begin a new segment, and nothing would sync this segment any more
        self.unchecked_end = 0
        return file_size - self.size

    def truncate(self, offset: int, now_ms: int) -> int:
        """Removes every batch that ends at or after `offset`, and makes this the active segment; returns its end."""
        first = self.find_batch(offset)
        self.indexes.truncate(offset, self.size)
        self._recent.clear()
        if first is not None:
            self.log_file.get().truncate(first[0])
            self.size = first[0]
            # This process writes the next bytes at these positions, in batches of other sizes.
            self.checked_end, self.unchecked_end = min(self.checked_end, self.size), min(self.unchecked_end, self.size)
        if self.size == 0:
            self.created_ms, self._first_timestamp = now_ms, None
        return self.open_active()

    # ---- leave

    def relocate(self, directory: str, index_counts: tuple[int, int] | None) -> None:
        """The same bytes lie in another directory. They are unread there, so they are checked when they are first
        served. Open slices stay readable.
        """
        self._path = f"{directory}/{self.base_offset:020d}"
        self.log_file.relocate(self.path(names.LOG))
        self.indexes.files.relocate(self._path, index_counts)
        self.indexes.has_unwritten = self.is_active
        self.checked_end, self.unchecked_end = 0, self.size

    def mark_deleted(self) -> list[str]:
        """Renames the files out of the way; returns the paths to remove. Open slices stay readable."""
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
        self.indexes.close()
        self.log_file.close()
