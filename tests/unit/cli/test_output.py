from __future__ import annotations

import json

import pytest

from penstock.cli import output
from penstock.cli.output import Table, print_fields, print_json, print_table, render_plain


def test_columns_are_aligned_and_numbers_flush_right_when_rendered_plain() -> None:
    table = Table(("NAME", ">SIZE", "NOTE"))
    table.add("a", 5, "x")
    table.add("longer", 12345, "")
    assert render_plain(table) == "NAME     SIZE  NOTE\na           5  x\nlonger  12345\n"


def test_missing_cell_is_a_dash_when_added() -> None:
    table = Table(("A", "B"))
    table.add(None, 0)
    assert table.rows == [("-", "0")]


def test_only_stderr_speaks_when_table_is_empty(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(Table(("A",)), "There is nothing.")
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == ("", "There is nothing.\n")


def test_json_is_one_line_when_output_is_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    print_json({"name": "é", "list": [1, None]})
    written = capsys.readouterr().out
    assert written.count("\n") == 1
    assert "é" in written
    assert json.loads(written) == {"name": "é", "list": [1, None]}


def test_values_stand_in_one_column_when_fields_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    print_fields([("Topic", "orders"), ("Replication", 3), ("Id", None)])
    assert capsys.readouterr().out == "Topic        orders\nReplication  3\nId           -\n"


def test_terminal_obeys_nothing_when_names_are_shown(capsys: pytest.CaptureFixture[str]) -> None:
    """The name of a group or a client is whatever somebody has sent. It reached the terminal by `groups list`."""
    table = Table(("GROUP", "CLIENT"))
    table.add("a\x1b]0;owned\x07", "c\n\x9b2J\u202e")
    output.print_table(table)
    output.print_fields([("Group", "g\x1b[31m\nState: fine")])
    output.say("topic \x1b[8m\nis there")
    output.print_json({"group": "\x7f\x9b\u2066"})
    output.print_json_lines(["\x85"])
    assert capsys.readouterr().out.splitlines() == [
        "GROUP              CLIENT",
        "a\\x1b]0;owned\\x07  c\\n\\x9b2J\\u202e",
        "Group  g\\x1b[31m\\nState: fine",
        "topic \\x1b[8m",
        "is there",
        '{"group": "\\u007f\\u009b\\u2066"}',
        '"\\u0085"',
    ]
