"""Rows as a table on a terminal: it fits the width, numbers are whole, and long values are shortened.

Where even the shortest columns do not fit, each row is a block of its own with one line a column, as psql's \\x auto
does it. Where nobody looks, a table is plain aligned text that is never cut (`cli.output`).
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.cli import output
from penstock.cli.commands.sql.cells import NULL, text_values
from penstock.core.words.visible_text import one_line

if TYPE_CHECKING:
    import pyarrow as pa
    from rich.console import Console

# Shorter than this a value says nothing.
LEAST_WIDTH = 8
_GAP = 2


@dataclass(frozen=True, slots=True)
class Grid:
    """A table in words: None is NULL."""

    names: Sequence[str]
    rows: Sequence[Sequence[str | None]]
    are_numbers: Sequence[bool]
    are_whole: Sequence[bool]  # shortened, such a value would be another one


def grid_of(table: pa.Table) -> Grid:
    import pyarrow.types as types

    columns = [text_values(column) for column in table.columns]
    numbers = [
        types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind) for kind in table.schema.types
    ]
    names = [one_line(name) for name in table.schema.names]
    whole = [number or types.is_temporal(kind) for number, kind in zip(numbers, table.schema.types, strict=True)]
    return Grid(names, list(zip(*columns, strict=True)), numbers, whole)


def fit_widths(natural: Sequence[int], are_whole: Sequence[bool], room: int) -> list[int] | None:
    """A width for each column, with the widest made narrower first. None where they cannot all be had."""
    room -= _GAP * (len(natural) - 1)
    least = [width if whole else min(width, LEAST_WIDTH) for width, whole in zip(natural, are_whole, strict=True)]
    if sum(natural) <= room:
        return list(natural)
    if sum(least) > room:
        return None
    low, high = LEAST_WIDTH, max(natural)
    while low < high:  # the widest cap that fits
        cap = (low + high + 1) // 2
        if sum(max(floor, min(width, cap)) for width, floor in zip(natural, least, strict=True)) <= room:
            low = cap
        else:
            high = cap - 1
    return [max(floor, min(width, low)) for width, floor in zip(natural, least, strict=True)]


def print_grid(grid: Grid, *, is_vertical: bool = False) -> None:
    if output.is_terminal():
        from rich.console import Console

        print_rich(grid, Console(highlight=False), is_vertical=is_vertical)
        return
    cells = output.Table(
        [f">{name}" if number else name for name, number in zip(grid.names, grid.are_numbers, strict=True)]
    )
    for row in grid.rows:
        cells.add(*(NULL if cell is None else cell for cell in row))
    sys.stdout.write(output.render_plain(cells))


def print_rich(grid: Grid, console: Console, *, is_vertical: bool = False) -> None:
    from rich.cells import cell_len

    natural = [
        max([cell_len(name), *(cell_len(row[number] or NULL) for row in grid.rows)])
        for number, name in enumerate(grid.names)
    ]
    widths = fit_widths(natural, grid.are_whole, console.width)
    if widths is None or is_vertical:
        _print_vertical(grid, console)
    else:
        _print_horizontal(grid, console, widths)


def _print_horizontal(grid: Grid, console: Console, widths: Sequence[int]) -> None:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False, show_edge=False, header_style="bold")
    for name, width, is_number in zip(grid.names, widths, grid.are_numbers, strict=True):
        table.add_column(
            Text(name), width=width, no_wrap=True, overflow="ellipsis", justify="right" if is_number else "left"
        )
    for row in grid.rows:
        table.add_row(*(Text(NULL, style="dim") if cell is None else Text(cell) for cell in row))
    console.print(table)


def _print_vertical(grid: Grid, console: Console) -> None:
    from rich.text import Text

    width = max((len(name) for name in grid.names), default=0)
    for number, row in enumerate(grid.rows, 1):
        console.rule(f"row {number}", align="left", style="dim")
        for name, cell in zip(grid.names, row, strict=True):
            line = Text.assemble((f"{name:<{width}}  ", "bold"), (NULL, "dim") if cell is None else cell)
            console.print(line, no_wrap=True, overflow="ellipsis")
