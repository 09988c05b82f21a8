"""SQL aggregates that see one side's rows only."""

from __future__ import annotations

import pytest

from penstock.streams.lowering.cogroups import only_where


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("count(*)", "count(*) FILTER (WHERE s = 1)"),
        ("sum(a) / count( * )", "sum(a) FILTER (WHERE s = 1) / count( * ) FILTER (WHERE s = 1)"),
        ("coalesce(SUM (upper(x)), 0)", "coalesce(SUM (upper(x)) FILTER (WHERE s = 1), 0)"),
        ("count(*) FILTER (WHERE a > 1 OR b)", "count(*) FILTER (WHERE s = 1 AND (a > 1 OR b))"),
        ("count(*) filter (where (a))", "count(*) FILTER (WHERE s = 1 AND ((a)))"),
        ("max_by(')', `count(`)", "max_by(')', `count(`) FILTER (WHERE s = 1)"),
        (
            "percentile_cont(0.5) WITHIN GROUP (ORDER BY a) + 1",
            "percentile_cont(0.5) WITHIN GROUP (ORDER BY a) FILTER (WHERE s = 1) + 1",
        ),
        ("count /* of all */ (*)", "count /* of all */ (*) FILTER (WHERE s = 1)"),
        ("'count(*)' || max(\"sum(\")", "'count(*)' || max(\"sum(\") FILTER (WHERE s = 1)"),
        ("1 + counted", "1 + counted"),
    ],
)
def test_each_aggregate_gets_the_condition_when_it_stands_in_any_expression(sql: str, expected: str) -> None:
    assert only_where(sql, "s = 1") == expected


def test_sql_that_is_broken_stays_broken_when_a_parenthesis_is_missing() -> None:
    assert only_where("sum(a", "s = 1").startswith("sum(a")
