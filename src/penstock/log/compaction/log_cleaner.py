"""One cleaning of one log, in small steps, for a process or a thread of its own.

A cleaning has two passes. The first reads the dirty part and remembers the last offset of each key, as far as the
memory reaches. The second copies the log up to there, one segment group after another, and leaves out superseded
records. The owner's thread has captured all inputs (`LogCompaction.begin_cleaning`); sealed segments do not change, so
nothing is shared. A finished group becomes a `Replacement`, which only the owner may put in place.

The directory is locked meanwhile: a process that outlived its broker may still be cleaning the same log
(`penstock.log.compaction.worker`), and the two would write files of the same names.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from penstock.core.types import TopicPartition
from penstock.log.compaction.batches import (
    BatchDecision,
    CleaningRules,
    decide_batch,
    empty_batch,
    has_tombstones,
    map_records,
    needs_horizon,
    rebuild_batch,
    retain_records,
)
from penstock.log.compaction.cleaned_segment import CleanedSegment, Replacement, remove_leftovers
from penstock.log.compaction.decisions import SegmentLimits, SourceSegment, group_segments
from penstock.log.compaction.offset_map import DIGEST_SIZE, OffsetMap, Survivors, digest
from penstock.log.compaction.transactions import TransactionFilter
from penstock.log.state.replay import read_marker
from penstock.log.state.transaction_index import AbortedTransaction
from penstock.log.storage.files import Files
from penstock.log.storage.scan import CorruptLogError, scan_needed_batches
from penstock.protocol.batch import HEADER_SIZE, BatchHeader
from penstock.protocol.errors import ApiError
from penstock.protocol.record_spans import RecordSpan, decode_spans, note_keys
from penstock.protocol.records import open_batch

# The number of records between two steps: under a millisecond.
_RECORDS_PER_STEP = 512
# The part of the memory that the map of the keys leaves over by default.
_SURVIVORS_SHARE = 0.1


class CleanerLimits(NamedTuple):
    memory: int = 128 * 1024 * 1024  # log.cleaner.dedupe.buffer.size
    load_factor: float = 0.9  # log.cleaner.io.buffer.load.factor
    buffer_size: int = 512 * 1024  # log.cleaner.io.buffer.size


class CleaningRequest(NamedTuple):
    topic_partition: TopicPartition
    directory: str
    files: Files
    segment_limits: SegmentLimits
    sources: Sequence[SourceSegment]  # from the beginning of the log to the first segment that cannot be cleaned
    first_dirty_offset: int
    aborted: Sequence[AbortedTransaction]
    rules: CleaningRules
    limits: CleanerLimits


@dataclass(slots=True)
class CleaningStatistics:
    bytes_indexed: int = 0
    bytes_read: int = 0
    bytes_written: int = 0
    records_read: int = 0
    records_kept: int = 0
    segments_read: int = 0
    segments_written: int = 0
    map_utilization: float = 0.0


class CleaningOutcome(NamedTuple):
    end_offset: int  # the log is clean up to this offset
    delete_horizon_ms: int | None  # when the next tombstone or marker may be removed
    statistics: CleaningStatistics


class Cleaning:
    """`steps` does the work; `outcome` has the result."""

    def __init__(self, request: CleaningRequest) -> None:
        self.request = request
        self.statistics = CleaningStatistics()
        self.delete_horizon_ms: int | None = None
        limits = request.limits
        self._offsets = OffsetMap.within(limits.memory, limits.load_factor, request.first_dirty_offset - 1)
        self._transactions = TransactionFilter(request.aborted)
        self._survivors = Survivors(request.first_dirty_offset)

    @property
    def end_offset(self) -> int:
        """The log is clean up to this offset."""
        return self._offsets.latest_offset + 1

    @property
    def outcome(self) -> CleaningOutcome:
        return CleaningOutcome(self.end_offset, self.delete_horizon_ms, self.statistics)

    def steps(self) -> Generator[int | Replacement, None, None]:
        """Yields the number of bytes read or written after each small step, and a Replacement when one is ready; the
        next step expects that it is in place. CorruptLogError when a batch is damaged, OSError when the disk fails,
        BlockingIOError when another process cleans the log. An early close leaves nothing behind but a Replacement that
        the owner did not commit (`remove_leftovers`).
        """
        lock = self.request.files.lock_directory(self.request.directory)
        try:
            yield from self._steps()
        finally:
            lock.close()

    def _steps(self) -> Iterator[int | Replacement]:
        request = self.request
        remove_leftovers(request.files, request.directory)
        try:
            yield from self._build_map()
            for _ in self._survivors.gather(self._offsets, int(request.limits.memory * _SURVIVORS_SHARE)):
                yield 0
            covered = [source for source in request.sources if source.base_offset < self.end_offset]
            yield from self._sync(covered)
            for group in group_segments(covered, request.segment_limits):
                yield from self._clean_group(group)
        except ApiError as error:
            raise CorruptLogError(request.directory, 0, error.message or error.code.name) from error

    # ---- the first pass

    def _build_map(self) -> Iterator[int]:
        request, offsets = self.request, self._offsets
        # A transaction that ended before has its marker in the skipped part, and would seem to go on.
        transactions = TransactionFilter(
            each for each in request.aborted if each.last_offset >= request.first_dirty_offset
        )
        for source in request.sources:
            if source.end_offset <= request.first_dirty_offset:
                continue
            for header, batch in self._read(source, self._is_dirty):
                if batch is None:
                    yield 0
                    continue
                if offsets.is_full:
                    self._note_map()
                    return
                self.statistics.bytes_indexed += header.size
                if header.is_control:
                    transactions.is_marker_over(header, read_marker(batch), header.record_count == 0)
                elif not transactions.is_aborted(header):
                    yield from self._map_batch(header, batch)
                offsets.latest_offset = header.last_offset
                yield header.size
            offsets.latest_offset = max(offsets.latest_offset, source.end_offset - 1)
        self._note_map()

    def _is_dirty(self, header: BatchHeader) -> bool:
        return header.last_offset >= self.request.first_dirty_offset

    def _map_batch(self, header: BatchHeader, batch: memoryview) -> Iterator[int]:
        first_dirty_offset, offsets = self.request.first_dirty_offset, self._offsets
        _, data = open_batch(batch)
        if header.base_offset < first_dirty_offset:
            for spans in _slices(header, data):
                map_records(spans, header.base_offset, first_dirty_offset, offsets)
                yield 0
            return
        position, left = 0, header.record_count
        while left > 0:
            count = min(left, _RECORDS_PER_STEP)
            position = note_keys(data, position, count, header.base_offset, offsets.entries, DIGEST_SIZE, digest)
            left -= count
            yield 0
        _check_filled(header, data, position)

    def _note_map(self) -> None:
        self.statistics.map_utilization = self._offsets.utilization

    def _read(
        self, source: SourceSegment, is_needed: Callable[[BatchHeader], bool]
    ) -> Iterator[tuple[BatchHeader, memoryview | None]]:
        """None where the batch is not needed. Checksums do not cover the offsets, so their order is checked as well."""
        file = self.request.files.open(source.path)
        next_offset = source.base_offset
        try:
            for position, header, batch in scan_needed_batches(
                file, 0, source.size, self.request.limits.buffer_size, is_needed
            ):
                if not next_offset <= header.base_offset <= header.last_offset < source.end_offset:
                    raise CorruptLogError(file.path, position, f"offset {header.base_offset} is out of order")
                next_offset = header.next_offset
                yield header, batch
        finally:
            file.close()

    def _sync(self, sources: Sequence[SourceSegment]) -> Iterator[int]:
        """The superseding record has to be on disk before the superseded record is removed: not every sealed segment is
        on disk yet.
        """
        for source in sources:
            if source.end_offset > self.request.first_dirty_offset:
                self.request.files.sync_file(source.path)
                yield 0

    # ---- the second pass

    def _clean_group(self, group: Sequence[SourceSegment]) -> Iterator[int | Replacement]:
        request, statistics = self.request, self.statistics
        interval_bytes = request.segment_limits.index_interval_bytes
        cleaned = CleanedSegment(request.files, request.directory, group[0].base_offset, interval_bytes)
        replacement: Replacement | None = None
        is_changed = len(group) > 1
        last = next((source for source in reversed(group) if source.size), group[-1])
        try:
            for source in group:
                position = 0
                for header, batch in self._read(source, self._is_worth_reading):
                    position += header.size
                    is_last = source is last and position == source.size
                    before = cleaned.size
                    is_changed |= yield from self._clean_batch(cleaned, header, batch, is_last)
                    statistics.bytes_read += header.size
                    yield (header.size if batch is not None else HEADER_SIZE) + cleaned.size - before
                statistics.segments_read += 1
            statistics.bytes_written += cleaned.size
            retained = self._transactions.take_retained()
            if is_changed:
                replacement = cleaned.finish([each.base_offset for each in group], retained, group[-1].modified_ms)
                statistics.segments_written += 1
            else:
                cleaned.discard()
        except BaseException:
            # The next cleaning, or the next start, removes the remaining files.
            with contextlib.suppress(OSError):
                cleaned.discard()
            raise
        if replacement is not None:
            # Its files belong to the owner from here on. If this thread removed some of them while the owner renames
            # others, the next start would take the rest for a finished set.
            yield replacement

    def _is_worth_reading(self, header: BatchHeader) -> bool:
        """Whether a record of the batch survives: otherwise its header is enough, and the first pass has checked the
        batch.
        """
        is_superseded = self._survivors.has_none(header.base_offset, header.last_offset)
        return not is_superseded or header.is_control or header.record_count == 0

    def _clean_batch(
        self, cleaned: CleanedSegment, header: BatchHeader, batch: memoryview | None, is_last: bool
    ) -> Generator[int, None, bool]:
        """Leaves the batch out when all of its records are superseded. Returns whether the batch changed."""
        rules = self.request.rules
        if header.is_control:
            assert batch is not None
            is_discardable = self._transactions.is_marker_over(header, read_marker(batch), header.record_count == 0)
        else:
            is_discardable = self._transactions.is_aborted(header)
        decision = decide_batch(header, is_discardable, is_last, rules)
        self.statistics.records_read += header.record_count
        data = b""
        kept: list[RecordSpan] = []
        if batch is not None and not decision.drops_records and header.record_count:
            _, data = open_batch(batch)
            for spans in _slices(header, data):
                kept += spans if header.is_control else retain_records(spans, header, self._offsets, rules.now_ms)
                yield 0
        self.statistics.records_kept += len(kept)
        result = self._rebuild(header, batch, data, kept, decision)
        if result is not None:
            cleaned.append(result)
        return batch is None or result is not batch

    def _rebuild(
        self,
        header: BatchHeader,
        batch: memoryview | None,
        data: bytes,
        kept: list[RecordSpan],
        decision: BatchDecision,
    ) -> bytes | memoryview | None:
        """`batch` itself when it stays as it is, None when nothing of it stays."""
        rules = self.request.rules
        if not kept:
            if not decision.stays_if_empty:
                return None
            return batch if header.record_count == 0 else empty_batch(header)
        horizon_ms = None
        if needs_horizon(header, kept, decision.is_finished_marker):
            horizon_ms = rules.now_ms + rules.delete_retention_ms
        self._note_horizon(header, kept, horizon_ms)
        if horizon_ms is None and len(kept) == header.record_count:
            return batch
        return rebuild_batch(header, data, kept, horizon_ms)

    def _note_horizon(self, header: BatchHeader, kept: list[RecordSpan], horizon_ms: int | None) -> None:
        """The time at which the next tombstone or marker may be removed. Those that were due already and stay all the
        same do not count.
        """
        if horizon_ms is None and header.has_delete_horizon and (header.is_control or has_tombstones(kept)):
            horizon_ms = header.base_timestamp if header.base_timestamp > self.request.rules.now_ms else None
        if horizon_ms is not None:
            known = self.delete_horizon_ms
            self.delete_horizon_ms = horizon_ms if known is None else min(known, horizon_ms)


def _slices(header: BatchHeader, data: bytes) -> Iterator[list[RecordSpan]]:
    """The records of a batch, a few at a time. CORRUPT_MESSAGE unless they fill it exactly."""
    position, left = 0, header.record_count
    while left > 0:
        spans, position = decode_spans(data, position, min(left, _RECORDS_PER_STEP))
        left -= len(spans)
        if left == 0:
            _check_filled(header, data, position)
        yield spans


def _check_filled(header: BatchHeader, data: bytes, position: int) -> None:
    if header.record_count > 0 and position != len(data):
        raise CorruptLogError("a batch", position, "bytes are left over after its last record")
