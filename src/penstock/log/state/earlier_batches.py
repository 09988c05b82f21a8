"""Finds the batches of a producer in the log that its snapshot does not have.

A snapshot keeps the newest of a producer's five batches, and is a broker's only knowledge of the producer after a clean
restart or a truncation. A client may still repeat one of the other four, because their answers were lost. Kafka answers
OUT_OF_ORDER_SEQUENCE_NUMBER: librdkafka gives up, and Java begins a new epoch, under which the records come a second
time. The log has the batches, so this module searches the log, once for each producer that repeats a batch.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice

from penstock.log.state.producer_state import BATCHES_KEPT, BatchMetadata, ProducerStateEntry
from penstock.log.storage.segments import Segments
from penstock.protocol.batch import BatchHeader

# The number of offsets to search before the known batch: the next number is tried when the one before was not enough.
# The batches of a producer in flight lie close together, unless they are large, or many producers write.
WINDOWS = tuple(4**power for power in range(6, 12))
# The number of headers to read for one producer, while the event loop waits: 1 us each, 7 us where a batch is larger
# than one read (both measured, from the page cache).
MOST_HEADERS = 5_000


def find_earlier_batches(
    segments: Segments,
    entry: ProducerStateEntry,
    windows: Sequence[int] = WINDOWS,
    most_headers: int = MOST_HEADERS,
) -> list[BatchMetadata]:
    """The batches before the oldest batch of `entry`, as many as a producer may repeat; the oldest first."""
    oldest = entry.batches[0].base_offset
    missing = BATCHES_KEPT - len(entry.batches)
    found: list[BatchMetadata] = []
    end, headers_left = oldest, most_headers
    for window in windows:
        start = max(oldest - window, segments.first.base_offset)
        headers = list(islice(_headers(segments, start, end), headers_left + 1))
        if len(headers) > headers_left:
            break  # the last ones are unsearched, so the first ones are of no use
        found[:0] = [_known(header) for header in headers if _is_of(entry, header)]
        is_complete = len(found) >= missing or (found or entry.batches)[0].base_sequence == 0
        if is_complete or start == segments.first.base_offset:
            break
        end, headers_left = start, headers_left - len(headers)
    return found[-missing:]


def _headers(segments: Segments, start: int, end: int) -> Iterator[BatchHeader]:
    """The headers of the batches that begin at `start` or behind it, and before `end`."""
    for segment in segments.from_offset(start):
        for _, header in segment.scan_from(start):
            if header.base_offset >= end:
                return
            if header.base_offset >= start:
                yield header


def _is_of(entry: ProducerStateEntry, header: BatchHeader) -> bool:
    is_its_own = header.producer_id == entry.producer_id and header.producer_epoch == entry.producer_epoch
    return is_its_own and not header.is_control


def _known(header: BatchHeader) -> BatchMetadata:
    return BatchMetadata(header.last_sequence, header.last_offset, header.last_offset_delta, header.max_timestamp)
