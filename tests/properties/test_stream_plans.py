"""Any topology that can be written can be planned, and the plan keeps the rules."""

from __future__ import annotations

import json as json_text
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.streams import Processor, Stream, Streams, Table, hopping, json, session, sliding, tumbling, within
from penstock.streams.planner.description import describe
from penstock.streams.planner.identity import difference, document_of
from penstock.streams.planner.members import closure, members
from penstock.streams.planner.plan import Plan, PlannedQuery
from penstock.streams.planner.realtime import obstacles
from penstock.streams.planner.rules import MODES, RULES, STATEFUL, TIMED, kind_of, runs_python
from penstock.streams.topology.nodes import Node, Repartition, Source, Store

SESSION = session("1 minute")
WINDOWS = (tumbling("1 minute"), hopping("2 minutes", "1 minute"), sliding("10 seconds"), SESSION)
MOST_NODES = 14


class Passing(Processor):
    columns = "user string, n bigint"


class Ringing(Passing):
    def on_timer(self, key: Any, at: Any, context: Any) -> Any:
        return None


def same(first: Any, second: Any) -> Any:
    return second


class Author:
    """Writes an application by choosing, again and again, what to do with what there is."""

    def __init__(self, data: st.DataObject) -> None:
        self.data = data
        self.app = Streams("any", dead_letters=data.draw(st.sampled_from([None, "dead"])))
        value = json("user string, n bigint")
        self.streams = [
            self.app.stream("a", value=value, grace="1 minute"),
            self.app.stream("b", value=value, grace="0 s"),
        ]
        self.tables = [self.app.table("t", value=value, grace="1 minute")]
        self.lookup = self.app.global_table("g", value=value)
        self.writers = (
            self.stateless,
            self.joined,
            self.counted,
            self.windowed,
            self.table,
            self.processed,
            self.ended,
        )
        self.ends = 0

    def stream(self) -> Stream:
        return self.data.draw(st.sampled_from(self.streams))

    def a_table(self) -> Table:
        return self.data.draw(st.sampled_from(self.tables))

    def one_of(self, *choices: Any) -> Any:
        return self.data.draw(st.sampled_from(choices))

    def name(self) -> str | None:
        return self.data.draw(st.sampled_from([None, None, f"named-{len(self.app.topology().nodes)}"]))

    def stateless(self) -> None:
        rows = self.stream()
        self.streams.append(
            self.one_of(
                lambda: rows.filter("n > 1"),
                lambda: rows.map(n="n + 1"),
                lambda: rows.select_key("user"),
                lambda: rows.merge(self.stream()),
                lambda: rows.join(self.lookup, on="user"),
                lambda: rows.split(one="n = 1")["rest"],
                lambda: rows.repartition(f"again-{len(self.streams)}", 2),
            )()
        )

    def joined(self) -> None:
        how = self.one_of("inner", "left")
        if self.one_of(True, False):
            self.streams.append(self.stream().join(self.a_table(), how))
        else:
            self.streams.append(self.stream().join(self.stream(), self.one_of(how, "outer"), window=within("1 second")))

    def counted(self) -> None:
        grouped = self.one_of(self.stream().group_by("user"), self.stream().group_by_key())
        self.tables.append(
            self.one_of(
                lambda: grouped.count(name=self.name()),
                lambda: grouped.fold(same, "n bigint", name=self.name()),
                lambda: grouped.cogroup(x="count(*)").cogroup(grouped, y="max(n)").aggregate(),
            )()
        )

    def windowed(self) -> None:
        window, final = self.one_of(*WINDOWS), self.one_of(True, False)
        grouped = self.stream().group_by("user").windowed(window, final=final)
        may_count = final or window is not SESSION  # Spark's aggregates tell a session once
        if may_count and self.one_of(True, False):
            self.tables.append(grouped.count(name=self.name()))
        else:
            self.tables.append(grouped.fold(same, "n int", name=self.name()))

    def table(self) -> None:
        table = self.a_table()
        self.tables.append(
            self.one_of(
                lambda: table.filter("n > 1"),
                lambda: table.join(self.a_table(), self.one_of("inner", "outer"), name=self.name()),
                lambda: table.join(self.a_table(), on="user"),
                lambda: table.group_by("user").count(),
                lambda: self.stream().to_table(store=self.name()),
            )()
        )
        self.streams.append(table.to_stream())

    def processed(self) -> None:
        rows = self.stream()
        self.streams.append(
            self.one_of(lambda: rows.process(self.one_of(Passing, Ringing)), lambda: rows.deduplicate(within="1 s"))()
        )

    def ended(self) -> None:
        self.ends += 1
        self.one_of(self.stream(), self.a_table()).to(f"out-{self.ends}")

    def write(self) -> Plan:
        for _ in range(self.data.draw(st.integers(1, MOST_NODES))):
            self.one_of(*self.writers)()
        topology = self.app.topology()
        for rows in (*self.streams, *self.tables):
            if not topology.users(rows.name):
                self.ends += 1
                rows.to(f"out-{self.ends}")
        for node in self.app.topology().nodes:  # branches that nobody took
            if not topology.users(node.name) and node.name.startswith("split-"):
                Stream(self.streams[0].draft, node.name).to(f"out-{node.name}")
        return self.app.plan()


def nearest_with_state(plan: Plan, query: PlannedQuery, node: Node) -> set[str]:
    """What comes right before the node with state, in the same query."""
    inside = {each.name for each in closure(plan.topology, query.root, plan.cuts)}
    found: set[str] = set()
    waiting = list(node.inputs)
    while waiting:
        name = waiting.pop()
        before = plan.topology.node(name)
        if name not in inside:
            continue
        if kind_of(plan.topology, before) in STATEFUL:
            found.add(name)
        else:
            waiting.extend(before.inputs)
    return found


@given(data=st.data())
@settings(max_examples=12, deadline=None)
def test_a_plan_keeps_the_rules_when_any_topology_is_planned(data: st.DataObject) -> None:
    plan = Author(data).write()
    topology = plan.topology
    kinds = {node.name: kind_of(topology, node) for node in topology.nodes}

    in_queries = [node.name for query in plan.queries for node in members(plan, query)]
    is_global = {node.name for node in topology.nodes if isinstance(node, Source) and node.is_global}
    assert {node.name for node in topology.nodes if topology.users(node.name) or not isinstance(node, Source)} <= set(
        in_queries
    ) | is_global
    for name, kind in kinds.items():
        assert kind not in STATEFUL or in_queries.count(name) == 1, f"{name} is run by several queries"

    written: set[str] = set()
    for query in plan.queries:
        assert {plan.cuts[name].topic for name in query.cuts} <= written
        written |= {output.topic for output in query.outputs}
        assert query.outputs
        inside = closure(topology, query.root, plan.cuts)
        assert {MODES[kinds[node.name]] for node in inside if kinds[node.name] in MODES} <= {query.mode}
        for node in inside:
            if isinstance(node, Repartition) and node.name == query.root:
                continue
            for before in nearest_with_state(plan, query, node):
                assert RULES.get((kinds[before], kinds[node.name]), "") == "", f"{node.name} follows {before}"
        if any(kinds[node.name] in TIMED for node in inside):
            assert query.watermarks_ms
            assert set(query.watermarks_ms) <= {*query.sources, *query.cuts}
    assert len({query.name for query in plan.queries}) == len(plan.queries)
    topics = [output.topic for query in plan.queries for output in query.outputs]
    assert len(set(topics)) == len(topics)
    assert {node.store for node in topology.nodes if isinstance(node, Store)} == {
        output.store for query in plan.queries for output in query.outputs if output.store
    }


@given(data=st.data())
@settings(max_examples=12, deadline=None)
def test_a_plan_is_drawn_and_recognised_when_any_topology_is_planned(data: st.DataObject) -> None:
    plan = Author(data).write()
    text = describe(plan)
    assert all(f"query {query.name} ({query.mode})" in text for query in plan.queries)
    assert all(cut.reason in text for cut in plan.cuts.values())
    document = document_of(plan)
    assert difference(json_text.loads(json_text.dumps(document)), document) == []
    in_the_way = {obstacle.node for obstacle in obstacles(plan)}
    python = {node.name for query in plan.queries for node in members(plan, query) if runs_python(plan.topology, node)}
    assert python <= in_the_way
