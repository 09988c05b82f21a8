"""A plan as text for people: each query with what it reads, does and writes, and why there are topics between them.

    payments: 2 queries, 1 topic between

    query stream-table-join-1 (update)
      reads  clicks = from-clicks: key text, value json(user string, url string), time at
      reads  users = from-users: a table, key text, value json(country string)
        filter-1 <- from-clicks: url like '/pay%'
    *py stream-table-join-1 <- filter-1, from-users: left join with a table
      writes payments-stream-table-join-1-repartition <- stream-table-join-1: a topic between, because ...

A node with state is marked `*`, one that runs Python `py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from penstock.core.time.durations import duration_text
from penstock.core.words.plurals import plural
from penstock.streams.planner.members import behind_root, closure
from penstock.streams.planner.plan import Output, Plan, PlannedQuery, TopicKind
from penstock.streams.planner.rules import STATEFUL, is_lookup, kind_of, runs_python
from penstock.streams.topology.expressions import expression_text
from penstock.streams.topology.formats import Format, FormatKind
from penstock.streams.topology.functions import function_name
from penstock.streams.topology.nodes import (
    Aggregate,
    Deduplicate,
    Expression,
    Filter,
    FlatMap,
    Fold,
    ForeignKeyJoin,
    Map,
    MapRows,
    Merge,
    Node,
    Peek,
    Process,
    Repartition,
    Retyped,
    SelectKey,
    Shape,
    Sink,
    Source,
    Store,
    StreamJoin,
    StreamTableJoin,
    TableJoin,
    Topology,
)
from penstock.streams.topology.topic_choice import topics_text
from penstock.streams.topology.windows import JoinWindow, Window, WindowKind

LONGEST_EXPRESSION = 90  # what is longer is cut: a line is to be read, and the application has the whole


def describe(plan: Plan) -> str:
    queries = "1 query" if len(plan.queries) == 1 else f"{len(plan.queries)} queries"
    between = f", {plural(len(plan.cuts), 'topic')} between" if plan.cuts else ""
    lines = [f"{plan.topology.application}: {queries}{between}"]
    for query in plan.queries:
        lines += ["", *_query_lines(plan, query)]
    if plan.topology.dead_letters:
        lines += [
            "",
            "query dead-letters (append)",
            f"  writes {plan.topology.dead_letters}: records that do not decode",
        ]
    if unused := _unused(plan):
        lines += ["", f"not run, since their rows go nowhere: {', '.join(unused)}"]
    lines += ["", "* keeps state   py runs Python"]
    return "\n".join(lines)


def _unused(plan: Plan) -> list[str]:
    used = {name for query in plan.queries for name in (*query.sources, *query.globals)}
    for query in plan.queries:
        used |= {node.name for node in (*closure(plan.topology, query.root, plan.cuts), *behind_root(plan, query))}
    return [each.name for each in plan.topology.nodes if each.name not in used and not isinstance(each, Sink | Store)]


def _query_lines(plan: Plan, query: PlannedQuery) -> Iterator[str]:
    topology = plan.topology
    yield f"query {query.name} ({query.mode})"
    for name in query.sources:
        yield f"  reads  {_source_text(topology.node(name))}{_watermark(query, name)}"
    for name in query.cuts:
        yield f"  reads  {plan.cuts[name].topic} = {name}{_watermark(query, name)}"
    for name in query.globals:
        yield f"  copies {_source_text(topology.node(name))}"
    for node in (*closure(topology, query.root, plan.cuts), *behind_root(plan, query)):
        if not isinstance(node, Source) and not (isinstance(node, Repartition) and node.name == query.root):
            yield f"{_mark(topology, node)}{node.name} <- {', '.join(node.inputs)}: {node_text(topology, node)}"
    for output in query.outputs:
        yield f"  writes {_output_text(plan, output)}"


def _watermark(query: PlannedQuery, name: str) -> str:
    delay = query.watermarks_ms.get(name)
    return "" if delay is None else f", waits {duration_text(delay)} for late rows"


def _mark(topology: Topology, node: Node) -> str:
    state = "*" if kind_of(topology, node) in STATEFUL else " "
    return f"{state}{'py' if runs_python(topology, node) else '  '} "


def _source_text(node: Node) -> str:
    assert isinstance(node, Source)
    parts = [f"key {_format_text(node.key)}", f"value {_format_text(node.value)}"]
    if node.is_global:
        parts.insert(0, f"a global table, at most {duration_text(node.refresh_ms)} old")
    elif node.shape is Shape.TABLE:
        parts.insert(0, "a table")
    if node.time:
        parts.append(f"time {node.time}")
    return f"{topics_text(node.topic)} = {node.name}: {', '.join(parts)}"


def _format_text(found: Format) -> str:
    if found.kind is FormatKind.JSON and found.columns:
        return f"json({found.row_type.__name__ if found.row_type else _short(found.columns)})"
    return f"{found.kind}({found.subject})" if found.subject else str(found.kind)


def _output_text(plan: Plan, output: Output) -> str:
    rows = f"{output.topic} <- {output.node}"
    notes = []
    if output.store:
        notes.append(f"store {output.store}")
    if output.kind is TopicKind.SINK and isinstance(sink := plan.topology.node(output.sink), Sink):
        notes.append(f"value {_format_text(sink.value)}")
    cut = plan.cuts.get(output.node)
    if cut is not None and cut.topic == output.topic:
        notes.append(f"a topic between, because {cut.reason}")
    return f"{rows}: {'; '.join(notes)}" if notes else rows


# The description of a node, by its class.


def node_text(topology: Topology, node: Node) -> str:
    return _TEXTS[type(node)](topology, node)


def _short(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= LONGEST_EXPRESSION else f"{text[: LONGEST_EXPRESSION - 3]}..."


def _sql(expression: Expression) -> str:
    return _short(expression_text(expression))


def _named(columns: tuple[tuple[str, Expression], ...]) -> str:
    parts = ((name, expression_text(expression)) for name, expression in columns)
    return _short(", ".join(name if name == text else f"{name} = {text}" for name, text in parts))


def _filter(_: Topology, node: Filter) -> str:
    return f"{'not ' if node.is_negated else ''}{_sql(node.condition)}"


def _map(_: Topology, node: Map) -> str:
    return f"{'only ' if node.is_whole else ''}{_named(node.columns)}"


def _map_rows(_: Topology, node: MapRows) -> str:
    return f"{function_name(node.function)} gives {'many of ' if node.is_flat else ''}{_short(node.columns)}"


def _flat_map(_: Topology, node: FlatMap) -> str:
    return f"each of {_sql(node.array)}" + (f" as {node.into}" if node.into else "")


def _repartition(_: Topology, node: Repartition) -> str:
    return "through a topic" + (f" of {plural(node.partitions, 'partition')}" if node.partitions else "")


def _aggregate(_: Topology, node: Aggregate) -> str:
    columns = "; ".join(_named(each) for each in node.columns)
    taken_back = ", taken back when a row changes" if node.input_shape is Shape.TABLE else ""
    return f"{columns} by {_group(node.group[0])}{_window(node.window, node.is_final)}{taken_back}"


def _fold(_: Topology, node: Fold) -> str:
    taken_back = "" if node.subtract is None else f", taken back by {function_name(node.subtract)}"
    return f"{function_name(node.function)} by {_group(node.group)}{_window(node.window, node.is_final)}{taken_back}"


def _group(group: tuple[tuple[str, Expression], ...]) -> str:
    return _named(group) if group else "key"


def _window(window: Window | None, is_final: bool) -> str:
    if window is None:
        return ""
    size = duration_text(window.size_ms)
    if window.kind is WindowKind.HOPPING:
        size += f" every {duration_text(window.every_ms)}"
    told = ", each window told once"
    if window.kind is WindowKind.SESSION:
        told += ", as sessions are unless final=False"
    return f", {window.kind} {size}{told if is_final else ''}"


def _stream_join(_: Topology, node: StreamJoin) -> str:
    return f"{node.how} join of streams, {_join_window(node.window)}"


def _join_window(window: JoinWindow) -> str:
    if window.before_ms == window.after_ms:
        return f"within {duration_text(window.before_ms)}"
    return f"from {duration_text(window.before_ms)} before to {duration_text(window.after_ms)} after"


def _stream_table_join(topology: Topology, node: StreamTableJoin) -> str:
    kind = "global table" if is_lookup(topology, node) else "table"
    return f"{node.how} join with a {kind}" + (f" on {_sql(node.key)}" if node.key is not None else "")


def _deduplicate(_: Topology, node: Deduplicate) -> str:
    return f"the first by {', '.join(_sql(each) for each in node.columns)} within {duration_text(node.within_ms)}"


_TEXTS: dict[type[Node], Callable[[Topology, Any], str]] = {
    Source: lambda _, node: _source_text(node),
    Filter: _filter,
    Map: _map,
    MapRows: _map_rows,
    FlatMap: _flat_map,
    SelectKey: lambda _, node: f"key = {_sql(node.key)}",
    Merge: lambda _, node: "all rows of these",
    Peek: lambda _, node: f"calls {function_name(node.function)}",
    Repartition: _repartition,
    Retyped: lambda _, node: f"as a {node.shape}",
    Aggregate: _aggregate,
    Fold: _fold,
    StreamJoin: _stream_join,
    StreamTableJoin: _stream_table_join,
    TableJoin: lambda _, node: f"{node.how} join of tables",
    ForeignKeyJoin: lambda _, node: f"{node.how} join of tables on {_sql(node.foreign_key)}",
    Deduplicate: _deduplicate,
    Process: lambda _, node: f"{function_name(node.processor)} gives {_short(node.columns)}",
    Sink: lambda _, node: f"to {node.topic}" if node.topic_of is None else f"to {_sql(node.topic_of)}, or {node.topic}",
    Store: lambda _, node: f"store {node.store}",
}
