"""A changed application beside the old one, as the guide has it: docs/guides/streams.md, "Change an application"."""

from __future__ import annotations

import json as json_text
from dataclasses import replace
from pathlib import Path

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient
from pyspark.sql import SparkSession

from penstock.pipelines import Settings
from penstock.streams import Streams, StreamsError, json
from penstock.streams.runtime.application import open_run
from penstock.streams.runtime.reset import forget_application
from tests.pipelines.committed import make_topic, produce, read_committed, unique

pytestmark = pytest.mark.timeout(600)


def run_once(spark: SparkSession, app: Streams) -> None:
    run = open_run(spark, app, once=True)
    run.start()
    run.wait(for_s=300)


def clicks_by_user(app: Streams, topic: str, condition: str = "true") -> None:
    clicks = app.stream(topic, value=json("user string")).filter(condition)
    clicks.group_by("user").count(name="per-user").to(f"{app.name}-out")


def click(user: str) -> str:
    return json_text.dumps({"user": user})


def test_a_changed_application_goes_on_from_the_old_one_s_counts_when_the_records_are_gone(
    spark: SparkSession, bootstrap: str, tmp_path: Path
) -> None:
    clicks = make_topic(bootstrap, "clicks")
    admin = AdminClient({"bootstrap.servers": bootstrap})
    settings = Settings(
        bootstrap_servers=bootstrap, checkpoint=str(tmp_path / "old"), parallelism=1, publish_runs=False
    )
    old = Streams(unique("per-user"), settings)
    clicks_by_user(old, clicks)
    produce(bootstrap, clicks, click("ann"), click("ann"), click("bot"))
    run_once(spark, old)

    changed = Streams(old.name, settings)
    clicks_by_user(changed, clicks, "user <> 'bot'")
    with pytest.raises(StreamsError, match="is not what its checkpoint is from"):
        run_once(spark, changed)

    admin.delete_records([TopicPartition(clicks, 0, -1)])  # what the old one has counted can never be read again
    produce(bootstrap, clicks, click("ann"), click("bot"), click("eve"))
    new = Streams(unique("per-user-new"), replace(settings, checkpoint=str(tmp_path / "new")))
    before = new.stream(f"{old.name}-per-user-changelog", key=json("string"), value=json("user string, count bigint"))
    since = new.stream(clicks, value=json("user string")).filter("user <> 'bot'")
    both = before.filter("user <> 'bot'").group_by("user").cogroup(before="max(count)")
    counts = both.cogroup(since.group_by("user"), since="count(*)").aggregate(name="per-user")
    counts.select("user", "coalesce(before, 0) + coalesce(since, 0) AS count").to(f"{new.name}-out")
    run_once(spark, new)
    found = {
        message.key(): json_text.loads(message.value() or b"")
        for message in read_committed(bootstrap, f"{new.name}-out")
    }
    assert found == {b"ann": {"user": "ann", "count": 3}, b"eve": {"user": "eve", "count": 1}}

    list(forget_application(old))
    topics = set(admin.list_topics(timeout=30).topics)
    assert f"{old.name}-per-user-changelog" not in topics
    assert {f"{old.name}-out", f"{new.name}-out", f"{new.name}-per-user-changelog"} <= topics
