"""The log of one partition: the broker appends to it and reads from it.

One thread owns the log; other threads may work only on captures of `flushing` and `compaction`. The log ties the parts
together, which share one `LogContents`:

    append      validation and producer state accept batches, rolling selects their segment
    reader      records by offset, offsets by time, aborted transactions
    flushing    the durable part
    compaction  the inputs of a cleaning and its results
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
from penstock.log.formats import names
from penstock.log.formats.metadata_files import encode_partition_metadata
from penstock.log.log_reads.log_reader import LogReader
from penstock.log.log_reads.positions import TimestampedOffset
from penstock.log.recovery.truncation import start_over, truncate_log
from penstock.log.replica_copies.log_copy import LogCopy
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
        self.settings = contents.settings  # only `update_settings` changes them
        self._contents = contents
        self._appender = Appender(contents)
        self._delayed_deletes = delayed_deletes
        # Stores one batch at the end of the log: see `Appender`. The method itself, since each append calls it.
        self.append_as_leader = self._appender.append_as_leader
        # Stores batches as the leader numbered them; leaves out a batch that is cut off at the end, as in any fetch
        # response.
        self.append_as_follower = self._appender.append_as_follower
        self.go_offline = contents.availability.go_offline
        # The log has just changed its directory. Until the old directory is removed, a start after a crash decides
        # between the two by the ends of their logs, so the log must not be truncated.
        self.is_settling = False

    # ---- what the log is

    @property
    def topic_id(self) -> TopicId:
        return self._contents.topic_id

    def assign_topic_id(self, topic_id: TopicId) -> None:
        """For a log whose partition.metadata was lost or never existed."""
        contents = self._contents
        contents.availability.check_online()
        with contents.availability.storage_errors("writing its metadata", is_repeatable=True):
            contents.files.write_atomically(
                f"{contents.directory}/{names.PARTITION_METADATA}", encode_partition_metadata(topic_id)
            )
        contents.topic_id = topic_id

    def update_settings(self, settings: LogSettings) -> None:
        """Index sizes and jitter count from the next segment on, all other settings from the next call."""
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
        """Every transaction before it is decided, by markers below the high watermark."""
        return self._contents.last_stable_offset

    def offsets(self) -> tuple[int, int, int]:
        """(high watermark, last stable offset, log start offset): the offsets of each fetch answer, in one call."""
        contents = self._contents
        high_watermark, unstable = contents.high_watermark, contents.producers.first_unstable_offset
        last_stable = high_watermark if unstable is None else contents.last_stable_offset
        return high_watermark, last_stable, contents.log_start_offset

    @property
    def recovery_point(self) -> int:
        """Everything before it is durable."""
        return self._contents.recovery_point

    def is_settled(self) -> bool:
        """Whether answers may show everything: it is as durable as flush.messages demands, and replicated."""
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
        """Each append to a partition without followers ends with this, so it does all in one call."""
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
        """Commits or aborts the producer's open transaction; the marker is stored even without one."""
        self.availability.check_online()
        self.producers.check_marker(producer_id, producer_epoch, coordinator_epoch, transaction_version)
        marker = EndMarker(CONTROL_COMMIT if is_commit else CONTROL_ABORT, coordinator_epoch)
        batch = build_end_marker(marker, producer_id=producer_id, producer_epoch=producer_epoch, timestamp=now_ms)
        return self.append_as_leader(batch, leader_epoch, now_ms, Origin.COORDINATOR)

    # ---- remove

    def delete_records_before(self, offset: int) -> int:
        """Returns the new log start offset. The next retention run removes segments."""
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
        """Returns the removed segments: all that may be removed, or the oldest `most` of them."""
        self.availability.check_online()
        with self.availability.storage_errors("deleting old segments", is_repeatable=True):
            return apply_retention(self._contents, self._delayed_deletes, now_ms, most)

    def truncate_to(self, offset: int, now_ms: int = 0) -> None:
        """Removes everything at and past `offset`: a follower removes records that its leader does not have."""
        _check_cut(self)
        if offset >= self._contents.log_end_offset:
            self.epoch_file.forget_empty(
                self._contents.log_end_offset
            )  # the leader may lack no more than an epoch without records
            return
        with self.availability.storage_errors("truncating"):
            truncate_log(self._contents, self._delayed_deletes.add, offset, now_ms)
        self.compaction.note_truncation(self._contents.log_end_offset)

    def start_over(self, offset: int, now_ms: int) -> None:
        """Removes everything and continues at `offset`: for a follower whose next record its leader has deleted."""
        _check_cut(self)
        with self.availability.storage_errors("starting over"):
            start_over(self._contents, self._delayed_deletes.add, offset, now_ms)
        self.compaction.note_truncation(self._contents.log_end_offset)

    # ---- another directory

    def begin_copy(self, directory: str) -> LogCopy:
        """Begins a copy in `directory`, which does not exist yet."""
        return LogCopy(self._contents, directory)

    def relocate(self, copy: LogCopy, directory: Path) -> None:
        """Continues with a copy that has everything, under the present name of its directory."""
        copy.take_over(str(directory))
        self.directory = directory

    # ---- upkeep of the files

    def write_index_entries(self) -> None:
        """Updates the index files of the active segment, for tools that read them while the broker runs.

        An append notices a full disk: the entries stay in memory and are written later.
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
        """The syncs of a clean shutdown for another thread, captured on the owner's thread. No append may follow. The
        names in the data directory are not part of it.
        """
        self.availability.check_online()
        with self.availability.storage_errors("closing"):
            return capture_closing(self._contents)

    def close(self, clean: bool) -> None:
        """`clean` leaves everything on disk that lets the next start trust it; otherwise the files are just closed."""
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
