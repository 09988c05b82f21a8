"""Streaming reads: micro-batches, limits, restarts, lost records, group progress."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from penstock.pipelines.group_progress import track
from tests.pipelines.topics import Topics

TIMEOUT_S = 60


@pytest.fixture(scope="module")
def topics(bootstrap: str) -> Topics:
    return Topics(bootstrap)


class Stream:
    """A query whose batches are kept as sorted numbers; started again, it goes on from its checkpoint."""

    def __init__(self, spark: SparkSession, topics: Topics, directory: Path, **options: Any) -> None:
        self._spark, self._topics, self._directory, self._options = spark, topics, directory, options
        self.name = f"query_{uuid.uuid4().hex[:8]}"
        self.batches: dict[int, list[int]] = {}
        self.fail_in: int | None = None

    def start(self, *, available_now: bool = True, **options: Any) -> StreamingQuery:
        reader = self._spark.readStream.format("penstock").option("kafka.bootstrap.servers", self._topics.bootstrap)
        named = {name.replace("__", "."): value for name, value in (self._options | options).items()}
        writer = reader.options(**named).load().writeStream.foreachBatch(self._keep).queryName(self.name)
        writer = writer.option("checkpointLocation", str(self._directory / "checkpoint"))
        writer = (
            writer.trigger(availableNow=True) if available_now else writer.trigger(processingTime="50 milliseconds")
        )
        return writer.start()

    def run(self, **options: Any) -> list[list[int]]:
        """The batches that had rows, of this run."""
        self.batches = {}
        query = self.start(**options)
        assert query.awaitTermination(TIMEOUT_S)
        return [rows for _, rows in sorted(self.batches.items()) if rows]

    def _keep(self, frame: DataFrame, batch_id: int) -> None:
        rows = sorted(int(row.value) for row in frame.select("value").collect())
        if batch_id == self.fail_in:
            self.fail_in = None
            raise RuntimeError("told to fail")
        self.batches[batch_id] = rows


@pytest.fixture
def stream(spark: SparkSession, topics: Topics, tmp_path: Path) -> Callable[..., Stream]:
    return lambda **options: Stream(spark, topics, tmp_path, **options)


def test_batches_are_exact_when_limited_and_restarted(
    topics: Topics, stream: Callable[..., Stream], tmp_path: Path
) -> None:
    topic = topics.create()
    topics.produce(topic, range(100))
    group = f"group-{topic}"
    query = stream(subscribe=topic, startingOffsets="earliest", maxOffsetsPerTrigger=40, kafka__group__id=group)
    assert query.run() == [list(range(40)), list(range(40, 80)), list(range(80, 100))]
    assert topics.committed(group, topic) == {0: 50, 1: 50}
    offsets = (tmp_path / "checkpoint" / "offsets" / "1").read_text().splitlines()[-1]
    assert json.loads(offsets) == {topic: {"0": 40, "1": 40}}
    topics.produce(topic, range(100, 110))
    topics.add_partitions(topic, 3)
    topics.produce(topic, [200], 1)  # into partition 0
    topics.produce(topic, [302], 3)  # into the new partition 2
    assert query.run(minPartitions=4) == [[*range(100, 110), 200, 302]]
    assert topics.committed(group, topic) == {0: 56, 1: 55, 2: 1}
    follower = stream(subscribe=topic, startingGroup=group)
    assert follower.run() == []


def test_failed_batch_is_repeated_when_the_query_is_started_again(
    topics: Topics, stream: Callable[..., Stream]
) -> None:
    topic = topics.create()
    topics.produce(topic, range(60))
    query = stream(subscribe=topic, startingOffsets="earliest", maxOffsetsPerTrigger=20)
    query.fail_in = 1
    with pytest.raises(StreamingQueryException, match="told to fail"):
        query.run()
    topics.produce(topic, range(60, 70))
    assert query.run() == [list(range(20, 40)), list(range(40, 60)), list(range(60, 70))]


def test_nothing_is_skipped_when_the_first_batch_from_latest_is_repeated(
    topics: Topics, stream: Callable[..., Stream]
) -> None:
    topic = topics.create()
    topics.produce(topic, range(10))
    query = stream(subscribe=topic)
    query.fail_in = 0
    with pytest.raises(StreamingQueryException, match="told to fail"):
        query.run()
    topics.produce(topic, range(10, 20))
    assert query.run() == [list(range(10, 20))]


def test_running_query_sees_new_records_and_its_progress_when_tracked(
    spark: SparkSession, topics: Topics, stream: Callable[..., Stream]
) -> None:
    topic = topics.create()
    query = stream(
        subscribePattern=f"{topic}.*", groupIdPrefix="derived", minOffsetsPerTrigger=10, maxTriggerDelay="1s"
    )
    tracking = track(spark, bootstrap_servers=topics.bootstrap, group_id=topic, query_names=[query.name])
    running = query.start(available_now=False, partition__metadata__cache__ttl__ms=100)
    try:
        wait_for(lambda: bool(query.batches), running)
        topics.produce(topic, range(25))
        wait_for(lambda: sum(map(len, query.batches.values())) == 25, running)
        topics.produce(topic, range(25, 28))
        wait_for(lambda: sum(map(len, query.batches.values())) == 28, running)
        running.processAllAvailable()
        source = running.lastProgress.sources[0] if running.lastProgress else None
        assert source is not None
        assert json.loads(source.endOffset) == json.loads(source.latestOffset) == {topic: {"0": 14, "1": 14}}
    finally:
        running.stop()
        tracking.stop()
    assert topics.committed(topic, topic) == {0: 14, 1: 14}


def test_loss_stops_the_query_or_is_passed_over_when_the_topic_is_made_anew(
    topics: Topics, stream: Callable[..., Stream]
) -> None:
    topic = topics.create(1)
    topics.produce(topic, range(10), 1)
    query = stream(subscribe=topic, startingOffsets="earliest")
    assert query.run() == [list(range(10))]
    topics.delete(topic)
    with pytest.raises(
        StreamingQueryException, match=f"topic {topic} partition 0 is gone; it was read up to offset 10"
    ):
        query.run()
    topics.create(1, name=topic)
    topics.produce(topic, range(500, 503), 1)
    with pytest.raises(StreamingQueryException, match=r"ends at offset 3, before offset 10.*failOnDataLoss"):
        query.run()
    assert query.run(failOnDataLoss="false") == [[500, 501, 502]]


def test_loss_is_told_when_retention_passed_the_reader(topics: Topics, stream: Callable[..., Stream]) -> None:
    topic = topics.create(1)
    topics.produce(topic, range(10), 1)
    query = stream(subscribe=topic, startingOffsets="earliest", maxOffsetsPerTrigger=5)
    query.fail_in = 1
    with pytest.raises(StreamingQueryException, match="told to fail"):
        query.run()
    topics.delete_records(topic, 0, 8)
    with pytest.raises(StreamingQueryException, match=f"topic {topic} partition 0: offsets 5 to 7 are no longer there"):
        query.run()
    assert query.run(failOnDataLoss="false") == [[8, 9]]


def wait_for(condition: Callable[[], bool], query: StreamingQuery) -> None:
    for _ in range(TIMEOUT_S * 10):
        if condition():
            return
        if query.awaitTermination(1):
            break
    raise AssertionError(f"did not happen: {query.exception()}")
