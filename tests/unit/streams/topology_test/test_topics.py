from __future__ import annotations

import pytest

from penstock.streams.planning.plan import Cut, Output, Plan, Query, TopicKind
from penstock.streams.topology.errors import StreamsError
from penstock.streams.topology.formats import Format, Kind
from penstock.streams.topology.nodes import Filter, Repartition, Shape, Sink, Source, Topology
from penstock.streams.topology_test.topics import INTERNAL, Topics

TEXT, JSON = Format(Kind.TEXT), Format(Kind.JSON)
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
        Query("lines", "lines", (Output("lines", "app-again-repartition", TopicKind.REPARTITION),), ("lines",), ()),
        Query(
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
    assert TOPICS.formats("dead") == (Format(Kind.RAW), Format(Kind.RAW))


def test_a_query_reads_the_topic_of_a_cut_when_the_node_is_one() -> None:
    assert [TOPICS.reading(name).topic for name in ("lines", "again")] == ["lines", "app-again-repartition"]
