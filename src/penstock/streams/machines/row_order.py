"""The order of a key's rows.

It is that of Kafka Streams: each partition of each input in the order of its offsets, and of the partitions the one
whose next row is the oldest; of equally old rows the table's first, so that a stream's row finds what was written at
its time.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator

from penstock.streams.machines.machine import MachineRecord


def in_order(rows: Iterable[MachineRecord]) -> Iterator[MachineRecord]:
    """Rows that were taken are let go: a key may have very many of them."""
    lanes: dict[tuple[int, int], list[MachineRecord]] = {}
    for row in rows:
        lanes.setdefault((row.side, row.partition), []).append(row)
    for lane in lanes.values():
        lane.sort(key=_offset)
        lane.reverse()
    if len(lanes) == 1:
        (lane,) = lanes.values()
        while lane:
            yield lane.pop()
        return
    heap = [_head(lane) for lane in lanes.values()]
    heapq.heapify(heap)
    while heap:
        lane = heap[0][-1]
        yield lane.pop()
        if lane:
            heapq.heapreplace(heap, _head(lane))
        else:
            heapq.heappop(heap)


def _head(lane: list[MachineRecord]) -> tuple[int, int, int, list[MachineRecord]]:
    """Orders lanes by their next row. No two lanes have the same side and partition."""
    following = lane[-1]
    return (following.micros, -following.side, following.partition, lane)


def latest(rows: Iterable[MachineRecord]) -> MachineRecord | None:
    """The row that a table keeps: the last one of its partition."""
    last = None
    for row in in_order(rows):
        last = row
    return last


def is_newer(row: MachineRecord, partition: int, offset: int) -> bool:
    """Than one of that position. Offsets compare only within a partition; what comes from another one came later."""
    return row.partition != partition or row.offset > offset


def _offset(row: MachineRecord) -> int:
    return row.offset
