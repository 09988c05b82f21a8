"""New topics and partitions while broker 2 is about to stop."""

from __future__ import annotations

from dataclasses import replace

from penstock.cluster.decisions.decision import NewPartitions, NewTopic, TopicSelector
from penstock.cluster.decisions.topics import decide_create_partitions, decide_create_topics, decide_delete_topics
from penstock.cluster.image import MetadataImage, PartitionState, TopicImage
from penstock.protocol.errors import ErrorCode
from tests.unit.cluster.harness import broker, choices, cluster, config

IMAGE = replace(cluster(1, 2, 3), brokers={**cluster(1, 2, 3).brokers, 2: broker(2)._replace(is_stopping=True)})
ALL_STOP = "All brokers specified in the manual partition assignment for partition 1 are fenced or in controlled"


def with_topics(image: MetadataImage, *topics: NewTopic) -> MetadataImage:
    return decide_create_topics(image, config(), topics, choices()).image


def test_replica_goes_there_when_the_others_are_too_few() -> None:
    image = with_topics(IMAGE, NewTopic("a", 6, 2))
    assert {node for state in image.topics["a"].partitions for node in state.replicas} == {1, 3}
    (state,) = with_topics(IMAGE, NewTopic("a", 1, 3)).topics["a"].partitions
    assert (state.replicas[2], set(state.isr), state.leader) == (2, {1, 3}, state.replicas[0])


def test_broker_gets_a_replica_but_is_not_in_sync_when_a_client_names_it() -> None:
    image = with_topics(IMAGE, NewTopic("a", assignments=((0, (2, 3, 1)),)))
    assert image.topics["a"].partitions == (PartitionState(0, (2, 3, 1), (3, 1), 3),)


def test_topic_is_refused_when_all_brokers_named_for_a_partition_are_about_to_stop() -> None:
    wanted = NewTopic("a", assignments=((0, (1,)), (1, (2,))))
    decision = decide_create_topics(IMAGE, config(), [wanted], choices())
    message = f"{ALL_STOP} shutdown."
    assert decision.results == (("a", ErrorCode.INVALID_REPLICA_ASSIGNMENT, message, None),)


def test_partitions_are_refused_when_all_brokers_named_for_one_are_about_to_stop() -> None:
    image = with_topics(IMAGE, NewTopic("a", 1, 1))
    decision = decide_create_partitions(image, [NewPartitions("a", 2, ((2,),))], choices())
    message = f"{ALL_STOP} shutdown."
    assert decision.results == (("a", ErrorCode.INVALID_REPLICA_ASSIGNMENT, message),)


def test_topic_goes_when_its_brokers_are_away_or_about_to_stop() -> None:
    state = PartitionState(0, (2, 9), (2,), 2)
    image = IMAGE.with_topics({"a": TopicImage("a", b"a" * 16, (state,))})
    assert not decide_delete_topics(image, config().topics, [TopicSelector("a")]).image.topics
