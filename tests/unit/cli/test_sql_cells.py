"""Values of answers as JSON, as CSV and in tables."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

import pyarrow as pa
import pytest

from penstock.cli.commands.sql.cells import (
    csv_values,
    json_values,
    moment_text,
    readable_bytes,
    text_values,
    unique_names,
)
from penstock.core.words.visible_text import one_line


@pytest.mark.parametrize(
    ("column", "expected"),
    [
        pytest.param(pa.array([1, None]), [1, None], id="integers"),
        pytest.param(pa.array([1.5, float("nan"), float("-inf")]), [1.5, "NaN", "-Infinity"], id="floats"),
        pytest.param(pa.array([Decimal("1.10")], pa.decimal128(10, 2)), ["1.10"], id="decimals"),
        pytest.param(pa.array([Decimal("1E+3")], pa.decimal128(10, 0)), ["1000"], id="decimals without an exponent"),
        pytest.param(pa.array([b"\x00\xff"]), ["AP8="], id="bytes"),
        pytest.param(pa.array([date(2026, 11, 17)]), ["2026-11-17"], id="dates"),
        pytest.param(
            pa.array([datetime(2026, 11, 17, 6, 1, 2, 30_000, UTC)], pa.timestamp("us", "UTC")),
            ["2026-11-17T06:01:02.030000Z"],
            id="moments",
        ),
        pytest.param(
            pa.array([1_795_000_000_000_000], pa.timestamp("us")),
            ["2026-11-18T11:06:40"],
            id="wall clocks",
        ),
        pytest.param(pa.array([timedelta(days=1, seconds=61)]), ["P1DT1M1S"], id="durations"),
        pytest.param(pa.array([[b"a", None]], pa.list_(pa.binary())), [["YQ==", None]], id="lists"),
        pytest.param(pa.array([{"a": Decimal("2.5")}]), [{"a": "2.5"}], id="structs"),
        pytest.param(pa.array([[(1, b"a")], None], pa.map_(pa.int32(), pa.binary())), [{"1": "YQ=="}, None], id="maps"),
        pytest.param(pa.array([None, None], pa.null()), [None, None], id="nothing"),
    ],
)
def test_values_are_what_json_has(column: pa.Array, expected: object) -> None:
    values = json_values(column)
    assert values == expected
    json.dumps(values, allow_nan=False)


def test_moment_is_a_number_when_the_calendar_does_not_have_it() -> None:
    beyond = pa.array([400_000_000_000_000_000], pa.timestamp("us", "UTC"))
    assert json_values(beyond) == [400_000_000_000_000_000]
    assert text_values(beyond) == ["400000000000000000"]


@pytest.mark.parametrize(
    ("kind", "value", "expected"),
    [
        pytest.param(pa.list_(pa.timestamp("us", "UTC")), [0, 400_000_000_000_000_000], None, id="lists"),
        pytest.param(
            pa.struct([("a", pa.timestamp("us", "UTC")), ("b", pa.string())]),
            {"a": 400_000_000_000_000_000, "b": "x"},
            {"a": 400_000_000_000_000_000, "b": "x"},
            id="structs",
        ),
        pytest.param(
            pa.map_(pa.string(), pa.list_(pa.date32())),
            [("k", [3_000_000, None])],
            {"k": [3_000_000, None]},
            id="maps",
        ),
    ],
)
def test_nested_moment_is_a_number_when_the_calendar_does_not_have_it(
    kind: pa.DataType, value: object, expected: object
) -> None:
    column = pa.array([value, None], kind)
    expected = ["1970-01-01T00:00:00Z", 400_000_000_000_000_000] if expected is None else expected
    assert json_values(column) == [expected, None]
    assert text_values(column)[1] is None


def test_struct_has_both_fields_when_they_have_one_name() -> None:
    kind = pa.struct([("a", pa.int32()), ("a", pa.binary())])
    twins = pa.StructArray.from_arrays([pa.array([1], pa.int32()), pa.array([b"a"])], fields=list(kind))
    assert json_values(twins) == [{"a": 1, "a_2": "YQ=="}]


@pytest.mark.parametrize(
    ("duration", "text"),
    [
        (timedelta(0), "PT0S"),
        (timedelta(hours=-2), "-PT2H"),
        (timedelta(days=3), "P3D"),
        (timedelta(microseconds=1500), "PT0.0015S"),
    ],
)
def test_durations_are_iso_8601(duration: timedelta, text: str) -> None:
    assert moment_text(duration) == text


def test_terminal_obeys_nothing_when_a_value_has_control_characters() -> None:
    assert text_values(pa.array(["\x1b[2Ja\nb\u202ec", None])) == ["\\x1b[2Ja\\nb\\u202ec", None]
    assert one_line("\x9b") == "\\x9b"


def test_bytes_are_text_in_a_table_when_they_are_text() -> None:
    assert readable_bytes("grüße\n".encode()) == "grüße\\n"
    assert readable_bytes(b"\xff\x00a") == "\\xff\\x00a"


def test_nested_values_are_json_when_a_table_or_csv_shows_them() -> None:
    column = pa.array([{"a": [1, 2], "b": None}, None])
    assert text_values(column) == ['{"a": [1, 2], "b": null}', None]
    assert csv_values(column) == ['{"a": [1, 2], "b": null}', ""]
    assert csv_values(pa.array([True, None])) == ["true", ""]
    assert csv_values(pa.array([1.5, 1e300])) == ["1.5", "1e+300"]


def test_second_column_gets_another_name_when_two_have_the_same() -> None:
    assert unique_names(["id", "id", "id_2", "id"]) == ["id", "id_3", "id_2", "id_4"]
