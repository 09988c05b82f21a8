"""The cleaning of one batch. Pure: batches in, batches out.

A batch keeps its first and last offset, its sequences and its producer whatever becomes of its records, so that offsets
never move and a producer's next batch still follows. A batch that loses nothing keeps its bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from penstock.core.types import NO_TIMESTAMP
from penstock.log.compaction.offset_map import DIGEST_SIZE, OffsetMap, digest
from penstock.protocol import batch as batches
from penstock.protocol.batch import (
    COMPRESSION_MASK,
    DELETE_HORIZON_FLAG,
    BatchHeader,
)
from penstock.protocol.compression import compress
from penstock.protocol.record_spans import RecordSpan, shift_timestamp


class LastRecord(NamedTuple):
    """The position of an active producer: the last offset of its last batch, or -1 when only a marker of the batch is
    left.
    """

    last_offset: int
    producer_epoch: int


class CleaningRules(NamedTuple):
    now_ms: int
    delete_retention_ms: int
    last_records: Mapping[int, LastRecord]  # by producer id


class BatchDecision(NamedTuple):
    drops_records: bool  # all of them: those of an aborted transaction, or an expired marker
    stays_if_empty: bool
    is_finished_marker: bool  # gets a delete horizon, as a tombstone does


def decide_batch(header: BatchHeader, is_discardable: bool, is_last: bool, rules: CleaningRules) -> BatchDecision:
    """`is_discardable`: aborted data, or a marker without a transaction before it. `is_last`: the last batch of the
    cleaned segment, which must stay to show the end of the segment.
    """
    if header.is_control:
        drops = is_discardable and header.has_delete_horizon and header.base_timestamp <= rules.now_ms
    else:
        drops = is_discardable
    stays = is_last or (header.has_producer and _is_last_of_producer(header, rules.last_records))
    return BatchDecision(drops, stays, is_discardable and header.is_control)


def _is_last_of_producer(header: BatchHeader, last_records: Mapping[int, LastRecord]) -> bool:
    """Whether the batch carries a live producer's last sequence; or the producer's last marker when no batch is left,
    since the marker carries the epoch.
    """
    last = last_records.get(header.producer_id)
    if last is None:
        return False
    if last.last_offset >= 0:
        return header.last_offset == last.last_offset
    return header.is_control and header.producer_epoch == last.producer_epoch


def map_records(spans: Iterable[RecordSpan], base_offset: int, start_offset: int, offsets: OffsetMap) -> None:
    """Remembers the records from `start_offset` on. Costs 0.2 us for a short key, 0.9 us for a digested key."""
    entries = offsets.entries
    for _, _, delta, _, key, _ in spans:
        if key is not None and base_offset + delta >= start_offset:
            entries[key if len(key) < DIGEST_SIZE else digest(key)] = base_offset + delta


def retain_records(
    spans: Sequence[RecordSpan], header: BatchHeader, offsets: OffsetMap, now_ms: int
) -> list[RecordSpan]:
    """The records that stay: the last record of each key, unless it is a tombstone whose time is over; and all records
    that the map does not reach. A record without a key on a compacted topic must be from a time with another policy.
    """
    keeps_tombstones = not header.has_delete_horizon or now_ms < header.base_timestamp
    entries, latest = offsets.entries, offsets.latest_offset
    kept = []
    for span in spans:
        offset, key = header.base_offset + span[2], span[4]
        if offset > latest or (
            key is not None
            and offset >= entries.get(key if len(key) < DIGEST_SIZE else digest(key), -1)
            and (keeps_tombstones or span[5])
        ):
            kept.append(span)
    return kept


def needs_horizon(header: BatchHeader, kept: Iterable[RecordSpan], is_finished_marker: bool) -> bool:
    return not header.has_delete_horizon and (is_finished_marker or has_tombstones(kept))


def has_tombstones(kept: Iterable[RecordSpan]) -> bool:
    return any(not span.has_value for span in kept)


def rebuild_batch(header: BatchHeader, data: bytes, kept: Sequence[RecordSpan], horizon_ms: int | None) -> bytes:
    """The batch with only `kept` of its records section `data`, stamped with `horizon_ms` when one is given."""
    records = [data[span.start : span.end] for span in kept]
    attributes, base_timestamp = header.attributes, header.base_timestamp
    if horizon_ms is not None:
        records = [shift_timestamp(record, base_timestamp - horizon_ms) for record in records]
        attributes, base_timestamp = attributes | DELETE_HORIZON_FLAG, horizon_ms
    max_timestamp = header.max_timestamp
    if not header.is_log_append_time:
        max_timestamp = header.base_timestamp + max(span.timestamp_delta for span in kept)
    rebuilt = header._replace(
        attributes=attributes, base_timestamp=base_timestamp, max_timestamp=max_timestamp, record_count=len(kept)
    )
    return batches.build(rebuilt, compress(header.compression, b"".join(records)))


def empty_batch(header: BatchHeader) -> bytes:
    """Keeps only the header, for its offsets, sequences and epochs."""
    attributes = header.attributes & ~(COMPRESSION_MASK | DELETE_HORIZON_FLAG)
    return batches.build(header._replace(attributes=attributes, base_timestamp=NO_TIMESTAMP, record_count=0), b"")
