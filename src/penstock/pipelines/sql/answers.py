"""The answers of statements, in words that need no Spark."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
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
class SqlAnswer:
    """Rows, or words instead: EXPLAIN has words, and so have statements that change something."""

    rows: Rows | None = None
    text: str = ""
    # Said before the rows: where columns were guessed, and what was allowed for.
    notices: tuple[str, ...] = ()
