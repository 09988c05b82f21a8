from __future__ import annotations

import pytest

from penstock.core.extras import MissingExtraError
from penstock.core.lazy.lazy_names import lazy_names


def test_a_name_is_imported_when_it_is_used() -> None:
    find, _ = lazy_names("shelf", {"Decimal": "decimal"})
    from decimal import Decimal

    assert find("Decimal") is Decimal


def test_a_name_that_is_not_there_is_an_attribute_error_when_it_is_used() -> None:
    find, _ = lazy_names("shelf", {"Decimal": "decimal"})
    with pytest.raises(AttributeError, match=r"^module 'shelf' has no attribute 'Decimals'$"):
        find("Decimals")


def test_names_that_wait_are_listed_when_somebody_looks_what_is_there() -> None:
    _, list_names = lazy_names("penstock.core.lazy", {"Decimal": "decimal"})
    assert {"Decimal", "lazy_names"} <= set(list_names())


@pytest.mark.parametrize(("needed_by", "told"), [("", "shelf.Broker"), ("the shelf", "the shelf")])
def test_the_extra_is_named_when_its_module_is_missing(needed_by: str, told: str) -> None:
    find, _ = lazy_names("shelf", {"Broker": "kazoo.no_such_module"}, needed_by)
    with pytest.raises(MissingExtraError, match=rf"^{told} needs kazoo, which is not installed: pip install"):
        find("Broker")
