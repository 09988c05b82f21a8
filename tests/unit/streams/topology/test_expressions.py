from __future__ import annotations

import pytest

from penstock.streams.topology.errors import StreamsError
from penstock.streams.topology.expressions import (
    KnownAggregate,
    expression_text,
    first_that_matches,
    known_aggregate,
    named_expressions,
)


def test_expressions_get_names_when_they_are_columns_or_say_one() -> None:
    found = named_expressions(
        "select()", ("user", "place.city", "a + b AS total", "x as `odd name`"), {"day": "date(at)"}
    )
    assert found == (
        ("user", "user"),
        ("city", "place.city"),
        ("total", "a + b"),
        ("odd name", "x"),
        ("day", "date(at)"),
    )


@pytest.mark.parametrize(
    ("positional", "said"),
    [
        (("a + b",), "needs a name"),
        (("a", "b AS a"), "two columns 'a'"),
        (("_key",), "every row has one of ours"),
        (("",), "no expression"),
        ((len,), "no expression"),
    ],
)
def test_expressions_are_refused_when_their_name_is_unclear(positional: tuple[str, ...], said: str) -> None:
    with pytest.raises(StreamsError, match=said):
        named_expressions("select()", positional, {})


@pytest.mark.parametrize(
    ("text", "function", "argument"),
    [
        ("count(*)", "count", "*"),
        ("SUM( price * (1 + tax) )", "sum", "price * (1 + tax)"),
        ("mean(x)", "avg", "x"),
        ("collect_list(concat(a, ')'))", "collect_list", "concat(a, ')')"),
    ],
)
def test_an_aggregate_of_a_table_is_taken_apart_when_it_is_known(text: str, function: str, argument: str) -> None:
    assert known_aggregate(text, "a table") == KnownAggregate(function, argument)


@pytest.mark.parametrize(
    "text", ["sum(a) / count(*)", "stddev(a)", "count(distinct a)", "sum(*)", "a", "count()", "max(a) + min(b)"]
)
def test_an_aggregate_of_a_table_is_refused_when_it_cannot_be_taken_back(text: str) -> None:
    with pytest.raises(StreamsError, match="cannot compute") as refused:
        known_aggregate(text, "a table")
    assert "collect_list" in refused.value.hint


def test_a_row_goes_to_one_branch_when_several_conditions_hold() -> None:
    firsts, none = first_that_matches(["a > 1", "b"])
    assert firsts == ["coalesce((a > 1), false)", "NOT coalesce((a > 1), false) AND coalesce((b), false)"]
    assert none == "NOT coalesce((a > 1), false) AND NOT coalesce((b), false)"


def test_text_is_in_one_line_when_the_expression_is_not() -> None:
    assert expression_text("a\n   + b") == "a + b"


def test_an_aggregates_argument_is_as_it_was_written_when_it_has_white_space_in_a_text() -> None:
    assert known_aggregate("sum(if(name = 'a  b', 1, 0))", "it").argument == "if(name = 'a  b', 1, 0)"
