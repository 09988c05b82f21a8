"""Plans which tasks read which offsets: a pure function, so that a repeated batch has the same tasks."""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from penstock.core.types import TopicPartition


class OffsetRange(NamedTuple):
    partition: TopicPartition
    start: int
    end: int  # exclusive

    @property
    def size(self) -> int:
        return self.end - self.start


def split(
    ranges: Iterable[OffsetRange], min_partitions: int | None = None, max_records_per_partition: int | None = None
) -> list[OffsetRange]:
    """Ranges without offsets are left out. Splits first what is too large, then what is largest until about
    `min_partitions` are there; rounding makes them a few more or fewer."""
    pieces = sorted(part for part in ranges if part.size > 0)
    if max_records_per_partition is not None:
        pieces = [piece for part in pieces for piece in divide(part, math.ceil(part.size / max_records_per_partition))]
    if min_partitions is None or min_partitions <= len(pieces):
        return pieces
    total = sum(piece.size for piece in pieces)
    small = {piece for piece in pieces if _count_parts(piece.size, total, min_partitions) == 1}
    # A range that is not split has no part in the proportion by which the others are split.
    large_total = total - sum(piece.size for piece in small)
    wanted = max(1, min_partitions - len(small))
    return [
        part
        for piece in pieces
        for part in divide(piece, 1 if piece in small else _count_parts(piece.size, large_total, wanted))
    ]


def share_tasks(pieces: Sequence[OffsetRange], min_records: int | None) -> list[tuple[OffsetRange, ...]]:
    """The ranges of each task: one range, or several where they have fewer than `min_records` offsets a task. The
    largest ranges are dealt out first, each to the task that has least."""
    total = sum(piece.size for piece in pieces)
    if min_records is None or total >= min_records * len(pieces):
        return [(piece,) for piece in pieces]
    tasks: list[list[OffsetRange]] = [[] for _ in range(max(1, total // min_records))] if pieces else []
    least = [(0, number) for number in range(len(tasks))]  # a heap: what each task has so far
    for piece in sorted(pieces, key=lambda piece: (-piece.size, piece)):
        size, number = least[0]
        tasks[number].append(piece)
        heapq.heapreplace(least, (size + piece.size, number))
    return [tuple(sorted(task)) for task in tasks]


def divide(whole: OffsetRange, count: int) -> Iterator[OffsetRange]:
    """Parts that differ by at most one offset; none of them empty."""
    count = min(count, whole.size)
    bounds = [whole.start + whole.size * part // count for part in range(count + 1)]
    for start, end in pairwise(bounds):
        yield OffsetRange(whole.partition, start, end)


def _count_parts(size: int, total: int, wanted: int) -> int:
    return max(1, math.floor(size / total * wanted + 0.5))
