"""Rebuilds producer state and transaction indexes: from the newest snapshot on disk, or a newer mark in memory, then
from the batches after it.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Iterator

from penstock.core.types import Buffer, TopicPartition
from penstock.log.state.availability import Availability
from penstock.log.state.contents import LogContents
from penstock.log.state.earlier_batches import find_earlier_batches
from penstock.log.state.producer_marks import ProducerMark
from penstock.log.state.producer_state import BatchMetadata, CompletedTransaction, ProducerState, ProducerStateEntry
from penstock.log.state.snapshots import Snapshots
from penstock.log.state.transaction_index import AbortedTransaction, TransactionIndex
from penstock.log.storage.scan import read_batch
from penstock.log.storage.segment import Segment
from penstock.log.storage.segments import Segments
from penstock.protocol.errors import ApiError
from penstock.protocol.records import EndMarker, decode_end_marker, iterate_records

logger = logging.getLogger(__name__)


def rebuild_producer_state(contents: LogContents) -> None:
    """Reads headers, and records of control batches alone. Rebuilds missing transaction indexes on the way.

    Replay begins at the snapshot's offset, even before the log start: deleted records still stand in their segment, and
    a producer whose last batch was one of them continues. A snapshot from before the first segment has a gap after it
    and would know less than the producer does, so it is not used.
    """
    state, snapshots, segments, aborted = contents.producers, contents.snapshots, contents.segments, contents.aborted
    start, entries, unreplicated = _find_beginning(contents)
    find_earlier = functools.partial(_find_earlier_batches, contents.availability, segments)
    state.load(entries, start, find_earlier, unreplicated)
    if start < contents.log_end_offset:
        for segment in segments.from_offset(start):
            if segment.base_offset > start:
                # A new snapshot on the way, so that the next recovery need not begin this far back.
                snapshots.write(segment.base_offset, state.entries.values())
            for completed in _replay_segment(state, segment, start, contents):
                aborted.note(segment.base_offset, completed)
        aborted.seal_before(segments.active.base_offset)
    state.end_offset = contents.log_end_offset


def _find_beginning(contents: LogContents) -> ProducerMark:
    snapshots, first_offset = contents.snapshots, contents.segments.first.base_offset
    snapshots.remove_before(first_offset)
    mark = contents.marks.find(first_offset, contents.log_end_offset)
    if mark is not None and not any(offset > mark.offset for offset in snapshots.offsets[-1:]):
        return mark._replace(entries=mark.copies())
    return ProducerMark(*(snapshots.load_newest() or (first_offset, [])), unreplicated={})


def _find_earlier_batches(
    availability: Availability, segments: Segments, entry: ProducerStateEntry
) -> list[BatchMetadata]:
    with availability.storage_errors("looking for a repeated batch", is_repeatable=True):
        return find_earlier_batches(segments, entry)


def rebuild_transaction_index(
    base_offset: int, topic_partition: TopicPartition, snapshots: Snapshots, segments: Segments
) -> TransactionIndex:
    """Rebuilds the index of one sealed segment, whose file is damaged, with a temporary producer state."""
    start, entries = snapshots.load_newest(base_offset) or (segments.first.base_offset, [])
    state = ProducerState(topic_partition)
    state.load(entries, start)
    index = TransactionIndex(base_offset)
    for segment in segments.from_offset(start):
        if segment.base_offset > base_offset:
            break
        for completed in _replay_segment(state, segment, start):
            if completed.is_aborted and segment.base_offset == base_offset:
                index.append(AbortedTransaction(*completed[:4]))
    return index


def _replay_segment(
    state: ProducerState, segment: Segment, start: int, marked: LogContents | None = None
) -> Iterator[CompletedTransaction]:
    """The transactions that end in the segment, while `state` follows. The contents of `marked` get marks from their
    high watermark on: a truncation may soon remove records behind it.
    """
    file = segment.open_file()
    for position, header in segment.scan_from(start):
        if (
            marked is not None
            and header.next_offset > marked.high_watermark
            and marked.marks.is_due(segment.base_offset, position)
        ):
            entries, unreplicated = state.entries.values(), state.unreplicated_transactions
            marked.marks.make(header.base_offset, segment.base_offset, position, entries, unreplicated)
        if header.has_producer:
            marker = read_marker(read_batch(file, position, header)) if header.is_control else None
            completed = state.update(header, header.base_offset, header.max_timestamp, marker)
            if completed is not None:
                yield completed
        state.end_offset = header.next_offset


def read_marker(batch: Buffer) -> EndMarker | None:
    """The marker in a control batch; None when compaction has emptied it, or this version cannot read it."""
    try:
        for record in iterate_records(batch):
            return decode_end_marker(record)
    except ApiError as error:
        logger.warning("ignoring a control batch: %s", error)
    return None
