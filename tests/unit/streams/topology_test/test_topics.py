from __future__ import annotations

import re

import pytest

from penstock.streams import Streams, json
from penstock.streams.planner.plan import Cut, Output, Plan, PlannedQuery, TopicKind
from penstock.streams.topology.errors import StreamsError
from penstock.streams.topology.formats import Format, FormatKind
from penstock.streams.topology.nodes import Filter, Repartition, Shape, Sink, Source, Topology
from penstock.streams.topology_test.topics import INTERNAL, Topics

TEXT, JSON = Format(FormatKind.TEXT), Format(FormatKind.JSON)
PLAN = Plan(
    Topology(
        "app",
        (
            Source("lines", (), topic="lines", key=TEXT, value=TEXT),
            Repartition("again", ("lines",)),
            Filter("some", ("again",), "true"),
            Sink("out", ("some",), topic="results", key=None, value=JSON),
        ),
        dead_letters="dead",
    ),
    (
        PlannedQuery(
            "lines", "lines", (Output("lines", "app-again-repartition", TopicKind.REPARTITION),), ("lines",), ()
        ),
        PlannedQuery(
            "again",
            "again",
            (
                Output("some", "results", TopicKind.SINK, sink="out"),
                Output("some", "app-kept-changelog", TopicKind.CHANGELOG, store="kept"),
            ),
            (),
            ("again",),
        ),
    ),
    {"again": Cut("again", "app-again-repartition", TopicKind.REPARTITION, Shape.STREAM, "asked for")},
)
TOPICS = Topics(PLAN)


def test_an_error_names_the_topic_that_was_meant_when_one_is_unknown() -> None:
    with pytest.raises(StreamsError, match="reads no topic 'line'") as refused:
        TOPICS.source("line")
    assert refused.value.hint == "Did you mean lines? There are: lines."


def test_an_error_names_topics_and_stores_when_nothing_is_written_there() -> None:
    with pytest.raises(StreamsError, match="writes no topic and keeps no store 'lines'") as refused:
        TOPICS.written("lines")
    assert "app-again-repartition, app-kept-changelog, dead, kept, results" in refused.value.hint


@pytest.mark.parametrize(("name", "topic"), [("results", "results"), ("kept", "app-kept-changelog"), ("dead", "dead")])
def test_a_topic_is_found_when_it_is_named_or_its_store_is(name: str, topic: str) -> None:
    assert TOPICS.written(name) == topic


def test_formats_are_the_sink_s_when_it_has_some_and_json_between_queries() -> None:
    assert TOPICS.formats("results") == (None, JSON)
    assert TOPICS.formats("app-kept-changelog") == (INTERNAL, INTERNAL)
    assert TOPICS.formats("dead") == (Format(FormatKind.RAW), Format(FormatKind.RAW))


def test_a_query_reads_the_topic_of_a_cut_when_the_node_is_one() -> None:
    assert [TOPICS.reading(name).topic for name in ("lines", "again")] == ["lines", "app-again-repartition"]


def test_a_source_reads_all_topics_that_match_when_it_is_a_pattern() -> None:
    app = Streams("found")
    app.stream(re.compile("orders-.*"), value=json("n int"), name="all").to("copy")
    app.stream("orders-eu", value=json("m int"), name="europe").to("orders-made")
    topics = Topics(app.plan())
    assert [topics.source(topic).name for topic in ("orders-us", "orders-eu")] == ["all", "europe"]
    assert topics.read_of(topics.reading("all").topic, ["orders-us", "clicks"]) == ["orders-us", "orders-made"]
    with pytest.raises(StreamsError, match="reads no topic 'order-us'") as refused:
        topics.source("order-us")
    assert "There are: orders-eu, topics like orders-.*." in refused.value.hint


def test_any_topic_may_be_read_when_rows_choose_theirs() -> None:
    app = Streams("choosing")
    app.stream("clicks", value=json("country string")).to("rest", topic_of="concat('in-', country)")
    topics = Topics(app.plan())
    assert topics.written("in-fr") == "in-fr"
    assert [each.output.topic for each in topics.writers("in-fr")] == ["rest"]
    assert len(topics.writers("rest")) == 1
    assert topics.named_writers("clicks") == []  # a query does not read what may come from itself
    assert topics.formats("in-fr")[1].kind == "json"
