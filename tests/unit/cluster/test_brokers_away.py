"""Brokers that are registered and away: new topics count on them, until somebody unregisters them. Broker 3 is away."""

from __future__ import annotations

import json
import zlib
from dataclasses import replace

import pytest

from penstock.cluster.decisions.brokers import decide_registered, decide_unregister
from penstock.cluster.decisions.decision import NewPartitions, NewTopic
from penstock.cluster.decisions.reassignments import ReassignmentRequest, decide_reassignments
from penstock.cluster.decisions.topics import decide_create_partitions, decide_create_topics
from penstock.cluster.deltas.delta import difference, replay
from penstock.cluster.deltas.encoding import decode_delta, encode_delta
from penstock.cluster.image import NO_LEADER, BrokerRegistration, MetadataImage, PartitionState, TopicImage
from penstock.protocol.errors import ApiError, ErrorCode
from tests.unit.cluster.harness import broker, choices, cluster, config


def never(_: TopicImage) -> bool:
    return False


def told(node_id: int) -> BrokerRegistration:
    return broker(node_id)._replace(directories=(f"disk-{node_id}",))


def counted(image: MetadataImage, *brokers: BrokerRegistration) -> MetadataImage:
    return decide_registered(image, {each.node_id: each for each in brokers}, never).image


ALL = counted(MetadataImage("cluster"), told(1), told(2), told(3))
IMAGE = counted(ALL, told(1), told(2))


def create(image: MetadataImage, *topics: NewTopic) -> MetadataImage:
    decision = decide_create_topics(image, config(), topics, choices())
    assert [result.code for result in decision.results] == [ErrorCode.NONE] * len(topics)
    return decision.image


def test_broker_stays_registered_when_it_leaves() -> None:
    assert (ALL.away, ALL.registered) == ({}, {1: told(1), 2: told(2), 3: told(3)})
    assert (set(IMAGE.brokers), IMAGE.away) == ({1, 2}, {3: told(3)})
    assert IMAGE.registered == ALL.registered
    assert counted(IMAGE, told(1), told(2), told(3)._replace(epoch=9)).away == {}


def test_brokers_stay_registered_when_they_tell_no_directories() -> None:
    assert counted(cluster(1, 2), broker(1)).registered.keys() == {1, 2}


def test_only_brokers_that_are_up_are_in_sync_when_a_topic_counts_on_one_that_is_away() -> None:
    image = create(IMAGE, NewTopic("a", 3, 3))
    for state in image.topics["a"].partitions:
        assert (set(state.replicas), set(state.isr), state.replicas[2]) == ({1, 2, 3}, {1, 2}, 3)
        assert state.leader == state.replicas[0]
    grown = decide_create_partitions(image, [NewPartitions("a", 4)], choices()).image.topics["a"].partitions[3]
    assert (set(grown.replicas), set(grown.isr)) == ({1, 2, 3}, {1, 2})


def test_broker_gets_what_a_client_names_when_another_one_is_up() -> None:
    image = create(IMAGE, NewTopic("a", assignments=((0, (3, 2)),)))
    assert image.topics["a"].partitions == (PartitionState(0, (3, 2), (2,), 2),)


def test_topic_is_refused_when_all_that_a_client_names_are_away() -> None:
    decision = decide_create_topics(IMAGE, config(), [NewTopic("a", assignments=((0, (3,)),))], choices())
    assert decision.results[0].code is ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert "are fenced or in controlled shutdown" in str(decision.results[0].message)


def test_replica_waits_for_its_broker_when_it_is_moved_there() -> None:
    image = create(IMAGE, NewTopic("a", assignments=((0, (1, 2)),)))
    decision = decide_reassignments(image, [ReassignmentRequest("a", 0, (1, 3))], never)
    assert decision.results[0].code is ErrorCode.NONE
    (state,) = decision.image.topics["a"].partitions
    assert (state.replicas, state.isr, state.adding, state.removing) == ((1, 3, 2), (1, 2), (3,), (2,))


def test_broker_is_forgotten_when_it_is_unregistered() -> None:
    image = decide_unregister(IMAGE, 3).image
    assert (set(image.registered), set(image.directories), image.away) == ({1, 2}, {1, 2}, {})
    delta = difference(IMAGE, image)
    assert delta is not None
    assert replay(IMAGE, delta) == replace(image, number=1)
    decision = decide_create_topics(image, config(), [NewTopic("a", 1, 3)], choices())
    assert decision.results[0].code is ErrorCode.INVALID_REPLICATION_FACTOR
    assert "only 2 broker(s) are registered" in str(decision.results[0].message)
    assert counted(image, told(1), told(2), told(3)._replace(epoch=9)).registered.keys() == {1, 2, 3}


def test_nothing_changes_when_a_broker_that_is_here_is_unregistered() -> None:
    assert decide_unregister(IMAGE, 1).image is IMAGE


@pytest.mark.parametrize("node_id", [-1, 9])
def test_request_is_refused_when_no_such_broker_is_registered(node_id: int) -> None:
    with pytest.raises(ApiError, match=f"Broker ID {node_id} is not currently registered") as error:
        decide_unregister(IMAGE, node_id)
    assert error.value.code is ErrorCode.BROKER_ID_NOT_REGISTERED


@pytest.mark.parametrize("directory", ["disk-3", "another"])
@pytest.mark.parametrize(("is_empty", "leader", "isr"), [(False, 3, (3,)), (True, NO_LEADER, ())])
def test_unregistered_broker_leads_only_what_it_has_when_it_comes_back(
    is_empty: bool, leader: int, isr: tuple[int, ...], directory: str
) -> None:
    """The last in-sync member stays one, also unregistered: nobody else has what was acknowledged. Its directories are
    forgotten with it, so it alone says whether it has its data: a process that goes on must not say that it is empty.
    """
    orphan = TopicImage("a", b"a" * 16, (PartitionState(0, (3, 1), (3,), NO_LEADER),))
    image = decide_unregister(IMAGE.with_topics({"a": orphan}), 3).image
    assert image.topics["a"] is orphan
    returned = told(3)._replace(epoch=9, directories=(directory,), is_empty=is_empty)
    (state,) = counted(image, told(1), told(2), returned).topics["a"].partitions
    assert (state.leader, state.isr) == (leader, isr)


def test_delta_is_read_when_it_has_keys_of_a_later_version() -> None:
    """A broker of the version before does not know that brokers can be away, and follows a controller that does."""
    delta = difference(ALL, create(IMAGE, NewTopic("a", 1, 3)), "an-id")
    assert delta is not None
    value = json.loads(zlib.decompress(encode_delta(delta)))
    later = {**value, "of a later version": [1]}
    assert decode_delta("/x", zlib.compress(json.dumps(later).encode())) == delta
    earlier = {key: each for key, each in value.items() if key != "away"}
    followed = replay(ALL, decode_delta("/x", zlib.compress(json.dumps(earlier).encode())))
    assert (followed.away, set(followed.registered)) == ({}, {1, 2, 3})
    assert followed.registered[3].directories == ("disk-3",)
