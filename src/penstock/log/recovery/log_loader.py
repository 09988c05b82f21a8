"""Loads a partition from its directory: at once after a clean shutdown, with recovery after any other end.

Clean: sizes come from the file system, offsets from the last headers; nothing else is read. Unclean: recovery checks
every segment from the recovery point on batch by batch; at the first bad batch the log ends and later segments are
removed. The same happens where whole batches are missing at the end of a segment, as after a power failure: behind a
hole, a replica would look as if it had caught up.

Only compaction makes legitimate holes, and Penstock's makes none at the end of a segment, since the last batch of a
cleaned segment stays. Kafka's may, up to the offset in the cleaner's checkpoint. Before that offset no power failure
makes holes: a cleaning syncs all segments that it reads before it removes anything, and the checkpoint comes last.

In both cases files that can be rebuilt (indexes, snapshots, epochs) may be missing or damaged: that is a line in the
log, not an error. A load never raises the recovery point, since only fsync does that, except after a clean shutdown,
which synced everything.
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
    cleaned_end: int = 0  # compaction may have made holes before it


def load_log(request: LoadRequest, listing: set[str]) -> LogContents:
    """OSError when the disk fails; everything repairable is repaired. `listing` has the names in the log's
    directory.
    """
    files, directory = request.resources.files, request.directory
    listing = finish_swaps(files, directory, listing)
    epochs, is_epoch_file_whole = _read_epochs(files, directory, listing)
    if names.LEADER_EPOCHS not in listing:
        # A flush writes the epochs before it raises the recovery point. So this recovery point belongs to a replica
        # which had the name before, and was removed since the checkpoint.
        request = request._replace(recovery_point=0)
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
        # Snapshots and transaction indexes from here on may not have reached the disk; replay rebuilds them.
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
    # After a crash it is unknown whether the file was ever synced: the first flush writes it again.
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
    _load_producer_state(contents, is_clean)
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


def _load_producer_state(contents: LogContents, is_clean: bool) -> None:
    snapshots, segments = contents.snapshots, contents.segments
    snapshots.remove_stray([segment.base_offset for segment in segments])
    snapshots.remove_after(contents.log_end_offset)
    is_known = is_clean and not snapshots.offsets
    if not contents.aborted.open(segments.active.base_offset):
        snapshots.remove_after(segments.active.base_offset)  # so that all of the segment is replayed
        is_known = False
    if is_known:
        # As in Kafka: a clean shutdown leaves a snapshot whenever there are producers, so its absence means none.
        contents.producers.end_offset = contents.log_end_offset
    else:
        rebuild_producer_state(contents)
    contents.producers.note_high_watermark(contents.high_watermark)


def create_log(request: LoadRequest, topic_id: TopicId) -> LogContents:
    """A log in a directory that `make_partition_directory` has made. Does not touch the disk."""
    segment = Segment(request.directory, request.log_start_offset, request.settings, request.resources, request.now_ms)
    segment.take_over_empty()
    return _empty_log(request, topic_id, segment)


def unreadable_log(request: LoadRequest) -> LogContents:
    """A stand-in without any file for a partition that could not be loaded: the partition exists, and is offline."""
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
    """The segment that holds the last record before the recovery point: later records, and the indexes of a segment
    that was sealed there, may not have reached the disk.
    """
    first = 0
    for index, segment in enumerate(segments):
        if segment.base_offset < request.recovery_point:
            first = index
    return first


def _recover(
    request: LoadRequest, segments: list[Segment], first: int, epochs: LeaderEpochs
) -> tuple[int, list[Segment]]:
    """Checks the segments from the `first` on; returns (log end offset, the segments that remain)."""

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
            # Whole batches, twice or under the wrong name: only a person can choose the right file.
            raise CorruptLogError(segment.log_file.path, 0, f"it reaches past {segments[index + 1].base_offset}")
        has_hole = not is_last and max(end_offset, segment.base_offset) < segments[index + 1].base_offset
        if not is_last and (cut or (has_hole and segments[index + 1].base_offset > request.cleaned_end)):
            logger.warning(
                "%s lost records of segment %d: the %d segments after it are dropped",
                request.topic_partition,
                segment.base_offset,
                len(segments) - index - 1,
            )
            for later in segments[index + 1 :]:
                later.remove_files()
            # Otherwise a power failure could bring them back, behind the records written in their place.
            request.resources.files.sync_directory(request.directory)
            segments = segments[: index + 1]
            break
        if not is_last:
            segment.seal(trim=False)
    return (segments[-1].open_active() if segments else request.log_start_offset), segments


def _read_topic_id(files: Files, directory: str, listing: set[str]) -> TopicId:
    """All zeros when the file is missing or damaged: the opener of the log knows the topic and writes the file
    again.
    """
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
