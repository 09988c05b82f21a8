"""Whether a question has the same rows in the same tasks when it is asked again over the same offsets. Pure.

An insert that was killed is finished by running it again, and each task whose rows are there already leaves them. That
needs tasks with the same rows as before. A question that cannot promise it is written by one task instead, in one
transaction: all rows or none. So what is not understood here costs time, and no row.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

_CLASS = re.compile(r'"class":"[\w.]*\.(\w+)\$?"')
# Each row, or each group by a hash of its columns, for itself.
_STEADY = frozenset(
    {
        "Aggregate", "ArrowEvalPython", "BatchEvalPython", "Distinct", "Expand", "Filter", "Generate", "Join",
        "LocalRelation", "MapInArrow",
        "OneRowRelation",
        "Project", "Range", "RepartitionByExpression", "SubqueryAlias", "Union",
    }
)  # fmt: skip
# Their results do not depend on the order in which rows come.
_STEADY_AGGREGATES = frozenset(
    {"Count", "CountIf", "Sum", "Min", "Max", "Average", "BoolAnd", "BoolOr", "BitAndAgg", "BitOrAgg", "BitXorAgg"}
)
_AGGREGATES = "org.apache.spark.sql.catalyst.expressions.aggregate."
_WORDS = {
    "Sort": "ORDER BY",
    "GlobalLimit": "LIMIT",
    "LocalLimit": "LIMIT",
    "Offset": "OFFSET",
    "Sample": "TABLESAMPLE",
    "Window": "a window function",
    "LogicalRelation": "files, which may change meanwhile",
    "HiveTableRelation": "a table of Hive's, which may change meanwhile",
    "DataSourceV2ScanRelation": "a table of the session, which may change meanwhile",
    "InMemoryRelation": "rows that are cached, and may be others later",
    "LogicalRDD": "a table of the session, which may change meanwhile",
}
_TIMES = frozenset({"CurrentTimestamp", "CurrentDate", "LocalTimestamp", "CurrentTime", "Now"})
_SUBQUERIES = frozenset({"ScalarSubquery", "Exists", "ListQuery", "InSubquery", "DynamicPruningSubquery"})


def why_not_repeatable(analyzed_json: str, optimized_json: str, *, is_deterministic: bool) -> list[str]:
    """What in a question may give other rows the next time, in words; empty where nothing does. Plans are Spark's own,
    as their toJSON writes them."""
    reasons = [] if is_deterministic else ["a function such as rand()"]
    classes = set(_CLASS.findall(analyzed_json))
    if classes & _TIMES:
        reasons.append("the current time")
    if set(_CLASS.findall(optimized_json)) & _SUBQUERIES:
        reasons.append("a subquery as a value")
    nodes = [node["class"].rpartition(".")[2] for node in json.loads(optimized_json)]
    reasons += [_WORDS.get(node, node) for node in nodes if node not in _STEADY]
    reasons += [f"the function {name}" for name in _aggregates(optimized_json) if name not in _STEADY_AGGREGATES]
    if "RepartitionByExpression" in nodes and "SortOrder" in classes:
        reasons.append("ranges that Spark finds by a sample")
    if nodes.count("Aggregate") > 1:
        reasons.append("groups of groups")  # of sums whose last digits depend on the order of rows, perhaps
    return list(dict.fromkeys(reasons))


def _aggregates(plan_json: str) -> Iterator[str]:
    def visit(value: Any) -> Iterator[str]:
        if isinstance(value, dict):
            name = str(value.get("class", ""))
            if name.startswith(_AGGREGATES) and name != _AGGREGATES + "AggregateExpression":
                yield name.removeprefix(_AGGREGATES).rstrip("$")
            for inner in value.values():
                yield from visit(inner)
        elif isinstance(value, list):
            for inner in value:
                yield from visit(inner)

    # Modes of an aggregation, such as Complete, are objects of the same package.
    found = visit(json.loads(plan_json))
    return (name for name in found if name not in {"Complete", "Partial", "PartialMerge", "Final"})
