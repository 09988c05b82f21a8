"""What a statement is answered by, in words that need no Spark."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import pyarrow as pa


class Rows(Protocol):
    """The rows of an answer. Nothing is read before one of the methods is called."""

    @property
    def schema(self) -> pa.Schema: ...

    def batches(self) -> Iterator[pa.RecordBatch]:
        """All rows in their order, a batch at a time as they come."""
        ...

    def head(self, count: int) -> pa.Table:
        """The first rows, at most `count`."""
        ...


@dataclass(frozen=True, slots=True)
class Answer:
    """Rows, or words instead: EXPLAIN has words, and so have statements that change something."""

    rows: Rows | None = None
    text: str = ""
    # Said before the rows: where columns were guessed, and what was allowed for.
    notices: tuple[str, ...] = ()


class PeekedRows:
    """Rows of which it is known that there are some, and which are computed once: one of the methods may be called,
    and once."""

    def __init__(self, schema: pa.Schema, first: pa.RecordBatch, rest: Iterator[pa.RecordBatch]) -> None:
        self.schema = schema
        self._batches = chain([first], rest)

    def batches(self) -> Iterator[pa.RecordBatch]:
        return self._batches

    def head(self, count: int) -> pa.Table:
        import pyarrow as pa

        taken: list[pa.RecordBatch] = []
        left = count
        for batch in self._batches:
            taken.append(batch.slice(0, left))
            left -= taken[-1].num_rows
            if left <= 0:
                break
        return pa.Table.from_batches(taken, self.schema)


def peek(rows: Rows) -> PeekedRows | None:
    """The rows; None where there are none."""
    batches = rows.batches()
    first = next((batch for batch in batches if batch.num_rows), None)
    return None if first is None else PeekedRows(rows.schema, first, batches)
