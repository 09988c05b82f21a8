from __future__ import annotations

import pytest

from penstock.cli.errors import UsageError
from penstock.cli.text import format_size, parse_pair, parse_partitions, parse_size, plural, unescape


def test_value_keeps_its_equals_signs_when_pair_is_parsed() -> None:
    assert parse_pair("a=b=c") == ("a", "b=c")
    assert parse_pair("a=") == ("a", "")


@pytest.mark.parametrize("text", ["", "a", "=b", " =b"])
def test_usage_error_when_pair_has_no_key_or_no_equals_sign(text: str) -> None:
    with pytest.raises(UsageError):
        parse_pair(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (r"a\tb\n", b"a\tb\n"),
        (r"\0\x00\xff", b"\x00\x00\xff"),
        (r"\u00e9", "é".encode()),
        (r"\\n", b"\\n"),
        (r"\q\x1", rb"\q\x1"),
        ("é", "é".encode()),
        ("\\", b"\\"),
        ("", b""),
    ],
)
def test_escapes_become_bytes_when_unescaped(text: str, expected: bytes) -> None:
    assert unescape(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"), [("0", [0]), ("0,2,5-7", [0, 2, 5, 6, 7]), ("3,1,1", [1, 3]), ("4-4", [4])]
)
def test_partitions_come_sorted_and_once_when_parsed(text: str, expected: list[int]) -> None:
    assert parse_partitions(text) == expected


@pytest.mark.parametrize("text", ["", "a", "1,", "3-1", "-1", "1-", "1-2-3"])
def test_usage_error_when_partitions_make_no_list(text: str) -> None:
    with pytest.raises(UsageError):
        parse_partitions(text)


@pytest.mark.parametrize(
    ("size", "expected"),
    [(0, "0 B"), (1023, "1023 B"), (1024, "1.0 KiB"), (1_572_864, "1.5 MiB"), (2**60, "1024.0 PiB")],
)
def test_size_gets_the_largest_unit_that_fits_when_formatted(size: int, expected: str) -> None:
    assert format_size(size) == expected


@pytest.mark.parametrize(("text", "expected"), [("100", 100), ("1k", 1024), ("10 MiB", 10_485_760), ("1g", 2**30)])
def test_size_is_read_when_it_has_a_unit(text: str, expected: int) -> None:
    assert parse_size(text) == expected


@pytest.mark.parametrize("text", ["", "k", "-1", "1.5k", "1t"])
def test_usage_error_when_size_is_none(text: str) -> None:
    with pytest.raises(UsageError):
        parse_size(text)


def test_noun_agrees_when_counted() -> None:
    assert [plural(count, "record") for count in (0, 1, 12_345)] == ["0 records", "1 record", "12,345 records"]
