"""The log of one partition: what the broker appends to and reads from.

The reading half is `readable_log`; what changes the log is here. One thread owns it; only `Flush.run` may run in
another. It ties the parts together: segments hold the data, validation and producer state decide what may come in,
retention and rolling decide when segments come and go, leader epochs remember who wrote. A failing disk takes this
partition offline, and no other: from then on every call raises KAFKA_STORAGE_ERROR until the broker is started again.
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import NamedTuple

from penstock.core.log_settings import LogSettings
from penstock.core.types import NO_TIMESTAMP, Buffer, TopicId
from penstock.log.append.follower import FollowerBatches, read_follower_batches
from penstock.log.append.rolling import should_roll
from penstock.log.append.validation import BatchRules, check_batch, convert_batch
from penstock.log.compaction.cleanable import CleanableLog
from penstock.log.formats import names
from penstock.log.formats.metadata_files import encode_partition_metadata
from penstock.log.reading.positions import TimestampedOffset
from penstock.log.recovery.loading import LoadedLog, LoadRequest
from penstock.log.recovery.replay import read_marker, rebuild_producer_state
from penstock.log.state.epoch_file import EpochFile
from penstock.log.state.origin import Origin
from penstock.log.state.transaction_index import AbortedTransaction
from penstock.log.storage.retention import Deletion, DeletionReason, plan_deletions
from penstock.log.storage.scan import CorruptLogError
from penstock.log.storage.segment import Segment
from penstock.log.upkeep.delayed_deletes import DelayedDeletes
from penstock.log.upkeep.flush import Flush, capture_flush
from penstock.protocol.batch import CONTROL_FLAG, PREFIX_SIZE, BatchHeader, pack_prefix, read_header
from penstock.protocol.errors import ApiError, ErrorCode
from penstock.protocol.records import CONTROL_ABORT, CONTROL_COMMIT, EndMarker, build_end_marker

__all__ = ["AbortedTransaction", "AppendResult", "DeletedSegment", "Origin", "PartitionLog", "TimestampedOffset"]

logger = logging.getLogger(__name__)


class AppendResult(NamedTuple):
    base_offset: int
    last_offset: int
    log_append_time_ms: int  # -1 for CreateTime
    is_duplicate: bool
    must_flush: bool  # flush.messages was reached: flush before acknowledging


class DeletedSegment(NamedTuple):
    base_offset: int
    size: int
    reason: DeletionReason


class PartitionLog(CleanableLog):
    def __init__(
        self, request: LoadRequest, loaded: LoadedLog, delayed_deletes: DelayedDeletes, high_watermark: int
    ) -> None:
        super().__init__(request.topic_partition, loaded, high_watermark)
        self.topic_id: TopicId = loaded.topic_id
        self.directory = Path(request.directory)
        self.recovery_point = loaded.recovery_point
        self.last_flush_ms = request.now_ms
        self.settings = request.settings
        self._rules = BatchRules.of(request.settings)
        self._path = request.directory
        self._resources = request.resources
        self._files = request.resources.files
        self._delayed_deletes = delayed_deletes
        self._epoch_file = EpochFile(self._files, self._path, loaded.leader_epochs, loaded.is_epoch_file_current)

    def update_settings(self, settings: LogSettings) -> None:
        """Index sizes and jitter count from the next segment on, all else from the next call."""
        self.settings = settings
        self._rules = BatchRules.of(settings)

    def assign_topic_id(self, topic_id: TopicId) -> None:
        """For a log whose partition.metadata was lost, or that never had one."""
        self.check_online()
        with self.storage_errors("writing its metadata"):
            self._files.write_atomically(
                f"{self._path}/{names.PARTITION_METADATA}", encode_partition_metadata(topic_id)
            )
        self.topic_id = topic_id

    # ---- append

    def append_as_leader(
        self,
        records: Buffer,
        leader_epoch: int,
        now_ms: int,
        origin: Origin = Origin.CLIENT,
        transaction_version: int = 0,
    ) -> AppendResult:
        """Store one batch at the end of the log, with the next offset and the leader's epoch written into it.
        `transaction_version` is that of the transaction which the batch is the first of here.

        Costs 7 us for a small batch (checks 2.5 us, write 1 us), 8.5 us from an idempotent producer, and one pass of
        CRC. Tried: looking for a duplicate before comparing with the sequence that is due (3 us more when idempotent).
        Shown by the produce rows of `make bench`.
        """
        if self.offline_reason is not None:
            self.check_online()
        rules = self._rules
        header = check_batch(records, rules, origin, now_ms)
        producers = self._producers
        if header.producer_id >= 0:
            duplicate = producers.admit(header, origin, transaction_version)
            if duplicate is not None:
                stamp = duplicate.timestamp if rules.is_log_append_time else NO_TIMESTAMP
                must_flush = duplicate.last_offset + 1 - self.recovery_point >= self.settings.flush_messages
                return AppendResult(duplicate.base_offset, duplicate.last_offset, stamp, True, must_flush)
        converted = convert_batch(records, header, rules, now_ms)
        if converted is not None:
            records, header = converted, read_header(converted)
        base_offset = self.log_end_offset
        last_offset = base_offset + header.last_offset_delta
        size = len(records)
        try:
            if leader_epoch != self._epochs.latest:
                self._epoch_file.assign(leader_epoch, base_offset, self.recovery_point)
            segment = self._segments.active
            if should_roll(segment, self.settings, size, last_offset, header.max_timestamp, now_ms):
                segment = self._roll(base_offset, now_ms)
            prefix = pack_prefix(base_offset, header.batch_length, leader_epoch)
            position = segment.append((prefix, memoryview(records)[PREFIX_SIZE:]), size)
        except (OSError, CorruptLogError) as error:
            raise self.fail("appending", error) from error
        segment.note_batch(position, size, base_offset, last_offset, header.max_timestamp)
        self.log_end_offset = last_offset + 1
        if header.producer_id >= 0:
            if header.attributes & CONTROL_FLAG:
                self._note_marker(segment, header, base_offset, records)
            else:
                producers.update(header, base_offset, header.max_timestamp)
        producers.end_offset = last_offset + 1
        stamp = now_ms if rules.is_log_append_time else NO_TIMESTAMP
        must_flush = last_offset + 1 - self.recovery_point >= self.settings.flush_messages
        return AppendResult(base_offset, last_offset, stamp, False, must_flush)

    def append_end_marker(
        self,
        producer_id: int,
        producer_epoch: int,
        coordinator_epoch: int,
        is_commit: bool,
        leader_epoch: int,
        now_ms: int,
        transaction_version: int = 0,
    ) -> AppendResult:
        """Commit or abort what the producer has open here; a marker is stored even when that is nothing."""
        self.check_online()
        self._producers.check_marker(producer_id, producer_epoch, coordinator_epoch, transaction_version)
        marker = EndMarker(CONTROL_COMMIT if is_commit else CONTROL_ABORT, coordinator_epoch)
        batch = build_end_marker(marker, producer_id=producer_id, producer_epoch=producer_epoch, timestamp=now_ms)
        return self.append_as_leader(batch, leader_epoch, now_ms, Origin.COORDINATOR)

    def _note_marker(self, segment: Segment, header: BatchHeader, base_offset: int, batch: Buffer) -> None:
        completed = self._producers.update(header, base_offset, header.max_timestamp, read_marker(batch))
        if completed is not None:
            self._aborted.note(segment.base_offset, completed)

    def append_as_follower(self, records: Buffer, now_ms: int) -> AppendResult:
        """Store batches as the leader numbered them; a batch cut off at the end, as in any fetch response, is left
        out.
        """
        self.check_online()
        batches = read_follower_batches(records, self.log_end_offset, self.topic_partition)
        if not batches.headers:
            return AppendResult(self.log_end_offset, self.log_end_offset - 1, NO_TIMESTAMP, False, False)
        first, last = batches.headers[0][1], batches.headers[-1][1]
        with self.storage_errors("appending"):
            for _, header in batches.headers:
                if header.leader_epoch > self._epochs.latest:
                    self._epoch_file.assign(header.leader_epoch, header.base_offset, self.recovery_point)
            segment = self._segments.active
            if should_roll(segment, self.settings, batches.size, last.last_offset, batches.max_timestamp, now_ms):
                segment = self._roll(first.base_offset, now_ms)
            start = segment.append((memoryview(records)[: batches.size],), batches.size)
        self._note_follower_batches(segment, start, records, batches)
        must_flush = self.log_end_offset - self.recovery_point >= self.settings.flush_messages
        return AppendResult(first.base_offset, last.last_offset, NO_TIMESTAMP, False, must_flush)

    def _note_follower_batches(self, segment: Segment, start: int, records: Buffer, batches: FollowerBatches) -> None:
        for position, header in batches.headers:
            segment.note_batch(
                start + position, header.size, header.base_offset, header.last_offset, header.max_timestamp
            )
            if header.has_producer and header.is_control:
                batch = memoryview(records)[position : position + header.size]
                self._note_marker(segment, header, header.base_offset, batch)
            elif header.has_producer:
                self._producers.update(header, header.base_offset, header.max_timestamp)
        self.log_end_offset = self._producers.end_offset = batches.headers[-1][1].next_offset

    def _roll(self, base_offset: int, now_ms: int) -> Segment:
        """Seal the active segment and begin a new one, with a producer snapshot at the seam."""
        previous = self._segments.active
        self._producers.end_offset = base_offset
        previous.seal(trim=self.settings.preallocate)
        self._aborted.seal(previous.base_offset)
        self._snapshots.write(base_offset, self._producers.entries.values())
        segment = Segment.create(self._path, base_offset, self.settings, self._resources, now_ms)
        self._segments.add(segment)
        logger.info("partition %s begins segment %d", self.topic_partition, base_offset)
        return segment

    def remove_expired_producers(self, now_ms: int) -> None:
        self._producers.remove_expired(now_ms, self.settings.producer_id_expiration_ms)

    # ---- offsets move

    def advance_high_watermark(self, offset: int) -> None:
        """Never backwards, never past the end of the log."""
        if offset > self.high_watermark:
            self.high_watermark = min(offset, self.log_end_offset)
            if self._producers.unreplicated_transactions:
                self._producers.note_high_watermark(self.high_watermark)

    def delete_records_before(self, offset: int) -> int:
        """The new log start offset. Segments go with the next retention run."""
        self.check_online()
        if not 0 <= offset <= self.high_watermark:
            raise ApiError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"{self.topic_partition} can be deleted up to its high watermark {self.high_watermark}, not {offset}",
            )
        with self.storage_errors("deleting records"):
            self._advance_log_start(offset)
        return self.log_start_offset

    def _advance_log_start(self, offset: int) -> None:
        if offset > self.log_start_offset:
            self.log_start_offset = offset
            self._epoch_file.truncate_from_start(offset, self.recovery_point)

    def truncate_to(self, offset: int, now_ms: int = 0) -> None:
        """Forget everything at and past `offset`: what a follower does with what its leader does not have."""
        self.check_online()
        if offset >= self.log_end_offset:
            return
        with self.storage_errors("truncating"):
            if offset < self._segments.first.base_offset:
                self._start_over(offset, now_ms)
            else:
                self._cut(offset, now_ms)

    def _cut(self, offset: int, now_ms: int) -> None:
        kept_count = self._segments.index_of(offset) + 1
        gone = list(self._segments)[kept_count:]
        self._segments.remove(gone)
        for segment in gone:
            segment.remove_files()
        self._aborted.forget([segment.base_offset for segment in gone])
        active = self._segments.active
        end_offset = active.truncate(offset, now_ms)
        if not self._aborted.truncate(active.base_offset, offset):
            self._snapshots.remove_after(active.base_offset)  # so that all of the segment is replayed
        self._note_new_end(end_offset, now_ms)

    def _start_over(self, offset: int, now_ms: int) -> None:
        for segment in self._segments:
            segment.remove_files()
        self._aborted.forget([segment.base_offset for segment in self._segments])
        self._segments.replace_all([Segment.create(self._path, offset, self.settings, self._resources, now_ms)])
        self.log_start_offset = offset
        self._snapshots.remove_after(-1)
        self._note_new_end(offset, now_ms)

    def _note_new_end(self, end_offset: int, now_ms: int) -> None:
        self._note_truncation(end_offset)
        self.log_end_offset = end_offset
        self.log_start_offset = min(self.log_start_offset, end_offset)
        self.high_watermark = min(self.high_watermark, end_offset)
        self.recovery_point = min(self.recovery_point, end_offset)
        self._snapshots.remove_after(end_offset)
        self._epoch_file.truncate_from_end(end_offset, self.recovery_point)
        rebuild_producer_state(
            self._producers, self._snapshots, self._segments, self._aborted, end_offset, self.settings, now_ms
        )
        self._producers.note_high_watermark(self.high_watermark)

    # ---- retention

    def apply_retention(self, now_ms: int) -> list[DeletedSegment]:
        self.check_online()
        with self.storage_errors("deleting old segments"):
            facts = self._segments.facts(self.log_end_offset)
            deletions = plan_deletions(facts, self.log_start_offset, self.high_watermark, self.settings, now_ms)
            return self._delete_segments(deletions, now_ms) if deletions else []

    def _delete_segments(self, deletions: list[Deletion], now_ms: int) -> list[DeletedSegment]:
        if len(deletions) == len(self._segments):
            self._roll(self.log_end_offset, now_ms)
        reasons = {deletion.base_offset: deletion.reason for deletion in deletions}
        gone = [segment for segment in self._segments if segment.base_offset in reasons]
        # The log start moves first, so that no reader is sent to a segment that is on its way out.
        self._segments.remove(gone)
        self._advance_log_start(self._segments.first.base_offset)
        due_ms = now_ms + self.settings.file_delete_delay_ms
        deleted = []
        for segment in gone:
            for path in segment.mark_deleted():
                self._delayed_deletes.add(path, due_ms)
            reason = reasons[segment.base_offset]
            logger.info("partition %s drops segment %d: %s", self.topic_partition, segment.base_offset, reason.value)
            deleted.append(DeletedSegment(segment.base_offset, segment.size, reason))
        self._snapshots.remove_at([segment.base_offset for segment in gone])
        self._aborted.forget([segment.base_offset for segment in gone])
        return deleted

    # ---- durability

    @property
    def has_unflushed_segments(self) -> bool:
        """A sealed segment waits for its fsync: the server flushes it soon, as Kafka does after each roll."""
        return self.recovery_point < self._segments.active.base_offset

    def is_flush_due(self, now_ms: int) -> bool:
        """By flush.ms, or because a segment was sealed."""
        if self.offline_reason is not None or self.recovery_point >= self.log_end_offset:
            return False
        return self.has_unflushed_segments or now_ms - self.last_flush_ms >= self.settings.flush_ms

    def prepare_flush(self) -> Flush | None:
        """What another thread may sync, captured here on the owner's; None when everything is durable already."""
        self.check_online()
        if self.recovery_point >= self.log_end_offset:
            return None
        with self.storage_errors("flushing"):
            return capture_flush(
                self._segments,
                self._snapshots,
                self._aborted,
                self._epoch_file,
                self.recovery_point,
                self.log_end_offset,
                self._truncation_count,
            )

    def mark_flushed(self, flush: Flush, now_ms: int | None = None) -> None:
        """On the owner's thread after `flush.run()`: the recovery point moves up to what is durable."""
        if flush.truncation_count != self._truncation_count:
            return  # what was synced has been cut off since; the next flush counts
        if flush.offset > self.recovery_point:
            self.recovery_point = flush.offset
        self._epoch_file.is_synced = True
        if now_ms is not None:
            self.last_flush_ms = now_ms

    def flush(self) -> int:
        """The three steps in one, for callers that may block; the offset now durable."""
        flush = self.prepare_flush()
        if flush is not None:
            with self.storage_errors("flushing"):
                flush.run()
            self.mark_flushed(flush)
        return self.recovery_point

    def close(self, clean: bool) -> None:
        """`clean` leaves everything on disk that lets the next start trust it; otherwise the files are just let go."""
        try:
            if clean:
                self.check_online()
                with self.storage_errors("closing"):
                    self._settle()
        finally:
            self._segments.close()
            self._aborted.close()

    def _settle(self) -> None:
        if self.log_end_offset > 0:
            # Durable: nothing would notice its loss after a clean shutdown.
            self._snapshots.write(self.log_end_offset, self._producers.entries.values())
            self._files.sync_file(self._snapshots.path(self.log_end_offset))
            self._files.sync_directory(self._path)
        if not self._epoch_file.is_current:
            self._epoch_file.write(self.recovery_point)
        self.flush()
        self._aborted.seal(self._segments.active.base_offset, sync=True)
        self._segments.active.seal(trim=self.settings.preallocate)
