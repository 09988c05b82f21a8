from __future__ import annotations

import json as json_text
import re
from collections.abc import Callable
from typing import Any

import pytest

from penstock.streams import Processor, Streams, json, map_state, tumbling, value_state
from penstock.streams.planner.identity import difference, document_of
from penstock.streams.planner.realtime import obstacles
from tests.unit.streams.clicks import by_hand, together


class Alerts(Processor):
    columns = "user string"
    seen = value_state("n bigint")


class OtherAlerts(Processor):
    columns = "user string"
    seen = map_state("user string", "n bigint")


def document(
    write: Callable[[Streams, Any], Any], columns: str = "user string, url string", grace: str = "1 minute"
) -> Any:
    app = Streams("payments")
    write(app, app.stream("clicks", value=json(columns), grace=grace))
    return json_text.loads(json_text.dumps(document_of(app.plan())))


def counted(_: Streams, clicks: Any) -> Any:
    return clicks.filter("url = '/'").group_by("user").windowed(tumbling("1 minute")).count(name="n").to("out")


SAME: dict[str, tuple[Callable[[Streams, Any], Any], Callable[[Streams, Any], Any]]] = {
    "nothing changed": (counted, counted),
    "another filter behind the count": (
        lambda _, clicks: clicks.group_by("user").count(name="n").filter("count > 1").to("out"),
        lambda _, clicks: clicks.group_by("user").count(name="n").filter("count > 2").to("other"),
    ),
    "another filter without state": (
        lambda _, clicks: clicks.filter("user = 'a'").to("out"),
        lambda _, clicks: clicks.filter("user = 'b'").to("out"),
    ),
    "a query came": (
        counted,
        lambda app, clicks: [counted(app, clicks), clicks.group_by("url").count(name="urls")],
    ),
    "a query went": (
        lambda app, clicks: [counted(app, clicks), clicks.group_by("url").count(name="urls")],
        counted,
    ),
    "another start of a pattern": (
        lambda app, clicks: counted_like("orders-.*")(app, clicks),
        lambda app, clicks: counted_like("orders-.*", start="latest")(app, clicks),
    ),
    "another layout of the text": (
        lambda _, clicks: clicks.filter("user  =\n'a'").group_by("user").count(name="n"),
        lambda _, clicks: clicks.filter("user = 'a'").group_by("user").count(name="n"),
    ),
}


def counted_like(pattern: str, **options: Any) -> Callable[[Streams, Any], Any]:
    def write(app: Streams, _: Any) -> Any:
        return app.stream(re.compile(pattern), value=json("n int"), **options).group_by_key().count(name="n").to("out")

    return write


CHANGED: dict[str, tuple[Callable[[Streams, Any], Any], Callable[[Streams, Any], Any], str]] = {
    "another filter before the count": (
        counted,
        lambda _, clicks: clicks.filter("url = '/pay'").group_by("user").windowed(tumbling("1 minute")).count(name="n"),
        "query n: nodes, filter-1, condition was url = '/', is url = '/pay'",
    ),
    "another window": (
        counted,
        lambda _, clicks: clicks.filter("url = '/'").group_by("user").windowed(tumbling("1 hour")).count(name="n"),
        "query n: nodes, n, window, size_ms was 60000, is 3600000",
    ),
    "another name": (
        lambda _, clicks: clicks.group_by("user").count(name="n"),
        lambda _, clicks: clicks.group_by("user").count(name="m"),
        "query n is gone, and its state with it, while others came: m",
    ),
    "another function": (
        lambda _, clicks: clicks.group_by("user").fold(together, "n int", name="n"),
        lambda _, clicks: clicks.group_by("user").fold(by_hand, "n int", name="n"),
        "query n: nodes, n, function was tests.unit.streams.clicks.together, is tests.unit.streams.clicks.by_hand",
    ),
    "a store that starts in the middle": (
        lambda _, clicks: clicks.group_by("user").count().to("out"),
        lambda _, clicks: clicks.group_by("user").count().store("n"),
        "query count-1: writes was [], is [payments-n-changelog]",
    ),
    "other states": (
        lambda _, clicks: clicks.process(Alerts, name="p").to("out"),
        lambda _, clicks: clicks.process(OtherAlerts, name="p").to("out"),
        "query p: nodes, p, processor was",
    ),
    "a node between": (
        lambda _, clicks: clicks.group_by("user").count(name="n"),
        lambda _, clicks: clicks.map(x="1").group_by("user").count(name="n"),
        "query n: nodes, n, inputs was [from-clicks], is [map-1]",
    ),
}


@pytest.mark.parametrize("case", SAME)
def test_a_plan_goes_on_when_nothing_kept_has_changed(case: str) -> None:
    old, new = SAME[case]
    assert difference(document(old), document(new)) == []


@pytest.mark.parametrize("case", CHANGED)
def test_a_plan_is_told_apart_when_what_was_kept_has_changed(case: str) -> None:
    old, new, said = CHANGED[case]
    assert any(line.startswith(said) for line in difference(document(old), document(new)))


def test_columns_and_grace_are_told_apart_when_they_change() -> None:
    assert difference(document(counted), document(counted, columns="user string")) == [
        "query n: nodes, from-clicks, value, columns was user string, url string, is user string"
    ]
    assert difference(document(counted), document(counted, grace="1 hour")) == [
        "query n: late, milliseconds, from-clicks was 60000, is 3600000"
    ]


def test_a_pattern_is_what_is_kept_when_topics_come_by_it() -> None:
    assert difference(document(counted_like("orders-.*")), document(counted_like("orders-eu"))) == [
        "query n: reads, from-pattern-1 was topics like orders-.*, is topics like orders-eu",
        "query n: nodes, from-pattern-1, topic was topics like orders-.*, is topics like orders-eu",
    ]


def test_a_plan_goes_on_when_losses_are_to_be_passed_over() -> None:
    strict, lenient = Streams("payments"), Streams("payments", fail_on_data_loss=False)
    for app in (strict, lenient):
        app.table("users", value=json("n int")).group_by("n").count(name="n")
    assert document_of(strict.plan()) == document_of(lenient.plan())


def test_a_pattern_is_in_the_way_of_real_time_when_it_may_find_more_topics() -> None:
    app = Streams("payments")
    app.stream(re.compile("orders-.*"), value=json("n int")).to("out")
    assert [each.node for each in obstacles(app.plan())] == ["from-pattern-1"]


def test_nothing_is_in_the_way_of_real_time_when_all_is_sql() -> None:
    app = Streams("payments")
    clicks = app.stream("clicks", value=json("user string"))
    other = app.stream("taps", value=json("user string"))
    clicks.merge(other).filter("user <> ''").group_by("user").count().to("out")
    assert obstacles(app.plan()) == []


def test_the_nodes_in_the_way_are_named_when_real_time_is_not_possible() -> None:
    app = Streams("payments")
    clicks = app.stream("clicks", value=json("user string"), grace="1 minute")
    clicks.map_rows(by_hand, "user string").to("mapped")
    clicks.merge(clicks).group_by("user").count(name="n").to("out")
    clicks.group_by("user").windowed(tumbling("1 minute"), final=True).count().to("final")
    clicks.to_table().group_by("user").count(name="regrouped")
    found = {obstacle.node: obstacle.reason for obstacle in obstacles(app.plan())}
    assert set(found) == {"map-rows-1", "merge-1", "to-out", "count-1", "regrouped"}
    assert found["merge-1"] == "it meets the same rows twice, those of from-clicks"
    assert "append" in found["count-1"]


def held_as(columns: str) -> type[Processor]:
    class Held(Processor):
        columns = "n bigint"
        held = value_state("n bigint")

    Held.held = value_state(columns)
    return Held


def test_a_plan_is_told_apart_when_a_class_of_the_same_name_keeps_another_state() -> None:
    def processed(columns: str) -> Any:
        return document(lambda _, clicks: clicks.process(held_as(columns), name="p").to("out"))

    assert difference(processed("n bigint"), processed("n bigint")) == []
    assert difference(processed("n bigint"), processed("n string")) == [
        "query p: nodes, p, states, held, columns was n bigint, is n string"
    ]


def test_a_checkpoint_is_refused_when_keys_of_machines_are_grouped_otherwise() -> None:
    now = document(lambda _, clicks: clicks.process(held_as("n bigint"), name="p").to("out"))
    before = {"p": {**now["p"], "key buckets": 64}}
    assert difference(before, now) == ["query p: key buckets was 64, is 128"]
