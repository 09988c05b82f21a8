"""The contents of one partition's log: its segments, their state, and its offsets.

`PartitionLog` owns the contents. The parts that act on a log (append, reading, flushing, retention, truncation,
compaction) share this one object; no other module sees it. One thread owns it.

    log start <= high watermark <= log end        recovery point <= log end
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field

from penstock.core.log_settings import LogSettings
from penstock.core.types import TopicId, TopicPartition
from penstock.log.state.aborted_transactions import AbortedTransactions
from penstock.log.state.availability import Availability
from penstock.log.state.epoch_file import EpochFile
from penstock.log.state.producer_marks import ProducerMarks
from penstock.log.state.producer_state import ProducerState
from penstock.log.state.snapshots import Snapshots
from penstock.log.storage.files import Files
from penstock.log.storage.open_files import OpenResources
from penstock.log.storage.segment import Segment
from penstock.log.storage.segments import Segments

logger = logging.getLogger(__name__)


@dataclass(slots=True, eq=False, repr=False)
class LogContents:
    topic_partition: TopicPartition
    topic_id: TopicId
    directory: str
    settings: LogSettings
    resources: OpenResources
    availability: Availability
    segments: Segments
    epoch_file: EpochFile
    snapshots: Snapshots
    producers: ProducerState
    aborted: AbortedTransactions
    log_start_offset: int
    log_end_offset: int
    high_watermark: int
    recovery_point: int  # everything before it is durable
    # The value of `segments.change_count` when the names of all files were durable; -1 when that is unknown.
    durable_names: int = -1
    # False after a move, until a flush has made the new name of the directory durable.
    is_place_durable: bool = True
    marks: ProducerMarks = field(default_factory=ProducerMarks)
    truncation_count: int = 0  # work in other threads compares it: its captures may have been truncated since

    @property
    def files(self) -> Files:
        return self.resources.files

    @property
    def last_stable_offset(self) -> int:
        """Every transaction before it is decided, by markers below the high watermark."""
        unstable = self.producers.first_unstable_offset
        if unstable is None:
            return self.high_watermark
        return min(max(unstable, self.log_start_offset), self.high_watermark)

    def create_segment(self, base_offset: int, now_ms: int) -> Segment:
        return Segment.create(self.directory, base_offset, self.settings, self.resources, now_ms)

    def mark_producers(self) -> None:
        """The high watermark has risen: see `producer_marks`. Costs 0.5 us where no mark is due."""
        marks, active = self.marks, self.segments.active
        marks.note_high_watermark(self.high_watermark)
        if marks.is_due(active.base_offset, active.size):
            state = self.producers
            marks.make(
                self.log_end_offset,
                active.base_offset,
                active.size,
                state.entries.values(),
                state.unreplicated_transactions,
            )

    def roll(self, base_offset: int, now_ms: int) -> Segment:
        """Seals the active segment and begins a new segment, with a producer snapshot at the seam. After an OSError the
        active segment goes on unchanged.
        """
        previous = self.segments.active
        self.producers.end_offset = base_offset
        previous.write_out(trim=self.settings.preallocate)
        self.aborted.write_out(previous.base_offset)
        self.snapshots.write(base_offset, self.producers.entries.values())
        segment = self.create_segment(base_offset, now_ms)
        # Nothing below touches the disk.
        previous.seal(trim=False)
        self.aborted.seal(previous.base_offset, is_written_out=True)
        self.segments.add(segment)
        logger.info("partition %s begins segment %d", self.topic_partition, base_offset)
        return segment

    def advance_log_start(self, offset: int) -> None:
        """Never backwards."""
        if offset > self.log_start_offset:
            self.log_start_offset = offset
            self.epoch_file.truncate_from_start(offset)
