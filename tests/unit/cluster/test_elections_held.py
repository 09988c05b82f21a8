"""Which changes of the metadata count as elections, and which of these as unclean."""

from __future__ import annotations

import pytest

from penstock.cluster.controller.elections_held import count_elections
from penstock.cluster.image import NO_LEADER, BrokerRegistration, MetadataImage, PartitionState, TopicImage

BROKERS = {node_id: BrokerRegistration(node_id, ()) for node_id in (1, 2, 3)}


def image(*states: PartitionState, topic_id: bytes = b"1" * 16) -> MetadataImage:
    return MetadataImage("cluster", brokers=BROKERS, topics={"t": TopicImage("t", topic_id, states)})


def state(leader: int, isr: tuple[int, ...], replicas: tuple[int, ...] = (1, 2, 3)) -> PartitionState:
    return PartitionState(0, replicas, isr, leader)


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        (state(1, (1, 2)), state(2, (2,)), (1, 0)),
        (state(1, (1, 2)), state(1, (1,)), (0, 0)),
        (state(1, (1,)), state(NO_LEADER, (1,)), (0, 0)),
        (state(NO_LEADER, (1,)), state(1, (1,)), (1, 0)),
        (state(NO_LEADER, (1,)), state(2, (2,)), (1, 1)),
        # A move from broker 1 to broker 3 ends: the leader asked for broker 3 and left, in one change.
        (state(1, (1,), (3, 1))._replace(adding=(3,), removing=(1,)), state(3, (3,), (3,)), (1, 0)),
        # A move is taken back while only the new replica is in sync.
        (state(3, (3,), (3, 1))._replace(adding=(3,), removing=(1,)), state(1, (1,), (1,)), (1, 1)),
    ],
)
def test_a_new_leader_counts_and_is_unclean_when_nobody_in_sync_vouched_for_it(
    before: PartitionState, after: PartitionState, expected: tuple[int, int]
) -> None:
    assert count_elections(image(before), image(after)) == expected


def test_nothing_counts_when_the_topic_is_new_or_made_anew() -> None:
    old, new = image(state(1, (1,))), image(state(2, (2,)), topic_id=b"2" * 16)
    assert count_elections(old, new) == (0, 0)
    assert count_elections(MetadataImage("cluster"), new) == (0, 0)
