"""Who shall have which partitions: Kafka's server-side assignors, by name.

`range` gives every member a contiguous range of each topic, so that members find the same partition of several topics
together. `uniform` spreads all partitions evenly and moves as few as it can; where all members subscribe to the same
topics this is simple (here), otherwise see `uneven_assignor`.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Mapping
from typing import NamedTuple

from penstock.core.types import TopicId
from penstock.groups.assignment.uneven_assignor import assign_unevenly
from penstock.groups.topics import TopicIdPartition, Topics

Assignment = dict[str, set[TopicIdPartition]]


class Subscriber(NamedTuple):
    topic_ids: frozenset[TopicId]  # of topics that exist
    instance_id: str | None = None
    assigned: frozenset[TopicIdPartition] = frozenset()  # the target so far


def assign_ranges(subscribers: Mapping[str, Subscriber], topics: Topics) -> Assignment:
    # Static members first: their place does not change with their member id.
    order = sorted(
        subscribers,
        key=lambda member: (subscribers[member].instance_id is None, subscribers[member].instance_id or member),
    )
    counts = Counter(topic_id for subscriber in subscribers.values() for topic_id in subscriber.topic_ids)
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
            assignment[member].update(TopicIdPartition(topic_id, index) for index in range(start, start + size))
    return assignment


def assign_uniformly(subscribers: Mapping[str, Subscriber], topics: Topics) -> Assignment:
    subscriptions = {subscriber.topic_ids for subscriber in subscribers.values()}
    if len(subscriptions) == 1:
        return _assign_evenly(subscribers, topics, next(iter(subscriptions)))
    wanted = {member: subscriber.topic_ids for member, subscriber in subscribers.items()}
    present = {member: subscriber.assigned for member, subscriber in subscribers.items()}
    return assign_unevenly(wanted, present, topics)


def _assign_evenly(subscribers: Mapping[str, Subscriber], topics: Topics, topic_ids: frozenset[TopicId]) -> Assignment:
    """Everybody keeps what it has up to its share; the rest goes to those below theirs."""
    everything = list(topics.partitions(sorted(topic_ids)))
    existing = set(everything)
    share, extras = divmod(len(everything), len(subscribers))
    assignment: Assignment = {}
    taken: set[TopicIdPartition] = set()
    room: list[tuple[str, int]] = []
    members_left = len(subscribers)
    for member, subscriber in subscribers.items():
        present = sorted((subscriber.assigned & existing) - taken)
        # One more than the even share for those who have it already; for the last in line it is a duty.
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
    return assignment


ASSIGNORS: dict[str, Callable[[Mapping[str, Subscriber], Topics], Assignment]] = {
    "uniform": assign_uniformly,
    "range": assign_ranges,
}
