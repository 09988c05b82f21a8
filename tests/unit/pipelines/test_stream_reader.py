"""A streaming read as Spark's driver asks for it, of a cluster in memory."""

from __future__ import annotations

from collections.abc import Collection
from typing import cast

from pyspark.sql.streaming.datasource import ReadAllAvailable

from penstock.core.types import TopicPartition
from penstock.pipelines.kafka.offsets_json import Offsets
from penstock.pipelines.options import OptionScope
from penstock.pipelines.source.cluster import FoundPartitions, SourceCluster
from penstock.pipelines.source.read_options import TopicSubscription, parse_source_options
from penstock.pipelines.source.stream_reader import StreamReader
from penstock.pipelines.source.tasks import TopicRanges


class MemoryCluster:
    """Topics of one partition each, by how many records they have."""

    def __init__(self, **records: int) -> None:
        self.records = records

    def find_partitions(self, subscription: TopicSubscription) -> FoundPartitions:
        return FoundPartitions(frozenset(TopicPartition(topic, 0) for topic in self.records), {})

    def earliest(self, partitions: Collection[TopicPartition]) -> Offsets:
        return {each: 0 for each in partitions if each.topic in self.records}

    def latest(self, partitions: Collection[TopicPartition]) -> Offsets:
        return {each: self.records[each.topic] for each in partitions if each.topic in self.records}


def reader_of(cluster: MemoryCluster) -> StreamReader:
    given = {"kafka.bootstrap.servers": "none:1", "subscribePattern": ".*", "startingOffsets": "earliest"}
    return StreamReader(parse_source_options(given, OptionScope.STREAM_READ), cast("SourceCluster", cluster))


def read(reader: StreamReader, start: dict[str, dict[str, int]], end: dict[str, dict[str, int]]) -> dict[str, range]:
    tasks = [task for task in reader.partitions(start, end) if isinstance(task, TopicRanges)]
    return {each.partition.topic: range(each.start, each.end) for task in tasks for each in task.offsets}


def test_a_new_topic_is_read_by_the_next_batch_when_the_first_one_is_repeated_after_a_failure() -> None:
    cluster = MemoryCluster(eu=3)
    failed = reader_of(cluster)
    end = failed.latestOffset(failed.initialOffset(), ReadAllAvailable())
    cluster.records["us"] = 2
    again = reader_of(cluster)
    # As Spark does where the first batch is written down and not finished.
    assert read(again, again.initialOffset(), end) == {"eu": range(3)}
    following = again.latestOffset(end, ReadAllAvailable())
    assert read(again, end, following) == {"us": range(2)}


def test_there_is_nothing_to_read_until_a_topic_comes_when_a_pattern_finds_none() -> None:
    cluster = MemoryCluster()
    reader = reader_of(cluster)
    start = reader.initialOffset()
    assert start == reader.latestOffset(start, ReadAllAvailable()) == {}
    cluster.records["eu"] = 4
    assert read(reader, start, reader.latestOffset(start, ReadAllAvailable())) == {"eu": range(4)}
