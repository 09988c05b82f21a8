"""What a query wants of each topic, read from Spark's optimized plan as JSON. Pure.

A topic stands in the plan as a MapInArrow node whose function is named `marker:<name>`. Spark has simplified everything
by then: views, subqueries and CTEs are gone, conditions stand right above the tables that they are about, and a node
that drops columns stands where columns are not needed. So three facts are read off:

- the columns that any node above a topic uses (in doubt: all of them),
- the conditions between a topic and the first node that is neither a projection nor a condition,
- a limit, if nothing but projections is below it.

A node's JSON is an object with `class` and `num-children`; a tree is the list of its nodes, parents before children.
Conditions that are not understood are left out, which makes the answer wider and never narrower.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, tzinfo
from typing import Any, Final, TypeAlias
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    LessThan,
    LessThanOrEqual,
    Not,
)

from penstock.pipelines.tables.bounds import AnyOf, Bounds, bounds_of

MARKER: Final = "marker:"  # scans, which a view of the user may have, are named otherwise
_PLANS: Final = ".plans.logical."
_Json: TypeAlias = dict[str, Any]
_Ids: TypeAlias = frozenset[int] | None  # expression ids; None is all

_COMPARISONS: Final[Mapping[str, tuple[type, type]]] = {  # and what stands for it when the literal is on the left
    "EqualTo": (EqualTo, EqualTo),
    "EqualNullSafe": (EqualNullSafe, EqualNullSafe),
    "GreaterThan": (GreaterThan, LessThan),
    "GreaterThanOrEqual": (GreaterThanOrEqual, LessThanOrEqual),
    "LessThan": (LessThan, GreaterThan),
    "LessThanOrEqual": (LessThanOrEqual, GreaterThanOrEqual),
}
# Nodes whose rows have the columns of the rows below: a column used above such a node is used below it.
_PASSING: Final = frozenset(
    {
        "Filter", "Sort", "GlobalLimit", "LocalLimit", "Offset", "Tail", "Sample", "Join", "Window", "Generate",
        "Repartition", "RepartitionByExpression", "RebalancePartitions", "ResolvedHint", "WindowGroupLimit",
        "SubqueryAlias",
    }
)  # fmt: skip
# Nodes whose expressions are the only use of the rows below.
_CHOOSING: Final = frozenset({"Project", "Aggregate", "Expand"})
# Alternatives of conditions of alternatives: real queries have no more, and deeper conditions bound nothing.
_DEEPEST: Final = 50
_INTEGERS: Final = frozenset({"byte", "short", "integer", "long"})


@dataclass(frozen=True)
class Pushdown:
    """Of one topic. `columns` is None for all; `filters` are alternatives if the question names the topic twice."""

    columns: frozenset[str] | None
    filters: tuple[Filter, ...] = ()
    limit: int | None = None
    uses: int = 1  # how often the question names the topic

    @property
    def bounds(self) -> Bounds:
        return bounds_of(self.filters)


@dataclass(frozen=True)
class _Node:
    fields: _Json
    children: tuple[_Node, ...]

    @property
    def kind(self) -> str:
        return str(self.fields["class"]).rpartition(".")[2]


@dataclass(frozen=True)
class _Above:
    """The facts about the nodes above a node, on the way down. The conditions of `conditions` are about rows that come
    straight from below, the limit as well."""

    needed: _Ids = None
    conditions: tuple[_Node, ...] = ()
    limit: int | None = None


def pushdown_of(plan_json: str, time_zone: str = "UTC") -> dict[str, Pushdown]:
    """The wanted columns and rows of each topic of the plan. `time_zone` is the session's: literals are printed in
    it.
    """
    found: dict[str, Pushdown] = {}
    for name, wanted in _walk(_tree(json.loads(plan_json)), _Above(), _zone(time_zone)):
        found[name] = _of_both(found[name], wanted) if name in found else wanted
    return found


def _of_both(one: Pushdown, other: Pushdown) -> Pushdown:
    columns = None if one.columns is None or other.columns is None else one.columns | other.columns
    return Pushdown(columns, (AnyOf((one.filters, other.filters)),), None, one.uses + other.uses)


def _walk(node: _Node, above: _Above, zone: tzinfo | None) -> Iterator[tuple[str, Pushdown]]:
    topic = _topic_of(node)
    if topic is not None:
        yield topic, _pushdown_of_topic(node, above, zone)
        return
    for plan in _plans_in(node.fields):
        yield from _walk(plan, _Above(), zone)
    below = _pass_down(node, above)
    for child in node.children:
        yield from _walk(child, below, zone)


def _pass_down(node: _Node, above: _Above) -> _Above:
    own = frozenset(_ids_in(node.fields))
    needed: _Ids = None
    if node.kind in _CHOOSING:
        needed = own
    elif node.kind in _PASSING and above.needed is not None:
        needed = above.needed | own
    match node.kind:
        case "Project":
            return replace(above, needed=needed)
        case "Filter":  # a limit that is above a condition counts the rows that meet it
            return _Above(needed, (*above.conditions, _tree(node.fields["condition"])))
        case "GlobalLimit" | "LocalLimit":  # a condition that is above a limit is about the rows that the limit left
            return _Above(needed, limit=_least(above.limit, _limit_of(node)))
    return _Above(needed)


def _pushdown_of_topic(node: _Node, above: _Above, zone: tzinfo | None) -> Pushdown:
    names = {_id_of(attribute): str(attribute["name"]) for (attribute,) in node.fields["output"]}
    columns = None if above.needed is None else frozenset(names[used] for used in above.needed if used in names)
    filters = [understood for each in above.conditions for understood in _filters_of(each, _Words(names, zone))]
    return Pushdown(columns, tuple(filters), above.limit)


def _topic_of(node: _Node) -> str | None:
    if node.kind != "MapInArrow":
        return None
    name = str(node.fields["functionExpr"][0].get("name", ""))
    return name.removeprefix(MARKER) if name.startswith(MARKER) else None


@dataclass(frozen=True)
class _Words:
    """How the expressions above a topic name its columns, and the zone of their times (None: one that is not known)."""

    names: Mapping[int, str]
    zone: tzinfo | None

    def column(self, node: _Node) -> tuple[str] | None:
        name = self.names.get(_id_of(node.fields)) if node.kind == "AttributeReference" else None
        return None if name is None else (name,)

    def literal(self, node: _Node) -> int | str | datetime | None:
        """The literal's value; None also for types that bound nothing, and for a time of the hour that a clock that is
        put back has twice."""
        if node.kind != "Literal" or not isinstance(node.fields.get("value"), str):
            return None
        text, kind = node.fields["value"], node.fields["dataType"]
        try:
            if kind in _INTEGERS:
                return int(text)
            if kind == "timestamp" and self.zone is not None:
                moment = datetime.fromisoformat(text).replace(tzinfo=self.zone)
                is_once = moment.replace(fold=1).utcoffset() == moment.utcoffset()
                return moment if is_once and moment.year >= 1970 else None
        except ValueError:  # a year after 9999, for one
            return None
        return text if kind == "string" else None


def _filters_of(node: _Node, words: _Words, depth: int = 0) -> list[Filter]:
    """The filters that a condition implies; fewer than it has, where a part is not understood."""
    if depth > _DEEPEST:
        return []
    if node.kind == "And":
        return [found for part in _chain(node) for found in _filters_of(part, words, depth + 1)]
    if node.kind == "Or":
        return [AnyOf(tuple(tuple(_filters_of(part, words, depth + 1)) for part in _chain(node)))]
    if node.kind == "Not":
        children = _filters_of(node.children[0], words, depth + 1)
        is_exact = node.children[0].kind in _COMPARISONS and len(children) == 1
        return [Not(children[0])] if is_exact else []
    understood = _comparison_of(node, words) if node.kind in _COMPARISONS else _membership_of(node, words)
    return [] if understood is None else [understood]


def _chain(node: _Node) -> Iterator[_Node]:
    """The parts of a AND b AND c, which is a chain of nodes as long as people write it."""
    waiting = [node]
    while waiting:
        part = waiting.pop()
        if part.kind == node.kind:
            waiting += reversed(part.children)
        else:
            yield part


def _comparison_of(node: _Node, words: _Words) -> Filter | None:
    left, right = node.children
    straight, mirrored = _COMPARISONS[node.kind]
    for column, literal, comparison in (
        (words.column(left), words.literal(right), straight),
        (words.column(right), words.literal(left), mirrored),
    ):
        if column is not None and literal is not None:
            compared: Filter = comparison(column, literal)
            return compared
    return None


def _membership_of(node: _Node, words: _Words) -> Filter | None:
    if node.kind != "In":
        return None
    column, literals = words.column(node.children[0]), [words.literal(child) for child in node.children[1:]]
    return None if column is None or None in literals else In(column, tuple(literals))


def _limit_of(node: _Node) -> int | None:
    literal = node.fields["limitExpr"][0]
    return int(literal["value"]) if literal["class"].endswith(".Literal") else None


def _least(one: int | None, other: int | None) -> int | None:
    return min((number for number in (one, other) if number is not None), default=None)


def _tree(nodes: Sequence[_Json]) -> _Node:
    """The tree of a list of nodes, parents before children. Not recursive: a chain of 1,000 ORs is that deep."""
    waiting: list[_Node] = []
    for fields in reversed(nodes):
        count = fields["num-children"]
        children = tuple(reversed(waiting[len(waiting) - count :])) if count else ()
        del waiting[len(waiting) - count :]
        waiting.append(_Node(fields, children))
    return waiting[0]


def _plans_in(value: Any) -> Iterator[_Node]:
    """The plans of subqueries, which stand inside expressions."""
    if isinstance(value, dict):
        for inner in value.values():
            yield from _plans_in(inner)
    elif isinstance(value, list) and value and isinstance(value[0], dict) and _PLANS in str(value[0].get("class")):
        yield _tree(value)
    elif isinstance(value, list):
        for inner in value:
            yield from _plans_in(inner)


def _ids_in(value: Any) -> Iterator[int]:
    """The ids of all columns that are named anywhere in a value."""
    if isinstance(value, dict):
        if str(value.get("class")).endswith(".AttributeReference"):
            yield _id_of(value)
        for inner in value.values():
            yield from _ids_in(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _ids_in(inner)


def _id_of(attribute: _Json) -> int:
    return int(attribute["exprId"]["id"])


def _zone(name: str) -> tzinfo | None:
    """Spark also takes offsets such as +01:00."""
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError):
        offset = re.fullmatch(r"(?:UTC|GMT|UT)?([+-]\d\d:\d\d)", name)
        return datetime.fromisoformat(f"1970-01-01T00:00:00{offset[1]}").tzinfo if offset else None
