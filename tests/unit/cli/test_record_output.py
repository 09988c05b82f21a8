from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.cli.errors import UsageError
from penstock.cli.records.input import parse_json_record
from penstock.cli.records.output import OutputRecord, PrintOptions, build_format, compile_format, show_json, write_json

RECORD = OutputRecord("t", 3, 42, 1_704_067_200_250, 1, b"key", b"value", (("a", b"1"), ("b", None)))
NULLS = RECORD._replace(key=None, value=None, headers=())


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("%s", b"value"),
        (r"%t[%p]@%o %k=%s\n", b"t[3]@42 key=value\n"),
        ("%K %S", b"3 5"),
        ("%T %D", b"1704067200250 2024-01-01T00:00:00.250Z"),
        ("%h", b"a=1,b=null"),
        ("100%%", b"100%"),
        (r"\x00\t%s\0", b"\x00\tvalue\x00"),
        ("", b""),
    ],
)
def test_placeholders_are_filled_when_record_is_written(text: str, expected: bytes) -> None:
    assert compile_format(text)(RECORD) == expected


def test_marker_and_length_minus_one_are_written_when_record_has_nulls() -> None:
    assert compile_format("%k %K %s %S [%h]", null=b"NIL")(NULLS) == b"NIL -1 NIL -1 []"


def test_bytes_come_out_as_they_are_when_value_is_not_text() -> None:
    assert compile_format("%s")(RECORD._replace(value=b"\xff\x00\n")) == b"\xff\x00\n"


def test_value_is_not_read_as_a_format_when_it_looks_like_one() -> None:
    assert compile_format("%s")(RECORD._replace(value=rb"%k\n")) == rb"%k\n"


@pytest.mark.parametrize("text", ["%q", "%", "abc%", "% s"])
def test_usage_error_lists_placeholders_when_one_is_unknown(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        compile_format(text)
    assert "%s" in caught.value.hint


@pytest.mark.parametrize(
    ("options", "separator", "expected"),
    [
        (PrintOptions(), r"\t", r"%s\n"),
        (PrintOptions(key=True), r"\t", r"%k\t%s\n"),
        (PrintOptions(True, True, True, True, True), " | ", r"%D | %p | %o | %h | %k | %s\n"),
        (PrintOptions(key=True), "%", r"%k%%%s\n"),
    ],
)
def test_format_follows_the_print_options_when_built(options: PrintOptions, separator: str, expected: str) -> None:
    assert build_format(options, separator) == expected


def test_text_stays_text_and_bytes_are_base64_when_written_as_json() -> None:
    document = json.loads(write_json(RECORD._replace(value=b"\xff")))
    assert document["key"] == "key"
    assert document["value_base64"] == "/w=="
    assert "value" not in document
    assert document["timestamp_type"] == "CreateTime"


PAYLOADS = st.none() | st.binary(max_size=40) | st.text(max_size=20).map(str.encode)


@given(
    key=PAYLOADS,
    value=PAYLOADS,
    headers=st.lists(st.tuples(st.text(max_size=10), PAYLOADS), max_size=3),
    partition=st.integers(0, 2**31 - 1),
    timestamp=st.integers(0, 2**62),
)
def test_record_comes_back_the_same_when_json_is_produced_again(
    key: bytes | None,
    value: bytes | None,
    headers: list[tuple[str, bytes | None]],
    partition: int,
    timestamp: int,
) -> None:
    line = write_json(OutputRecord("t", partition, 0, timestamp, 1, key, value, headers))
    assert line.count(b"\n") == 1
    again = parse_json_record(line, now_ms=0)
    assert again == (key, value, tuple(headers), partition, timestamp)


def test_terminal_obeys_nothing_of_a_record_that_is_shown() -> None:
    """Escape sequences in values, keys, headers and their names reached the terminal."""
    record = RECORD._replace(
        topic="t\x1b[2J", key=b"k\x9b\xff", value=b"v\x1b]0;owned\x07\n\t.", headers=(("h\n\x1b", b"\x08"),)
    )
    shown = compile_format("%t|%k|%K|%s|%S|%h|\\x1b[0m", is_shown=True)(record)
    # The user's own format is obeyed.
    assert shown == b"t\\x1b[2J|k\\x9b\\xff|3|v\\x1b]0;owned\\x07\n\t.|14|h\\n\\x1b=\\x08|\x1b[0m"
    line = show_json(record._replace(key="\x9b\u202e".encode()))
    assert json.loads(line) == json.loads(write_json(record._replace(key="\x9b\u202e".encode())))
    assert b"\\u009b\\u202e" in line
