"""The rows of an answer on standard output or in a file. All but a table take them as they come, a batch at a time."""

from __future__ import annotations

import csv
import enum
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from penstock.cli import output
from penstock.cli.commands.sql.cells import csv_values, json_columns, to_json, unique_names
from penstock.cli.commands.sql.tables import grid_of, print_grid
from penstock.cli.errors import CliError, UsageError
from penstock.cli.text import plural
from penstock.core.words.visible_text import harmless, harmless_json
from penstock.pipelines.sql.answers import Rows

if TYPE_CHECKING:
    import pyarrow as pa

# More rows than this nobody reads on a terminal; a program takes JSON, CSV or Parquet, which have them all.
DEFAULT_LIMIT = 1000


class Format(enum.StrEnum):
    TABLE = "table"
    JSON = "json"
    CSV = "csv"
    PARQUET = "parquet"


@dataclass(frozen=True, slots=True)
class Printed:
    count: int
    is_cut: bool = False


class Printer(Protocol):
    def __call__(self, rows: Rows) -> Printed: ...


def open_printer(chosen: Format, limit: int, path: Path | None) -> Printer:
    if (chosen is Format.PARQUET) != (path is not None):
        missing = "--output parquet needs a file" if path is None else "--to names a file for --output parquet"
        raise UsageError(missing, "Write --output parquet --to FILE. JSON and CSV go to standard output.")
    if path is not None:
        return lambda rows: write_parquet(rows, path)
    return {
        Format.TABLE: lambda rows: print_table(rows, limit),
        Format.JSON: print_json,
        Format.CSV: print_csv,
    }[chosen]


def open_batch_printer(chosen: Format, limit: int) -> Printer:
    """For the batches of one question that is followed: a heading stands over rows, and once over those of a file."""
    is_first = True

    def print_csv_batch(rows: Rows) -> Printed:
        nonlocal is_first
        has_header, is_first = is_first, False
        return print_csv(rows, has_header=has_header)

    if chosen is Format.CSV:
        return print_csv_batch
    return print_json if chosen is Format.JSON else lambda rows: print_table(rows, limit, is_batch=True)


def print_table(rows: Rows, limit: int, *, is_vertical: bool = False, is_batch: bool = False) -> Printed:
    """One row more than is shown is asked for: it tells whether there are more. Of a batch without rows nothing is
    shown."""
    table = rows.head(limit + 1)
    if is_batch and not table.num_rows:
        return Printed(0)
    shown = table.slice(0, limit)
    print_grid(grid_of(shown), is_vertical=is_vertical)
    sys.stdout.flush()
    return Printed(shown.num_rows, table.num_rows > limit)


def print_json(rows: Rows) -> Printed:
    names = unique_names(rows.schema.names)
    is_seen = sys.stdout.isatty()  # a program gets what is there

    def write(batch: pa.RecordBatch) -> None:
        for values in zip(*json_columns(batch), strict=True):
            line = to_json(dict(zip(names, values, strict=True)))
            sys.stdout.write((harmless_json(line) if is_seen else line) + "\n")

    return _write_all(rows, write)


def print_csv(rows: Rows, *, has_header: bool = True) -> Printed:
    writer = csv.writer(sys.stdout, lineterminator="\n")
    is_seen = sys.stdout.isatty()
    if has_header:
        writer.writerow(map(harmless, rows.schema.names) if is_seen else rows.schema.names)

    def write(batch: pa.RecordBatch) -> None:
        lines = zip(*map(csv_values, batch.columns), strict=True)
        writer.writerows((map(harmless, line) for line in lines) if is_seen else lines)

    return _write_all(rows, write)


def _write_all(rows: Rows, write: Callable[[pa.RecordBatch], None]) -> Printed:
    count = 0
    for batch in rows.batches():
        write(batch)
        count += batch.num_rows
        sys.stdout.flush()  # a pipe sees rows when they are there
    return Printed(count)


def write_parquet(rows: Rows, path: Path) -> Printed:
    """Under another name until it is whole."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    schema = rows.schema
    schema = pa.schema([field.with_name(name) for field, name in zip(schema, unique_names(schema.names), strict=True)])
    unfinished = path.with_name(f".{path.name}.{os.getpid()}.part")
    count = 0
    try:
        with pq.ParquetWriter(unfinished, schema, compression="zstd") as writer:
            for batch in rows.batches():
                writer.write_batch(batch.rename_columns(schema.names))
                count += batch.num_rows
        os.replace(unfinished, path)
    except OSError as error:
        raise CliError(f"{path} cannot be written: {error.strerror or error}") from error
    finally:
        unfinished.unlink(missing_ok=True)
    output.note(f"{path}: {plural(count, 'row')}")
    return Printed(count)
