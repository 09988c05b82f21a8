"""The batches of a producer that its snapshot does not have, found in the log again.

A snapshot keeps the newest of a producer's five batches, and is all that a broker knows of the producer after a clean
restart or a truncation. A client may still repeat one of the other four, because their answers were lost. Kafka answers
OUT_OF_ORDER_SEQUENCE_NUMBER: librdkafka gives up, and Java begins a new epoch, under which the records come a second
time. The batches stand in the log, so that is where they are looked for, once for each producer that repeats one.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from penstock.log.state.producer_state import BATCHES_KEPT, BatchMetadata, ProducerStateEntry
from penstock.log.storage.segments import Segments

# How many offsets before the known batch are searched: the next number is tried when the one before was not enough. The
# batches of a producer in flight lie close together, unless they are large, or those of many producers.
WINDOWS = tuple(4**power for power in range(6, 12))
# Headers that are read for one producer: 1 us each, and the event loop waits.
MOST_HEADERS = 20_000


def find_earlier_batches(
    segments: Segments,
    entry: ProducerStateEntry,
    windows: Sequence[int] = WINDOWS,
    most_headers: int = MOST_HEADERS,
) -> list[BatchMetadata]:
    """Those before the oldest batch that `entry` knows, as many as a producer may repeat; the oldest first."""
    oldest = entry.batches[0]
    missing = BATCHES_KEPT - len(entry.batches)
    found: list[BatchMetadata] = []
    for window in windows:
        start = max(oldest.base_offset - window, segments.first.base_offset)
        searched = _search(segments, entry, start, missing, most_headers)
        if searched is None:
            break
        found = searched
        is_complete = len(found) == missing or (found or entry.batches)[0].base_sequence == 0
        if is_complete or start == segments.first.base_offset:
            break
    return found


def _search(
    segments: Segments, entry: ProducerStateEntry, start: int, missing: int, most_headers: int
) -> list[BatchMetadata] | None:
    """The last ones from `start` on; None where too many batches stand there."""
    end = entry.batches[0].base_offset
    found: deque[BatchMetadata] = deque(maxlen=missing)
    count = 0
    for segment in segments.from_offset(start):
        for _, header in segment.scan_from(start):
            if header.base_offset >= end:
                return list(found)
            count += 1
            if count > most_headers:
                return None
            is_mine = header.producer_id == entry.producer_id and header.producer_epoch == entry.producer_epoch
            if is_mine and not header.is_control:
                delta = header.last_offset_delta
                found.append(BatchMetadata(header.last_sequence, header.last_offset, delta, header.max_timestamp))
    return list(found)
