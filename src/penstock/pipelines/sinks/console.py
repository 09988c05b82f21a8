"""The terminal as a sink: the first rows of each batch as a table."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from penstock.pipelines.errors import PipelineError
from penstock.pipelines.pipeline import DEFAULT_SETTINGS, NO_SESSION_SETTINGS, Batch, Settings

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True, slots=True)
class Console:
    """A batch that comes again is printed again."""

    rows: int = 20
    width: int = 40  # of a cell; longer ones are cut
    name: str = "console"

    def __post_init__(self) -> None:
        if self.rows < 1 or self.width < 1:
            raise PipelineError(f"rows and width of a Console are at least 1, not {self.rows} and {self.width}")

    @property
    def session_settings(self) -> Mapping[str, str]:
        return NO_SESSION_SETTINGS

    def describe(self, settings: Settings = DEFAULT_SETTINGS) -> str:
        return f"the first {self.rows} rows of each batch on the terminal"

    def open(self, spark: SparkSession, settings: Settings) -> OpenConsole:
        return OpenConsole(self)


@dataclass(frozen=True, slots=True)
class OpenConsole:
    sink: Console

    def write(self, rows: DataFrame, batch: Batch) -> None:
        # Every row is read, not only those shown, or the count of the batch would be wrong.
        count = self.sink.rows
        first = rows.mapInArrow(FirstRows(count), rows.schema).collect()[:count]
        print(f"{batch.query_name}, batch {batch.id}")
        print("\n".join(drawn(rows.columns, [tuple(row) for row in first], self.sink.width)), flush=True)

    def close(self) -> None:
        pass


@dataclass(frozen=True, slots=True)
class FirstRows:
    """Takes the first rows of each task."""

    count: int

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        left = self.count
        for batch in batches:
            if left:
                some = batch.slice(0, left)
                left -= some.num_rows
                yield some


def drawn(names: Sequence[str], rows: Sequence[Sequence[Any]], width: int) -> Iterator[str]:
    cells = [[_cell(value, width) for value in row] for row in [names, *rows]]
    widths = [max(len(row[index]) for row in cells) for index in range(len(names))]
    rule = "+" + "+".join("-" * (size + 2) for size in widths) + "+"
    lines = ["|" + "|".join(f" {cell:<{size}} " for cell, size in zip(row, widths, strict=True)) + "|" for row in cells]
    yield from itertools.chain([rule, lines[0], rule], lines[1:], [rule])


def _cell(value: Any, width: int) -> str:
    text = "null" if value is None else str(value)
    # One line per row, and nothing that would steer the terminal.
    text = "".join(letter if letter.isprintable() else "·" for letter in text)
    return text if len(text) <= width else text[: width - 1] + "…"
