from __future__ import annotations

from dataclasses import replace

from penstock.cluster.image import ImageDelta, PartitionState, TopicImage
from penstock.core.types import TopicPartition
from tests.unit.cluster.harness import broker, cluster


def topic(
    name: str, partition_count: int = 1, topic_id: bytes | None = None, configs: dict[str, str] | None = None
) -> TopicImage:
    states = tuple(PartitionState(index, (1,), (1,), 1) for index in range(partition_count))
    return TopicImage(name, topic_id or name.encode().ljust(16, b"-"), states, configs or {})


BEFORE = cluster().with_topics({"a": topic("a"), "b": topic("b", 2), "c": topic("c")})


def test_delta_is_empty_when_nothing_changed() -> None:
    assert ImageDelta.between(BEFORE, BEFORE) == ((), (), (), (), (), False, False, False)


def test_delta_names_topics_when_they_come_and_go() -> None:
    after = BEFORE.with_topics({"d": topic("d")}).without_topics({"a"})
    delta = ImageDelta.between(BEFORE, after)
    assert delta.created == (topic("d"),)
    assert delta.deleted == (topic("a"),)
    assert (delta.added, delta.changed, delta.configured) == ((), (), ())


def test_topic_is_deleted_and_created_when_made_anew_under_its_name() -> None:
    again = topic("a", topic_id=b"another-topic-id")
    delta = ImageDelta.between(BEFORE, BEFORE.with_topics({"a": again}))
    assert delta.created == (again,)
    assert delta.deleted == (topic("a"),)
    assert delta.configured == ()


def test_delta_names_partitions_when_they_are_added_or_change() -> None:
    b = BEFORE.topics["b"]
    moved = b.partitions[1]._replace(leader_epoch=3)
    new = PartitionState(2, (1,), (1,), 1)
    after = BEFORE.with_topics({"b": b._replace(partitions=(b.partitions[0], moved, new))})
    delta = ImageDelta.between(BEFORE, after)
    assert delta.added == (TopicPartition("b", 2),)
    assert delta.changed == (TopicPartition("b", 1),)


def test_delta_names_what_is_configured_otherwise_when_settings_change() -> None:
    after = BEFORE.with_topics({"c": topic("c", configs={"retention.ms": "5"})})
    after = replace(after, default_broker_config={"x": "y"}, brokers={1: broker(1), 2: broker(2)})
    delta = ImageDelta.between(BEFORE, after)
    assert [each.name for each in delta.configured] == ["c"]
    assert delta.broker_configs_changed
    assert (delta.created, delta.changed) == ((), ())


def test_partition_is_none_when_it_does_not_exist() -> None:
    assert BEFORE.partition("b", 1) is BEFORE.topics["b"].partitions[1]
    assert BEFORE.partition("b", 2) is None
    assert BEFORE.partition("b", -1) is None
    assert BEFORE.partition("nope", 0) is None


def test_topic_is_internal_when_the_broker_itself_writes_it() -> None:
    assert topic("__consumer_offsets").is_internal
    assert not topic("__mine").is_internal
