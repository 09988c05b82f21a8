"""Decisions about more partitions than one delta can hold: they are made in steps, and a crash between them costs
nothing but the rest, which the next controller decides.
"""

from __future__ import annotations

from dataclasses import fields, replace
from random import Random

import pytest

from penstock.cluster.controller.writer import PreparedChange, Writer
from penstock.cluster.decisions.brokers import decide_registered
from penstock.cluster.decisions.decision import NewTopic, TopicSelector
from penstock.cluster.deltas.delta import replay
from penstock.cluster.deltas.encoding import decode_delta
from penstock.cluster.deltas.position import LogPosition
from penstock.cluster.deltas.steps import LAST, steps
from penstock.cluster.image import MetadataImage, PartitionState, TopicImage
from penstock.cluster.image_loader import StoredPosition, load_image
from penstock.cluster.metadata import Metadata
from penstock.cluster.store import znodes
from penstock.cluster.store.interface import Check, StoreError, StoreErrorKind, TransactionLimit
from penstock.cluster.store.memory import MemoryStore
from penstock.cluster.store.memory_tree import MemoryTree
from penstock.protocol.errors import ErrorCode
from tests.unit.cluster.brokers import TestBroker, agreed, emptied, started
from tests.unit.cluster.harness import ENDPOINTS, FixedClock, choices, cluster, config, run
from tests.unit.cluster.test_metadata_log import ZOOKEEPER, CrashingStore

# A delta has 800 bytes: the states of some fifty partitions.
SMALL_DELTAS = TransactionLimit(8_192 + 800, 2_000)
TOPICS = [NewTopic(f"t{number}", 5, 2) for number in range(40)]


def states_of(image: MetadataImage) -> list[PartitionState]:
    return [state for topic in image.topics.values() for state in topic.partitions]


def large_cluster(topic_count: int, partition_count: int, broker_count: int = 10) -> MetadataImage:
    """Three replicas each, and histories of their own: states that are alike compress better than those of a cluster
    that has run for a while.
    """
    image, random = cluster(*range(1, broker_count + 1)), Random(7)
    topics = {}
    for number in range(topic_count):
        states = []
        for index in range(partition_count):
            replicas = tuple(random.sample(range(1, broker_count + 1), 3))
            epoch = random.randrange(1_000)
            isr = tuple(random.sample(replicas, 3))
            states.append(PartitionState(index, replicas, isr, isr[0], epoch, epoch + random.randrange(1_000)))
        name = f"topic-{number}"
        topics[name] = TopicImage(name, random.randbytes(16), tuple(states))
    return image.with_topics(topics)


def writer_of(image: MetadataImage) -> Writer:
    """That of a controller with ZooKeeper."""
    store = MemoryStore(transaction_limit=ZOOKEEPER)
    return Writer(store, Check(znodes.CONTROLLER_EPOCH, 0), StoredPosition(LogPosition(image.number), 0), lambda: "id")


def planned(old: MetadataImage, new: MetadataImage) -> list[PreparedChange]:
    """Each delta fits, and who replays them has the image."""
    changes, image = writer_of(old).plan(old, new), old
    for change in changes:
        assert len(change.data) < ZOOKEEPER.size
        image = replay(image, decode_delta("/", change.data))
        assert image == change.image
    assert image == replace(new, number=old.number + len(changes))
    return changes


def test_leaders_are_elected_when_all_brokers_of_a_large_cluster_came_back_without_a_clean_end() -> None:
    image = large_cluster(30, 2_000)
    back = {node_id: each._replace(epoch=100 + node_id) for node_id, each in image.brokers.items()}
    after = decide_registered(image, back, lambda _: False).image
    with pytest.raises(StoreError, match="bytes in the log"):
        writer_of(image).plan_whole(image, after)
    changes = planned(image, after)
    assert len(changes) == 6
    assert all(state.leader in after.brokers for state in states_of(after))
    # Whoever takes over half-way judges the brokers by what they were: as those that came back, also where the
    # partitions are still as they were.
    half = changes[2].image
    assert half.brokers == image.brokers
    again = decide_registered(half, back, lambda _: False).image
    for before, now in zip(states_of(image), states_of(again), strict=True):
        assert now.leader_epoch > before.leader_epoch
        assert len(now.isr) == 1


def test_brokers_are_the_last_to_change_when_a_decision_takes_steps() -> None:
    image = large_cluster(4, 10)
    left = {node_id: each for node_id, each in image.brokers.items() if node_id != 3}
    after = decide_registered(image, left, lambda _: False).image
    images = steps(image, after, 4)
    assert len(images) > 2
    assert images[-1] is after
    assert all((each.brokers, each.away) == (image.brokers, image.away) for each in images[:-1])
    assert 3 in images[-1].away
    assert all(3 not in state.isr for state in states_of(images[-1]))


def test_step_of_each_part_of_the_image_is_chosen() -> None:
    """Whoever adds a part decides whether a controller that finds it changed may find older topics beside it."""
    first = {"broker_configs", "default_broker_config", "group_configs", "security"}
    every = {"cluster_id", "controller_id", "controller_epoch", "number", "topics"}
    assert {field.name for field in fields(MetadataImage)} == first | every | set(LAST)


def test_partitions_have_no_gap_when_a_topic_grows_in_steps() -> None:
    image = large_cluster(1, 10)
    topic = image.topics["topic-0"]
    added = tuple(PartitionState(index, (1,), (1,), 1) for index in range(10, 35))
    grown = topic._replace(partitions=topic.partitions + added, configs={"x": "1"})
    images = steps(image, image.with_topics({"topic-0": grown}), 10)
    assert [len(each.topics["topic-0"].partitions) for each in images] == [20, 30, 35]
    assert {each.topics["topic-0"].configs["x"] for each in images} == {"1"}


def test_topic_comes_and_goes_in_one_step_when_it_is_larger_than_a_step() -> None:
    image, empty = large_cluster(3, 10), cluster(*range(1, 11))
    assert [len(each.topics) for each in steps(empty, image, 4)] == [1, 2, 3]
    assert [len(each.topics) for each in steps(image, empty, 25)] == [1, 0]
    anew = {name: topic._replace(topic_id=b"a" * 16) for name, topic in image.topics.items()}
    assert all(len(each.topics) == 3 for each in steps(image, replace(image, topics=anew), 4))


def test_one_topic_is_refused_when_its_delta_is_too_large() -> None:
    async def main() -> None:
        first, second = await started(MemoryTree(), 1, 2, limit=SMALL_DELTAS)
        with pytest.raises(Exception, match="bytes in the log, where 800 are the most"):
            await first.metadata.create_topics([NewTopic("small", 1, 2), NewTopic("large", 900, 2)])
        assert first.metadata.image.topics == {}
        await first.metadata.create_topics(TOPICS)
        await agreed(first, second)

    run(main())


def test_requests_are_answered_when_their_changes_take_steps() -> None:
    async def main() -> None:
        tree = MemoryTree()
        first, second = await started(tree, 1, 2, limit=SMALL_DELTAS)
        before = first.metadata.image.number
        results = await first.metadata.create_topics(TOPICS)
        assert len(results) == len(TOPICS)
        assert first.metadata.image.number > before + 1
        await agreed(first, second)
        await first.metadata.controller_api.begin_shutdown(2, second.metadata.broker_epoch)
        assert {state.leader for state in states_of(first.metadata.image)} == {1}
        await agreed(first, second)
        assert await load_image(second.store) == first.metadata.image
        names = [TopicSelector(topic.name) for topic in TOPICS]
        assert {result.code for result in await first.metadata.delete_topics(names)} == {ErrorCode.NONE}
        await agreed(first, second)
        await emptied(second.store, "/brokers/topics")

    run(main())


@pytest.mark.parametrize("allowed", range(1, 5))
def test_every_partition_begins_a_new_term_when_an_unclean_start_is_cut_short(allowed: int) -> None:
    """The broker may have lost records in each of them, also in those that the first start did not come to."""

    async def main() -> None:
        tree = MemoryTree()
        brokers = await started(tree, 1, 2, limit=SMALL_DELTAS)
        await brokers[0].metadata.create_topics(TOPICS)
        for each in brokers:
            await each.stop()
        dying = CrashingStore(tree, transaction_limit=SMALL_DELTAS)
        dying.allowed = allowed
        with pytest.raises(StoreError) as error:
            await Metadata.open(dying, config(), ENDPOINTS, FixedClock(), choices=choices())
        assert error.value.kind is StoreErrorKind.UNAVAILABLE
        await dying.close()
        first = await TestBroker(tree, 1, SMALL_DELTAS).start()
        states = states_of(first.metadata.image)
        assert len(states) == 200
        assert all((state.leader, state.isr) == (1, (1,)) and state.leader_epoch > 0 for state in states)
        second = await TestBroker(tree, 2, SMALL_DELTAS).start()
        await agreed(first, second)
        assert await load_image(second.store) == first.metadata.image
        assert {state.isr for state in states_of(first.metadata.image)} == {(1,)}

    run(main())
