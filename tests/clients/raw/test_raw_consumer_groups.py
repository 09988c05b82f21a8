"""ConsumerGroupHeartbeat and ConsumerGroupDescribe (KIP-848), seen from single requests."""

from __future__ import annotations

import time
import uuid
from typing import Any

import pytest

from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.api_versions import ApiVersionsRequest
from penstock.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from penstock.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatRequestTopicPartitions,
)
from penstock.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from penstock.protocol.messages.delete_groups import DeleteGroupsRequest
from penstock.protocol.messages.describe_groups import DescribeGroupsRequest
from penstock.protocol.messages.list_groups import ListGroupsRequest
from penstock.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from penstock.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from tests.clients.raw.test_raw_groups import wait_for_coordinator
from tests.clients.raw.wire import SETTLE_TIMEOUT_S, Topic, Wire, create_topic, error_of, new_name

OK = ErrorCode.NONE
CONSUMER = 1


@pytest.fixture
def group(wire: Wire) -> str:
    name = new_name("group")
    wait_for_coordinator(wire, name)
    return name


@pytest.fixture
def topic(wire: Wire) -> Topic:
    return create_topic(wire, partitions=4)


class Consumer:
    """A member that does at once what it is told."""

    def __init__(self, wire: Wire, group: str, instance: str | None = None, member: str | None = None) -> None:
        self.wire, self.group, self.instance = wire, group, instance
        self.member = uuid.uuid4().hex if member is None else member
        self.epoch = 0
        self.owned: dict[bytes, list[int]] = {}
        self.subscription: dict[str, Any] = {}

    def send(self, epoch: int, version: int | None = None, **bent: Any) -> Any:
        request = {"group_id": self.group, "member_id": self.member, "instance_id": self.instance, **bent}
        return self.wire(ConsumerGroupHeartbeatRequest(member_epoch=epoch, **request), version)

    def join(self, *topics: str, version: int | None = None, **bent: Any) -> Any:
        self.subscription = {"subscribed_topic_names": list(topics) or None, "rebalance_timeout_ms": 30_000, **bent}
        answer = self.send(0, version, **{"topic_partitions": [], **self.subscription})
        return self.obey(answer)

    def beat(self, **bent: Any) -> Any:
        owned = [
            ConsumerGroupHeartbeatRequestTopicPartitions(topic_id=topic, partitions=partitions)
            for topic, partitions in self.owned.items()
        ]
        return self.obey(self.send(self.epoch, **{"topic_partitions": owned, **bent}))

    def obey(self, answer: Any) -> Any:
        if answer.error_code == OK:
            self.member, self.epoch = answer.member_id, answer.member_epoch
            if answer.assignment is not None:
                self.owned = {each.topic_id: sorted(each.partitions) for each in answer.assignment.topic_partitions}
        return answer

    @property
    def partitions(self) -> list[int]:
        return sorted(index for partitions in self.owned.values() for index in partitions)


def settle(wire: Wire, group: str, *members: Consumer) -> Any:
    """Everybody sends heartbeats until the group is stable; how the group is then described."""
    deadline = time.monotonic() + SETTLE_TIMEOUT_S
    while True:
        for member in members:
            assert error_of(member.beat()) == OK
        described = describe(wire, group)
        if described.group_state == "Stable":
            return described
        assert time.monotonic() < deadline, described.group_state
        time.sleep(0.1)


def describe(wire: Wire, group: str) -> Any:
    (described,) = wire(ConsumerGroupDescribeRequest(group_ids=[group])).groups
    return described


# ------------------------------------------------------------------------------------------------ who may join


def test_group_version_is_told_when_a_client_asks_for_features(wire: Wire) -> None:
    answer = wire(ApiVersionsRequest(client_software_name="raw", client_software_version="1"))
    levels = {feature.name: feature.max_version_level for feature in answer.finalized_features}
    assert levels["group.version"] == 1
    assert {key.api_key: key.max_version for key in answer.api_keys}.items() >= {68: 1, 69: 1}.items()


@pytest.mark.parametrize(
    ("bent", "error"),
    [
        ({"member_id": ""}, ErrorCode.INVALID_REQUEST),
        ({"instance_id": ""}, ErrorCode.INVALID_REQUEST),
        ({"rack_id": ""}, ErrorCode.INVALID_REQUEST),
        ({"rebalance_timeout_ms": -1}, ErrorCode.INVALID_REQUEST),
        ({"topic_partitions": None}, ErrorCode.INVALID_REQUEST),
        ({"subscribed_topic_names": None}, ErrorCode.INVALID_REQUEST),
        ({"server_assignor": "mine"}, ErrorCode.UNSUPPORTED_ASSIGNOR),
        ({"subscribed_topic_regex": "("}, ErrorCode.INVALID_REGULAR_EXPRESSION),
        ({"subscribed_topic_regex": "(?=a)"}, ErrorCode.INVALID_REGULAR_EXPRESSION),
        ({"subscribed_topic_regex": "a**"}, ErrorCode.INVALID_REGULAR_EXPRESSION),
    ],
)
def test_join_is_refused_when_it_makes_no_sense(wire: Wire, group: str, bent: dict[str, Any], error: ErrorCode) -> None:
    answer = Consumer(wire, group).join(**{"subscribed_topic_names": ["x"], **bent})
    assert error_of(answer) == error
    assert answer.error_message
    assert error_of(describe(wire, group)) == ErrorCode.GROUP_ID_NOT_FOUND


def test_group_id_is_invalid_when_it_is_empty(wire: Wire, group: str) -> None:
    assert error_of(Consumer(wire, "").join("x")) == ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize("epoch", [-3, -2])
def test_epoch_is_refused_when_it_has_no_meaning(wire: Wire, group: str, epoch: int) -> None:
    assert error_of(Consumer(wire, group).send(epoch)) == ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize("epoch", [-1, 1])
def test_heartbeat_is_refused_when_the_group_does_not_exist(wire: Wire, group: str, epoch: int) -> None:
    assert error_of(Consumer(wire, group).send(epoch)) == ErrorCode.GROUP_ID_NOT_FOUND


def test_member_id_is_made_up_when_the_client_speaks_version_0(wire: Wire, group: str, topic: Topic) -> None:
    answer = Consumer(wire, group, member="").join(topic.name, version=0)
    assert error_of(answer) == OK
    assert answer.member_id


# ------------------------------------------------------------------------------------------------ assignment


def test_member_gets_everything_when_it_is_alone(wire: Wire, group: str, topic: Topic) -> None:
    member = Consumer(wire, group)
    answer = member.join(topic.name)
    assert (answer.member_epoch, answer.member_id) == (2, member.member)
    assert answer.heartbeat_interval_ms == 5_000
    assert member.owned == {topic.id: [0, 1, 2, 3]}
    assert member.beat().assignment is None
    assert member.send(2).assignment is None


def test_partitions_move_when_their_owner_gave_them_up(wire: Wire, group: str, topic: Topic) -> None:
    first, second = Consumer(wire, group), Consumer(wire, group)
    first.join(topic.name)
    time.sleep(1.1)  # at least a second between two targets, here and in Kafka
    assert second.join(topic.name).member_epoch == 3
    assert second.partitions == []
    told = first.beat()
    assert told.member_epoch == 2
    assert len(first.partitions) == 2
    assert second.beat().assignment is None
    assert describe(wire, group).group_state == "Reconciling"
    assert first.beat().member_epoch == 3
    second.beat()
    assert sorted(first.partitions + second.partitions) == [0, 1, 2, 3]
    assert describe(wire, group).group_state == "Stable"


def test_target_waits_when_the_last_one_is_too_recent(wire: Wire, group: str, topic: Topic) -> None:
    first, second = Consumer(wire, group), Consumer(wire, group)
    first.join(topic.name)
    assert second.join(topic.name).member_epoch == 2
    described = describe(wire, group)
    assert (described.group_state, described.group_epoch, described.assignment_epoch) == ("Assigning", 3, 2)


@pytest.mark.parametrize("assignor", ["uniform", "range"])
def test_partitions_are_shared_when_an_assignor_is_asked_for(
    wire: Wire, group: str, topic: Topic, assignor: str
) -> None:
    members = [Consumer(wire, group) for _ in range(3)]
    for member in members:
        assert error_of(member.join(topic.name, server_assignor=assignor)) == OK
    described = settle(wire, group, *members)
    assert described.assignor_name == assignor
    assert sorted(index for member in members for index in member.partitions) == [0, 1, 2, 3]
    assert sorted(len(member.partitions) for member in members) == [1, 1, 2]


def test_new_partitions_are_assigned_when_a_topic_gets_some(wire: Wire, group: str, topic: Topic) -> None:
    member = Consumer(wire, group)
    member.join(topic.name)
    wire(CreatePartitionsRequest(topics=[CreatePartitionsTopic(name=topic.name, count=6)], timeout_ms=30_000))
    deadline = time.monotonic() + SETTLE_TIMEOUT_S
    while len(member.partitions) < 6:
        assert time.monotonic() < deadline
        time.sleep(0.1)
        member.beat()
    assert member.epoch == 3


def test_topics_are_found_when_a_regular_expression_names_them(wire: Wire, group: str, topic: Topic) -> None:
    member = Consumer(wire, group)
    answer = member.join(subscribed_topic_names=None, subscribed_topic_regex=f"{topic.name[:-2]}..")
    assert error_of(answer) == OK
    deadline = time.monotonic() + SETTLE_TIMEOUT_S
    while member.partitions != [0, 1, 2, 3]:
        assert time.monotonic() < deadline
        time.sleep(0.1)
        member.beat()
    (described,) = describe(wire, group).members
    assert described.subscribed_topic_regex == f"{topic.name[:-2]}.."
    assert described.subscribed_topic_names == []


# ------------------------------------------------------------------------------------------------ fencing


def test_member_is_fenced_when_its_epoch_is_wrong(wire: Wire, group: str, topic: Topic) -> None:
    member = Consumer(wire, group)
    member.join(topic.name)
    assert error_of(member.send(3)) == ErrorCode.FENCED_MEMBER_EPOCH
    assert error_of(Consumer(wire, group).send(1)) == ErrorCode.UNKNOWN_MEMBER_ID
    assert error_of(Consumer(wire, group).send(-1)) == ErrorCode.UNKNOWN_MEMBER_ID
    assert error_of(member.join(topic.name)) == OK


def test_static_member_keeps_its_partitions_when_it_comes_back(wire: Wire, group: str, topic: Topic) -> None:
    first, second = Consumer(wire, group, "a"), Consumer(wire, group, "a")
    first.join(topic.name)
    assert error_of(second.join(topic.name)) == ErrorCode.UNRELEASED_INSTANCE_ID
    assert error_of(second.send(1)) == ErrorCode.FENCED_INSTANCE_ID
    left = first.send(-2)
    assert (error_of(left), left.member_epoch) == (OK, -2)
    answer = second.join(topic.name)
    assert (error_of(answer), answer.member_epoch) == (OK, 2)
    assert second.partitions == [0, 1, 2, 3]
    assert error_of(first.send(1)) == ErrorCode.FENCED_INSTANCE_ID
    assert error_of(Consumer(wire, group, "b").send(1)) == ErrorCode.UNKNOWN_MEMBER_ID


# ------------------------------------------------------------------------------------------------ administration


def test_group_is_described_when_it_is_stable(wire: Wire, group: str, topic: Topic) -> None:
    member = Consumer(wire, group, "instance")
    member.join(topic.name, rack_id="rack")
    described = describe(wire, group)
    assert error_of(described) == OK
    assert (described.group_state, described.group_epoch, described.assignment_epoch) == ("Stable", 2, 2)
    assert described.assignor_name == "uniform"
    (one,) = described.members
    assert (one.member_id, one.instance_id, one.rack_id, one.member_epoch) == (member.member, "instance", "rack", 2)
    assert (one.client_id, one.client_host, one.member_type) == ("raw", "/127.0.0.1", CONSUMER)
    assert (one.subscribed_topic_names, one.subscribed_topic_regex) == ([topic.name], "")
    for assignment in (one.assignment, one.target_assignment):
        (assigned,) = assignment.topic_partitions
        assert (assigned.topic_id, assigned.topic_name, sorted(assigned.partitions)) == (
            topic.id,
            topic.name,
            [0, 1, 2, 3],
        )


def test_group_is_not_found_when_it_is_described_as_the_other_kind(wire: Wire, group: str, topic: Topic) -> None:
    Consumer(wire, group).join(topic.name)
    (classic,) = wire(DescribeGroupsRequest(groups=[group])).groups
    assert (error_of(classic), classic.group_state) == (ErrorCode.GROUP_ID_NOT_FOUND, "Dead")
    assert classic.error_message == f"Group {group} is not a classic group."
    (older,) = wire(DescribeGroupsRequest(groups=[group]), 5).groups
    assert (error_of(older), older.group_state) == (OK, "Dead")
    missing = describe(wire, group + "x")
    assert (error_of(missing), missing.error_message) == (ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group}x not found.")


def test_group_is_listed_when_its_type_is_asked_for(wire: Wire, group: str, topic: Topic) -> None:
    Consumer(wire, group).join(topic.name)
    listed = {each.group_id: each for each in wire(ListGroupsRequest(types_filter=["consumer"])).groups}
    assert (listed[group].protocol_type, listed[group].group_state, listed[group].group_type) == (
        "consumer",
        "Stable",
        "consumer",
    )
    assert group not in {each.group_id for each in wire(ListGroupsRequest(types_filter=["classic"])).groups}


def test_group_is_deleted_when_it_is_empty(wire: Wire, group: str, topic: Topic) -> None:
    member = Consumer(wire, group)
    member.join(topic.name)
    (refused,) = wire(DeleteGroupsRequest(groups_names=[group])).results
    assert error_of(refused) == ErrorCode.NON_EMPTY_GROUP
    left = member.send(-1)
    assert (error_of(left), left.member_epoch, left.member_id) == (OK, -1, member.member)
    assert describe(wire, group).group_state == "Empty"
    (deleted,) = wire(DeleteGroupsRequest(groups_names=[group])).results
    assert error_of(deleted) == OK
    assert error_of(describe(wire, group)) == ErrorCode.GROUP_ID_NOT_FOUND


# ------------------------------------------------------------------------------------------------ offsets


def commit(wire: Wire, group: str, topic: Topic, member: str, epoch: int, version: int = 9) -> ErrorCode:
    offsets = [OffsetCommitRequestPartition(partition_index=0, committed_offset=5)]
    request = OffsetCommitRequest(
        group_id=group,
        generation_id_or_member_epoch=epoch,
        member_id=member,
        topics=[OffsetCommitRequestTopic(name=topic.name, partitions=offsets)],
    )
    return error_of(wire(request, version).topics[0].partitions[0])


def fetch(wire: Wire, group: str, topic: Topic, member: str | None, epoch: int) -> tuple[ErrorCode, int]:
    topics = [OffsetFetchRequestTopics(name=topic.name, partition_indexes=[0])]
    asked = OffsetFetchRequestGroup(group_id=group, member_id=member, member_epoch=epoch, topics=topics)
    (answer,) = wire(OffsetFetchRequest(groups=[asked]), 9).groups
    offset = answer.topics[0].partitions[0].committed_offset if answer.topics else -1
    return error_of(answer), offset


def test_offsets_are_guarded_when_the_epoch_is_wrong(wire: Wire, group: str, topic: Topic) -> None:
    member = Consumer(wire, group)
    member.join(topic.name)
    assert commit(wire, group, topic, member.member, 3) == ErrorCode.STALE_MEMBER_EPOCH
    assert commit(wire, group, topic, member.member, 1) == ErrorCode.STALE_MEMBER_EPOCH
    assert commit(wire, group, topic, "unknown", 1) == ErrorCode.UNKNOWN_MEMBER_ID
    assert commit(wire, group, topic, "", -1) == ErrorCode.UNKNOWN_MEMBER_ID
    assert commit(wire, group, topic, member.member, 2, version=8) == ErrorCode.UNSUPPORTED_VERSION
    assert commit(wire, group, topic, member.member, 2) == OK
    assert fetch(wire, group, topic, member.member, 2) == (OK, 5)
    assert fetch(wire, group, topic, None, -1) == (OK, 5)
    assert fetch(wire, group, topic, member.member, 3) == (ErrorCode.STALE_MEMBER_EPOCH, -1)
    assert fetch(wire, group, topic, "unknown", 1) == (ErrorCode.UNKNOWN_MEMBER_ID, -1)


def test_older_epoch_may_commit_when_the_partition_was_assigned_before(wire: Wire, group: str, topic: Topic) -> None:
    first, second = Consumer(wire, group), Consumer(wire, group)
    first.join(topic.name)
    second.join(topic.name)
    settle(wire, group, first, second)
    owner, other = (first, second) if 0 in first.partitions else (second, first)
    error = commit(wire, group, topic, owner.member, 2)
    assert error == (OK if owner is first else ErrorCode.STALE_MEMBER_EPOCH)
    assert commit(wire, group, topic, other.member, 2) == ErrorCode.STALE_MEMBER_EPOCH
