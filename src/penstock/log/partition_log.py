"""The log of one partition: what the broker appends to and reads from.

One thread owns it; only what `flushing` and `compaction` capture may be worked on in another. It ties the parts
together, which share one `LogContents`:

    append      validation and producer state decide what may come in, rolling decides where it goes
    reader      records by offset, offsets by time, aborted transactions
    flushing    what is durable
    compaction  what a cleaning needs and what becomes of its results
    retention and truncation, by `apply_retention` and `truncate_to`

A failing disk takes this partition offline, and no other: from then on every call raises KAFKA_STORAGE_ERROR until the
broker is started again.
"""

from __future__ import annotations

from pathlib import Path

from penstock.core.log_settings import LogSettings
from penstock.core.types import TopicId
from penstock.log.append.appender import Appender, AppendResult
from penstock.log.append.validation import BatchRules
from penstock.log.compaction.log_compaction import LogCompaction
from penstock.log.copying.log_copy import LogCopy
from penstock.log.formats import names
from penstock.log.formats.metadata_files import encode_partition_metadata
from penstock.log.reading.log_reader import LogReader
from penstock.log.reading.positions import TimestampedOffset
from penstock.log.recovery.truncation import start_over, truncate_log
from penstock.log.state.contents import LogContents
from penstock.log.state.origin import Origin
from penstock.log.state.transaction_index import AbortedTransaction
from penstock.log.storage.files import NOT_BROKEN
from penstock.log.upkeep.delayed_deletes import DelayedDeletes
from penstock.log.upkeep.flush import Flush, Flushing, capture_closing
from penstock.log.upkeep.segment_deletion import DeletedSegment, apply_retention
from penstock.protocol.errors import ApiError, ErrorCode
from penstock.protocol.records import CONTROL_ABORT, CONTROL_COMMIT, EndMarker, build_end_marker

__all__ = ["AbortedTransaction", "AppendResult", "DeletedSegment", "Origin", "PartitionLog", "TimestampedOffset"]


class PartitionLog:
    def __init__(self, contents: LogContents, delayed_deletes: DelayedDeletes, now_ms: int) -> None:
        self.topic_partition = contents.topic_partition
        self.directory = Path(contents.directory)
        self.availability = contents.availability
        self.segments = contents.segments
        self.producers = contents.producers
        self.epoch_file = contents.epoch_file
        self.epochs = contents.epoch_file.epochs
        self.reader = LogReader(contents)
        self.flushing = Flushing(contents, now_ms)
        self.compaction = LogCompaction(contents, self.reader, delayed_deletes)
        self.settings = contents.settings  # changed by `update_settings` alone
        self._contents = contents
        self._appender = Appender(contents)
        self._delayed_deletes = delayed_deletes
        # Store one batch at the end of the log: see `Appender`. The method itself, since each append calls it.
        self.append_as_leader = self._appender.append_as_leader
        # Store batches as the leader numbered them; a batch cut off at the end, as in any fetch response, is left out.
        self.append_as_follower = self._appender.append_as_follower
        self.go_offline = contents.availability.go_offline
        # The log has just changed its directory. Until the old one is out of the way, a crash decides by the ends of
        # the two which of them counts, so the log must not be cut.
        self.is_settling = False

    # ---- what the log is

    @property
    def topic_id(self) -> TopicId:
        return self._contents.topic_id

    def assign_topic_id(self, topic_id: TopicId) -> None:
        """For a log whose partition.metadata was lost, or that never had one."""
        contents = self._contents
        contents.availability.check_online()
        with contents.availability.storage_errors("writing its metadata", is_repeatable=True):
            contents.files.write_atomically(
                f"{contents.directory}/{names.PARTITION_METADATA}", encode_partition_metadata(topic_id)
            )
        contents.topic_id = topic_id

    def update_settings(self, settings: LogSettings) -> None:
        """Index sizes and jitter count from the next segment on, all else from the next call."""
        self.settings = self._contents.settings = settings
        self._appender.rules = BatchRules.of(settings)

    @property
    def offline_reason(self) -> str | None:
        return self.availability.offline_reason

    @property
    def size(self) -> int:
        return self.segments.size

    # ---- offsets

    @property
    def log_start_offset(self) -> int:
        return self._contents.log_start_offset

    @property
    def log_end_offset(self) -> int:
        return self._contents.log_end_offset

    @property
    def high_watermark(self) -> int:
        return self._contents.high_watermark

    @property
    def last_stable_offset(self) -> int:
        """Everything before it is decided, by markers that are below the high watermark."""
        return self._contents.last_stable_offset

    def offsets(self) -> tuple[int, int, int]:
        """(high watermark, last stable offset, log start offset): what each fetch tells, in one call."""
        contents = self._contents
        high_watermark, unstable = contents.high_watermark, contents.producers.first_unstable_offset
        last_stable = high_watermark if unstable is None else contents.last_stable_offset
        return high_watermark, last_stable, contents.log_start_offset

    @property
    def recovery_point(self) -> int:
        """Everything before it is durable."""
        return self._contents.recovery_point

    def is_settled(self) -> bool:
        """Whether everything may be told: it is as durable as flush.messages asks for, and replicated."""
        contents = self._contents
        end = contents.log_end_offset
        return contents.high_watermark >= end and end - contents.recovery_point < contents.settings.flush_messages

    def advance_high_watermark(self, offset: int) -> None:
        """Never backwards, never past the end of the log."""
        contents = self._contents
        if offset > contents.high_watermark:
            contents.high_watermark = min(offset, contents.log_end_offset)
            if contents.producers.unreplicated_transactions:
                contents.producers.note_high_watermark(contents.high_watermark)
            contents.mark_producers()

    def advance_high_watermark_to_end(self) -> None:
        """What each append to a partition without followers leads to, so it does all in one call."""
        contents = self._contents
        if contents.log_end_offset > contents.high_watermark:
            contents.high_watermark = contents.log_end_offset
            if contents.producers.unreplicated_transactions:
                contents.producers.note_high_watermark(contents.high_watermark)

    # ---- append

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
        self.availability.check_online()
        self.producers.check_marker(producer_id, producer_epoch, coordinator_epoch, transaction_version)
        marker = EndMarker(CONTROL_COMMIT if is_commit else CONTROL_ABORT, coordinator_epoch)
        batch = build_end_marker(marker, producer_id=producer_id, producer_epoch=producer_epoch, timestamp=now_ms)
        return self.append_as_leader(batch, leader_epoch, now_ms, Origin.COORDINATOR)

    # ---- remove

    def delete_records_before(self, offset: int) -> int:
        """The new log start offset. Segments go with the next retention run."""
        contents = self._contents
        contents.availability.check_online()
        if not 0 <= offset <= contents.high_watermark:
            raise ApiError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"{self.topic_partition} can be deleted up to its high watermark {contents.high_watermark}, "
                f"not {offset}",
            )
        with contents.availability.storage_errors("deleting records"):
            contents.advance_log_start(offset)
        return contents.log_start_offset

    def apply_retention(self, now_ms: int, most: int | None = None) -> list[DeletedSegment]:
        """The segments that went: all that may go, or the oldest `most` of them."""
        self.availability.check_online()
        with self.availability.storage_errors("deleting old segments", is_repeatable=True):
            return apply_retention(self._contents, self._delayed_deletes, now_ms, most)

    def truncate_to(self, offset: int, now_ms: int = 0) -> None:
        """Forget everything at and past `offset`: what a follower does with what its leader does not have."""
        _check_cut(self)
        if offset >= self._contents.log_end_offset:
            self.epoch_file.forget_empty(
                self._contents.log_end_offset
            )  # an epoch without records may be all that the leader does not have
            return
        with self.availability.storage_errors("truncating"):
            truncate_log(self._contents, self._delayed_deletes.add, offset, now_ms)
        self.compaction.note_truncation(self._contents.log_end_offset)

    def start_over(self, offset: int, now_ms: int) -> None:
        """Forget everything and go on at `offset`: what a follower does whose next record its leader has deleted."""
        _check_cut(self)
        with self.availability.storage_errors("starting over"):
            start_over(self._contents, self._delayed_deletes.add, offset, now_ms)
        self.compaction.note_truncation(self._contents.log_end_offset)

    # ---- another directory

    def begin_copy(self, directory: str) -> LogCopy:
        """A copy in `directory`, which does not exist yet."""
        return LogCopy(self._contents, directory)

    def relocate(self, copy: LogCopy, directory: Path) -> None:
        """Goes on with a copy that has everything, under the name that its directory has by now."""
        copy.take_over(str(directory))
        self.directory = directory

    # ---- upkeep of the files

    def write_index_entries(self) -> None:
        """Bring the index files of the active segment up to date, for whoever reads them while the broker runs.

        A full disk is left to the appends to notice: the entries stay in memory and are written later.
        """
        indexes = self.segments.active.indexes
        if not indexes.has_unwritten or self.availability.offline_reason is not None:
            return
        try:
            indexes.write_entries()
        except OSError as error:
            if error.errno not in NOT_BROKEN:
                raise self.availability.fail("writing its indexes", error) from error

    def prepare_close(self) -> Flush:
        """What another thread may sync for a clean shutdown, captured here on the owner's. Nothing may be appended any
        more. The names in the data directory are not part of it.
        """
        self.availability.check_online()
        with self.availability.storage_errors("closing"):
            return capture_closing(self._contents)

    def close(self, clean: bool) -> None:
        """`clean` leaves everything on disk that lets the next start trust it; otherwise the files are just let go."""
        try:
            if clean:
                flush = self.prepare_close()
                with self.availability.storage_errors("closing"):
                    flush.run()
                    self._contents.files.sync_directory(self.directory.parent)
                self.flushing.mark_flushed(flush)
        finally:
            self.segments.close()
            self._contents.aborted.close()


def _check_cut(log: PartitionLog) -> None:
    log.availability.check_online()
    if log.is_settling:
        raise ApiError(
            ErrorCode.REPLICA_NOT_AVAILABLE, f"{log.topic_partition} cannot be cut before its move is settled"
        )
