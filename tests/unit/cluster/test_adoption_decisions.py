"""What becomes of a cluster's image when a single node comes into it, and what is refused."""

from __future__ import annotations

from dataclasses import fields, replace

import pytest

from penstock.cluster.decisions.adoption import AdoptionError, Newcomer, decide_adoption, is_adopted
from penstock.cluster.image import MetadataImage, PartitionState, TopicImage
from penstock.cluster.levels import SECURITY_LEVEL
from penstock.cluster.security_image import SecurityImage
from tests.unit.cluster.harness import cluster


def topic(name: str, node_id: int = 1, *, leader_epoch: int = 0, topic_id: bytes | None = None) -> TopicImage:
    states = tuple(PartitionState(index, (node_id,), (node_id,), node_id, leader_epoch, 4) for index in range(2))
    return TopicImage(name, topic_id or name.encode().ljust(16, b"-"), states, {"retention.ms": "5"})


def image(*topics: TopicImage, **values: object) -> MetadataImage:
    return replace(MetadataImage("single"), topics={each.name: each for each in topics}, **values)  # type: ignore[arg-type]


def newcomer(*topics: TopicImage, node_id: int = 7, **values: object) -> Newcomer:
    return Newcomer(image(*topics, **values), 1, node_id)


def with_topics(*topics: TopicImage) -> MetadataImage:
    return replace(cluster(2, 3), topics={each.name: each for each in topics})


def refusal(target: MetadataImage, node: Newcomer, registered: tuple[int, ...] = ()) -> str:
    with pytest.raises(AdoptionError) as error:
        decide_adoption(target, node, registered)
    return str(error.value)


def test_topics_keep_their_ids_settings_and_terms_and_are_led_by_the_node_when_it_is_adopted() -> None:
    after = decide_adoption(with_topics(topic("theirs", 2)), newcomer(topic("mine", leader_epoch=3)), ())
    mine = after.topics["mine"]
    assert (mine.topic_id, dict(mine.configs)) == (topic("mine").topic_id, {"retention.ms": "5"})
    assert mine.partitions == tuple(PartitionState(index, (7,), (7,), 7, 3, 0) for index in range(2))
    assert after.topics["theirs"] == topic("theirs", 2)


def test_settings_come_along_under_the_new_id_when_the_cluster_has_none() -> None:
    node = newcomer(
        broker_configs={1: {"a": "1"}}, default_broker_config={"b": "2"}, group_configs={"group": {"c": "3"}}
    )
    after = decide_adoption(cluster(2), node, (2,))
    assert after.broker_configs == {7: {"a": "1"}}
    assert after.default_broker_config == {"b": "2"}
    assert after.group_configs == {"group": {"c": "3"}}


def test_every_part_of_an_image_is_thought_of_when_a_node_is_adopted() -> None:
    """A new part has to be carried over by `decide_adoption`, or to be named here."""
    carried = {"topics", "broker_configs", "default_broker_config", "group_configs", "directories", "security", "away"}
    of_the_cluster = {"cluster_id", "controller_id", "controller_epoch", "brokers", "metadata_level", "number"}
    assert {field.name for field in fields(MetadataImage)} == carried | of_the_cluster


def test_disks_are_those_of_the_node_when_a_broker_of_long_ago_had_its_id() -> None:
    target = replace(cluster(2), directories={2: ("b",), 7: ("old",)})
    assert decide_adoption(target, newcomer(directories={1: ("a",)}), ()).directories == {2: ("b",), 7: ("a",)}
    assert decide_adoption(target, newcomer(), ()).directories == {2: ("b",)}


@pytest.mark.parametrize("registered", [(), (7,)])
def test_another_id_is_proposed_when_the_cluster_has_a_broker_of_the_same_id(registered: tuple[int, ...]) -> None:
    target = with_topics(topic("theirs", 2 if registered else 7))
    assert "--broker-id" in refusal(target, newcomer(topic("mine")), registered)


@pytest.mark.parametrize(
    ("theirs", "mine", "said"),
    [
        (topic("same"), topic("same", topic_id=b"another id 12345"), "topics with these names: same"),
        (topic("other", topic_id=b"0123456789abcdef"), topic("mine", topic_id=b"0123456789abcdef"), "with the ids of"),
        (topic("a.b"), topic("a_b"), "a dot and an underscore alone: a_b and a.b"),
        (topic("__consumer_offsets"), topic("__consumer_offsets"), "both this node and the cluster have __consumer"),
    ],
)
def test_adoption_is_refused_when_topics_collide(theirs: TopicImage, mine: TopicImage, said: str) -> None:
    assert said in refusal(with_topics(theirs), newcomer(mine))


def test_adoption_is_refused_when_settings_of_the_same_thing_differ() -> None:
    with_defaults = replace(with_topics(topic("theirs", 2)), default_broker_config={"b": "1"})
    assert "default settings" in refusal(with_defaults, newcomer(default_broker_config={"b": "2"}))
    with_group = replace(cluster(2), group_configs={"group": {"c": "1"}})
    assert "group group" in refusal(with_group, newcomer(group_configs={"group": {"c": "2"}}))
    with_broker = replace(cluster(2), broker_configs={7: {"c": "1"}})
    assert "broker 7" in refusal(with_broker, newcomer(broker_configs={1: {"c": "2"}}))


def test_node_is_known_as_adopted_when_one_of_its_topics_is_in_the_cluster() -> None:
    node = image(topic("a"), topic("b"))
    assert not is_adopted(with_topics(topic("c")), node)
    assert is_adopted(with_topics(topic("b")), node)


ALICE = SecurityImage(entity_configs={"users/alice": {"producer_byte_rate": "1"}})


def test_rights_come_along_when_the_cluster_has_none() -> None:
    founded = replace(cluster(2), metadata_level=SECURITY_LEVEL)
    assert decide_adoption(founded, newcomer(security=ALICE), (2,)).security == ALICE
    same = replace(founded, security=ALICE)
    assert decide_adoption(same, newcomer(security=ALICE), (2,)).security == ALICE
    assert decide_adoption(same, newcomer(), (2,)).security == ALICE


def test_node_with_rights_is_refused_when_the_cluster_has_others_or_is_too_old() -> None:
    assert "too old" in refusal(cluster(2), newcomer(security=ALICE))
    bob = SecurityImage(entity_configs={"users/bob": {"producer_byte_rate": "1"}})
    assert "differ" in refusal(replace(cluster(2), security=bob), newcomer(security=ALICE))
