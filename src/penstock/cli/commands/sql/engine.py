"""What the command needs of the engine that answers: a few methods, so that a test can stand in for Spark."""

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
class Answer:
    """Rows, or words instead: EXPLAIN has words, and so have statements that change something."""

    rows: Rows | None = None
    text: str = ""
    # Said on stderr before the rows: where columns were guessed, and what was allowed for.
    notices: tuple[str, ...] = ()


class Engine(Protocol):
    def run(self, statement: str) -> Answer:
        """One statement without its semicolon. Raises PipelineError."""
        ...

    def cancel(self) -> None:
        """Ends what runs, from another thread; `run` and the rows it gave raise. Does nothing where nothing runs."""
        ...

    def late_notices(self) -> tuple[str, ...]:
        """What is known only once all rows were read: how many were skipped."""
        ...

    def names(self) -> list[str]: ...

    def columns(self, name: str) -> list[str]: ...

    def close(self) -> None: ...
