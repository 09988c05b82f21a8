"""Rows as Python functions take and give them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pytest

from penstock.streams.lowering.row_functions import RowsMade, flat_caller, plain, row_caller, row_maker
from penstock.streams.topology.errors import StreamsError


@dataclass
class Place:
    city: str


@dataclass
class Order:
    id: int
    at: Place | None
    stops: list[Place]
    tags: dict[str, str] = field(default_factory=dict)


def test_a_dataclass_is_made_of_a_row_when_its_fields_are_dataclasses() -> None:
    make = row_maker(Order)
    row = {"id": 1, "at": {"city": "Bonn"}, "stops": [{"city": "Ulm"}, None], "tags": {"a": "b"}, "more": 1}
    assert make(row) == Order(1, Place("Bonn"), [Place("Ulm"), None], {"a": "b"})  # type: ignore[list-item]
    assert make({"id": 1, "at": None, "stops": None, "tags": None}).at is None


def test_what_is_returned_is_plain_when_it_is_a_dataclass() -> None:
    order = Order(1, Place("Bonn"), [Place("Ulm")], {"a": "b"})
    assert plain(order) == {"id": 1, "at": {"city": "Bonn"}, "stops": [{"city": "Ulm"}], "tags": {"a": "b"}}


def test_a_function_sees_a_dict_when_no_row_type_is_declared() -> None:
    assert row_caller(lambda row: {**row, "b": row["a"] + 1}, None)({"a": 1}) == {"a": 1, "b": 2}


def test_nothing_comes_out_when_a_function_of_many_returns_none() -> None:
    def words(row: Any) -> Any:
        return [{"word": word} for word in row["line"].split()] if row["line"] else None

    assert flat_caller(words, None)({"line": "to be"}) == [{"word": "to"}, {"word": "be"}]
    assert flat_caller(words, None)({"line": None}) == []


def test_an_error_names_the_function_and_the_row_when_a_function_raises_or_gives_another_type() -> None:
    made = RowsMade("map-1: app.half", "INT", pa.int32(), lambda at: f"partition 3, offset {at}")
    with pytest.raises(StreamsError, match=r"map-1: app\.half failed \(partition 3, offset 1\): ZeroDivisionError"):
        made.of(lambda row: 1 // row, [1, 0])
    with pytest.raises(StreamsError, match=r"map-1: app\.half: .* does not fit INT \(partition 3, offset 2\)"):
        made.of(lambda row: row, [1, None, "x"])
