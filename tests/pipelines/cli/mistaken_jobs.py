"""Pipelines and applications with one mistake each, for test_mistakes.py."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from penstock.pipelines import Pipeline
from penstock.pipelines.pipeline import Settings
from penstock.pipelines.sinks.topic import TopicSink
from penstock.pipelines.steps.from_registry import from_registry
from penstock.pipelines.topic_source import Topic
from penstock.streams import Streams, json

ORDERS, OUT, MADE = "mistaken-orders", "mistaken-out", "mistaken-left-left-changelog"
QUIET = Settings(publish_runs=False)
COLUMNS = json("id long, name string")


def misspelt(rows: DataFrame) -> DataFrame:
    return rows.select(F.col("valeu").alias("value"))


def cast(rows: DataFrame) -> DataFrame:
    return rows.select(F.col("value").cast("string").cast("int").cast("string").alias("value"))


def loud_cast(rows: DataFrame) -> DataFrame:
    def printing(batches: Iterable[Any]) -> Iterator[Any]:
        print("a line of a worker")
        yield from batches

    return cast(rows.select("value").mapInArrow(printing, "value binary"))


def of(name: str, topic: str = ORDERS, sink: str = OUT, **more: object) -> Pipeline:
    return Pipeline(name, (Topic(topic),), (TopicSink(sink),), settings=QUIET, **more)  # type: ignore[arg-type]


good = of("good")
no_topic = of("no-topic", topic="mistaken-ordres")
no_sink = of("no-sink", sink="mistaken-uot")
bad_name = of("bad-name", topic="a name")
bad_start = Pipeline("bad-start", (Topic(ORDERS, start="nowhere"),), (TopicSink(OUT),), settings=QUIET)
sinkless = Pipeline("sinkless", (Topic(ORDERS),), (), settings=QUIET)
no_registry = of("no-registry", steps=(from_registry(registry="http://127.0.0.1:1"),))
column = of("column", steps=(misspelt,))
loud = of("loud", steps=(loud_cast,))


def app(name: str) -> Streams:
    made = Streams(name)
    made.settings = QUIET
    return made


NAMES = ("lost", "far", "open", "changed", "mistaken-left", "column")
lost_app, far_app, open_app, changed_app, left_app, column_app = map(app, NAMES)
far_app.stream(ORDERS, value=COLUMNS).to(OUT)
lost_app.stream("mistaken-ordres", value=COLUMNS).to(OUT)
open_app.stream(ORDERS, value=COLUMNS).filter("name = 'a").to(OUT)
changed_app.stream(ORDERS, value=COLUMNS).group_by("name").count(into="n", name="counts").to(OUT)
left_app.stream(ORDERS, value=COLUMNS).group_by("name").count(into="n", name="left").to(OUT)
column_app.stream(ORDERS, value=COLUMNS).filter("nmae = 'a'").to(OUT)
