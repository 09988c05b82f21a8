"""Groups that change between the classic protocol and KIP-848, seen from single requests."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

from penstock.protocol.codec import encode
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.consumer_protocol_subscription import ConsumerProtocolSubscription
from penstock.protocol.messages.heartbeat import HeartbeatRequest
from penstock.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from penstock.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from penstock.protocol.messages.list_groups import ListGroupsRequest
from penstock.protocol.messages.sync_group import SyncGroupRequest
from tests.clients.raw.test_raw_consumer_groups import Consumer, commit, describe, fetch
from tests.clients.raw.test_raw_groups import wait_for_coordinator
from tests.clients.raw.wire import Topic, Wire, create_topic, error_of, new_name

OK = ErrorCode.NONE
CLASSIC, CONSUMER = 0, 1


@pytest.fixture
def group(wire: Wire) -> str:
    name = new_name("group")
    wait_for_coordinator(wire, name)
    return name


@pytest.fixture
def topic(wire: Wire) -> Topic:
    return create_topic(wire, partitions=4)


def subscription(topic: Topic, version: int = 1) -> bytes:
    return version.to_bytes(2, "big") + encode(ConsumerProtocolSubscription(topics=[topic.name]), version)


class ClassicMember:
    def __init__(self, wire: Wire, group: str, topic: Topic) -> None:
        self.wire, self.group, self.topic = wire, group, topic
        self.member, self.generation = "", -1
        self.leads = False

    def join(self) -> Any:
        protocols = [JoinGroupRequestProtocol(name="range", metadata=subscription(self.topic))]
        request = JoinGroupRequest(
            group_id=self.group,
            member_id=self.member,
            protocols=protocols,
            protocol_type="consumer",
            session_timeout_ms=30_000,
            rebalance_timeout_ms=30_000,
        )
        answer = self.wire(request)
        if answer.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            request.member_id = answer.member_id
            answer = self.wire(request)
        self.member, self.generation = answer.member_id, answer.generation_id
        self.leads = answer.leader == answer.member_id
        return answer

    def sync(self, **bent: Any) -> Any:
        request = {"protocol_type": "consumer", "protocol_name": "range", **bent}
        return self.wire(
            SyncGroupRequest(
                group_id=self.group, generation_id=self.generation, member_id=self.member, assignments=[], **request
            )
        )

    def beat(self) -> ErrorCode:
        request = HeartbeatRequest(group_id=self.group, generation_id=self.generation, member_id=self.member)
        return error_of(self.wire(request))

    def leave(self) -> ErrorCode:
        request = LeaveGroupRequest(group_id=self.group, members=[MemberIdentity(member_id=self.member)])
        return error_of(self.wire(request).members[0])


def test_group_changes_its_protocol_when_members_of_the_other_come_and_go(
    connect: Callable[[], Wire], group: str, topic: Topic
) -> None:
    wire = connect()
    old = ClassicMember(connect(), group, topic)
    assert error_of(old.join()) == OK
    assert error_of(old.sync()) == OK
    new = Consumer(wire, group)
    answer = new.join(topic.name)
    assert error_of(answer) == OK
    assert answer.member_epoch == old.generation + 1
    described = describe(wire, group)
    assert {member.member_id: member.member_type for member in described.members} == {
        old.member: CLASSIC,
        new.member: CONSUMER,
    }
    assert old.beat() == ErrorCode.REBALANCE_IN_PROGRESS
    rejoined = old.join()
    assert error_of(rejoined) == OK
    assert (rejoined.generation_id, rejoined.leader, rejoined.members) == (new.epoch, "", [])
    synced = old.sync()
    assert error_of(synced) == OK
    assert topic.name.encode() in bytes(synced.assignment)
    assert old.beat() == OK
    new.beat()
    assert len(new.partitions) == 2
    assert describe(wire, group).group_state == "Stable"
    assert error_of(new.send(-1)) == OK
    listed = {each.group_id: each for each in wire(ListGroupsRequest()).groups}
    assert listed[group].group_type == "classic"
    assert old.beat() == ErrorCode.REBALANCE_IN_PROGRESS
    assert error_of(old.join()) == OK
    assert old.leads
    assert error_of(old.sync()) == OK


def test_classic_member_is_judged_by_its_epoch_when_the_group_is_the_new_kind(
    connect: Callable[[], Wire], group: str, topic: Topic
) -> None:
    new = Consumer(connect(), group)
    new.join(topic.name)
    old = ClassicMember(connect(), group, topic)
    time.sleep(1.1)  # at least a second between two targets
    assert error_of(old.join()) == OK
    assert old.generation == 3
    assert error_of(old.sync(protocol_name="other")) == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert error_of(old.sync()) == OK
    old.generation = 1
    assert error_of(old.sync()) == ErrorCode.ILLEGAL_GENERATION
    assert old.beat() == ErrorCode.ILLEGAL_GENERATION
    new_as_old = ClassicMember(connect(), group, topic)
    new_as_old.member, new_as_old.generation = new.member, new.epoch
    assert new_as_old.beat() == ErrorCode.UNKNOWN_MEMBER_ID
    assert error_of(new_as_old.sync()) == ErrorCode.UNKNOWN_MEMBER_ID
    assert old.leave() == OK
    assert old.leave() == ErrorCode.UNKNOWN_MEMBER_ID
    assert [member.member_id for member in describe(connect(), group).members] == [new.member]


def test_empty_group_changes_its_kind_when_a_member_of_the_other_protocol_joins(
    connect: Callable[[], Wire], group: str, topic: Topic
) -> None:
    wire = connect()
    new = Consumer(wire, group)
    new.join(topic.name)
    assert commit(wire, group, topic, new.member, new.epoch) == OK
    new.send(-1)
    old = ClassicMember(connect(), group, topic)
    assert error_of(old.join()) == OK
    assert old.leads
    assert error_of(describe(wire, group)) == ErrorCode.GROUP_ID_NOT_FOUND
    assert fetch(wire, group, topic, None, -1) == (OK, 5)
    old.leave()
    again = Consumer(wire, group)
    assert error_of(again.join(topic.name)) == OK
    assert describe(wire, group).group_state == "Stable"
    assert fetch(wire, group, topic, again.member, again.epoch) == (OK, 5)


def test_classic_group_is_not_upgraded_when_it_does_not_consume(
    connect: Callable[[], Wire], group: str, topic: Topic
) -> None:
    wire = connect()
    protocols = [JoinGroupRequestProtocol(name="x", metadata=b"meta")]
    request = JoinGroupRequest(
        group_id=group,
        protocols=protocols,
        protocol_type="connect",
        session_timeout_ms=30_000,
        rebalance_timeout_ms=30_000,
    )
    request.member_id = wire(request).member_id
    assert error_of(wire(request)) == OK
    assert error_of(Consumer(wire, group).join(topic.name)) == ErrorCode.GROUP_ID_NOT_FOUND
