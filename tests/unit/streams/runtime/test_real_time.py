"""Which applications run in real time, how many tasks that takes, and what a run in real time refuses."""

from __future__ import annotations

from dataclasses import replace

import pytest

from penstock.pipelines import Pipeline, Settings, Topic
from penstock.pipelines.errors import PipelineError
from penstock.pipelines.runtime.query_plan import plan_queries
from penstock.pipelines.runtime.real_time import RowWriting, check_real_time, interval_of
from penstock.pipelines.sinks.topic import TopicSink
from penstock.streams import Streams, tumbling
from penstock.streams import json as as_json
from penstock.streams.runtime.pipelines import pipeline_of, topics_by_query
from penstock.streams.runtime.real_time import Slots, slots_of
from penstock.streams.topology.errors import StreamsError

REAL_TIME = Settings(trigger="realtime", engine="jvm")


def counting(dead_letters: str | None = None) -> Streams:
    """Two queries with state, with a topic between."""
    app = Streams("shop", REAL_TIME, dead_letters)
    counted = app.stream("clicks", value=as_json("user string")).group_by("user").count()
    counted.to_stream().group_by(times="count").count(into="users").to("out")
    return app


def test_all_queries_are_planned_for_real_time_when_the_plan_allows_it() -> None:
    app = counting("dead")
    pipeline = pipeline_of(app.plan(), app.settings)
    plans = plan_queries(pipeline)
    assert [(plan.name, plan.is_real_time) for plan in plans] == [
        ("count-1", True),
        ("dead-letters", True),
        ("count-2", True),
    ]
    check_real_time(pipeline, plans, once=False)
    with pytest.raises(PipelineError, match="no end"):
        check_real_time(pipeline, plans, once=True)


def test_the_drawing_says_what_real_time_costs_when_it_is_the_trigger() -> None:
    drawn = counting().describe()
    assert "at least once" in drawn
    assert drawn.endswith("What comes again counts again in count-2.")
    app = Streams("shop", REAL_TIME)
    app.stream("clicks", value=as_json("user string")).peek(print).to("out")
    assert "not in real time:\n  peek-1: it runs Python" in app.describe()


@pytest.mark.parametrize(
    ("changes", "message"),
    [({"engine": "python"}, "own Kafka connector"), ({"max_records_per_batch": 9}, "max_records_per_batch")],
)
def test_settings_are_refused_when_they_contradict_real_time(changes: dict[str, object], message: str) -> None:
    with pytest.raises(StreamsError, match=message):
        pipeline_of(counting().plan(), replace(REAL_TIME, **changes))  # type: ignore[arg-type]


def test_the_node_is_named_when_it_is_in_the_way_of_real_time() -> None:
    app = Streams("shop", REAL_TIME)
    clicks = app.stream("clicks", value=as_json("user string"), grace="1 minute")
    clicks.group_by("user").windowed(tumbling("1 minute"), final=True).count(name="per-minute").to("out")
    with pytest.raises(StreamsError, match=r"per-minute is in the way of real time: .* mode append") as refusal:
        pipeline_of(app.plan(), app.settings)
    assert "100 milliseconds" in (refusal.value.hint or "")


def test_windows_behind_a_topic_between_are_in_the_way_when_records_have_the_times_of_writing() -> None:
    app = Streams("shop", REAL_TIME)
    spread = app.stream("clicks", value=as_json("user string"), grace="1 minute").repartition("spread")
    spread.group_by("user").windowed(tumbling("1 minute")).count().to("out")
    with pytest.raises(StreamsError, match=r"count-1 is in the way of real time: .* times of writing"):
        pipeline_of(app.plan(), app.settings)


def test_dead_letters_are_in_the_way_when_two_sources_have_one_topic() -> None:
    app = Streams("shop", REAL_TIME, "dead")
    for number in range(2):
        app.stream("clicks", value=as_json("user string"), name=f"clicks-{number}").to(f"out-{number}")
    with pytest.raises(StreamsError, match="clicks-1 is in the way of real time"):
        pipeline_of(app.plan(), app.settings)


def test_other_pipelines_are_refused_when_their_trigger_is_real_time() -> None:
    pipeline = Pipeline("p", (Topic("t"),), (TopicSink("out"),), settings=REAL_TIME)
    with pytest.raises(PipelineError, match="batch by batch") as refusal:
        check_real_time(pipeline, plan_queries(pipeline), once=False)
    assert "penstock.streams" in (refusal.value.hint or "")


def test_tasks_of_all_queries_count_when_there_are_too_few_slots() -> None:
    plan = counting("dead").plan()
    read, partitions = topics_by_query(plan), {"clicks": 3, "shop-count-1-changelog": 3}
    Slots("local[13]", 2).check(plan, read, partitions)
    Slots("spark://host:7077", 2).check(plan, read, partitions)
    with pytest.raises(StreamsError, match="13 tasks at once: count-1 3 to read and 2 to keep state") as refusal:
        Slots("local[12, 4]", 2).check(plan, read, partitions)
    assert "local[13]" in (refusal.value.hint or "")


def test_a_local_master_has_as_many_slots_as_it_says_when_asked() -> None:
    assert [slots_of(master) for master in ("local", "local[3]", "local[3,4]", "yarn")] == [1, 3, 3, None]
    assert slots_of("local[*]") == slots_of("local[*,4]")


def test_checkpoints_come_each_minute_when_no_interval_is_said() -> None:
    assert interval_of(REAL_TIME) == "1 minute"
    assert interval_of(Settings(trigger="realtime 5 seconds")) == "5 seconds"


def test_rows_are_counted_from_reports_when_a_query_writes_them_itself() -> None:
    writing = RowWriting(TopicSink("out"), REAL_TIME)
    for rows in (3, -1, 4):
        writing.note({"sink": {"numOutputRows": rows}})
    assert writing.written == {"out": 7}
