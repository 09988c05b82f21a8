from __future__ import annotations

import random
from collections import Counter

import pytest

from penstock.groups.assignment.assignors import ASSIGNORS, Subscriber, assign_ranges, assign_uniformly
from penstock.groups.topics import Topic, TopicIdPartition, Topics

A, B, C = b"a" * 16, b"b" * 16, b"c" * 16


def topics(**counts: int) -> Topics:
    return Topics.of(Topic(name, name.encode() * 16, count) for name, count in counts.items())


def indexes(partitions: set[TopicIdPartition], topic_id: bytes) -> list[int]:
    return sorted(partition.partition for partition in partitions if partition.topic_id == topic_id)


def everybody(members: str, *topic_ids: bytes) -> dict[str, Subscriber]:
    return {member: Subscriber(frozenset(topic_ids)) for member in members}


def test_ranges_are_contiguous_and_aligned_when_topics_have_as_many_partitions() -> None:
    assigned = assign_ranges(everybody("xyz", A, B), topics(a=7, b=7))
    for topic_id in (A, B):
        assert [indexes(assigned[member], topic_id) for member in "xyz"] == [[0, 1, 2], [3, 4], [5, 6]]


def test_static_members_come_first_when_ranges_are_given() -> None:
    subscribers = {"x": Subscriber(frozenset({A})), "y": Subscriber(frozenset({A}), instance_id="i")}
    assert indexes(assign_ranges(subscribers, topics(a=3))["y"], A) == [0, 1]


def test_ranges_are_for_subscribers_alone_when_subscriptions_differ() -> None:
    subscribers = {"x": Subscriber(frozenset({A, B})), "y": Subscriber(frozenset({B}))}
    assigned = assign_ranges(subscribers, topics(a=2, b=2))
    assert (indexes(assigned["x"], A), indexes(assigned["x"], B)) == ([0, 1], [0])
    assert indexes(assigned["y"], B) == [1]


def test_members_keep_what_they_have_when_one_joins() -> None:
    before = assign_uniformly(everybody("xy", A), topics(a=9))
    after = assign_uniformly(
        {member: Subscriber(frozenset({A}), assigned=frozenset(before.get(member, ()))) for member in "xyz"},
        topics(a=9),
    )
    assert [len(after[member]) for member in "xyz"] == [3, 3, 3]
    assert after["x"] < before["x"]
    assert after["y"] < before["y"]


def test_nobody_gets_anything_when_there_is_nothing() -> None:
    for assign in ASSIGNORS.values():
        assert assign(everybody("xy"), Topics()) == {"x": set(), "y": set()}


def test_load_is_even_when_subscriptions_differ_but_allow_it() -> None:
    subscribers = {
        "x": Subscriber(frozenset({A, B})),
        "y": Subscriber(frozenset({B, C})),
        "z": Subscriber(frozenset({C})),
    }
    assigned = assign_uniformly(subscribers, topics(a=4, b=4, c=4))
    assert [len(assigned[member]) for member in "xyz"] == [4, 4, 4]


@pytest.mark.parametrize("name", list(ASSIGNORS))
@pytest.mark.parametrize("seed", range(30))
def test_every_partition_has_one_subscriber_when_members_and_topics_change(name: str, seed: int) -> None:
    chance = random.Random(seed)
    present: dict[str, frozenset[TopicIdPartition]] = {}
    for _ in range(6):
        known = topics(a=chance.randint(1, 9), b=chance.randint(1, 9), c=chance.randint(1, 5))
        same = frozenset(chance.sample([A, B, C], chance.randint(1, 3)))
        is_same = chance.random() < 0.5
        members = chance.sample("uvwxyz", chance.randint(1, 6))
        subscribers = {
            member: Subscriber(
                same if is_same else frozenset(chance.sample([A, B, C], chance.randint(0, 3))),
                assigned=present.get(member, frozenset()),
            )
            for member in members
        }
        assigned = ASSIGNORS[name](subscribers, known)
        wanted = {topic_id for subscriber in subscribers.values() for topic_id in subscriber.topic_ids}
        assert Counter(p for each in assigned.values() for p in each) == Counter(known.partitions(wanted))
        for member, partitions in assigned.items():
            assert {partition.topic_id for partition in partitions} <= subscribers[member].topic_ids
        if name == "uniform" and is_same:
            sizes = [len(partitions) for partitions in assigned.values()]
            assert max(sizes) - min(sizes) <= 1
        present = {member: frozenset(partitions) for member, partitions in assigned.items()}
        if name == "uniform":
            again = {member: each._replace(assigned=present[member]) for member, each in subscribers.items()}
            assert ASSIGNORS[name](again, known) == assigned
