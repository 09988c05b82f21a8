"""In which order a key's rows are taken.

As Kafka Streams takes them: each partition of each input in the order of its offsets, and of the partitions the one
whose next row is the oldest; of equally old rows the table's first, so that a stream's row finds what was written at
its time.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator

from penstock.streams.machines.machine import Record


def in_order(rows: Iterable[Record]) -> Iterator[Record]:
    lanes: dict[tuple[int, int], list[Record]] = {}
    for row in rows:
        lanes.setdefault((row.side, row.partition), []).append(row)
    if len(lanes) == 1:
        (lane,) = lanes.values()
        yield from sorted(lane, key=_offset)
        return
    waiting = [iter(sorted(lane, key=_offset)) for lane in lanes.values()]
    heap = []
    for number, following in enumerate(waiting):
        first = next(following)
        heap.append((first.micros, -first.side, first.partition, number, first))
    heapq.heapify(heap)
    while heap:
        *_, number, row = heap[0]
        yield row
        behind = next(waiting[number], None)
        if behind is None:
            heapq.heappop(heap)
        else:
            heapq.heapreplace(heap, (behind.micros, -behind.side, behind.partition, number, behind))


def latest(rows: Iterable[Record]) -> Record | None:
    """The row that a table keeps: the last one of its partition."""
    last = None
    for row in in_order(rows):
        last = row
    return last


def is_newer(row: Record, partition: int, offset: int) -> bool:
    """Than one of that position. Offsets compare only within a partition; what comes from another one came later."""
    return row.partition != partition or row.offset > offset


def _offset(row: Record) -> int:
    return row.offset
