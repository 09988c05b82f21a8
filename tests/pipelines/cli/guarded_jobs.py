"""Pipelines and applications that go to topics with rights, for test_rights.py."""

from __future__ import annotations

from penstock.pipelines import Pipeline
from penstock.pipelines.pipeline import Settings
from penstock.pipelines.sinks.topic import TopicSettings, TopicSink
from penstock.pipelines.topic_source import Topic
from penstock.streams import Streams, json

ORDERS, OUT, MADE = "guarded-orders", "guarded-out", "guarded-counts"
QUIET = Settings(publish_runs=False)
WRONG = {
    "kafka.sasl.jaas.config": "org.apache.kafka.common.security.plain.PlainLoginModule required"
    ' username="exact" password="wrong";'
}

copying = Pipeline("copying", (Topic(ORDERS),), (TopicSink(OUT),), settings=QUIET)
making = Pipeline("making", (Topic(ORDERS),), (TopicSink(OUT, create=TopicSettings()),), settings=QUIET)
other_login = Pipeline("other-login", (Topic(ORDERS, options=WRONG),), (TopicSink(OUT),), settings=QUIET)

streaming = Streams("guarded", settings=QUIET)
streaming.stream(ORDERS, value=json("id long, name string")).to(OUT)

counting = Streams(MADE, settings=QUIET)
counting.stream(ORDERS, value=json("id long, name string")).group_by("name").count(into="n", name="n").to(OUT)

# Reads its own changelog.
rereading = Streams(MADE, settings=QUIET)
counted = rereading.stream(ORDERS, value=json("id long, name string")).group_by("name").count(into="n", name="n")
counted.group_by("n").count(into="m", name="m").to(OUT)
