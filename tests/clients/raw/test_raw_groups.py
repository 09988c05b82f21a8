"""FindCoordinator and the classic group protocol, seen from single requests."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.delete_groups import DeleteGroupsRequest
from penstock.protocol.messages.describe_groups import DescribeGroupsRequest
from penstock.protocol.messages.find_coordinator import FindCoordinatorRequest
from penstock.protocol.messages.heartbeat import HeartbeatRequest
from penstock.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from penstock.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from penstock.protocol.messages.list_groups import ListGroupsRequest
from penstock.protocol.messages.metadata import MetadataRequest
from penstock.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from tests.clients.raw.wire import Wire, error_of, new_name, until_settled

GROUP, TRANSACTION, SHARE = 0, 1, 2
OK = ErrorCode.NONE


def wait_for_coordinator(wire: Wire, group: str) -> None:
    """The first use of groups creates their topic."""
    request = FindCoordinatorRequest(key_type=GROUP, coordinator_keys=[group])
    until_settled(lambda: wire(request).coordinators[0], ErrorCode.COORDINATOR_NOT_AVAILABLE)
    until_settled(
        lambda: wire(HeartbeatRequest(group_id=group, generation_id=0, member_id="x")),
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.NOT_COORDINATOR,
    )


@pytest.fixture
def group(wire: Wire) -> str:
    name = new_name("group")
    wait_for_coordinator(wire, name)
    return name


def join_request(group: str, member: str = "", **bent: Any) -> JoinGroupRequest:
    protocols = [JoinGroupRequestProtocol(name=name, metadata=b"meta") for name in bent.pop("protocols", ("range",))]
    asked = {"session_timeout_ms": 30_000, "rebalance_timeout_ms": 30_000, "protocol_type": "consumer", **bent}
    return JoinGroupRequest(group_id=group, member_id=member, protocols=protocols, **asked)


def sync_request(group: str, generation: int, member: str, **bent: Any) -> SyncGroupRequest:
    given = bent.pop("assignments", {member: b"mine"})
    assignments = [SyncGroupRequestAssignment(member_id=one, assignment=what) for one, what in given.items()]
    asked = {"protocol_type": "consumer", "protocol_name": "range", **bent}
    return SyncGroupRequest(
        group_id=group, generation_id=generation, member_id=member, assignments=assignments, **asked
    )


class Member:
    """One member on a connection of its own, joined and synced on request."""

    def __init__(self, wire: Wire, group: str, **bent: Any) -> None:
        self.wire, self.group, self.bent = wire, group, bent
        self.id = ""
        self.generation = -1
        self.protocol_type: str | None = None
        self.protocol_name: str | None = None

    def join(self, version: int = 9) -> Any:
        answer = self.wire(join_request(self.group, self.id, **self.bent), version)
        if error_of(answer) == ErrorCode.MEMBER_ID_REQUIRED:
            self.id = answer.member_id
            answer = self.wire(join_request(self.group, self.id, **self.bent), version)
        self.id, self.generation = answer.member_id, answer.generation_id
        self.protocol_type, self.protocol_name = answer.protocol_type, answer.protocol_name
        return answer

    def sync(self, **bent: Any) -> Any:
        chosen = {"protocol_type": self.protocol_type, "protocol_name": self.protocol_name, **bent}
        return self.wire(sync_request(self.group, self.generation, self.id, **chosen))

    def heartbeat(self) -> ErrorCode:
        request = HeartbeatRequest(
            group_id=self.group,
            generation_id=self.generation,
            member_id=self.id,
            group_instance_id=self.bent.get("group_instance_id"),
        )
        return error_of(self.wire(request))


def joined(wire: Wire, group: str, **bent: Any) -> Member:
    member = Member(wire, group, **bent)
    assert error_of(member.join()) == OK
    assert error_of(member.sync()) == OK
    return member


class TestFindCoordinator:
    @pytest.mark.parametrize("version", range(4))
    def test_this_broker_is_the_coordinator_when_asked_for_one_group(
        self, wire: Wire, group: str, version: int
    ) -> None:
        answer = wire(FindCoordinatorRequest(key=group, key_type=GROUP), version)
        (broker,) = wire(MetadataRequest(topics=[])).brokers
        assert (answer.error_code, answer.node_id, answer.host, answer.port) == (
            0,
            broker.node_id,
            broker.host,
            broker.port,
        )

    @pytest.mark.parametrize("version", [4, 5, 6])
    def test_coordinators_are_found_together_when_asked_for_several(self, wire: Wire, group: str, version: int) -> None:
        keys = [group, new_name("group")]
        answer = wire(FindCoordinatorRequest(key_type=GROUP, coordinator_keys=keys), version)
        assert [(one.key, one.error_code) for one in answer.coordinators] == [(key, 0) for key in keys]

    @pytest.mark.parametrize("kind", [3, 17, -1])
    @pytest.mark.parametrize("version", [1, 2, 3])
    def test_request_is_invalid_when_the_key_type_is_unknown(self, wire: Wire, kind: int, version: int) -> None:
        answer = wire(FindCoordinatorRequest(key="x", key_type=kind), version)
        assert error_of(answer) == ErrorCode.INVALID_REQUEST
        assert (answer.node_id, answer.host, answer.port) == (-1, "", -1)

    @pytest.mark.parametrize("kind", [3, 17, -1])
    def test_request_is_invalid_for_each_key_when_the_key_type_is_unknown(self, wire: Wire, kind: int) -> None:
        answer = wire(FindCoordinatorRequest(key_type=kind, coordinator_keys=["x", "y"]))
        assert [(one.key, error_of(one), one.node_id) for one in answer.coordinators] == [
            ("x", ErrorCode.INVALID_REQUEST, -1),
            ("y", ErrorCode.INVALID_REQUEST, -1),
        ]

    def test_share_coordinator_is_refused_when_the_version_does_not_know_it(self, wire: Wire) -> None:
        answer = wire(FindCoordinatorRequest(key_type=SHARE, coordinator_keys=["x"]), 5)
        assert [error_of(one) for one in answer.coordinators] == [ErrorCode.INVALID_REQUEST]

    def test_answer_is_empty_when_no_key_is_named(self, wire: Wire) -> None:
        assert wire(FindCoordinatorRequest(key_type=GROUP, coordinator_keys=[])).coordinators == []


class TestJoining:
    @pytest.mark.parametrize("version", range(4))
    def test_first_member_leads_when_it_joins_an_old_way(self, wire: Wire, group: str, version: int) -> None:
        answer = wire(join_request(group, protocols=("range", "sticky")), version)
        assert (answer.error_code, answer.generation_id, answer.protocol_name) == (0, 1, "range")
        assert answer.leader == answer.member_id != ""
        assert [(one.member_id, one.metadata) for one in answer.members] == [(answer.member_id, b"meta")]

    @pytest.mark.parametrize("version", range(4, 10))
    def test_member_id_is_required_when_it_joins_without_one(self, wire: Wire, group: str, version: int) -> None:
        first = wire(join_request(group), version)
        assert error_of(first) == ErrorCode.MEMBER_ID_REQUIRED
        assert first.member_id.startswith("raw-")
        assert (first.generation_id, first.leader, first.members) == (-1, "", [])
        second = wire(join_request(group, first.member_id), version)
        assert (second.error_code, second.member_id, second.generation_id) == (0, first.member_id, 1)
        assert second.protocol_type == ("consumer" if version >= 7 else None)

    def test_member_is_unknown_when_it_joins_with_an_invented_id(self, wire: Wire, group: str) -> None:
        assert error_of(wire(join_request(group, "invented"))) == ErrorCode.UNKNOWN_MEMBER_ID

    @pytest.mark.parametrize("name", [""])
    def test_group_is_invalid_when_its_id_is_empty(self, wire: Wire, group: str, name: str) -> None:
        assert error_of(wire(join_request(name))) == ErrorCode.INVALID_GROUP_ID

    @pytest.mark.parametrize("timeout_ms", [5_999, 1_800_001, 0, -1])
    def test_session_timeout_is_invalid_when_out_of_bounds(self, wire: Wire, group: str, timeout_ms: int) -> None:
        answer = wire(join_request(group, session_timeout_ms=timeout_ms))
        assert error_of(answer) == ErrorCode.INVALID_SESSION_TIMEOUT

    @pytest.mark.parametrize("timeout_ms", [6_000, 1_800_000])
    def test_session_timeout_is_accepted_when_at_its_bounds(self, wire: Wire, group: str, timeout_ms: int) -> None:
        answer = wire(join_request(group, session_timeout_ms=timeout_ms))
        assert error_of(answer) == ErrorCode.MEMBER_ID_REQUIRED

    def test_protocols_are_inconsistent_when_there_are_none(self, wire: Wire, group: str) -> None:
        answer = wire(join_request(group, protocols=()))
        assert error_of(answer) == ErrorCode.INCONSISTENT_GROUP_PROTOCOL

    @pytest.mark.parametrize(
        "bent", [{"protocol_type": ""}, {"protocol_type": "connect"}, {"protocols": ("other",)}], ids=str
    )
    def test_protocols_are_inconsistent_when_they_do_not_fit_the_group(
        self, connect: Callable[[], Wire], wire: Wire, group: str, bent: dict[str, Any]
    ) -> None:
        joined(wire, group)
        answer = connect()(join_request(group, **bent), 3)
        assert error_of(answer) == ErrorCode.INCONSISTENT_GROUP_PROTOCOL

    def test_protocol_that_all_support_is_chosen_when_members_differ(
        self, connect: Callable[[], Wire], wire: Wire, group: str
    ) -> None:
        first = joined(wire, group, protocols=("sticky", "range"))
        other = connect()
        waiting = other.connection.send(join_request(group, protocols=("range", "other")), 3)
        rejoined = until_rebalance(first)
        assert rejoined.protocol_name == "range"
        assert len(rejoined.members) == 2
        answer = other.connection.receive(waiting)
        assert (answer.protocol_name, answer.generation_id, answer.members) == ("range", 2, [])
        assert answer.leader == first.id

    def test_generation_grows_when_the_leader_joins_again(self, wire: Wire, group: str) -> None:
        member = joined(wire, group)
        assert member.join().generation_id == 2


def until_rebalance(member: Member) -> Any:
    """Heartbeat until the coordinator wants a rebalance, then join it."""
    while member.heartbeat() == OK:
        pass
    return member.join()


class TestSyncing:
    @pytest.mark.parametrize("version", range(6))
    def test_assignment_of_the_leader_is_answered_when_it_syncs(self, wire: Wire, group: str, version: int) -> None:
        member = Member(wire, group)
        member.join()
        answer = wire(sync_request(group, member.generation, member.id), version)
        assert (answer.error_code, answer.assignment) == (0, b"mine")
        if version >= 5:
            assert (answer.protocol_type, answer.protocol_name) == ("consumer", "range")

    def test_assignment_is_repeated_when_a_stable_member_syncs_again(self, wire: Wire, group: str) -> None:
        member = joined(wire, group)
        assert member.sync(assignments={}).assignment == b"mine"

    def test_assignment_is_empty_when_the_leader_gave_none(self, wire: Wire, group: str) -> None:
        member = Member(wire, group)
        member.join()
        answer = member.sync(assignments={})
        assert (answer.error_code, answer.assignment) == (0, b"")

    def test_generation_is_illegal_when_it_is_not_the_current(self, wire: Wire, group: str) -> None:
        member = Member(wire, group)
        member.join()
        for generation in (0, 2):
            assert error_of(wire(sync_request(group, generation, member.id))) == ErrorCode.ILLEGAL_GENERATION

    def test_member_is_unknown_when_it_never_joined(self, wire: Wire, group: str) -> None:
        assert error_of(wire(sync_request(group, 1, "nobody"))) == ErrorCode.UNKNOWN_MEMBER_ID
        joined(wire, group)
        assert error_of(wire(sync_request(group, 1, "nobody"))) == ErrorCode.UNKNOWN_MEMBER_ID

    @pytest.mark.parametrize(
        "bent", [{"protocol_type": "connect"}, {"protocol_name": "sticky"}, {"protocol_type": None}], ids=str
    )
    def test_protocol_is_inconsistent_when_it_is_not_the_chosen(
        self, wire: Wire, group: str, bent: dict[str, Any]
    ) -> None:
        member = Member(wire, group)
        member.join()
        assert error_of(member.sync(**bent)) == ErrorCode.INCONSISTENT_GROUP_PROTOCOL

    def test_followers_get_theirs_when_the_leader_syncs(
        self, connect: Callable[[], Wire], wire: Wire, group: str
    ) -> None:
        leader = joined(wire, group)
        follower = Member(connect(), group)
        waiting = follower.wire.connection.send(join_request(group), 3)
        assert len(until_rebalance(leader).members) == 2
        follower.id = follower.wire.connection.receive(waiting).member_id
        follower.generation = leader.generation
        waiting = follower.wire.connection.send(sync_request(group, 2, follower.id, assignments={}), 5)
        answer = leader.sync(assignments={leader.id: b"first", follower.id: b"second"})
        assert answer.assignment == b"first"
        assert follower.wire.connection.receive(waiting).assignment == b"second"
        assert [leader.heartbeat(), follower.heartbeat()] == [OK, OK]


class TestHeartbeats:
    def test_member_is_unknown_when_the_group_is(self, wire: Wire, group: str) -> None:
        assert (
            error_of(wire(HeartbeatRequest(group_id=group, generation_id=1, member_id="x")))
            == ErrorCode.UNKNOWN_MEMBER_ID
        )

    def test_member_is_unknown_when_it_left(self, wire: Wire, group: str) -> None:
        member = joined(wire, group)
        wire(LeaveGroupRequest(group_id=group, members=[MemberIdentity(member_id=member.id)]))
        assert member.heartbeat() == ErrorCode.UNKNOWN_MEMBER_ID

    def test_generation_is_illegal_when_it_is_old(self, wire: Wire, group: str) -> None:
        member = joined(wire, group)
        member.generation -= 1
        assert member.heartbeat() == ErrorCode.ILLEGAL_GENERATION

    def test_heartbeat_is_accepted_when_the_group_waits_for_the_leader(self, wire: Wire, group: str) -> None:
        member = Member(wire, group)
        member.join()
        assert member.heartbeat() == OK

    @pytest.mark.parametrize("version", range(5))
    def test_heartbeat_is_accepted_when_the_group_is_stable(self, wire: Wire, group: str, version: int) -> None:
        member = joined(wire, group)
        request = HeartbeatRequest(group_id=group, generation_id=member.generation, member_id=member.id)
        assert error_of(wire(request, version)) == OK

    def test_group_is_invalid_when_its_id_is_empty(self, wire: Wire, group: str) -> None:
        request = HeartbeatRequest(group_id="", generation_id=1, member_id="x")
        assert error_of(wire(request)) == ErrorCode.INVALID_GROUP_ID


class TestLeaving:
    @pytest.mark.parametrize("version", range(3))
    def test_member_leaves_when_it_asks_an_old_way(self, wire: Wire, group: str, version: int) -> None:
        member = joined(wire, group)
        assert error_of(wire(LeaveGroupRequest(group_id=group, member_id=member.id), version)) == OK
        assert (
            error_of(wire(LeaveGroupRequest(group_id=group, member_id=member.id), version))
            == ErrorCode.UNKNOWN_MEMBER_ID
        )

    def test_members_leave_together_when_named_together(self, wire: Wire, group: str) -> None:
        member = joined(wire, group)
        names = [MemberIdentity(member_id=member.id), MemberIdentity(member_id="nobody")]
        answer = wire(LeaveGroupRequest(group_id=group, members=names))
        assert answer.error_code == 0
        assert [(one.member_id, error_of(one)) for one in answer.members] == [
            (member.id, OK),
            ("nobody", ErrorCode.UNKNOWN_MEMBER_ID),
        ]

    def test_member_is_unknown_when_the_group_is(self, wire: Wire, group: str) -> None:
        answer = wire(LeaveGroupRequest(group_id=group, members=[MemberIdentity(member_id="x")]))
        assert [error_of(answer), *map(error_of, answer.members)] == [OK, ErrorCode.UNKNOWN_MEMBER_ID]

    def test_group_is_empty_when_the_last_member_left(self, wire: Wire, group: str) -> None:
        member = joined(wire, group)
        wire(LeaveGroupRequest(group_id=group, members=[MemberIdentity(member_id=member.id)]))
        (described,) = wire(DescribeGroupsRequest(groups=[group])).groups
        assert (described.group_state, described.members) == ("Empty", [])


class TestStaticMembers:
    def test_member_joins_at_once_when_it_is_static(self, wire: Wire, group: str) -> None:
        answer = wire(join_request(group, group_instance_id="one"))
        assert answer.error_code == 0
        assert answer.member_id.startswith("one-")

    def test_generation_stays_and_the_id_changes_when_a_static_member_comes_back(
        self, connect: Callable[[], Wire], wire: Wire, group: str
    ) -> None:
        first = joined(wire, group, group_instance_id="one")
        again = Member(connect(), group, group_instance_id="one")
        answer = again.join()
        assert (answer.error_code, answer.generation_id) == (0, first.generation)
        assert answer.member_id != first.id
        assert answer.skip_assignment
        assert again.sync(assignments={}, group_instance_id="one").assignment == b"mine"

    def test_old_member_is_fenced_when_another_took_its_instance(
        self, connect: Callable[[], Wire], wire: Wire, group: str
    ) -> None:
        first = joined(wire, group, group_instance_id="one")
        Member(connect(), group, group_instance_id="one").join()
        assert first.heartbeat() == ErrorCode.FENCED_INSTANCE_ID
        assert error_of(first.sync(group_instance_id="one")) == ErrorCode.FENCED_INSTANCE_ID
        answer = wire(join_request(group, first.id, group_instance_id="one"))
        assert error_of(answer) == ErrorCode.FENCED_INSTANCE_ID

    def test_member_leaves_by_instance_when_only_that_is_named(self, wire: Wire, group: str) -> None:
        joined(wire, group, group_instance_id="one")
        names = [
            MemberIdentity(member_id="", group_instance_id="one"),
            MemberIdentity(member_id="", group_instance_id="two"),
        ]
        answer = wire(LeaveGroupRequest(group_id=group, members=names))
        assert [(one.group_instance_id, error_of(one)) for one in answer.members] == [
            ("one", OK),
            ("two", ErrorCode.UNKNOWN_MEMBER_ID),
        ]

    def test_instance_is_fenced_when_it_leaves_with_a_wrong_member_id(self, wire: Wire, group: str) -> None:
        joined(wire, group, group_instance_id="one")
        names = [MemberIdentity(member_id="wrong", group_instance_id="one")]
        (answer,) = wire(LeaveGroupRequest(group_id=group, members=names)).members
        assert error_of(answer) == ErrorCode.FENCED_INSTANCE_ID


class TestDescribeListDelete:
    @pytest.mark.parametrize("version", range(7))
    def test_stable_group_is_described_when_asked(self, wire: Wire, group: str, version: int) -> None:
        member = joined(wire, group, group_instance_id="one")
        (described,) = wire(DescribeGroupsRequest(groups=[group]), version).groups
        assert (described.error_code, described.group_id, described.group_state) == (0, group, "Stable")
        assert (described.protocol_type, described.protocol_data) == ("consumer", "range")
        (one,) = described.members
        assert (one.member_id, one.client_id, one.client_host) == (member.id, "raw", "/127.0.0.1")
        assert (one.member_metadata, one.member_assignment) == (b"meta", b"mine")
        assert one.group_instance_id == ("one" if version >= 4 else None)

    def test_group_waits_when_its_leader_has_not_synced(self, wire: Wire, group: str) -> None:
        Member(wire, group).join()
        (described,) = wire(DescribeGroupsRequest(groups=[group])).groups
        assert (described.group_state, described.protocol_data) == ("CompletingRebalance", "")

    @pytest.mark.parametrize("version", [0, 5])
    def test_group_is_dead_when_unknown(self, wire: Wire, group: str, version: int) -> None:
        (described,) = wire(DescribeGroupsRequest(groups=[group]), version).groups
        assert (described.error_code, described.group_state, described.members) == (0, "Dead", [])

    def test_group_is_not_found_when_unknown_and_the_version_can_say_so(self, wire: Wire, group: str) -> None:
        (described,) = wire(DescribeGroupsRequest(groups=[group]), 6).groups
        assert (error_of(described), described.group_state) == (ErrorCode.GROUP_ID_NOT_FOUND, "Dead")
        assert described.error_message

    @pytest.mark.parametrize("version", range(6))
    def test_group_is_listed_when_it_has_members(self, wire: Wire, group: str, version: int) -> None:
        joined(wire, group)
        answer = wire(ListGroupsRequest(), version)
        (listed,) = [one for one in answer.groups if one.group_id == group]
        assert listed.protocol_type == "consumer"
        assert listed.group_state == ("Stable" if version >= 4 else "")
        assert listed.group_type == ("classic" if version >= 5 else "")

    @pytest.mark.parametrize(
        ("filters", "is_listed"),
        [
            ({"states_filter": ["Stable"]}, True),
            ({"states_filter": ["stable", "Empty"]}, True),
            ({"states_filter": ["Empty"]}, False),
            ({"types_filter": ["classic"]}, True),
            ({"types_filter": ["Classic"]}, True),
            ({"types_filter": ["consumer"]}, False),
            ({"types_filter": ["classic"], "states_filter": ["Dead"]}, False),
            ({"states_filter": ["NoSuchState"]}, False),
        ],
        ids=str,
    )
    def test_groups_are_left_out_when_a_filter_does_not_match(
        self, wire: Wire, group: str, filters: dict[str, list[str]], is_listed: bool
    ) -> None:
        joined(wire, group)
        answer = wire(ListGroupsRequest(**filters))
        assert answer.error_code == 0
        assert (group in {one.group_id for one in answer.groups}) == is_listed

    @pytest.mark.parametrize("version", range(3))
    def test_group_is_deleted_only_when_it_has_no_members(self, wire: Wire, group: str, version: int) -> None:
        member = joined(wire, group)
        unknown = new_name("group")
        answer = wire(DeleteGroupsRequest(groups_names=[group, unknown]), version)
        assert {one.group_id: error_of(one) for one in answer.results} == {
            group: ErrorCode.NON_EMPTY_GROUP,
            unknown: ErrorCode.GROUP_ID_NOT_FOUND,
        }
        wire(LeaveGroupRequest(group_id=group, members=[MemberIdentity(member_id=member.id)]))
        answer = wire(DeleteGroupsRequest(groups_names=[group]), version)
        assert [error_of(one) for one in answer.results] == [OK]
        assert group not in {one.group_id for one in wire(ListGroupsRequest()).groups}
