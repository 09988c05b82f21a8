"""How far consumer groups have come, whoever runs them: what they committed, beside the ends of what they read."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, TopicPartition
from confluent_kafka.admin import AdminClient

from bench.errors import BenchError

PATIENCE_S = 30.0
EVERY_S = 0.2
# A group that has nothing to do for so long is done: results of one query may still be on their way to the next.
QUIET_S = 2.0
# The first part is left out: engines start, and compile what they run.
WARM_SHARE = 0.25


@dataclass(frozen=True, slots=True)
class Place:
    """Records that were taken of the topics under test, and records that anybody has yet to take."""

    taken: int
    left: int
    at: float


class Watch:
    def __init__(self, bootstrap: str, group_prefix: str, topics: frozenset[str]) -> None:
        quiet: dict[str, str | int | float | bool] = {"bootstrap.servers": bootstrap, "log_level": 0}
        self._admin = AdminClient(quiet)
        self._reader = Consumer({**quiet, "group.id": "bench-watch"})
        self._prefix, self._topics = group_prefix, topics
        self._ends: dict[tuple[str, int], int] = {}

    def look(self) -> Place:
        groups = [found.group_id for found in self._admin.list_consumer_groups().result(PATIENCE_S).valid]
        taken = left = 0
        for group in groups:
            if not group.startswith(self._prefix):
                continue
            [asked] = self._admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)]).values()
            for place in asked.result(PATIENCE_S).topic_partitions or []:
                end = self._end(place.topic, place.partition)
                offset = max(0, place.offset)
                left += max(0, end - offset)
                taken += offset if place.topic in self._topics else 0
        return Place(taken, left, time.monotonic())

    def close(self) -> None:
        self._reader.close()

    def _end(self, topic: str, partition: int) -> int:
        """Of topics under test asked once: nothing is written to them meanwhile."""
        known = self._ends.get((topic, partition))
        if known is not None:
            return known
        asked = TopicPartition(topic, partition)
        end = int(self._reader.get_watermark_offsets(asked, timeout=PATIENCE_S, cached=False)[1])
        if topic in self._topics:
            self._ends[topic, partition] = end
        return end


def records_a_second(watch: Watch, total: int, is_running: Callable[[], bool], patience_s: float) -> float:
    """From the moment when a quarter was taken to the one when nothing was left. Markers of transactions have offsets,
    too, so that a topic between two queries never looks quite empty: what stays the same for a while is its end."""
    deadline = time.monotonic() + patience_s
    warm: Place | None = None
    done: Place | None = None
    while time.monotonic() < deadline:
        if not is_running():
            raise BenchError("it ended")
        place = watch.look()
        if warm is None and place.taken >= total * WARM_SHARE:
            warm = place
        if done is None or (place.taken, place.left) != (done.taken, done.left):
            done = place
        elif warm is not None and place.taken >= total and place.at - done.at >= QUIET_S:
            return (total - warm.taken) / (done.at - warm.at) if done.at > warm.at else float("inf")
        time.sleep(EVERY_S)
    raise BenchError(f"not done after {patience_s:.0f} s: {done}")
