from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from typing import Any, Optional

import pytest

from penstock.streams import StreamsError, json
from penstock.streams.topology.row_types import columns_of


@dataclass
class Place:
    city: str
    code: int | None = None


@dataclass
class Order:
    user: str
    amount: int
    price: float
    paid: bool
    payload: bytes
    at: datetime
    day: date
    total: Decimal
    tags: list[str]
    places: dict[str, Place]
    note: Optional[str] = None  # noqa: UP045
    home: Place | None = None


@dataclass
class Strange:
    what: complex


@dataclass
class Either:
    what: int | str


@dataclass
class Nothing:
    pass


@dataclass
class Endless:
    inner: Endless | None = None


@dataclass
class Untyped:
    items: list  # type: ignore[type-arg]


def test_columns_are_those_of_the_fields_when_a_dataclass_declares_them() -> None:
    assert columns_of(Order) == (
        "`user` STRING, `amount` BIGINT, `price` DOUBLE, `paid` BOOLEAN, `payload` BINARY, `at` TIMESTAMP, `day` DATE, "
        "`total` DECIMAL(38,18), `tags` ARRAY<STRING>, `places` MAP<STRING, STRUCT<`city`: STRING, `code`: BIGINT>>, "
        "`note` STRING, `home` STRUCT<`city`: STRING, `code`: BIGINT>"
    )


@pytest.mark.parametrize(
    ("row_type", "said"),
    [
        (Strange, "Strange.what has a type that no column has: complex"),
        (Either, "Either.what"),
        (Untyped, "Untyped.items"),
        (Nothing, "no fields"),
        (Endless, "itself"),
        (int, "no dataclass"),
        (Place("Rome"), "no dataclass"),
    ],
)
def test_a_type_is_refused_when_no_column_has_it(row_type: Any, said: str) -> None:
    with pytest.raises(StreamsError, match=said):
        columns_of(row_type)


def test_a_format_knows_the_dataclass_when_it_was_made_of_one() -> None:
    assert json(Place).row_type is Place
    assert json(Place).columns == "`city` STRING, `code` BIGINT"
