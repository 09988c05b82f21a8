"""The identity of a plan, by which an old checkpoint recognises it, and the differences of a changed one.

For each query that has run, the checkpoint keeps what the query's state depends on: its inputs, the nodes that lead to
its root, and the application's own topics that it writes. Work behind the root, on each batch, may change: it keeps
nothing. A query without state keeps only the topics that it has read. New queries may come, and old ones may go; but
one that comes while another one goes looks like another name for the same thing, whose state would be lost, and is a
difference.

Topics that a pattern finds are known by the pattern, functions by module and qualified name, expressions by their
text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import Any

from penstock.streams.planner.members import closure
from penstock.streams.planner.plan import Plan, PlannedQuery, TopicKind
from penstock.streams.planner.rules import KEY_BUCKETS, has_machine
from penstock.streams.topology.expressions import expression_text, is_column
from penstock.streams.topology.functions import function_name
from penstock.streams.topology.nodes import Node, Peek, Process, Source
from penstock.streams.topology.topic_choice import topics_text

# Of a source: these change what comes next, but not what was kept. Its grace counts as part of the query's watermarks.
_FREE_OF_SOURCES = frozenset({"start", "refresh_ms", "grace_ms", "fail_on_data_loss"})
# A dataclass that got another name, or module, has the same columns, which are compared.
_FREE = frozenset({"name", "row_type"})


def document_of(plan: Plan) -> dict[str, Any]:
    """By query; of plain values, so that it can be written as JSON and compared with what was read."""
    return {query.name: _document_of_query(plan, query) for query in plan.queries}


def _document_of_query(plan: Plan, query: PlannedQuery) -> dict[str, Any]:
    topology = plan.topology
    reads = {
        **{name: _topic_of(topology.node(name)) for name in query.sources},
        **{name: plan.cuts[name].topic for name in query.cuts},
    }
    document: dict[str, Any] = {"reads": reads, "stateful": query.is_stateful}
    if not query.is_stateful:
        return document
    nodes = [node for node in closure(topology, query.root, plan.cuts) if not isinstance(node, Peek)]
    document["nodes"] = {node.name: _document_of_node(node) for node in nodes}
    if any(has_machine(topology, node) for node in nodes):
        document["key buckets"] = KEY_BUCKETS
    document["mode"] = query.mode
    document["late, milliseconds"] = dict(query.watermarks_ms)
    document["writes"] = sorted(output.topic for output in query.outputs if output.kind is not TopicKind.SINK)
    return document


def _topic_of(node: Node) -> str:
    assert isinstance(node, Source)
    return topics_text(node.topic)


def _document_of_node(node: Node) -> dict[str, Any]:
    document: dict[str, Any] = {"is": type(node).__name__}
    for field in fields(node):
        value = getattr(node, field.name)
        if field.name in _FREE or (isinstance(node, Source) and field.name in _FREE_OF_SOURCES):
            continue
        if value is not field.default:
            document[field.name] = _plain(value)
    if isinstance(node, Process) and (states := dict(_states(node.processor))):
        document["states"] = states
    return document


def _states(processor: type) -> Iterator[tuple[str, Any]]:
    """The named states of the class: what is declared in it by a specification of ours."""
    for name in dir(processor):
        spec = getattr(getattr(processor, name, None), "spec", None)
        if is_dataclass(spec) and not isinstance(spec, type):
            yield name, _plain(spec)


def _plain(value: Any) -> Any:
    match value:
        case bool() | int() | float() | None:
            return value
        case re.Pattern():
            return topics_text(value)
        case Enum():
            return str(value.value)
        case str():
            return " ".join(value.split())
        case tuple() | list():
            return [_plain(each) for each in value]
        case Mapping():
            return {str(key): _plain(each) for key, each in sorted(value.items())}
    if is_column(value):
        return expression_text(value)
    if is_dataclass(value) and not isinstance(value, type) and not callable(value):
        parts = {each.name: getattr(value, each.name) for each in fields(value) if each.name not in _FREE}
        defaults = {each.name: each.default for each in fields(value)}
        return {name: _plain(part) for name, part in parts.items() if part is not None and part != defaults[name]}
    if callable(value):
        return function_name(value)
    return str(value)


def difference(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """In lines for people; none where the new plan can go on from the old one's checkpoint."""
    lines: list[str] = []
    for name in old:
        if name in new:
            lines += [f"query {name}: {line}" for line in _differences("", old[name], new[name])]
    gone = [name for name in old if name not in new and old[name].get("stateful")]
    came = [name for name in new if name not in old and new[name].get("stateful")]
    if gone and came:
        lines += [f"query {name} is gone, and its state with it, while others came: {', '.join(came)}" for name in gone]
    return lines


def _differences(where: str, old: Any, new: Any) -> Iterator[str]:
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        for key in [*old, *(key for key in new if key not in old)]:
            inner = f"{where}, {key}" if where else str(key)
            if key not in new:
                yield f"{inner} was {_short(old[key])} and is gone"
            elif key not in old:
                yield f"{inner} is new: {_short(new[key])}"
            else:
                yield from _differences(inner, old[key], new[key])
    elif old != new:
        yield f"{where} was {_short(old)}, is {_short(new)}"


def _short(value: Any) -> str:
    """As people read it."""
    match value:
        case Mapping() if "is" in value:
            return f"a {value['is']}"
        case Mapping():
            return ", ".join(f"{key} {_short(each)}" for key, each in value.items())
        case list():
            return "[" + ", ".join(_short(each) for each in value) + "]"
        case str():
            return value or "nothing"
    return str(value)
