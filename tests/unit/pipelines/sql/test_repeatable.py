"""Whether a question may have other rows when it is asked again, read from Spark's plans."""

from __future__ import annotations

import json
from typing import Any

from penstock.pipelines.sql.repeatable import why_not_repeatable

_PLANS = "org.apache.spark.sql.catalyst.plans.logical."


def node(kind: str, **fields: Any) -> dict[str, Any]:
    return {"class": _PLANS + kind, "num-children": 1, **fields}


def view(name: str) -> dict[str, Any]:
    return node("View", desc={"identifier": {"table": name}})


def function(name: str) -> dict[str, Any]:
    return node(
        "MapInArrow", functionExpr=[{"class": "org.apache.spark.sql.catalyst.expressions.PythonUDF", "name": name}]
    )


def reasons(analyzed: list[dict[str, Any]], optimized: list[dict[str, Any]]) -> list[str]:
    return why_not_repeatable(json.dumps(analyzed), json.dumps(optimized), is_deterministic=True, tables=["Orders"])


def test_a_read_is_repeated_when_it_is_of_the_snapshot() -> None:
    read = [function("topic:orders"), node("Range")]
    assert reasons([node("Project"), view("orders"), *read], read) == []


def test_a_limit_counts_when_spark_has_optimized_it_away() -> None:
    assert reasons([node("GlobalLimit"), node("LocalLimit"), view("orders")], [node("LocalRelation")]) == ["LIMIT"]


def test_a_view_of_the_session_counts_when_its_rows_are_in_the_plan() -> None:
    found = reasons([view("few"), node("LocalRelation")], [node("LocalRelation")])
    assert found == ["the view few of the session, which may change meanwhile"]
    inside = node("Filter", condition=[{"class": "ListQuery", "plan": [view("few")]}])
    assert reasons([inside, view("orders")], [node("Join")]) == found
    assert reasons([node("LocalRelation")], [node("LocalRelation")]) == []  # values that the statement has in it


def test_a_function_counts_when_it_is_no_read_of_the_snapshot() -> None:
    assert reasons([function("mine")], [function("mine")]) == ["the function mine"]
