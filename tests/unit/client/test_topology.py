"""What a client knows of a cluster: it grows old, is forgotten, and is bounded."""

from __future__ import annotations

from penstock.client.routes import topology as known
from penstock.client.routes.answers import COORDINATOR_MOVED, has_code
from penstock.client.routes.topology import Topology
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from penstock.protocol.messages.offset_commit import (
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)

BOOTSTRAP = ("boot", 1)


def answer(*topics: str, error: ErrorCode = ErrorCode.NONE) -> MetadataResponse:
    partitions = [MetadataResponsePartition(partition_index=index, leader_id=index + 1) for index in range(2)]
    return MetadataResponse(
        brokers=[MetadataResponseBroker(node_id=node, host=f"h{node}", port=9) for node in (1, 2)],
        controller_id=2,
        topics=[MetadataResponseTopic(name=name, error_code=error, partitions=partitions) for name in topics],
    )


def test_leaders_are_known_until_they_are_too_old_or_forgotten() -> None:
    topology = Topology([BOOTSTRAP], 10.0)
    assert topology.addresses() == [BOOTSTRAP]
    topology.learn(answer("t", "u"), 100.0)
    found = topology.topic("t", 110.0)
    assert found is not None
    assert found.leaders == {0: 1, 1: 2}
    assert topology.topic("t", 110.1) is None
    topology.forget_topic("u")
    assert topology.topic("u", 100.0) is None


def test_topic_is_unknown_when_the_answer_has_an_error_for_it() -> None:
    topology = Topology([BOOTSTRAP], 10.0)
    topology.learn(answer("t"), 0.0)
    topology.learn(answer("t", error=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION), 1.0)
    assert topology.topic("t", 1.0) is None


def test_callers_begin_with_different_brokers_and_end_with_those_they_were_given() -> None:
    topology = Topology([BOOTSTRAP], 10.0)
    topology.learn(answer(), 0.0)
    lists = [topology.addresses() for _ in range(2)]
    assert {addresses[0] for addresses in lists} == {("h1", 9), ("h2", 9)}
    assert all(addresses[-1] == BOOTSTRAP for addresses in lists)


def test_what_was_used_longest_ago_goes_when_there_are_too_many() -> None:
    topology = Topology([BOOTSTRAP], 10.0)
    topology.learn(answer("first", "second"), 0.0)
    assert topology.topic("first", 0.0)
    topology.learn(answer(*map(str, range(known.MOST_TOPICS - 1))), 0.0)
    assert topology.topic("first", 0.0)
    assert topology.topic("second", 0.0) is None
    for number in range(known.MOST_COORDINATORS + 1):
        topology.learn_coordinator((0, str(number)), 1, ("h1", 9))
    assert topology.coordinator((0, "0")) is None
    assert topology.coordinator((0, "1")) == ("h1", 9)
    topology.forget_coordinator((0, "1"))
    assert topology.coordinator((0, "1")) is None


def test_code_is_found_wherever_it_stands() -> None:
    parts = [OffsetCommitResponsePartition(), OffsetCommitResponsePartition(error_code=ErrorCode.NOT_COORDINATOR)]
    response = OffsetCommitResponse(topics=[OffsetCommitResponseTopic(name="t", partitions=parts)])
    assert has_code(response, COORDINATOR_MOVED)
    parts[1].error_code = ErrorCode.UNKNOWN_MEMBER_ID
    assert not has_code(response, COORDINATOR_MOVED)
