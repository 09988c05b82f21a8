"""Tables for people, JSON for programs.

On a terminal a table goes through rich; everywhere else it is plain aligned text that stays the same from run to run,
never wrapped or cut, so that `awk` and `diff` can read it.

Names of groups, members and clients are what somebody has sent. Here, and nowhere else, they are made harmless: always,
because a page or a log shows later what goes into a pipe now.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from penstock.core.words.secrets_seen import has_login, seen_by_all, warning_of
from penstock.core.words.visible_text import harmless, harmless_json, one_line

if TYPE_CHECKING:
    from rich.table import Table as RichTable


@dataclass(slots=True)
class Table:
    """Columns named `>NAME` are numbers, set flush right."""

    columns: Sequence[str]
    rows: list[Sequence[str]] = field(default_factory=list)

    def add(self, *cells: object) -> None:
        """Names and texts of others are written out: a cell stays on its line, and no terminal obeys it."""
        self.rows.append(tuple("-" if cell is None else one_line(str(cell)) for cell in cells))


def render_plain(table: Table) -> str:
    names = [column.lstrip(">") for column in table.columns]
    widths = [max([len(name), *(len(row[index]) for row in table.rows)]) for index, name in enumerate(names)]
    lines = [_align(cells, widths, table.columns) for cells in (names, *table.rows)]
    return "\n".join(lines) + "\n"


def _align(cells: Sequence[str], widths: Sequence[int], columns: Sequence[str]) -> str:
    aligned = (
        cell.rjust(width) if column.startswith(">") else cell.ljust(width)
        for cell, width, column in zip(cells, widths, columns, strict=True)
    )
    return "  ".join(aligned).rstrip()


def print_table(table: Table, empty: str = "") -> None:
    """`empty` is said on stderr when there are no rows, so that a pipe sees only the header."""
    if not table.rows and empty:
        note(empty)
        return
    if is_terminal():
        _print_rich(table)
    else:
        sys.stdout.write(render_plain(table))


def _print_rich(table: Table) -> None:
    from rich.console import Console

    Console().print(render_rich(table))


def render_rich(table: Table) -> RichTable:
    from rich import box
    from rich.table import Table as RichTable
    from rich.text import Text

    rich_table = RichTable(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, header_style="bold")
    for column in table.columns:
        number = column.startswith(">")
        # A number folded over two lines cannot be read; a name can.
        rich_table.add_column(
            column.lstrip(">"), justify="right" if number else "left", no_wrap=number, overflow="fold"
        )
    for row in table.rows:
        rich_table.add_row(*(Text(cell) for cell in row))
    return rich_table


def print_json(document: Any) -> None:
    """One document: indented for a person's terminal, one line for a pipe."""
    sys.stdout.write(format_json(document, indent=2 if is_terminal() else None) + "\n")


def print_json_lines(documents: Iterable[Any]) -> None:
    for document in documents:
        sys.stdout.write(format_json(document) + "\n")


def format_json(document: Any, indent: int | None = None) -> str:
    """The same document for whoever parses it; what a terminal would obey is written with numbers."""
    return harmless_json(json.dumps(document, ensure_ascii=False, indent=indent))


def print_fields(fields: Sequence[tuple[str, object]]) -> None:
    """`name   value` lines, as the head of a description."""
    width = max(len(name) for name, _ in fields) + 2
    for name, value in fields:
        sys.stdout.write(f"{name:<{width}}{'-' if value is None else one_line(str(value))}\n")


def say(text: str) -> None:
    """A sentence, or lines that were made before. What a terminal would obey is written out."""
    sys.stdout.write(harmless(text) + "\n")


def note(text: str) -> None:
    """Tells the person at the keyboard something. The text is never mixed into what a program reads."""
    sys.stderr.write(harmless(text) + "\n")


def warn_of_secrets(settings: Iterable[str] | None, *instead: str) -> None:
    """Where a secret is among `KEY=VALUE` options. `instead` says where else it can stand."""
    warning = warning_of(settings or (), *instead)
    if warning:
        note(warning)


def warn_of_login(url: str | None, instead: str) -> None:
    """Where a password is in the URL that an option gives. `instead` says where else it can stand."""
    if url is not None and has_login(url):
        note(f"{seen_by_all('the password in --registry')} {instead}")


def is_terminal() -> bool:
    return sys.stdout.isatty() and os.environ.get("TERM") != "dumb"
