"""How a query depends on the time at which it runs, read from Spark's analyzed plan as JSON. Pure.

Spark fixes now() when it optimizes a plan: once when the bounds of a query are read, and again when the query runs,
which is later. The second time decides which rows are meant, so bounds from the first must hold for it, too. In the
optimized plan a clock is a literal like any other. So the kind of clock anywhere in the query decides how far its
bounds can be trusted.
"""

from __future__ import annotations

import enum
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from penstock.pipelines.tables.bounds import UNBOUNDED, Bounds, Interval

# A question over many topics is planned in less, and run soon.
_LATER_US: Final = 60_000_000
# A day that is taken from a time is an hour longer or shorter where clocks are put back or forward.
_SUMMER_US: Final = 2 * 3_600_000_000


class Clock(enum.IntEnum):
    NONE = 0
    STEADY = 1  # as much later as the question runs later: now() - INTERVAL 1 HOUR
    STEPPING = 2  # later in steps, or not at all: current_date(), date_trunc('hour', now())
    WILD = 3  # anything


def bounds_at(bounds: Bounds, clock: Clock) -> Bounds:
    """Bounds that hold whenever the question runs. A beginning that moves on leaves rows out later; an end lets rows
    in, by as much as a step."""
    times = bounds.timestamps_us
    match clock:
        case Clock.NONE:
            return bounds
        case Clock.STEADY:
            return replace(bounds, timestamps_us=times.widened(_LATER_US))
        case Clock.STEPPING:
            start = None if times.start is None else times.start - _SUMMER_US
            return replace(bounds, timestamps_us=Interval(start, None))
        case Clock.WILD:
            return UNBOUNDED


_CLOCKS: Final = {
    "Now": Clock.STEADY,
    "CurrentTimestamp": Clock.STEADY,
    "CurrentDate": Clock.STEPPING,
    "LocalTimestamp": Clock.STEPPING,
    "CurrentTime": Clock.WILD,
    "CurrentBatchTimestamp": Clock.WILD,
}
_IS_THERE: Final = re.compile(rf'"class":"[\w.]*\.(?:{"|".join(_CLOCKS)})\$?"')
_PLANS: Final = ".plans.logical."
# As good or as bad as what they are of.
_PASSING: Final = frozenset(
    {
        "And", "Or", "Not", "EqualTo", "EqualNullSafe", "GreaterThan", "GreaterThanOrEqual", "LessThan",
        "LessThanOrEqual", "In", "Between", "With", "DatetimeSub",
    }
)  # fmt: skip
# They never go back when the time that they are of goes on.
_STEPS: Final = frozenset({"TruncTimestamp", "TruncDate", "ParseToDate", "DateAdd", "DateSub"})
# Nodes that change nothing of the rows below but how many there are, and in which order.
_ABOVE_OUTPUT: Final = frozenset({"GlobalLimit", "LocalLimit", "Sort"})
_OUTPUT: Final = frozenset({"Project", "Aggregate"})


def clock_of(analyzed_json: str) -> Clock:
    """The wildest clock of the question, without those that are only shown."""
    if not _IS_THERE.search(analyzed_json):
        return Clock.NONE
    return max(map(_judge_tree, _conditions(json.loads(analyzed_json))), default=Clock.NONE)


def _conditions(plan: Sequence[Mapping[str, Any]]) -> Iterator[list[Mapping[str, Any]]]:
    """The expressions of all nodes but the outermost columns, of which no condition can be made."""
    kinds = [_kind(node) for node in plan]
    first = next((place for place, kind in enumerate(kinds) if kind not in _ABOVE_OUTPUT), 0)
    for place, node in enumerate(plan):
        if place == first and kinds[place] in _OUTPUT and _PLANS not in json.dumps([*node.values()][1:]):
            continue
        yield from _expressions(node)


def _expressions(value: Any) -> Iterator[list[Mapping[str, Any]]]:
    """The trees in a node's fields; what stands inside of one, as the plan of a subquery does, is a tree of its own."""
    if isinstance(value, dict):
        for inner in value.values():
            yield from _expressions(inner)
    elif isinstance(value, list) and value and isinstance(value[0], dict) and "num-children" in value[0]:
        if _PLANS in value[0]["class"]:
            for node in value:
                yield from _expressions(node)
            return
        yield value
        for node in value:
            if _PLANS in json.dumps(node):
                yield from _expressions(node)
    elif isinstance(value, list):
        for inner in value:
            yield from _expressions(inner)


def _judge_tree(nodes: Sequence[Mapping[str, Any]]) -> Clock:
    """Parents stand before their children. Not recursive: a chain of 1,000 ORs is that deep."""
    waiting: list[tuple[Clock, str]] = []  # and for intervals their type
    for node in reversed(nodes):
        count = node["num-children"]
        children = list(reversed(waiting[len(waiting) - count :])) if count else []
        del waiting[len(waiting) - count :]
        waiting.append((_judge(node, children), _interval_of(node, children)))
    return waiting[0][0]


def _judge(node: Mapping[str, Any], children: Sequence[tuple[Clock, str]]) -> Clock:
    kind = _kind(node)
    if not children:
        return _CLOCKS.get(kind, Clock.NONE)
    worst = max(clock for clock, _ in children)
    if worst is Clock.NONE or kind in _PASSING:
        return worst
    if any(clock for clock, _ in children[1:]) and kind != "TruncTimestamp":
        return Clock.WILD
    if kind in _STEPS:
        return max(worst, Clock.STEPPING)
    if kind == "Cast" and node.get("dataType") in ("timestamp", "date"):
        return worst if node["dataType"] == "timestamp" else max(worst, Clock.STEPPING)
    if kind in ("TimestampAddInterval", "TimeAdd") and len(children) == 2:
        if re.match(r"interval (hour|minute|second)", children[1][1]):
            return worst
        if children[1][1].startswith("interval day"):
            return max(worst, Clock.STEPPING)
    return Clock.WILD


def _interval_of(node: Mapping[str, Any], children: Sequence[tuple[Clock, str]]) -> str:
    if _kind(node) == "Literal":
        return str(node.get("dataType", ""))
    return children[0][1] if _kind(node) == "UnaryMinus" else ""


def _kind(node: Mapping[str, Any]) -> str:
    return str(node["class"]).rpartition(".")[2].removesuffix("$")
