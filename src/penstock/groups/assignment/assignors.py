"""Kafka's server-side assignors, by name.

`range` gives every member a contiguous range of each topic, so that members find the same partition of several topics
together. `uniform` spreads all partitions evenly and moves as few as it can; where all members subscribe to the same
topics this is simple (here), otherwise see `uneven_assignor`.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Mapping
from typing import NamedTuple

from penstock.core.steps import finish
from penstock.core.types import TopicId
from penstock.groups.assignment.uneven_assignor import assign_unevenly
from penstock.groups.topics import Steps, TopicIdPartition, Topics, in_order_in_steps, runs

Assignment = dict[str, set[TopicIdPartition]]


class Subscriber(NamedTuple):
    topic_ids: frozenset[TopicId]  # of topics that exist
    instance_id: str | None = None
    assigned: frozenset[TopicIdPartition] = frozenset()  # the target so far


def assign_ranges(subscribers: Mapping[str, Subscriber], topics: Topics) -> Assignment:
    return finish(_assign_ranges(subscribers, topics))


def _assign_ranges(subscribers: Mapping[str, Subscriber], topics: Topics) -> Steps[Assignment]:
    # Static members first: their place does not change with their member id.
    order = sorted(
        subscribers,
        key=lambda member: (subscribers[member].instance_id is None, subscribers[member].instance_id or member),
    )
    counts: Counter[TopicId] = Counter()
    for subscriber in subscribers.values():
        counts.update(subscriber.topic_ids)
        yield
    next_start = dict.fromkeys(counts, 0)
    extra = {topic_id: topics.by_id[topic_id].partition_count % count for topic_id, count in counts.items()}
    assignment: Assignment = {member: set() for member in subscribers}
    for member in order:
        for topic_id in subscribers[member].topic_ids:
            size = topics.by_id[topic_id].partition_count // counts[topic_id]
            if extra[topic_id]:
                size += 1
                extra[topic_id] -= 1
            start = next_start[topic_id]
            next_start[topic_id] = start + size
            for run in runs(range(start, start + size)):
                assignment[member].update(TopicIdPartition(topic_id, index) for index in run)
                yield
    return assignment


def assign_uniformly(subscribers: Mapping[str, Subscriber], topics: Topics) -> Assignment:
    return finish(_assign_uniformly(subscribers, topics))


def _assign_uniformly(subscribers: Mapping[str, Subscriber], topics: Topics) -> Steps[Assignment]:
    subscriptions = {subscriber.topic_ids for subscriber in subscribers.values()}
    if len(subscriptions) == 1:
        return (yield from _assign_evenly(subscribers, topics, next(iter(subscriptions))))
    wanted = {member: subscriber.topic_ids for member, subscriber in subscribers.items()}
    present = {member: subscriber.assigned for member, subscriber in subscribers.items()}
    return (yield from assign_unevenly(wanted, present, topics))


def _assign_evenly(
    subscribers: Mapping[str, Subscriber], topics: Topics, topic_ids: frozenset[TopicId]
) -> Steps[Assignment]:
    """Each member keeps its partitions up to its share; the rest goes to members below theirs."""
    everything: list[TopicIdPartition] = []
    for run in runs(topics.partitions(sorted(topic_ids))):
        everything += run
        yield
    existing = set(everything)
    share, extras = divmod(len(everything), len(subscribers))
    assignment: Assignment = {}
    taken: set[TopicIdPartition] = set()
    room: list[tuple[str, int]] = []
    members_left = len(subscribers)
    for member, subscriber in subscribers.items():
        present = yield from in_order_in_steps((subscriber.assigned & existing) - taken)
        # One more than the even share for members that have it already; for the last in line it is a duty.
        has_extra = extras > 0 and (len(present) > share or members_left <= extras)
        quota = share + has_extra
        extras -= has_extra
        members_left -= 1
        assignment[member] = set(present[:quota])
        taken |= assignment[member]
        if len(assignment[member]) < quota:
            room.append((member, quota - len(assignment[member])))
    free = iter(partition for partition in everything if partition not in taken)
    for member, count in room:
        assignment[member].update(itertools.islice(free, count))
        yield
    return assignment


ASSIGNORS: dict[str, Callable[[Mapping[str, Subscriber], Topics], Assignment]] = {
    "uniform": assign_uniformly,
    "range": assign_ranges,
}
IN_STEPS: dict[str, Callable[[Mapping[str, Subscriber], Topics], Steps[Assignment]]] = {
    "uniform": _assign_uniformly,
    "range": _assign_ranges,
}
