from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from penstock.streams import Processor, Streams, hopping, json, raw, session, sliding, text, tumbling, within
from penstock.streams.topology.functions import Reducer, function_name
from penstock.streams.topology.nodes import (
    Aggregate,
    Deduplicate,
    Filter,
    FlatMap,
    Fold,
    ForeignKeyJoin,
    Map,
    MapRows,
    Merge,
    Process,
    Repartition,
    Retyped,
    Shape,
    Sink,
    Source,
    Store,
    StreamJoin,
    StreamTableJoin,
    TableJoin,
)
from penstock.streams.topology.windows import JoinWindow
from tests.unit.streams.clicks import Click, Clicks, by_hand, together


@dataclass
class Visit:
    user: str


class Alerts(Processor):
    columns = "user string"


def apart(one: Any, other: Any) -> Any:
    return one


def last(given: Clicks) -> Any:
    return given.app.topology().nodes[-1]


def test_sources_are_named_by_their_topics_when_nobody_names_them() -> None:
    given = Clicks()
    given.app.stream("clicks", value=text(), headers=True, start="latest")
    clicks, users, rates, again = given.app.topology().nodes
    assert isinstance(clicks, Source)
    assert (clicks.name, clicks.topic, clicks.time, clicks.grace_ms) == ("from-clicks", "clicks", "at", 600_000)
    assert isinstance(users, Source)
    assert users.shape is Shape.TABLE
    assert isinstance(rates, Source)
    assert (rates.is_global, rates.refresh_ms) == (True, 1000)
    assert isinstance(again, Source)
    assert (again.name, again.start, again.with_headers) == ("from-clicks-2", "latest", True)


def test_several_topics_are_sources_that_are_merged_when_one_stream_has_them() -> None:
    given = Clicks()
    both = given.app.stream(["east", "west"], value=json(Visit), time="at", grace="1 minute", name="visits")
    east, west, merged = given.app.topology().nodes[-3:]
    assert isinstance(east, Source)
    assert isinstance(west, Source)
    assert (east.topic, west.topic, west.time, west.grace_ms) == ("east", "west", "at", 60_000)
    assert merged == Merge("visits", ("from-east", "from-west"))
    assert both.row_type is Visit


def test_a_pattern_is_one_source_when_a_stream_is_of_all_topics_like_it() -> None:
    app = Streams("found", fail_on_data_loss=False)
    orders = re.compile("orders-.*")
    app.stream(orders, value=json(Visit), time="at").to("all")
    app.stream(orders, value=json(Visit), name="again").to("more")
    first, _, second, _ = app.topology().nodes
    assert isinstance(first, Source)
    assert (first.name, first.topic, first.fail_on_data_loss) == ("from-pattern-1", orders, False)
    assert (second.name, second.inputs) == ("again", ())
    assert "reads  topics like orders-.* = from-pattern-1: key text, value json(Visit), time at" in app.describe()


def test_a_grouped_table_has_an_adder_and_a_subtractor_when_it_is_folded() -> None:
    given = Clicks()
    given.users.group_by("country").fold(together, "n int", subtract=apart, initial={"n": 0}, name="people")
    fold = given.app.topology().node("people")
    assert isinstance(fold, Fold)
    assert (fold.function, fold.subtract, fold.initial) == (together, apart, (("n", 0),))
    assert "together by country, taken back by tests.unit.streams.builder.test_streams.apart" in given.app.describe()


def test_nodes_are_numbered_by_operator_when_nobody_names_them() -> None:
    given = Clicks()
    rows = given.clicks.filter("url = '/'").filter("user = 'a'").filter_not("user = 'b'").map(name="upper(user)")
    assert rows.select("name").name == "select-1"
    names = [node.name for node in given.app.topology().nodes[3:]]
    assert names == ["filter-1", "filter-2", "filter-not-1", "map-1", "select-1"]
    node = given.app.topology().node("map-1")
    assert node == Map("map-1", ("filter-not-1",), (("name", "upper(user)"),))


def test_functions_see_the_declared_dataclass_when_columns_stay_as_they_are() -> None:
    given = Clicks()
    rows = given.clicks.filter("true").select_key("url").repartition("again")
    rows.map_rows(by_hand, "user string")
    assert last(given) == MapRows("map-rows-1", ("again",), by_hand, "user string", Click)
    rows.map(more="1").map_rows(by_hand, Visit).flat_map_rows(by_hand, Visit)
    assert given.app.topology().nodes[-2].row_type is None  # type: ignore[attr-defined]
    assert last(given).row_type is Visit
    assert last(given).is_flat
    rows.map_rows(by_hand, "user string", takes=dict)
    assert last(given).row_type is None


def test_streams_become_others_when_operators_without_state_follow() -> None:
    given = Clicks()
    given.clicks.flat_map("split(url, '/')", into="part")
    assert last(given) == FlatMap("flat-map-1", ("from-clicks",), "split(url, '/')", "part")
    given.clicks.merge(given.clicks.peek(by_hand))
    assert last(given) == Merge("merge-1", ("from-clicks", "peek-1"))
    given.clicks.repartition("by-user", 4)
    assert last(given) == Repartition("by-user", ("from-clicks",), 4)
    given.clicks.deduplicate(within="1 hour")
    assert last(given) == Deduplicate("deduplicate-1", ("from-clicks",), ("_key",), 3_600_000)


def test_a_split_has_a_stream_for_each_condition_and_for_the_rest_when_it_is_wanted() -> None:
    given = Clicks()
    branches = given.clicks.split(home="url = '/'", pay="url = '/pay'")
    assert list(branches) == ["home", "pay", "rest"]
    assert isinstance(given.app.topology().node(branches["rest"].name), Filter)
    assert branches["pay"].name == "split-1-pay"
    assert list(given.clicks.split(rest=None, home="url = '/'")) == ["home"]


def test_a_named_count_can_be_asked_for_when_it_is_written() -> None:
    given = Clicks()
    given.clicks.group_by("user", day="date(at)").windowed(tumbling("1 day")).count(name="per-day").to("days")
    count, store, sink = given.app.topology().nodes[-3:]
    assert isinstance(count, Aggregate)
    assert count.group == ((("user", "user"), ("day", "date(at)")),)
    assert count.columns == ((("count", "count(*)"),),)
    assert count.is_final is False
    assert store == Store("per-day-store", ("per-day",), "per-day")
    assert sink == Sink("to-days", ("per-day",), "days", None, json())


def test_sessions_are_final_when_nobody_says_so() -> None:
    given = Clicks()
    given.clicks.group_by_key().windowed(session("5 minutes")).aggregate(n="count(*)")
    assert last(given).is_final
    assert last(given).group == ((),)


def test_functions_fold_when_they_reduce() -> None:
    given = Clicks()
    given.clicks.group_by_key().reduce(together, "user string")
    assert isinstance(last(given), Fold)
    assert last(given).function == Reducer(together)
    assert function_name(last(given).function) == "tests.unit.streams.clicks.together"
    given.clicks.group_by_key().windowed(hopping("2 hours", "1 hour"), final=True).fold(together, "n int", {"n": 0})
    assert last(given).initial == (("n", 0),)
    assert last(given).is_final
    assert Reducer(together)(None, {"user": "a"}) == {"user": "a"}


def test_several_streams_are_one_aggregate_when_they_are_cogrouped() -> None:
    given = Clicks()
    other = given.app.stream("orders", value=json("user string, price double")).group_by("user")
    cogrouped = given.clicks.group_by("user").cogroup(clicks="count(*)").cogroup(other, spent="sum(price)")
    cogrouped.windowed(tumbling("1 hour")).aggregate(name="both")
    node = given.app.topology().node("both")
    assert isinstance(node, Aggregate)
    assert node.inputs == ("from-clicks", "from-orders")
    assert node.columns == ((("clicks", "count(*)"),), (("spent", "sum(price)"),))
    assert node.window == tumbling("1 hour")


def test_joins_are_what_their_sides_are_when_two_meet() -> None:
    given = Clicks()
    given.clicks.join(given.clicks, "outer", window=within("1 second"))
    assert last(given) == StreamJoin("stream-join-1", ("from-clicks", "from-clicks"), "outer", JoinWindow(1000, 1000))
    given.clicks.join(given.users, "left")
    assert last(given) == StreamTableJoin("stream-table-join-1", ("from-clicks", "from-users"), "left")
    given.clicks.join(given.rates, on="user")
    assert last(given) == StreamTableJoin("global-join-1", ("from-clicks", "from-rates"), "inner", "user")
    given.users.join(given.users, "outer")
    assert last(given) == TableJoin("table-join-1", ("from-users", "from-users"), "outer")
    given.users.join(given.users, "left", on="country", name="of-country")
    assert given.app.topology().node("of-country") == ForeignKeyJoin(
        "of-country", ("from-users", "from-users"), "left", "country"
    )
    assert last(given) == Store("of-country-store", ("of-country",), "of-country")


def test_tables_and_streams_change_into_each_other_when_asked_to() -> None:
    given = Clicks()
    table = given.clicks.to_table(store="last-click")
    assert given.app.topology().nodes[-2] == Retyped("to-table-1", ("from-clicks",), Shape.TABLE)
    table.to_stream()
    assert last(given) == Retyped("to-stream-1", ("to-table-1",), Shape.STREAM)
    given.users.group_by("country").aggregate(n="count(*)", last="max(country)")
    assert last(given).input_shape is Shape.TABLE


def test_a_processor_says_its_columns_when_the_call_does_not() -> None:
    given = Clicks()
    given.clicks.process(Alerts)
    assert last(given) == Process("process-1", ("from-clicks",), Alerts, "user string", row_type=Click)


def test_a_sink_keeps_formats_and_settings_when_they_are_given() -> None:
    given = Clicks()
    given.clicks.to("out", key=raw(), value=text(), partitions=3, config={"retention.ms": "1000"}, name="end")
    assert last(given) == Sink("end", ("from-clicks",), "out", raw(), text(), 3, (("retention.ms", "1000"),))


def test_the_trigger_is_short_when_nobody_chooses_one() -> None:
    assert Streams("x").settings.trigger == "100 milliseconds"


def test_a_sliding_window_takes_the_known_aggregates_when_it_is_aggregated() -> None:
    given = Clicks()
    given.clicks.group_by_key().windowed(sliding("10 seconds")).aggregate(n="count(*)")
    assert last(given).window.size_ms == 10_000
