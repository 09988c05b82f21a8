"""The latest record of each key: by offset within a partition, and by timestamp, then offset, among partitions.

A task that reads a partition, or a piece of it, keeps the last record of each key. What tasks have kept is merged where
all records of a key meet. Only that merge compares partitions: a task may not know yet which record of a partition is
the last one. Keys are compared as bytes, and nothing is decoded before the winners are known.

Cost: 0.1 us a record where keys repeat, by a table of the last row of each distinct key; a sort is needed in the merge
alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.pipelines.errors import TableError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Numbers = NDArray[Any]

# Records are gathered before keys are compared: comparing costs as much as there are distinct keys, too.
_LEAST_PENDING = 131_072
# However few they are, so many bytes of them are compared: old values of a key are held for no longer than that.
_MOST_PENDING_BYTES = 64 << 20
# What one task keeps of distinct keys. A worker of Spark's has no limit of its own, and its machine would swap.
_MOST_KEPT_BYTES = 4 << 30
# The merge is sorted in memory, and is handed on in pieces.
_PIECE_ROWS = 32_768


class LastOfKeys:
    """The last record of each key of one partition, whose records are added in the order of their offsets.

    Holds what it keeps and as much again while keys are compared, and at most 64 MiB of records whose keys are not
    compared yet, or as many bytes as it keeps.
    """

    def __init__(self, most_kept_bytes: int = _MOST_KEPT_BYTES, most_pending_bytes: int = _MOST_PENDING_BYTES) -> None:
        self._most_kept_bytes, self._most_pending_bytes = most_kept_bytes, most_pending_bytes
        self._kept: pa.Table | None = None
        self._pending: list[pa.Table] = []
        self._pending_rows = self.pending_bytes = 0

    def add(self, rows: pa.RecordBatch) -> None:
        """Records without a key are left out. Raises TableError where those of distinct keys are too many."""
        if rows.column("key").null_count:
            rows = rows.filter(rows.column("key").is_valid())
        if not rows.num_rows:
            return
        self._pending.append(_widened(pa.Table.from_batches([rows])))
        self._pending_rows += rows.num_rows
        self.pending_bytes += rows.nbytes
        kept_rows, kept_bytes = (0, 0) if self._kept is None else (self._kept.num_rows, self._kept.nbytes)
        has_many = self._pending_rows >= max(_LEAST_PENDING, kept_rows)
        if has_many or self.pending_bytes >= max(self._most_pending_bytes, kept_bytes):
            self._compare()

    def rows(self) -> pa.Table | None:
        self._compare()
        return self._kept

    def _compare(self) -> None:
        if self._pending:
            kept = [self._kept] if self._kept is not None else []
            rows = pa.concat_tables([*kept, *self._pending])
            self._kept = rows.take(pa.array(last_rows(rows.column("key")))).combine_chunks()
            self._pending, self._pending_rows, self.pending_bytes = [], 0, 0
            if self._kept.nbytes > self._most_kept_bytes:
                raise TableError(
                    f"the latest records of {self._kept.num_rows:,} keys take more than"
                    f" {self._most_kept_bytes >> 20:,} MiB in one task",
                    "Ask for fewer columns or for some keys, or give Spark more cores, which makes more tasks.",
                )


def last_rows(keys: pa.ChunkedArray) -> Numbers:
    """Where each distinct key is seen last, ascending."""
    codes = _codes(keys)
    last = np.zeros(int(codes.max()) + 1 if len(codes) else 0, np.int64)
    last[codes] = np.arange(len(codes))  # of several the last one stays
    return np.sort(last)


def merge_latest(rows: pa.Table) -> pa.Table:
    """The latest record of each key; those without a value are left out. `rows` in any order."""
    if not rows.num_rows:
        return rows
    keys = _codes(rows.column("key"))
    partitions, offsets = (rows.column(name).to_numpy() for name in ("partition", "offset"))
    times = rows.column("timestamp").cast(pa.int64()).to_numpy()
    order = np.lexsort((offsets, partitions, keys))
    order = order[_is_last(keys[order], partitions[order])]
    order = order[np.lexsort((partitions[order], offsets[order], times[order], keys[order]))]
    order = order[_is_last(keys[order])]
    winners = rows.take(pa.array(np.sort(order)))
    return winners.filter(pc.is_valid(winners.column("value")))


def pieces(rows: pa.Table) -> Iterator[pa.RecordBatch]:
    """As tasks hand them on."""
    for start in range(0, rows.num_rows, _PIECE_ROWS):
        piece = _narrowed(rows.slice(start, _PIECE_ROWS)).combine_chunks()
        yield from piece.to_batches()


def gather(batches: Iterable[pa.RecordBatch]) -> pa.Table | None:
    tables = [_widened(pa.Table.from_batches([each])) for each in batches]
    return pa.concat_tables(tables).combine_chunks() if tables else None


def _codes(keys: pa.ChunkedArray) -> Numbers:
    whole = pa.concat_arrays(keys.chunks) if keys.num_chunks != 1 else keys.chunk(0)
    codes: Numbers = whole.dictionary_encode().indices.to_numpy()
    return codes


def _is_last(*sorted_by: Numbers) -> Numbers:
    """Whether a row is the last one of its group."""
    is_last: Numbers = np.ones(len(sorted_by[0]), dtype=bool)
    is_last[:-1] = np.logical_or.reduce([each[1:] != each[:-1] for each in sorted_by])
    return is_last


def _widened(rows: pa.Table) -> pa.Table:
    """With bytes in all of more than 2 GiB."""
    return _cast(rows, pa.binary(), pa.large_binary())


def _narrowed(rows: pa.Table) -> pa.Table:
    return _cast(rows, pa.large_binary(), pa.binary())


def _cast(rows: pa.Table, kind: pa.DataType, to: pa.DataType) -> pa.Table:
    return rows.cast(pa.schema([each.with_type(to) if each.type == kind else each for each in rows.schema]))
