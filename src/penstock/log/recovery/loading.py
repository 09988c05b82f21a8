"""Reading a partition's directory back: at once after a clean shutdown, with recovery after any other end.

Clean: sizes are taken from the file system, offsets from the last headers; nothing else is read. Unclean: every segment
from the recovery point on is checked batch by batch; at the first bad batch the log ends and later segments go. So they
do where whole batches are missing at the end of a segment, as a power failure can leave it: behind a hole, a replica
would look as if it had caught up. Compaction makes holes that are none, but our own keeps the last batch of a segment.
That of another broker did not, and what it cleaned was flushed: below the recovery point a hole of a compacted log is
none.

In both cases files that rebuild themselves (indexes, snapshots, epochs) may be missing or damaged: that is a line in
the log, not an error. The recovery point is never moved up here, since only fsync does that, except after a clean
shutdown, which synced everything.
"""

from __future__ import annotations

import logging
from typing import NamedTuple

from penstock.core.log_settings import LogSettings
from penstock.core.types import ZERO_TOPIC_ID, TopicId, TopicPartition
from penstock.log.formats import names
from penstock.log.formats.metadata_files import decode_partition_metadata
from penstock.log.recovery.swap_files import finish_swaps
from penstock.log.state.aborted_transactions import AbortedTransactions
from penstock.log.state.availability import Availability
from penstock.log.state.contents import LogContents
from penstock.log.state.epoch_file import EpochFile
from penstock.log.state.leader_epochs import LeaderEpochs
from penstock.log.state.producer_state import ProducerState
from penstock.log.state.replay import rebuild_producer_state
from penstock.log.state.snapshots import Snapshots
from penstock.log.storage.files import Files
from penstock.log.storage.open_files import OpenResources
from penstock.log.storage.scan import CorruptLogError
from penstock.log.storage.segment import Segment
from penstock.log.storage.segments import Segments
from penstock.protocol.batch import BatchHeader

logger = logging.getLogger(__name__)


class LoadRequest(NamedTuple):
    topic_partition: TopicPartition
    directory: str
    settings: LogSettings
    resources: OpenResources
    now_ms: int
    is_clean: bool
    recovery_point: int
    log_start_offset: int
    high_watermark: int = 0
    may_have_holes: bool = False  # the log is or was compacted


def load_log(request: LoadRequest) -> LogContents:
    """OSError when the disk fails; anything that can be repaired is repaired."""
    files, directory = request.resources.files, request.directory
    listing = finish_swaps(files, directory, set(files.list_names(directory)))
    epochs, is_epoch_file_whole = _read_epochs(files, directory, listing)
    epochs_on_disk = list(epochs.entries)
    segments = _load_segments(request, listing)
    snapshots = Snapshots(files, directory, listing)
    indexed = [each.base_offset for each in segments if _transaction_index(each) in listing]
    aborted = AbortedTransactions(request.resources, directory, indexed)
    log_end_offset = _open_clean(request, segments)
    is_clean = log_end_offset is not None
    if is_clean:
        snapshots.trust()
    if log_end_offset is None:
        first_checked = _find_first_unflushed(request, segments)
        # Snapshots and transaction indexes from here on may not have reached the disk; replay makes them anew.
        snapshots.remove_after(segments[first_checked].base_offset if segments else request.log_start_offset)
        aborted.drop_from(segments[first_checked].base_offset if segments else 0)
        log_end_offset, segments = _recover(request, segments, first_checked, epochs)
    if log_end_offset < request.log_start_offset:
        _drop_all(request, segments, log_end_offset)
        aborted.forget([segment.base_offset for segment in segments])
        segments, log_end_offset = [], request.log_start_offset
        epochs.truncate_from_end(0)
    if not segments:
        segments = [_create_segment(request, request.log_start_offset)]
    log_start_offset = max(request.log_start_offset, segments[0].base_offset)
    epochs.truncate_from_end(log_end_offset)
    epochs.truncate_from_start(log_start_offset)
    # After a crash nobody knows whether the file was ever synced: the first flush writes it anew.
    is_epoch_file_current = is_epoch_file_whole and is_clean and epochs.entries == epochs_on_disk
    contents = LogContents(
        topic_partition=request.topic_partition,
        topic_id=_read_topic_id(files, directory, listing),
        directory=directory,
        settings=request.settings,
        resources=request.resources,
        availability=Availability(request.topic_partition),
        segments=Segments(segments),
        epoch_file=EpochFile(files, directory, epochs, is_epoch_file_current),
        snapshots=snapshots,
        producers=ProducerState(request.topic_partition, log_start_offset),
        aborted=aborted,
        log_start_offset=log_start_offset,
        log_end_offset=log_end_offset,
        high_watermark=min(max(request.high_watermark, log_start_offset), log_end_offset),
        recovery_point=log_end_offset if is_clean else min(request.recovery_point, log_end_offset),
    )
    if is_clean:
        contents.durable_names = contents.segments.change_count
    _load_producer_state(contents, is_clean, request.now_ms)
    return contents


def _open_clean(request: LoadRequest, segments: list[Segment]) -> int | None:
    """The log end offset after a clean shutdown; None when the segments must be recovered."""
    if not request.is_clean:
        return None
    try:
        return segments[-1].open_active() if segments else request.log_start_offset
    except CorruptLogError as error:
        logger.warning("%s was closed cleanly and is damaged all the same: %s", request.topic_partition, error)
        return None


def _drop_all(request: LoadRequest, segments: list[Segment], log_end_offset: int) -> None:
    logger.warning(
        "%s ends at %d, before its log start offset %d: all of its segments are dropped",
        request.topic_partition,
        log_end_offset,
        request.log_start_offset,
    )
    for segment in segments:
        segment.remove_files()


def _load_producer_state(contents: LogContents, is_clean: bool, now_ms: int) -> None:
    snapshots, segments = contents.snapshots, contents.segments
    snapshots.remove_stray([segment.base_offset for segment in segments])
    snapshots.remove_after(contents.log_end_offset)
    is_known = is_clean and not snapshots.offsets
    if not contents.aborted.open(segments.active.base_offset):
        snapshots.remove_after(segments.active.base_offset)  # so that all of the segment is replayed
        is_known = False
    if is_known:
        # As Kafka: a clean shutdown leaves a snapshot whenever there is anything to say, so its absence means nobody to
        # know.
        contents.producers.end_offset = contents.log_end_offset
    else:
        rebuild_producer_state(contents, now_ms)
    contents.producers.note_high_watermark(contents.high_watermark)


def create_log(request: LoadRequest, topic_id: TopicId) -> LogContents:
    """A log in a directory that `make_partition_directory` has made. The disk is not asked."""
    segment = Segment(request.directory, request.log_start_offset, request.settings, request.resources, request.now_ms)
    segment.take_over_empty()
    return _empty_log(request, topic_id, segment)


def unreadable_log(request: LoadRequest) -> LogContents:
    """A stand-in without any file for a partition that could not be loaded: it exists, and is offline."""
    segment = Segment(request.directory, request.log_start_offset, request.settings, request.resources, request.now_ms)
    segment.start_empty()
    return _empty_log(request, ZERO_TOPIC_ID, segment)


def _empty_log(request: LoadRequest, topic_id: TopicId, segment: Segment) -> LogContents:
    files, directory = request.resources.files, request.directory
    return LogContents(
        topic_partition=request.topic_partition,
        topic_id=topic_id,
        directory=directory,
        settings=request.settings,
        resources=request.resources,
        availability=Availability(request.topic_partition),
        segments=Segments([segment]),
        epoch_file=EpochFile(files, directory, LeaderEpochs(), is_current=True),
        snapshots=Snapshots(files, directory, ()),
        producers=ProducerState(request.topic_partition, request.log_start_offset),
        aborted=AbortedTransactions(request.resources, directory),
        log_start_offset=request.log_start_offset,
        log_end_offset=request.log_start_offset,
        high_watermark=request.log_start_offset,
        recovery_point=request.recovery_point,
    )


def _create_segment(request: LoadRequest, base_offset: int) -> Segment:
    return Segment.create(request.directory, base_offset, request.settings, request.resources, request.now_ms)


def _load_segments(request: LoadRequest, listing: set[str]) -> list[Segment]:
    files, directory = request.resources.files, request.directory
    segments = []
    for name in sorted(listing):
        parsed = names.parse_segment_file(name)
        if parsed is None:
            continue
        base_offset, suffix = parsed
        if suffix == names.LOG:
            size = files.size(f"{directory}/{name}")
            segments.append(Segment(directory, base_offset, request.settings, request.resources, request.now_ms, size))
        elif suffix in names.INDEX_SUFFIXES and names.segment_file(base_offset, names.LOG) not in listing:
            logger.warning("removing %s of %s: it belongs to no segment", name, request.topic_partition)
            files.unlink(f"{directory}/{name}")
    return segments


def _transaction_index(segment: Segment) -> str:
    return names.segment_file(segment.base_offset, names.TRANSACTION_INDEX)


def _find_first_unflushed(request: LoadRequest, segments: list[Segment]) -> int:
    """Which segment holds the last record before the recovery point: what comes after that, and the indexes of a
    segment that was sealed there, may not have reached the disk.
    """
    first = 0
    for index, segment in enumerate(segments):
        if segment.base_offset < request.recovery_point:
            first = index
    return first


def _recover(
    request: LoadRequest, segments: list[Segment], first: int, epochs: LeaderEpochs
) -> tuple[int, list[Segment]]:
    """Check the segments from the `first` on; (log end offset, the segments that remain)."""

    end_offset = 0

    def note_batch(header: BatchHeader) -> None:
        nonlocal end_offset
        end_offset = header.next_offset
        if header.leader_epoch > epochs.latest:
            epochs.assign(header.leader_epoch, header.base_offset)

    for index in range(first, len(segments)):
        segment = segments[index]
        logger.info("checking segment %d of %s", segment.base_offset, request.topic_partition)
        cut = segment.recover(note_batch)
        is_last = index == len(segments) - 1
        if not is_last and end_offset > segments[index + 1].base_offset:
            # Whole batches, twice or under the wrong name: which of the files is the right one, only a person can say.
            raise CorruptLogError(segment.log_file.path, 0, f"it reaches past {segments[index + 1].base_offset}")
        next_base = segment.base_offset if is_last else segments[index + 1].base_offset
        may_have_hole = request.may_have_holes and next_base <= request.recovery_point
        has_hole = max(end_offset, segment.base_offset) < next_base
        if not is_last and (cut or (has_hole and not may_have_hole)):
            logger.warning(
                "%s lost records of segment %d: the %d segments after it are dropped",
                request.topic_partition,
                segment.base_offset,
                len(segments) - index - 1,
            )
            for later in segments[index + 1 :]:
                later.remove_files()
            # Or a power failure could bring them back, behind what is written in their place.
            request.resources.files.sync_directory(request.directory)
            segments = segments[: index + 1]
            break
        if not is_last:
            segment.seal(trim=False)
    return (segments[-1].open_active() if segments else request.log_start_offset), segments


def _read_topic_id(files: Files, directory: str, listing: set[str]) -> TopicId:
    """All zeros when the file is missing or damaged: who opens the log knows the topic and writes it anew."""
    if names.PARTITION_METADATA in listing:
        try:
            return decode_partition_metadata(files.read_file(f"{directory}/{names.PARTITION_METADATA}"))
        except ValueError as error:
            logger.warning("%s/%s is damaged: %s", directory, names.PARTITION_METADATA, error)
    return ZERO_TOPIC_ID


def _read_epochs(files: Files, directory: str, listing: set[str]) -> tuple[LeaderEpochs, bool]:
    if names.LEADER_EPOCHS in listing:
        try:
            return LeaderEpochs.decode(files.read_file(f"{directory}/{names.LEADER_EPOCHS}")), True
        except ValueError as error:
            logger.warning("%s/%s is damaged and begins anew: %s", directory, names.LEADER_EPOCHS, error)
            return LeaderEpochs(), False
    return LeaderEpochs(), True
