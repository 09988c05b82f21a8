"""Whether a query has the same rows in the same tasks when it runs again over the same offsets. Pure.

An insert that was killed is finished by running it again, and each task whose rows are there already leaves them. This
needs tasks with the same rows as before. A query that cannot promise it is written by one task instead, in one
transaction: all rows or none. So a plan that is not understood here costs time, and no row.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator
from typing import Any

_CLASS = re.compile(r'"class":"[\w.]*\.(\w+)\$?"')
# Each row, or each group by a hash of its columns, for itself.
_STEADY = frozenset(
    {
        "Aggregate", "ArrowEvalPython", "BatchEvalPython", "Distinct", "Expand", "Filter", "Generate", "Join",
        "LocalRelation", "MapInArrow", "OneRowRelation", "Project",
        "Range", "RepartitionByExpression", "SubqueryAlias", "Union",
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
# Spark may optimize them away, in a way that depends on what it has read.
_ANALYZED = frozenset({"GlobalLimit", "LocalLimit", "Offset", "Sample", "Window"})
# What tasks that read a snapshot are called in plans (`tables.scan`).
_READ = "topic:"
_TIMES = frozenset({"CurrentTimestamp", "CurrentDate", "LocalTimestamp", "CurrentTime", "Now"})
_SUBQUERIES = frozenset({"ScalarSubquery", "Exists", "ListQuery", "InSubquery", "DynamicPruningSubquery"})


def why_not_repeatable(
    analyzed_json: str, optimized_json: str, *, is_deterministic: bool, tables: Collection[str] = ()
) -> list[str]:
    """The parts of a query that may give other rows the next time, in words; empty where none does. Plans are Spark's
    own, as their toJSON writes them. `tables` are those of the snapshot; other views are the session's."""
    reasons = [] if is_deterministic else ["a function such as rand()"]
    classes = set(_CLASS.findall(analyzed_json))
    if classes & _TIMES:
        reasons.append("the current time")
    if set(_CLASS.findall(optimized_json)) & _SUBQUERIES:
        reasons.append("a subquery as a value")
    analyzed = list(_objects(json.loads(analyzed_json)))
    kinds = [kind for each in analyzed if (kind := _name_of(each)) in _ANALYZED]
    reasons += [_WORDS[kind] for kind in kinds]
    reasons += [f"the view {name} of the session, which may change meanwhile" for name in _views(analyzed, tables)]
    reasons += [f"the function {name}" for name in _foreign_functions(analyzed)]
    nodes = [node["class"].rpartition(".")[2] for node in json.loads(optimized_json)]
    reasons += [_WORDS.get(node, node) for node in nodes if node not in _STEADY]
    reasons += [f"the function {name}" for name in _aggregates(optimized_json) if name not in _STEADY_AGGREGATES]
    if "RepartitionByExpression" in nodes and "SortOrder" in classes:
        reasons.append("ranges that Spark finds by a sample")
    if nodes.count("Aggregate") > 1:
        reasons.append("groups of groups")  # of sums whose last digits depend on the order of rows, perhaps
    return list(dict.fromkeys(reasons))


def _views(plan: list[dict[str, Any]], tables: Collection[str]) -> Iterator[str]:
    ours = {name.lower() for name in tables}
    for node in plan:
        if _name_of(node) == "View":
            name = str(node["desc"]["identifier"]["table"])
            if name.lower() not in ours:
                yield name


def _foreign_functions(plan: list[dict[str, Any]]) -> Iterator[str]:
    """Functions over whole partitions that read no snapshot: what they give may depend on anything."""
    for node in plan:
        if _name_of(node) in ("MapInArrow", "MapInPandas"):
            name = str(node["functionExpr"][0].get("name", ""))
            if not name.startswith(_READ):
                yield name


def _aggregates(plan_json: str) -> Iterator[str]:
    for each in _objects(json.loads(plan_json)):
        name = str(each.get("class", ""))
        if name.startswith(_AGGREGATES) and name != _AGGREGATES + "AggregateExpression":
            found = name.removeprefix(_AGGREGATES).rstrip("$")
            # Modes of an aggregation are objects of the same package.
            if found not in {"Complete", "Partial", "PartialMerge", "Final"}:
                yield found


def _name_of(node: dict[str, Any]) -> str:
    return str(node.get("class", "")).rpartition(".")[2]


def _objects(value: Any) -> Iterator[dict[str, Any]]:
    """All that a plan has in it, expressions and the plans of subqueries as well."""
    if isinstance(value, dict):
        yield value
        value = list(value.values())
    if isinstance(value, list):
        for inner in value:
            yield from _objects(inner)
