"""Appends batches to a log: checks a batch, admits it, numbers it, writes it in one piece, then updates the state.

Validation and producer state decide whether a batch is accepted, rolling selects its segment. No state changes before
the batch stands in the file. A disk error takes the partition offline. A lack of descriptors does not: then the append
has changed nothing.
"""

from __future__ import annotations

from typing import NamedTuple

from penstock.core.types import NO_TIMESTAMP, Buffer
from penstock.log.append.follower import FollowerBatches, read_follower_batches
from penstock.log.append.segment_roll import should_roll
from penstock.log.append.validation import BatchRules, check_batch, convert_batch
from penstock.log.state.contents import LogContents
from penstock.log.state.origin import Origin
from penstock.log.state.replay import read_marker
from penstock.log.storage.indexes import MAX_RELATIVE_OFFSET
from penstock.log.storage.scan import CorruptLogError
from penstock.log.storage.segment import Segment
from penstock.protocol.batch import (
    CONTROL_FLAG,
    LOG_APPEND_TIME_FLAG,
    PREFIX_SIZE,
    BatchHeader,
    pack_prefix,
    read_header,
)


class AppendResult(NamedTuple):
    base_offset: int
    last_offset: int
    log_append_time_ms: int  # -1 for CreateTime
    is_duplicate: bool
    must_flush: bool  # flush.messages was reached: flush before acknowledging
    log_start_offset: int
    is_first_of_producer: bool = False  # of an idempotent producer that the log does not know, or not any more


class Appender:
    __slots__ = ("_contents", "rules")

    def __init__(self, contents: LogContents) -> None:
        self._contents = contents
        self.rules = BatchRules.of(contents.settings)

    def append_as_leader(
        self,
        records: Buffer,
        leader_epoch: int,
        now_ms: int,
        origin: Origin = Origin.CLIENT,
        transaction_version: int = 0,
    ) -> AppendResult:
        """Stores one batch at the end of the log, with the next offset and the leader's epoch written into it.
        `transaction_version` is the version of the transaction whose first batch here this is.

        Costs 3.5 us for a small batch (checks 1.5 us, write 1 us), 5 us from an idempotent producer, and one pass of
        CRC. Fields of the header are unpacked once, see `check_batch`. Tried: the search for a duplicate before the
        comparison with the next sequence (3 us more when idempotent). Shown by the produce rows of `make bench`.
        """
        contents, rules = self._contents, self.rules
        availability = contents.availability
        if availability.offline_reason is not None:
            availability.check_online()
        header = check_batch(records, rules, origin, now_ms)
        producers, settings = contents.producers, contents.settings
        if header.producer_id >= 0:
            duplicate = producers.admit(header, origin, transaction_version)
            if duplicate is not None:
                stamp = duplicate.timestamp if rules.is_log_append_time else NO_TIMESTAMP
                must_flush = duplicate.last_offset + 1 - contents.recovery_point >= settings.flush_messages
                base_offset, last_offset = duplicate.base_offset, duplicate.last_offset
                return AppendResult(base_offset, last_offset, stamp, True, must_flush, contents.log_start_offset)
        if rules.may_convert or header.attributes & LOG_APPEND_TIME_FLAG or len(records) > rules.segment_bytes:
            converted = convert_batch(records, header, rules, now_ms)
            if converted is not None:
                records, header = converted, read_header(converted)
        _, batch_length, _, _, _, attributes, last_delta, _, newest, producer_id, _, _, _ = header
        base_offset = contents.log_end_offset
        last_offset = base_offset + last_delta
        size = len(records)
        try:
            if leader_epoch != contents.epoch_file.epochs.latest:
                contents.epoch_file.assign(leader_epoch, base_offset)
            segment = contents.segments.active
            if should_roll(segment, settings, size, last_offset, newest, now_ms):
                segment = contents.roll(base_offset, now_ms)
            prefix = pack_prefix(base_offset, batch_length, leader_epoch)
            position = segment.append((prefix, memoryview(records)[PREFIX_SIZE:]), size)
        except (OSError, CorruptLogError) as error:
            raise availability.refuse("appending", error) from error
        segment.note_batch(position, size, base_offset, last_offset, newest)
        next_offset = contents.log_end_offset = last_offset + 1
        is_first = False
        if producer_id >= 0:
            is_first = producer_id not in producers.entries
            if attributes & CONTROL_FLAG:
                self._note_marker(segment, header, base_offset, records)
            else:
                producers.update(header, base_offset, newest)
        producers.end_offset = next_offset
        stamp = now_ms if rules.is_log_append_time else NO_TIMESTAMP
        must_flush = next_offset - contents.recovery_point >= settings.flush_messages
        facts = (base_offset, last_offset, stamp, False, must_flush, contents.log_start_offset, is_first)
        return tuple.__new__(AppendResult, facts)

    def append_as_follower(self, records: Buffer, now_ms: int) -> AppendResult:
        """See `PartitionLog.append_as_follower`."""
        contents = self._contents
        contents.availability.check_online()
        batches = read_follower_batches(records, contents.log_end_offset, contents.topic_partition)
        if not batches.headers:
            end_offset = contents.log_end_offset
            return AppendResult(end_offset, end_offset - 1, NO_TIMESTAMP, False, False, contents.log_start_offset)
        first, last = batches.headers[0][1], batches.headers[-1][1]
        with contents.availability.storage_errors("appending", is_repeatable=True):
            for _, header in batches.headers:
                if header.leader_epoch > contents.epoch_file.epochs.latest:
                    contents.epoch_file.assign(header.leader_epoch, header.base_offset)
            segment = contents.segments.active
            newest = batches.max_timestamp
            if should_roll(
                segment, contents.settings, batches.size, last.last_offset, newest, now_ms, is_bounded=False
            ):
                # Not at the first new offset, before which compaction may have left a hole: recovery takes a segment
                # that does not reach to the next segment for one that lost records. Only the index's 32 bits have
                # precedence.
                fits = last.last_offset - contents.log_end_offset <= MAX_RELATIVE_OFFSET
                segment = contents.roll(contents.log_end_offset if fits else first.base_offset, now_ms)
            start = segment.append((memoryview(records)[: batches.size],), batches.size)
        self._note_follower_batches(segment, start, records, batches)
        must_flush = contents.log_end_offset - contents.recovery_point >= contents.settings.flush_messages
        return AppendResult(
            first.base_offset, last.last_offset, NO_TIMESTAMP, False, must_flush, contents.log_start_offset
        )

    def _note_follower_batches(self, segment: Segment, start: int, records: Buffer, batches: FollowerBatches) -> None:
        contents = self._contents
        for position, header in batches.headers:
            segment.note_batch(
                start + position, header.size, header.base_offset, header.last_offset, header.max_timestamp
            )
            if header.has_producer and header.is_control:
                batch = memoryview(records)[position : position + header.size]
                self._note_marker(segment, header, header.base_offset, batch)
            elif header.has_producer:
                contents.producers.update(header, header.base_offset, header.max_timestamp)
        contents.log_end_offset = contents.producers.end_offset = batches.headers[-1][1].next_offset

    def _note_marker(self, segment: Segment, header: BatchHeader, base_offset: int, batch: Buffer) -> None:
        contents = self._contents
        completed = contents.producers.update(header, base_offset, header.max_timestamp, read_marker(batch))
        if completed is not None:
            contents.aborted.note(segment.base_offset, completed)
