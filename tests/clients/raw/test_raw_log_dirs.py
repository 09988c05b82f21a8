"""DescribeLogDirs."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.protocol.messages.describe_log_dirs import DescribableLogDirTopic, DescribeLogDirsRequest
from tests.clients.raw.wire import Topic, Wire, build_batch, create_topic, new_name, produce_ok


def describe(wire: Wire, topics: dict[str, list[int]] | None, version: int | None = None) -> Any:
    wanted = None
    if topics is not None:
        wanted = [DescribableLogDirTopic(topic=name, partitions=numbers) for name, numbers in topics.items()]
    return wire(DescribeLogDirsRequest(topics=wanted), version)


def partitions_of(answer: Any) -> dict[tuple[str, int], Any]:
    return {
        (topic.name, partition.partition_index): partition
        for result in answer.results
        for topic in result.topics
        for partition in topic.partitions
    }


@pytest.mark.parametrize("version", range(1, 6))
def test_size_is_the_bytes_appended_when_described(wire: Wire, topic: Topic, version: int) -> None:
    batch = build_batch([b"x" * 1000])
    produce_ok(wire, topic, batch)
    answer = describe(wire, {topic.name: [0]}, version)
    (result,) = answer.results
    assert (answer.error_code, result.error_code) == (0, 0)
    assert result.log_dir.startswith("/")
    (partition,) = partitions_of(answer).values()
    assert (partition.partition_size, partition.offset_lag, partition.is_future_key) == (len(batch), 0, False)
    if version >= 4:
        assert result.total_bytes > result.usable_bytes > 0


def test_every_partition_is_described_when_the_list_is_null(wire: Wire, topic: Topic) -> None:
    assert (topic.name, 0) in partitions_of(describe(wire, None))


def test_no_partition_is_described_when_the_list_is_empty(wire: Wire, topic: Topic) -> None:
    answer = describe(wire, {})
    assert partitions_of(answer) == {}


def test_only_named_partitions_are_described_when_some_are(wire: Wire) -> None:
    topic = create_topic(wire, partitions=3)
    assert set(partitions_of(describe(wire, {topic.name: [2, 0, 9], new_name(): [0]}))) == {
        (topic.name, 0),
        (topic.name, 2),
    }
