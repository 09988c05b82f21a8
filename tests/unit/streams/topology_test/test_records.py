from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import pytest

from penstock.streams.topology.errors import StreamsError
from penstock.streams.topology.formats import Format, FormatKind
from penstock.streams.topology_test.records import (
    Record,
    encode,
    hashable,
    json_bytes,
    last_by_key,
    record_of,
    timestamp_ms,
)


def no_registry(topic: str, is_key: bool, kind: Format, given: Any) -> bytes:
    raise AssertionError("nobody asks a registry")


def value_bytes(kind: FormatKind, given: Any) -> bytes | None:
    return encode("lines", False, Format(kind), given, no_registry)


def test_what_is_of_the_record_is_no_column_when_a_row_is_a_dict() -> None:
    row = {"_key": "ann", "_timestamp": 5, "_headers": [("trace", b"1")], "n": 1}
    assert record_of(row) == Record("ann", {"n": 1}, 5, (("trace", b"1"),))


def test_a_row_has_no_value_when_it_says_null() -> None:
    assert record_of({"_key": "ann", "_null": True}) == Record("ann", None)


def test_a_row_is_refused_when_it_says_null_and_has_a_value() -> None:
    with pytest.raises(StreamsError, match="has no value, and this one has n"):
        record_of({"_null": True, "n": 1})


def test_a_row_is_the_value_when_it_is_text_alone() -> None:
    assert record_of("to be") == Record(None, "to be")


@dataclass
class Click:
    user: str
    at: datetime


def test_a_row_is_its_fields_when_it_is_a_dataclass() -> None:
    at = datetime(2026, 5, 1, tzinfo=UTC)
    assert record_of(Click("ann", at)).value == {"user": "ann", "at": at}


@pytest.mark.parametrize(
    "given",
    [
        1_777_629_600_000,
        datetime(2026, 5, 1, 10, tzinfo=UTC),
        datetime(2026, 5, 1, 10),  # noqa: DTZ001
        datetime(2026, 5, 1, 12, tzinfo=timezone(timedelta(hours=2))),
        "2026-05-01T10:00:00Z",
        "2026-05-01T12:00:00+02:00",
    ],
)
def test_a_time_is_milliseconds_when_it_is_given_in_any_form(given: Any) -> None:
    assert timestamp_ms(given) == 1_777_629_600_000


@pytest.mark.parametrize("given", ["yesterday", 1.5, True])
def test_a_time_is_refused_when_it_is_none(given: Any) -> None:
    with pytest.raises(StreamsError, match="is no time"):
        timestamp_ms(given)


def test_spark_can_read_the_json_when_values_are_of_python() -> None:
    row = {
        "at": datetime(2026, 5, 1, 10),  # noqa: DTZ001
        "day": date(2026, 5, 1),
        "price": Decimal("1.10"),
        "data": b"ab",
        "name": "Zoë",
    }
    assert json.loads(json_bytes(row)) == {
        "at": "2026-05-01T10:00:00+00:00",
        "day": "2026-05-01",
        "price": "1.10",
        "data": "YWI=",
        "name": "Zoë",
    }


def test_bytes_stay_as_they_are_when_a_format_wants_something_else() -> None:
    assert value_bytes(FormatKind.JSON, b"{broken") == b"{broken"


def test_text_is_taken_from_its_column_when_a_row_is_a_dict() -> None:
    assert value_bytes(FormatKind.TEXT, {"value": "to be"}) == b"to be"


@pytest.mark.parametrize(("kind", "given"), [(FormatKind.TEXT, {"line": "to be"}), (FormatKind.RAW, "to be")])
def test_a_row_is_refused_when_the_format_cannot_write_it(kind: FormatKind, given: Any) -> None:
    with pytest.raises(StreamsError, match="the value of topic lines is"):
        value_bytes(kind, given)


def test_a_key_can_be_looked_up_when_it_is_an_object() -> None:
    assert hashable({"key": {"country": "DE", "day": 1}, "start": 0, "end": 60000}) == (("DE", 1), 0, 60000)


def test_a_table_has_the_last_value_when_keys_come_again_or_are_deleted() -> None:
    records = [Record("a", 1), Record("b", 2), Record("a", 3), Record("b", None), Record({"key": "c", "start": 0}, 4)]
    assert last_by_key(records) == {"a": 3, ("c", 0): 4}
