from __future__ import annotations

import io
import json

import pytest

from penstock.cli.commands.records.produce import check_sources, choose_text_format, producer_settings
from penstock.cli.errors import UsageError
from penstock.cli.records.input import InputRecord, TextFormat, parse_json_record, split_stream

NOW_MS = 1_700_000_000_000


def test_line_is_the_value_when_there_is_no_separator() -> None:
    assert TextFormat(key=b"k", headers=(("h", b"1"),)).parse(b"a:b") == InputRecord(b"k", b"a:b", (("h", b"1"),))


def test_key_ends_at_the_first_separator_when_line_has_several() -> None:
    assert TextFormat(key_separator=b":").parse(b"a:b:c") == InputRecord(b"a", b"b:c")
    assert TextFormat(key_separator=b":").parse(b":") == InputRecord(b"", b"")


def test_usage_error_shows_the_line_when_separator_is_missing() -> None:
    with pytest.raises(UsageError, match="no such"):
        TextFormat(key_separator=b":").parse(b"no such thing")


def test_marker_is_null_when_it_is_the_whole_key_or_value() -> None:
    text_format = TextFormat(key_separator=b":", null_marker=b"NULL")
    assert text_format.parse(b"NULL:NULL") == InputRecord(None, None)
    assert text_format.parse(b"NULLx:") == InputRecord(b"NULLx", b"")


def test_json_record_has_everything_when_everything_is_given() -> None:
    line = json.dumps(
        {
            "key": "k",
            "value": {"a": [1, "é"]},
            "headers": [{"key": "x", "value": "1"}, {"key": "x", "value": None}, {"key": "b", "value_base64": "/w=="}],
            "partition": 3,
            "timestamp": "2024-01-01",
            "offset": 9,
        }
    ).encode()
    assert parse_json_record(line, NOW_MS) == InputRecord(
        b"k",
        '{"a":[1,"é"]}'.encode(),
        (("x", b"1"), ("x", None), ("b", b"\xff")),
        3,
        1_704_067_200_000,
    )


def test_everything_is_null_when_json_record_is_empty() -> None:
    assert parse_json_record(b"{}", NOW_MS) == InputRecord(None, None, (), None, None)


def test_headers_may_be_an_object_when_json_is_written_by_hand() -> None:
    assert parse_json_record(b'{"headers": {"a": "1", "b": null}}', NOW_MS).headers == (("a", b"1"), ("b", None))


def test_no_timestamp_is_sent_when_consumed_record_had_none() -> None:
    assert parse_json_record(b'{"timestamp": -1}', NOW_MS).timestamp is None


@pytest.mark.parametrize(
    "line",
    [
        b"", b"x", b"[]", b'"a"', b'{"partition": "1"}', b'{"partition": true}', b'{"timestamp": 1.5}',
        b'{"headers": "a"}', b'{"headers": [1]}', b'{"headers": [{"value": "x"}]}', b'{"value_base64": "?"}',
        b'{"key_base64": 1}', b'{"timestamp": "soon"}', b"\xff",
    ],
)  # fmt: skip
def test_usage_error_when_json_record_makes_no_sense(line: bytes) -> None:
    with pytest.raises(UsageError):
        parse_json_record(line, NOW_MS)


@pytest.mark.parametrize(
    ("data", "delimiter", "expected"),
    [
        (b"", b"\n", []),
        (b"a\nb\n", b"\n", [b"a", b"b"]),
        (b"a\n\nb", b"\n", [b"a", b"", b"b"]),
        (b"a\r\n", b"\n", [b"a\r"]),
        (b"a--b--", b"--", [b"a", b"b"]),
        (b"a-\n-b", b"--", [b"a-\n-b"]),
        (b"\0\0x", b"\0", [b"", b"", b"x"]),
    ],
)
def test_stream_is_cut_at_delimiters_when_split(data: bytes, delimiter: bytes, expected: list[bytes]) -> None:
    assert list(split_stream(io.BytesIO(data), delimiter)) == expected


def test_delimiter_is_found_when_it_lies_across_two_reads() -> None:
    data = b"x" * (256 * 1024 - 1) + b"--" + b"y"
    assert [len(piece) for piece in split_stream(io.BytesIO(data), b"--")] == [256 * 1024 - 1, 1]


def test_options_become_bytes_when_text_format_is_chosen() -> None:
    chosen = choose_text_format("k", None, "NULL", ["a=1", "b="])
    assert chosen == TextFormat(b"k", None, b"NULL", (("a", b"1"), ("b", b"")))
    assert choose_text_format(None, r"\t", None, None).key_separator == b"\t"


@pytest.mark.parametrize(
    ("value", "tombstone", "input_format", "text_format"),
    [
        ("v", True, "text", TextFormat(key=b"k")),
        (None, True, "text", TextFormat()),
        (None, False, "text", TextFormat(key=b"k", key_separator=b":")),
        (None, False, "json", TextFormat(key=b"k")),
    ],
)
def test_usage_error_when_sources_contradict_each_other(
    value: str | None, tombstone: bool, input_format: str, text_format: TextFormat
) -> None:
    with pytest.raises(UsageError):
        check_sources(value, tombstone, None, input_format, text_format)


def test_usage_error_when_idempotent_producer_may_lose_acknowledgements() -> None:
    with pytest.raises(UsageError):
        producer_settings("none", "1", True)
    assert producer_settings("zstd", "all", True)["enable.idempotence"] is True
