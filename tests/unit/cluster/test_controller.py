"""Codes and texts are those that a running Kafka 4.3.1 answered with."""

from __future__ import annotations

import pytest

from penstock.cluster.decisions.decision import NewPartitions, NewTopic, TopicSelector
from penstock.cluster.decisions.topics import (
    decide_create_partitions,
    decide_create_topics,
    decide_delete_topics,
)
from penstock.cluster.deltas.nodes import write_operations
from penstock.cluster.image import MetadataImage, PartitionState
from penstock.core.types import ZERO_TOPIC_ID
from penstock.protocol.errors import ErrorCode
from tests.unit.cluster.harness import choices, cluster, config

SPECIFIED = "A manual partition assignment was specified, but"
ASSIGNMENT = "The manual partition assignment includes"


def with_topics(image: MetadataImage, *topics: NewTopic) -> MetadataImage:
    decision = decide_create_topics(image, config(), topics, choices())
    assert all(result.code is ErrorCode.NONE for result in decision.results)
    return decision.image


def test_topic_is_in_the_image_and_the_store_when_created() -> None:
    wanted = NewTopic("events", 3, 1, configs=(("retention.ms", "5"),))
    decision = decide_create_topics(cluster(), config(), [wanted], choices())
    (result,) = decision.results
    topic = decision.image.topics["events"]
    assert result == ("events", ErrorCode.NONE, None, topic)
    assert topic.partitions == tuple(PartitionState(index, (1,), (1,), 1, 0) for index in range(3))
    assert topic.configs == {"retention.ms": "5"}
    assert decision.image.topics_by_id[topic.topic_id] is topic
    operations = write_operations(cluster(), decision.image)
    assert [operation.path for operation in operations][:4] == [
        "/brokers/topics/events",
        "/config/topics/events",
        "/brokers/topics/events/partitions",
        "/brokers/topics/events/partitions/0",
    ]
    assert len(operations) == 3 + 2 * 3


def test_defaults_are_the_brokers_when_minus_one_is_asked_for() -> None:
    broker = config(num_partitions="4", default_replication_factor="2")
    decision = decide_create_topics(cluster(1, 2), broker, [NewTopic("events")], choices())
    topic = decision.image.topics["events"]
    assert (len(topic.partitions), topic.replication_factor) == (4, 2)
    assert {state.leader for state in topic.partitions} == {1, 2}


def test_nothing_changes_when_a_request_only_validates() -> None:
    image = cluster()
    decision = decide_create_topics(image, config(), [NewTopic("events", 2, 1)], choices(), validate_only=True)
    assert decision.image is image
    (result,) = decision.results
    assert result.topic is not None
    assert len(result.topic.partitions) == 2


@pytest.mark.parametrize(
    ("topic", "code", "message"),
    [
        (
            NewTopic("a b"),
            17,
            (
                "Topic name is invalid: 'a b' contains one or more characters other than ASCII "
                "alphanumerics, '.', '_' and '-'"
            ),
        ),
        (NewTopic("old_topic"), 17, "Topic 'old_topic' collides with existing topic: old.topic"),
        (NewTopic("old.topic"), 36, "Topic 'old.topic' already exists."),
        (NewTopic("new", 0, 1), 37, "Number of partitions was set to an invalid non-positive value."),
        (NewTopic("new", -2, 1), 37, "Number of partitions was set to an invalid non-positive value."),
        (NewTopic("new", 1, 0), 38, "Replication factor must be larger than 0, or -1 to use the default value."),
        (NewTopic("new", 1, -2), 38, "Replication factor must be larger than 0, or -1 to use the default value."),
        (
            NewTopic("new", 1, 2),
            38,
            (
                "Unable to replicate the partition 2 time(s): The target replication factor of 2 "
                "cannot be reached because only 1 broker(s) are registered."
            ),
        ),
        (NewTopic("new", 10_001, 1), 44, "Excessively large number of partitions per request."),
        (
            NewTopic("new", assignments=((0, (1,)), (0, (1,)))),
            39,
            "Found multiple manual partition assignments for partition 0",
        ),
        (NewTopic("new", assignments=((0, (2,)),)), 39, f"{ASSIGNMENT} broker 2, but no such broker is registered."),
        (NewTopic("new", assignments=((1, (1,)),)), 39, "partitions should be a consecutive 0-based integer sequence"),
        (NewTopic("new", assignments=((0, (1, 1)),)), 39, f"{ASSIGNMENT} the broker 1 more than once."),
        (NewTopic("new", assignments=((0, ()),)), 39, f"{ASSIGNMENT} an empty replica list."),
        (NewTopic("new", 1, assignments=((0, (1,)),)), 42, f"{SPECIFIED} numPartitions was not set to -1."),
        (NewTopic("new", -1, 1, ((0, (1,)),)), 42, f"{SPECIFIED} replication factor was not set to -1."),
        (NewTopic("__cluster_metadata"), 42, "Creation of internal topic __cluster_metadata is prohibited."),
        (NewTopic("new", configs=(("foo", "1"),)), 40, "Unknown topic config name: foo"),
        (
            NewTopic("new", configs=(("retention.ms", "x"),)),
            40,
            "Invalid value x for configuration retention.ms: Not a number of type LONG",
        ),
        (
            NewTopic("new", configs=(("retention.ms", None),)),
            40,
            "Null value not supported for topic configs: retention.ms",
        ),
    ],
)
def test_topic_is_refused_as_by_kafka_when_the_request_is_wrong(topic: NewTopic, code: int, message: str) -> None:
    image = with_topics(cluster(), NewTopic("old.topic", 1, 1))
    decision = decide_create_topics(image, config(), [topic], choices())
    assert decision.results == ((topic.name, ErrorCode(code), message, None),)
    assert decision.image.topics.keys() == {"old.topic"}


def test_good_topics_are_created_when_others_of_the_request_are_bad() -> None:
    requested = [NewTopic("good", 1, 1), NewTopic("twice", 1, 1), NewTopic("bad", 0, 1), NewTopic("twice", 1, 1)]
    decision = decide_create_topics(cluster(), config(), requested, choices())
    assert [(result.name, int(result.code)) for result in decision.results] == [("good", 0), ("twice", 42), ("bad", 37)]
    assert decision.results[1].message == "Duplicate topic name."
    assert decision.image.topics.keys() == {"good"}


def test_names_of_one_request_collide_when_written_alike() -> None:
    decision = decide_create_topics(cluster(), config(), [NewTopic("a.b"), NewTopic("a_b")], choices())
    assert [int(result.code) for result in decision.results] == [0, 17]


def test_whole_request_is_refused_when_its_topics_have_too_many_partitions_together() -> None:
    requested = [NewTopic("a", 9_999, 1), NewTopic("b", -1, 1), NewTopic("c", assignments=((0, (1,)),))]
    decision = decide_create_topics(cluster(), config(), requested, choices())
    assert {result.code for result in decision.results} == {ErrorCode.POLICY_VIOLATION}


def test_manual_assignment_must_be_consistent_when_replication_differs() -> None:
    topic = NewTopic("new", assignments=((0, (1, 2)), (1, (1,))))
    (result,) = decide_create_topics(cluster(1, 2), config(), [topic], choices()).results
    assert result.message == (
        f"{ASSIGNMENT} a partition with 1 replica(s), but this is not consistent with previous partitions, which have "
        "2 replica(s)."
    )


def test_manual_assignment_is_kept_when_it_is_good() -> None:
    topic = NewTopic("new", assignments=((1, (2, 1)), (0, (1, 2))))
    decision = decide_create_topics(cluster(1, 2), config(), [topic], choices())
    states = decision.image.topics["new"].partitions
    assert [(state.partition, state.replicas, state.leader) for state in states] == [(0, (1, 2), 1), (1, (2, 1), 2)]


def test_last_value_wins_when_a_setting_is_given_twice() -> None:
    topic = NewTopic("new", 1, 1, configs=(("retention.ms", "1"), ("retention.ms", "2")))
    assert decide_create_topics(cluster(), config(), [topic], choices()).image.topics["new"].configs == {
        "retention.ms": "2"
    }


def test_topics_are_deleted_by_name_and_by_id_when_they_exist() -> None:
    image = with_topics(cluster(), NewTopic("a", 2, 1), NewTopic("b", 1, 1), NewTopic("c", 1, 1))
    a, b = image.topics["a"], image.topics["b"]
    decision = decide_delete_topics(image, config().topics, [TopicSelector("a"), TopicSelector(None, b.topic_id)])
    assert decision.results == (("a", a.topic_id, 0, None), ("b", b.topic_id, 0, None))
    assert decision.image.topics.keys() == {"c"}
    assert b.topic_id not in decision.image.topics_by_id
    assert len(write_operations(image, decision.image)) == (3 + 2 * 2) + (3 + 2)


def test_deletion_is_refused_as_by_kafka_when_the_request_is_wrong() -> None:
    image = with_topics(cluster(), NewTopic("a", 1, 1), NewTopic("b", 1, 1))
    unknown, a, b = b"u" * 16, image.topics["a"].topic_id, image.topics["b"].topic_id
    selectors = [
        TopicSelector("nope"),
        TopicSelector(None, unknown),
        TopicSelector(None),
        TopicSelector("a", a),
        TopicSelector("b"),
        TopicSelector("b"),
    ]
    decision = decide_delete_topics(image, config().topics, selectors)
    assert [(result.name, int(result.code)) for result in decision.results] == [
        ("nope", 3),
        (None, 100),
        (None, 42),
        ("a", 42),
        ("b", 42),
    ]
    assert [result.message for result in decision.results[2:]] == [
        "Neither topic name nor id were specified.",
        "You may not specify both topic name and topic id.",
        "Duplicate topic name.",
    ]
    assert decision.image is image
    (by_id,) = decide_delete_topics(image, config().topics, [TopicSelector(None, b)] * 2).results
    assert by_id.message == "Duplicate topic id."


def test_topic_goes_once_when_named_by_id_and_by_name() -> None:
    image = with_topics(cluster(), NewTopic("a", 1, 1))
    topic_id = image.topics["a"].topic_id
    decision = decide_delete_topics(image, config().topics, [TopicSelector(None, topic_id), TopicSelector("a")])
    assert [int(result.code) for result in decision.results] == [0, 42]
    assert decision.results[1].message == "The provided topic name maps to an ID that was already supplied."
    assert len(write_operations(image, decision.image)) == 5


def test_no_topic_is_deleted_when_deletion_is_disabled() -> None:
    image = with_topics(cluster(), NewTopic("a", 1, 1))
    decision = decide_delete_topics(image, config(delete_topic_enable="false").topics, [TopicSelector("a")])
    assert decision.results == (("a", ZERO_TOPIC_ID, ErrorCode.TOPIC_DELETION_DISABLED, "Topic deletion is disabled."),)
    assert decision.image is image


def test_partitions_are_added_when_the_count_grows() -> None:
    image = with_topics(cluster(1, 2), NewTopic("a", 1, 2))
    decision = decide_create_partitions(image, [NewPartitions("a", 3, ((1, 2), (2, 1)))], choices())
    assert decision.results == (("a", ErrorCode.NONE, None),)
    states = decision.image.topics["a"].partitions
    assert states[0] is image.topics["a"].partitions[0]
    assert [(state.partition, state.replicas, state.leader) for state in states[1:]] == [(1, (1, 2), 1), (2, (2, 1), 2)]
    assert decision.image.topics["a"].topic_id == image.topics["a"].topic_id
    assert len(write_operations(image, decision.image)) == 1 + 2 * 2
    placed = decide_create_partitions(image, [NewPartitions("a", 9)], choices(), validate_only=True)
    assert (placed.image, placed.results[0].code) == (image, ErrorCode.NONE)


@pytest.mark.parametrize(
    ("item", "code", "message"),
    [
        (NewPartitions("a", 2), 37, "Topic already has 2 partition(s)."),
        (NewPartitions("a", 1), 37, "The topic a currently has 2 partition(s); 1 would not be an increase."),
        (NewPartitions("a", -1), 37, "The topic a currently has 2 partition(s); -1 would not be an increase."),
        (NewPartitions("nope", 3), 3, None),
        (
            NewPartitions("a", 4, ((1,),)),
            39,
            "Attempted to add 2 additional partition(s), but only 1 assignment(s) were specified.",
        ),
        (NewPartitions("a", 3, ((2,),)), 39, f"{ASSIGNMENT} broker 2, but no such broker is registered."),
        (NewPartitions("a", 3, ((),)), 39, f"{ASSIGNMENT} an empty replica list."),
        (NewPartitions("a", 3, ((1, 1),)), 39, f"{ASSIGNMENT} the broker 1 more than once."),
        (NewPartitions("a", 10_003), 44, "Excessively large number of partitions per request."),
    ],
)
def test_partitions_are_refused_as_by_kafka_when_wrong(item: NewPartitions, code: int, message: str | None) -> None:
    image = with_topics(cluster(), NewTopic("a", 2, 1))
    decision = decide_create_partitions(image, [item], choices())
    (result,) = decision.results
    assert int(result.code) == code
    if message is not None:
        assert result.message == message
    assert decision.image is image


def test_partitions_are_refused_when_a_topic_is_named_twice() -> None:
    image = with_topics(cluster(), NewTopic("a", 1, 1))
    decision = decide_create_partitions(image, [NewPartitions("a", 2), NewPartitions("a", 3)], choices())
    assert decision.results == (("a", ErrorCode.INVALID_REQUEST, "Duplicate topic name."),)
