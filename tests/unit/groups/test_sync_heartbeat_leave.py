from __future__ import annotations

from typing import Any

import pytest

from penstock.groups.operations.table import DESCRIBE_GROUP
from penstock.groups.requests import DescribeGroupRequest, LeavingMember
from penstock.groups.results import MemberLeft
from penstock.protocol.errors import ErrorCode
from tests.unit.groups.harness import GROUP, REBALANCE_MS, SESSION_MS, Runtime


def joined_pair(runtime: Runtime, **more: Any) -> list[str]:
    """Two members that know their generation and have not asked for their assignment."""
    members = [runtime.new_member_id(**more) for _ in range(2)]
    for member in members:
        runtime.join(member, **more)
    runtime.advance(6_000)
    return members


def test_follower_waits_when_the_leader_has_not_assigned_yet() -> None:
    runtime = Runtime()
    leader, follower = joined_pair(runtime)
    waiting = runtime.sync(follower, 1)
    assert runtime.is_parked(waiting)
    own = runtime.sync(leader, 1, {leader: b"L", follower: b"F"})
    assert (runtime.synced(own).assignment, runtime.synced(waiting).assignment) == (b"L", b"F")
    assert (runtime.synced(own).protocol_type, runtime.synced(own).protocol_name) == ("consumer", "range")
    assert runtime.state() == "Stable"


def test_assignment_is_empty_when_the_leader_forgot_a_member() -> None:
    runtime = Runtime()
    leader, follower = joined_pair(runtime)
    runtime.sync(leader, 1, {leader: b"L", "stranger": b"S"})
    assert runtime.synced(runtime.sync(follower, 1)).assignment == b""
    assert len(runtime.groups.shards.read(DESCRIBE_GROUP, DescribeGroupRequest(GROUP)).members) == 2


def test_followers_assignments_are_ignored_when_it_sends_some() -> None:
    runtime = Runtime()
    leader, follower = joined_pair(runtime)
    waiting = runtime.sync(follower, 1, {follower: b"all"})
    runtime.sync(leader, 1, {follower: b"some"})
    assert runtime.synced(waiting).assignment == b"some"


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({"member_id": "stranger"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"group_instance_id": "stranger"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"generation_id": 0}, ErrorCode.ILLEGAL_GENERATION),
        ({"generation_id": 2}, ErrorCode.ILLEGAL_GENERATION),
        ({"protocol_type": "connect"}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocol_name": "sticky"}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocol_type": "consumer", "protocol_name": "range"}, ErrorCode.NONE),
    ],
)
def test_sync_is_checked_when_a_member_asks(changed: dict[str, Any], expected: ErrorCode) -> None:
    runtime = Runtime()
    leader, _ = runtime.stable_group()
    values: dict[str, Any] = {"member_id": leader, "generation_id": 1, **changed}
    assert runtime.synced(runtime.sync(**values)).error is expected


def test_sync_is_refused_when_the_group_is_not_there_or_empty() -> None:
    runtime = Runtime()
    assert runtime.synced(runtime.sync("anybody", 1)).error is ErrorCode.UNKNOWN_MEMBER_ID
    runtime.new_member_id()
    assert runtime.synced(runtime.sync("anybody", 1)).error is ErrorCode.UNKNOWN_MEMBER_ID


def test_sync_is_refused_when_a_rebalance_has_begun() -> None:
    runtime = Runtime()
    leader, follower = runtime.stable_group()
    runtime.join(leader)
    assert runtime.synced(runtime.sync(follower, 1)).error is ErrorCode.REBALANCE_IN_PROGRESS


def test_earlier_sync_is_answered_when_the_member_asks_on_a_new_connection() -> None:
    runtime = Runtime()
    leader, follower = joined_pair(runtime)
    earlier, later = runtime.sync(follower, 1), runtime.sync(follower, 1)
    assert runtime.synced(earlier).error is ErrorCode.REBALANCE_IN_PROGRESS
    runtime.sync(leader, 1, {follower: b"F"})
    assert runtime.synced(later).assignment == b"F"


def test_silent_members_are_out_when_they_do_not_ask_for_their_assignment() -> None:
    runtime = Runtime()
    leader, follower = joined_pair(runtime, session_timeout_ms=1_800_000)
    waiting = runtime.sync(follower, 1)
    runtime.advance(REBALANCE_MS)
    assert runtime.synced(waiting).error is ErrorCode.REBALANCE_IN_PROGRESS
    assert runtime.heartbeat(leader, 1) is ErrorCode.UNKNOWN_MEMBER_ID
    token = runtime.join(follower)
    assert (runtime.joined(token).leader, runtime.joined(token).generation_id) == (follower, 2)


def test_silent_follower_is_out_when_the_group_is_stable_without_it() -> None:
    runtime = Runtime()
    leader, follower = joined_pair(runtime, session_timeout_ms=1_800_000)
    runtime.sync(leader, 1, {})
    assert runtime.state() == "Stable"
    runtime.advance(REBALANCE_MS)
    assert runtime.heartbeat(follower, 1) is ErrorCode.UNKNOWN_MEMBER_ID
    assert runtime.heartbeat(leader, 1) is ErrorCode.REBALANCE_IN_PROGRESS


def test_waiting_member_is_not_expired_when_the_leader_takes_longer_than_its_session() -> None:
    runtime = Runtime()
    leader, follower = joined_pair(runtime)
    waiting = runtime.sync(follower, 1)
    for _ in range(4):
        runtime.advance(SESSION_MS - 1)
        assert runtime.heartbeat(leader, 1) is ErrorCode.NONE
    runtime.sync(leader, 1, {follower: b"F"})
    assert runtime.synced(waiting).assignment == b"F"
    runtime.advance(SESSION_MS)
    assert runtime.heartbeat(follower, 1) is ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize("error", [ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_ENOUGH_REPLICAS])
def test_rebalance_begins_again_when_the_assignment_cannot_be_written(error: ErrorCode) -> None:
    runtime = Runtime()
    leader, follower = joined_pair(runtime)
    waiting = runtime.sync(follower, 1)
    runtime.fail_appends_with = error
    own = runtime.sync(leader, 1, {leader: b"L", follower: b"F"})
    expected = {
        ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
        ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    }[error]
    assert runtime.synced(own).error is runtime.synced(waiting).error is expected
    assert (runtime.synced(own).assignment, runtime.synced(waiting).assignment) == (b"", b"")
    assert runtime.state() == "PreparingRebalance"
    runtime.fail_appends_with = None
    tokens = [runtime.join(leader), runtime.join(follower)]
    assert {runtime.joined(token).generation_id for token in tokens} == {2}
    runtime.finish([leader, follower], 2)


# ---------------------------------------------------------------------------------------------------- Heartbeat


def test_heartbeat_is_checked_when_a_member_sends_one() -> None:
    runtime = Runtime()
    leader, _ = runtime.stable_group()
    assert runtime.heartbeat(leader, 1) is ErrorCode.NONE
    assert runtime.heartbeat(leader, 2) is ErrorCode.ILLEGAL_GENERATION
    assert runtime.heartbeat("stranger", 1) is ErrorCode.UNKNOWN_MEMBER_ID
    assert runtime.heartbeat(leader, 1, group_id="other") is ErrorCode.UNKNOWN_MEMBER_ID
    assert runtime.heartbeat(leader, 1, group_id="") is ErrorCode.INVALID_GROUP_ID


def test_heartbeat_is_accepted_when_the_assignment_is_awaited() -> None:
    runtime = Runtime()
    leader, _ = joined_pair(runtime)
    assert runtime.heartbeat(leader, 1) is ErrorCode.NONE


def test_rebalance_begins_when_a_session_expires() -> None:
    runtime = Runtime()
    leader, follower = runtime.stable_group()
    runtime.advance(SESSION_MS - 1)
    assert runtime.heartbeat(leader, 1) is ErrorCode.NONE
    runtime.advance(1)
    assert runtime.heartbeat(follower, 1) is ErrorCode.UNKNOWN_MEMBER_ID
    assert runtime.heartbeat(leader, 1) is ErrorCode.REBALANCE_IN_PROGRESS


def test_group_is_empty_when_all_sessions_expire() -> None:
    runtime = Runtime()
    runtime.stable_group(3)
    runtime.advance(SESSION_MS)
    assert runtime.state() == Runtime(log=runtime.log).state() == "Empty"


# ---------------------------------------------------------------------------------------------------- LeaveGroup


def test_each_member_has_its_own_answer_when_several_leave() -> None:
    runtime = Runtime()
    leader, follower = runtime.stable_group()
    result = runtime.leave(LeavingMember(follower), LeavingMember("stranger"), LeavingMember(follower))
    assert result.members == (
        MemberLeft(follower, None, ErrorCode.NONE),
        MemberLeft("stranger", None, ErrorCode.UNKNOWN_MEMBER_ID),
        MemberLeft(follower, None, ErrorCode.UNKNOWN_MEMBER_ID),
    )
    assert runtime.heartbeat(leader, 1) is ErrorCode.REBALANCE_IN_PROGRESS


def test_members_are_unknown_when_the_group_to_leave_is() -> None:
    result = Runtime().leave(LeavingMember("stranger"))
    assert (result.error, result.single_error) == (ErrorCode.NONE, ErrorCode.UNKNOWN_MEMBER_ID)


def test_waiting_requests_are_answered_when_their_member_leaves() -> None:
    runtime = Runtime()
    first, second = joined_pair(runtime)
    waiting = runtime.sync(second, 1)
    runtime.leave(LeavingMember(second))
    assert runtime.synced(waiting).error is ErrorCode.UNKNOWN_MEMBER_ID
    joining = runtime.join(runtime.new_member_id())
    runtime.leave(LeavingMember("client-3"))
    assert runtime.joined(joining).error is ErrorCode.UNKNOWN_MEMBER_ID
    assert runtime.joined(runtime.join(first)).generation_id == 2


def test_pending_member_is_gone_when_it_leaves_before_joining() -> None:
    runtime = Runtime()
    member = runtime.new_member_id()
    assert runtime.leave(LeavingMember(member)).single_error is ErrorCode.NONE
    assert runtime.timers == {}
    assert runtime.joined(runtime.join(member)).error is ErrorCode.UNKNOWN_MEMBER_ID


def test_group_is_empty_and_recorded_when_the_last_member_leaves() -> None:
    runtime = Runtime()
    (member,) = runtime.stable_group(1)
    assert runtime.leave(LeavingMember(member)).single_error is ErrorCode.NONE
    assert runtime.timers == {}
    described = Runtime(log=runtime.log).groups.shards.read(DESCRIBE_GROUP, DescribeGroupRequest(GROUP))
    assert (described.state, described.protocol_type, described.members) == ("Empty", "consumer", ())


def test_member_is_gone_though_told_otherwise_when_its_leaving_cannot_be_written() -> None:
    runtime = Runtime()
    (member,) = runtime.stable_group(1)
    runtime.fail_appends_with = ErrorCode.KAFKA_STORAGE_ERROR
    assert runtime.leave(LeavingMember(member)).error is ErrorCode.NOT_COORDINATOR
    assert runtime.state() == "Empty"
