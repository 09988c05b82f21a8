"""Answers on standard output and in files."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator
from contextlib import redirect_stdout
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from rich.console import Console

from penstock.cli.commands.sql.row_printer import Format, Printed, open_printer, print_csv, print_json, print_table
from penstock.cli.commands.sql.tables import Grid, fit_widths, print_rich
from penstock.cli.errors import UsageError


class ArrowRows:
    """Rows that are there, as an engine would give them."""

    def __init__(self, *batches: pa.RecordBatch, error: Exception | None = None) -> None:
        self._batches, self._error = batches, error
        self.asked: list[int] = []

    @property
    def schema(self) -> pa.Schema:
        return self._batches[0].schema

    def batches(self) -> Iterator[pa.RecordBatch]:
        yield from self._batches
        if self._error is not None:
            raise self._error

    def head(self, count: int) -> pa.Table:
        self.asked.append(count)
        return pa.Table.from_batches(self._batches).slice(0, count)


def rows_of(*numbers: int) -> ArrowRows:
    return ArrowRows(*(pa.record_batch({"id": [number], "name": [f"n{number}"]}) for number in numbers))


def twins() -> ArrowRows:
    return ArrowRows(pa.record_batch([pa.array([1]), pa.array([2])], names=["id", "id"]))


def test_json_is_one_object_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert print_json(rows_of(1, 2)) == Printed(2)
    lines = capsys.readouterr().out.splitlines()
    assert [json.loads(line) for line in lines] == [{"id": 1, "name": "n1"}, {"id": 2, "name": "n2"}]


def test_json_has_both_columns_when_they_have_one_name(capsys: pytest.CaptureFixture[str]) -> None:
    print_json(twins())
    assert json.loads(capsys.readouterr().out) == {"id": 1, "id_2": 2}


def test_csv_has_a_header_when_there_are_no_rows(capsys: pytest.CaptureFixture[str]) -> None:
    assert print_csv(ArrowRows(rows_of(1).schema.empty_table().combine_chunks().to_batches() or empty())) == Printed(0)
    assert capsys.readouterr().out == "id,name\n"


def empty() -> pa.RecordBatch:
    return pa.record_batch({"id": pa.array([], pa.int64()), "name": pa.array([], pa.string())})


def test_csv_quotes_what_has_commas_and_lines(capsys: pytest.CaptureFixture[str]) -> None:
    print_csv(ArrowRows(pa.record_batch({"a": ['say "x", y\nz', None], "b": [1.5, None]})))
    assert capsys.readouterr().out == 'a,b\n"say ""x"", y\nz",1.5\n,\n'


class Screen(io.StringIO):
    """A terminal, for who asks."""

    def isatty(self) -> bool:
        return True


HOSTILE = "\x1b[2J\x9b\x7f\u202e"


@pytest.mark.parametrize("print_rows", [print_json, print_csv])
def test_terminal_obeys_nothing_when_rows_go_to_it(print_rows: Callable[[ArrowRows], Printed]) -> None:
    with redirect_stdout(Screen()) as screen:
        print_rows(ArrowRows(pa.record_batch({HOSTILE: [HOSTILE]})))
    shown = screen.getvalue()
    assert all(character.isprintable() or character == "\n" for character in shown)
    assert print_rows is print_csv or json.loads(shown) == {HOSTILE: HOSTILE}


def test_program_gets_what_is_there_when_rows_have_controls(capsys: pytest.CaptureFixture[str]) -> None:
    rows = ArrowRows(pa.record_batch({HOSTILE: [HOSTILE]}))
    print_csv(rows)
    assert capsys.readouterr().out == f"{HOSTILE}\n{HOSTILE}\n"
    print_json(rows)
    assert HOSTILE[4:] in capsys.readouterr().out


def test_parquet_file_is_whole_or_not_there_when_rows_fail(tmp_path: Path) -> None:
    target = tmp_path / "out.parquet"
    write = open_printer(Format.PARQUET, 10, target)
    with pytest.raises(RuntimeError):
        write(ArrowRows(empty(), error=RuntimeError("no more")))
    assert list(tmp_path.iterdir()) == []
    assert write(rows_of(1, 2, 3)) == Printed(3)
    assert pq.read_table(target).to_pydict() == {"id": [1, 2, 3], "name": ["n1", "n2", "n3"]}
    write(twins())
    assert pq.read_table(target).column_names == ["id", "id_2"]


@pytest.mark.parametrize(("chosen", "path"), [(Format.PARQUET, None), (Format.JSON, Path("x"))])
def test_file_and_parquet_belong_together(chosen: Format, path: Path | None) -> None:
    with pytest.raises(UsageError):
        open_printer(chosen, 10, path)


def test_table_says_that_it_is_cut_when_there_are_more_rows(capsys: pytest.CaptureFixture[str]) -> None:
    rows = rows_of(1, 2, 3)
    assert print_table(rows, 2) == Printed(2, is_cut=True)
    assert rows.asked == [3]
    assert capsys.readouterr().out == "id  name\n 1  n1\n 2  n2\n"
    assert print_table(rows_of(1, 2), 2) == Printed(2)


def test_plain_table_shows_null(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(ArrowRows(pa.record_batch({"a": ["x", None]})), 10)
    assert capsys.readouterr().out == "a\nx\nNULL\n"


@pytest.mark.parametrize(
    ("natural", "numbers", "room", "widths"),
    [
        pytest.param([5, 10], [True, False], 80, [5, 10], id="all fit"),
        pytest.param([5, 100, 20], [True, False, False], 49, [5, 20, 20], id="the widest gives way"),
        pytest.param([20, 20], [True, False], 34, [20, 12], id="numbers stay whole"),
        pytest.param([20, 20, 20], [True, True, True], 50, None, id="too many numbers"),
        pytest.param([30] * 10, [False] * 10, 80, None, id="too many columns"),
    ],
)
def test_widths_fit_the_terminal(natural: list[int], numbers: list[bool], room: int, widths: list[int] | None) -> None:
    assert fit_widths(natural, numbers, room) == widths


def shown(grid: Grid, width: int) -> list[str]:
    console = Console(file=io.StringIO(), width=width, color_system=None, force_terminal=True)
    print_rich(grid, console)
    text = console.file.getvalue()  # type: ignore[attr-defined]
    return [line.rstrip() for line in text.splitlines()]


def test_long_value_is_shortened_and_markup_is_text() -> None:
    grid = Grid(["id", "text"], [["1", "[bold]" + "x" * 50], ["20", None]], [True, False], [True, False])
    assert shown(grid, 24) == [
        "id  text",
        "─" * 24,
        " 1  [bold]xxxxxxxxxxxxx…",
        "20  NULL",
    ]


def test_rows_are_blocks_when_columns_do_not_fit() -> None:
    names = [f"column_{number}" for number in range(12)]
    lines = shown(Grid(names, [["x" * 30] * 12, [None] * 12], [False] * 12, [False] * 12), 60)
    assert lines[0].startswith("row 1 ─")
    assert lines[1].startswith("column_0   xxxxx")
    assert lines[13].startswith("row 2 ─")
    assert lines[14] == "column_0   NULL"
    assert max(map(len, lines)) <= 60
