"""The uniform assignor where members subscribe to different topics.

1. Members keep their partitions of the topics that they still subscribe to.
2. Free partitions go to the subscriber with the fewest, topic by topic: topics with the most partitions per subscriber
   first, because the others can then even out the rest.
3. Topic by topic, partitions move from the subscriber with the most to the subscriber with the fewest until they differ
   by one at most, again and again until a whole round moves nothing. Every move makes the assignment more even, so it
   ends; the bound is for groups so large that a slightly uneven assignment now is better than an even one later.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping

from penstock.core.types import TopicId
from penstock.groups.topics import Steps, TopicIdPartition, Topics, in_order_in_steps, runs

_MAX_ROUNDS = 16  # Kafka's number


def assign_unevenly(
    wanted: Mapping[str, frozenset[TopicId]],
    present: Mapping[str, frozenset[TopicIdPartition]],
    topics: Topics,
) -> Steps[dict[str, set[TopicIdPartition]]]:
    """In steps. By member: its subscribed topics, its present partitions, and in the result its target."""
    subscribers: dict[TopicId, list[str]] = {}
    for member, topic_ids in wanted.items():
        for topic_id in topic_ids:
            subscribers.setdefault(topic_id, []).append(member)
        yield
    loads = {}
    for run in runs(sorted(subscribers)):
        for topic_id in run:
            count = len(subscribers[topic_id])
            loads[topic_id] = (-topics.by_id[topic_id].partition_count / count, count)
        yield
    order = sorted(loads, key=loads.__getitem__)  # equal ones stay in the order of their ids
    yield
    assignment, free = yield from _keep(wanted, present, topics)
    for topic_id in order:
        _hand_out(assignment, free[topic_id], subscribers[topic_id])
        yield
    shared = [topic_id for topic_id in order if len(subscribers[topic_id]) > 1]
    for _ in range(_MAX_ROUNDS):
        moved = 0
        for topic_id in shared:
            moved += _even_out(assignment, topic_id, subscribers[topic_id])
            yield
        if not moved:
            break
    return assignment


def _keep(
    wanted: Mapping[str, frozenset[TopicId]], present: Mapping[str, frozenset[TopicIdPartition]], topics: Topics
) -> Steps[tuple[dict[str, set[TopicIdPartition]], dict[TopicId, list[TopicIdPartition]]]]:
    everything = {topic_id for topic_ids in wanted.values() for topic_id in topic_ids}
    untaken: set[TopicIdPartition] = set()
    for run in runs(topics.partitions(everything)):
        untaken.update(run)
        yield
    assignment = {}
    for member, topic_ids in wanted.items():
        kept = {partition for partition in present[member] if partition.topic_id in topic_ids and partition in untaken}
        untaken -= kept
        assignment[member] = kept
        yield
    free: dict[TopicId, list[TopicIdPartition]] = {topic_id: [] for topic_id in everything}
    for partition in (yield from in_order_in_steps(untaken)):
        free[partition.topic_id].append(partition)
    return assignment, free


def _hand_out(
    assignment: dict[str, set[TopicIdPartition]], free: list[TopicIdPartition], subscribers: list[str]
) -> None:
    loads = [(len(assignment[member]), position) for position, member in enumerate(subscribers)]
    heapq.heapify(loads)
    for partition in free:
        load, position = loads[0]
        assignment[subscribers[position]].add(partition)
        heapq.heapreplace(loads, (load + 1, position))


def _even_out(assignment: dict[str, set[TopicIdPartition]], topic_id: TopicId, subscribers: list[str]) -> int:
    """Returns the number of moved partitions."""
    owned = {
        member: sorted(partition for partition in assignment[member] if partition.topic_id == topic_id)
        for member in subscribers
    }
    least = [(len(assignment[member]), position) for position, member in enumerate(subscribers)]
    most = [(-load, -position) for load, position in least if owned[subscribers[position]]]
    heapq.heapify(least)
    heapq.heapify(most)
    moved = 0
    while most:
        giver = subscribers[-most[0][1]]
        if not owned[giver]:
            heapq.heappop(most)
            continue
        receiver = subscribers[least[0][1]]
        if len(assignment[giver]) != -most[0][0]:  # it received a partition since
            heapq.heapreplace(most, (-len(assignment[giver]), most[0][1]))
            continue
        if len(assignment[receiver]) != least[0][0]:
            heapq.heapreplace(least, (len(assignment[receiver]), least[0][1]))
            continue
        if len(assignment[giver]) - len(assignment[receiver]) <= 1:
            break
        partition = owned[giver].pop()
        assignment[giver].discard(partition)
        assignment[receiver].add(partition)
        moved += 1
    return moved
