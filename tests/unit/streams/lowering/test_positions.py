"""Whose positions rows have, by what an application is made of."""

from __future__ import annotations

import re

from penstock.streams import Streams, json
from penstock.streams.lowering.positions import come_from_pattern, has_order, merged_numbers, origins
from penstock.streams.topology.nodes import Merge


def test_positions_are_of_the_topics_that_rows_come_from_when_streams_are_merged() -> None:
    app = Streams("positions")
    a, b = (app.stream(topic, value=json("n int"), name=topic) for topic in ("a", "b"))
    large = a.filter("n > 1", name="large")
    again = a.repartition("again")
    large.merge(a, b, again, name="all").to("out")
    plan = app.plan()
    merge = plan.topology.node("all")
    assert isinstance(merge, Merge)
    assert merged_numbers(plan.topology, merge, plan.cuts) == [0, 0, 1, 2]
    assert origins(plan.topology, "all", plan.cuts) == {"a", "b", "again"}


def test_offsets_order_a_keys_rows_unless_they_come_from_several_partitions() -> None:
    app = Streams("positions")
    a, b = (app.stream(topic, value=json("n int"), name=topic) for topic in ("a", "b"))
    a.filter("n > 1").to_table(name="same").to("one")
    a.merge(a.filter("n > 1")).to_table(name="itself").to("two")
    a.select_key("n").to_table(name="other").to("three")
    a.merge(b).map(m="n").to_table(name="merged").to("four")
    several = app.stream(re.compile("s-.*"), value=json("n int"), name="several")
    several.to_table(name="found").to("five")
    plan = app.plan()
    ordered = {
        name: has_order(plan.topology, name, plan.cuts) for name in ("same", "itself", "other", "merged", "found")
    }
    assert ordered == {"same": True, "itself": True, "other": False, "merged": False, "found": False}
    assert [come_from_pattern(plan.topology, name) for name in ("found", "several", "merged")] == [True, True, False]
