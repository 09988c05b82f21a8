"""What stands behind the question mark."""

from __future__ import annotations

import pytest

from penstock.registry.api.query import QueryString, parse_integer
from penstock.registry.errors import RegistryError
from penstock.registry.model import Deleted, Page, Rendering


@pytest.mark.parametrize(
    ("text", "is_set"),
    [
        (b"x=true", True),
        (b"x=True", True),
        (b"x=TRUE&x=false", True),
        (b"x=1", False),
        (b"x", False),
        (b"X=true", False),
    ],
)
def test_flag_is_set_when_it_is_true_in_any_case(text: bytes, is_set: bool) -> None:
    assert QueryString(text).flag("x") is is_set


def test_defaults_count_when_nothing_is_asked() -> None:
    query = QueryString(b"unknown=1&limit=")
    assert (query.page(), query.rendering(), query.deleted()) == (Page(), Rendering(), Deleted.LEFT_OUT)


def test_all_parameters_are_read_when_given() -> None:
    query = QueryString(
        b"offset=2&limit=3&format=resolved&referenceFormat=qualified&findTags=a&findTags=b%20c&deleted=true"
    )
    assert query.page() == Page(2, 3)
    assert query.rendering() == Rendering("resolved", "qualified", ("a", "b c"))
    assert query.deleted() is Deleted.INCLUDED
    assert QueryString(b"deletedOnly=true&deleted=true").deleted() is Deleted.ONLY


@pytest.mark.parametrize("text", ["x", "", "1.0", "2147483648", "-2147483649", "99999999999", "\u0661", " 1", "0x1"])
def test_page_is_not_there_when_a_number_is_none(text: str) -> None:
    with pytest.raises(RegistryError) as caught:
        parse_integer(text)
    assert caught.value.code == 404


def test_query_is_refused_when_it_has_too_many_parameters() -> None:
    with pytest.raises(RegistryError) as caught:
        QueryString(b"a=1&" * 1_000)
    assert caught.value.status == 400
