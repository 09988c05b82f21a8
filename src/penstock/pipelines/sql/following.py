"""`--follow`: a question as a stream. Its answers come batch by batch, or go to files or a topic."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from penstock.pipelines.running.runner import Run
    from penstock.pipelines.sql.inserting import InsertOptions
    from penstock.pipelines.sql.tables import Tables


@dataclass(frozen=True, slots=True)
class FollowOptions:
    start: str = "latest"  # earliest, latest, or a time as ISO 8601 has it
    watermarks: Mapping[str, tuple[str, str]] = field(default_factory=dict)  # table -> column, delay
    mode: Literal["append", "update", "complete"] | None = None  # None: what the question allows
    trigger: str = "1 second"
    checkpoint: Path | None = None  # None: for rows handed to a callback a temporary one
    parquet: str = ""  # a directory: rows go there
    once: bool = False  # ends when everything that was there at the start is done


def follow(
    tables: Tables,
    text: str,
    on_batch: Callable[[DataFrame, int], None] | None = None,
    options: FollowOptions | None = None,
    insert_options: InsertOptions | None = None,
) -> Run:
    """A run that is started. `text` is a question or an INSERT INTO. `run.wait()` waits for its end, `run.stop()` ends
    it, from a signal handler, too. `on_batch` is called on a thread of the run with the rows and the batch's number."""
    raise NotImplementedError
