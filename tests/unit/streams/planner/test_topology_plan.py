from __future__ import annotations

from typing import Any

import pytest

from penstock.streams import Processor, StreamsError, json, session, tumbling, value_state, within
from penstock.streams.planner.plan import Output, TopicKind
from penstock.streams.planner.rules import RULES, STATEFUL, NodeKind
from tests.unit.streams.clicks import Clicks, by_hand, together


class Alerts(Processor):
    columns = "user string"


def queries(given: Clicks) -> dict[str, Any]:
    return {query.name: query for query in given.app.plan().queries}


def test_outputs_share_a_query_when_they_have_the_same_root() -> None:
    given = Clicks()
    given.clicks.filter("url = '/'").to("home")
    given.clicks.join(given.rates, on="user").to("rated")
    (query,) = given.app.plan().queries
    assert (query.name, query.mode, query.is_stateful) == ("from-clicks", "append", False)
    assert query.sources == ("from-clicks",)
    assert query.globals == ("from-rates",)
    assert [output.topic for output in query.outputs] == ["home", "rated"]


def test_a_topic_comes_between_when_an_aggregate_is_aggregated_again() -> None:
    given = Clicks()
    counts = given.clicks.group_by("user").count(name="per-user")
    counts.group_by("count").count(into="users", name="users-per-count").to("out")
    plan = given.app.plan()
    first, second = plan.queries
    assert (first.name, second.name) == ("per-user", "users-per-count")
    assert first.outputs == (Output("per-user", "payments-per-user-changelog", TopicKind.CHANGELOG, store="per-user"),)
    assert second.cuts == ("per-user",)
    assert plan.cuts["per-user"].reason.startswith("users-per-count follows: Spark's aggregates tell every update")


def test_one_query_runs_both_when_a_table_join_goes_into_an_aggregate() -> None:
    given = Clicks()
    given.clicks.join(given.users).group_by("country").count().to("out")
    plan = given.app.plan()
    (query,) = plan.queries
    assert not plan.cuts
    assert (query.root, query.mode) == ("count-1", "update")
    assert query.sources == ("from-clicks", "from-users")
    assert query.watermarks_ms == {}


def test_a_stateful_node_runs_once_when_several_queries_want_it() -> None:
    given = Clicks()
    joined = given.clicks.join(given.users)
    joined.group_by("country").count().to("out")
    joined.filter("country = 'DE'").to("german")
    plan = given.app.plan()
    assert [query.name for query in plan.queries] == ["stream-table-join-1", "count-1"]
    assert plan.cuts["stream-table-join-1"].topic == "payments-stream-table-join-1-repartition"
    assert "computed once" in plan.cuts["stream-table-join-1"].reason
    assert [output.node for output in plan.queries[0].outputs] == ["stream-table-join-1", "filter-1"]


def test_rows_go_through_a_topic_when_repartition_asks_for_it() -> None:
    given = Clicks()
    again = given.clicks.select_key("url").repartition("by-url", 4)
    again.to("out")
    again.group_by_key().count().to("counts")
    plan = given.app.plan()
    assert [query.name for query in plan.queries] == ["from-clicks", "by-url", "count-1"]
    assert plan.cuts["by-url"].partitions == 4
    assert plan.queries[0].outputs == (Output("by-url", "payments-by-url-repartition", TopicKind.REPARTITION),)
    assert plan.queries[1].sources == ()
    assert plan.queries[1].cuts == plan.queries[2].cuts == ("by-url",)


@pytest.mark.parametrize(("is_final", "mode"), [(False, "update"), (True, "append")])
def test_windows_are_told_by_mode_when_they_are_final_or_not(is_final: bool, mode: str) -> None:
    given = Clicks()
    given.clicks.group_by_key().windowed(tumbling("1 minute", grace="5 seconds"), final=is_final).count().to("out")
    (query,) = given.app.plan().queries
    assert query.mode == mode
    assert query.watermarks_ms == {"from-clicks": 5000}


def test_sessions_and_outer_joins_append_when_they_run() -> None:
    given = Clicks()
    given.clicks.group_by_key().windowed(session("1 minute")).count(name="s")
    given.clicks.join(given.clicks.select_key("url"), "left", window=within("1 minute", grace="0 seconds")).to("out")
    found = queries(given)
    assert (found["s"].mode, found["stream-join-1"].mode) == ("append", "append")
    assert found["stream-join-1"].watermarks_ms == {"from-clicks": 0}


def test_the_watermark_is_at_the_cut_when_a_window_follows_state() -> None:
    given = Clicks()
    given.clicks.join(given.users).group_by_key().windowed(tumbling("1 minute")).count().to("out")
    assert queries(given)["count-1"].watermarks_ms == {"stream-table-join-1": 600_000}


def test_duplicates_are_waited_for_as_long_as_they_are_known_when_rows_are_deduplicated() -> None:
    given = Clicks(grace=None)
    given.clicks.deduplicate("url", within="1 hour").process(Alerts).to("out")
    (query,) = given.app.plan().queries
    assert query.watermarks_ms == {"from-clicks": 3_600_000}
    assert query.mode == "update"


def test_an_aggregate_is_cut_when_its_rows_are_merged() -> None:
    given = Clicks()
    counted = given.clicks.group_by_key().count().to_stream().select("cast(count AS string) AS url")
    given.clicks.select("url").merge(counted).to("out")
    assert list(given.app.plan().cuts) == ["count-1"]
    assert queries(given)["merge-1"].sources == ("from-clicks",)


def test_a_store_has_its_own_changelog_when_it_has_another_name() -> None:
    given = Clicks()
    table = given.users.filter("country = 'DE'").store("germans")
    table.join(given.users).to("out")
    found = queries(given)
    assert found["from-users"].outputs == (
        Output("filter-1", "payments-germans-changelog", TopicKind.CHANGELOG, store="germans"),
    )
    assert found["table-join-1"].mode == "update"


def test_an_application_is_refused_when_it_writes_nothing() -> None:
    given = Clicks()
    with pytest.raises(StreamsError, match="writes nothing"):
        given.app.plan()


@pytest.mark.parametrize("end", ["count", "peek"])
def test_an_end_without_a_topic_is_refused_when_something_would_be_missed(end: str) -> None:
    given = Clicks()
    given.clicks.to("out")
    given.clicks.group_by_key().count() if end == "count" else given.clicks.peek(by_hand)
    with pytest.raises(StreamsError, match=f"{end}-1 go nowhere"):
        given.app.plan()


def test_a_branch_of_a_split_may_be_ignored_when_it_keeps_nothing() -> None:
    given = Clicks()
    given.clicks.split(home="url = '/'")["home"].to("out")
    assert "not run, since their rows go nowhere: from-users, from-rates, split-1-rest" in given.app.describe()


def test_the_rules_know_every_pair_when_two_nodes_with_state_meet() -> None:
    assert set(RULES) == {(first, then) for first in STATEFUL for then in (*STATEFUL, NodeKind.MERGE)}


def test_a_drawing_has_topics_nodes_marks_and_reasons_when_it_is_asked_for() -> None:
    given = Clicks(dead_letters="dead")
    given.clicks.map_rows(by_hand, "user string").group_by_key().fold(together, "n int", name="folded").to("out")
    given.clicks.group_by("user").windowed(tumbling("1 minute")).count().to_stream().join(
        given.clicks, window=within("5 seconds")
    ).join(given.rates, on="user").to("joined", value=json())
    assert given.app.describe() == DRAWING


DRAWING = """\
payments: 3 queries, 1 topic between

query folded (update)
  reads  clicks = from-clicks: key text, value json(Click), time at
 py map-rows-1 <- from-clicks: tests.unit.streams.clicks.by_hand gives user string
*py folded <- map-rows-1: tests.unit.streams.clicks.together by key
  writes payments-folded-changelog <- folded: store folded
  writes out <- folded: value json

query count-1 (update)
  reads  clicks = from-clicks: key text, value json(Click), time at, waits 10 minutes for late rows
*   count-1 <- from-clicks: count = count(*) by user, tumbling 1 minute
  writes payments-count-1-changelog <- count-1: a topic between, because stream-join-1 follows: Spark's aggregates \
tell every update as a row, which a node with state behind them would count again

query stream-join-1 (append)
  reads  clicks = from-clicks: key text, value json(Click), time at, waits 10 minutes for late rows
  reads  payments-count-1-changelog = count-1, waits 10 minutes for late rows
  copies rates = from-rates: a global table, at most 1 second old, key text, value json(rate double)
    to-stream-1 <- count-1: as a stream
*   stream-join-1 <- to-stream-1, from-clicks: inner join of streams, within 5 seconds
 py global-join-1 <- stream-join-1, from-rates: inner join with a global table on user
  writes joined <- global-join-1: value json

query dead-letters (append)
  writes dead: records that do not decode

not run, since their rows go nowhere: from-users

* keeps state   py runs Python"""


def test_a_query_goes_by_the_clock_when_a_class_in_it_does() -> None:
    class Mortal(Processor):
        columns = "n bigint"
        held = value_state("n bigint", ttl="1 hour")

    class Waiting(Processor):
        columns = "n bigint"
        time = "processing"

    given = Clicks()
    for number, each in enumerate((Alerts, Mortal, Waiting)):
        given.clicks.process(each, name=each.__name__.lower()).to(f"out-{number}")
    assert {name: query.goes_by_clock for name, query in queries(given).items()} == {
        "alerts": False,
        "mortal": True,
        "waiting": True,
    }
