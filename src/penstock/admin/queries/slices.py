"""Many things in few requests, and none so large that other clients of the broker wait for it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TypeVar

from penstock.core.types import TopicPartition

Item = TypeVar("Item")

# Offsets of 1,000 partitions take a broker 5 ms, commits of 50 groups with 20 partitions each as long.
PARTITIONS_AT_ONCE = 1_000
COMMITS_AT_ONCE = 50
# A description is a tenth of the work of a group's commits: 500 groups take 5 ms.
DESCRIBED_AT_ONCE = 500
# A few settings of each of 1,000 topics take 35 ms. A cluster of so many has internal topics beside them.
CONFIGS_AT_ONCE = 1_250


def cut(items: Sequence[Item], size: int) -> Iterator[Sequence[Item]]:
    for start in range(0, len(items), size):
        yield items[start : start + size]


def cut_partitions(
    wanted: Mapping[int, Iterable[TopicPartition]], size: int = PARTITIONS_AT_ONCE
) -> Iterator[tuple[int, dict[str, list[int]]]]:
    """For each broker its partitions by topic, in slices. Slices of different brokers alternate, so that all of them
    have something to do from the beginning.
    """
    rows = {node_id: list(cut(sorted(places), size)) for node_id, places in wanted.items()}
    for turn in range(max(map(len, rows.values()), default=0)):
        for node_id, slices in rows.items():
            if turn < len(slices):
                yield node_id, by_topic(slices[turn])


def by_topic(places: Iterable[TopicPartition]) -> dict[str, list[int]]:
    topics: dict[str, list[int]] = {}
    for topic, partition in places:
        topics.setdefault(topic, []).append(partition)
    return topics
