from __future__ import annotations

from typing import Any

import pytest

from penstock.groups.operations.table import DESCRIBE_GROUP
from penstock.groups.requests import DescribeGroupRequest, LeavingMember, Protocol
from penstock.protocol.errors import ErrorCode
from tests.unit.groups.harness import GROUP, RANGE, REBALANCE_MS, Runtime, subscription

STICKY = Protocol("sticky", subscription("orders"))


def test_static_member_needs_no_second_round_trip_when_it_joins() -> None:
    runtime = Runtime()
    token = runtime.join(group_instance_id="a")
    runtime.advance(3_000)
    assert (runtime.joined(token).error, runtime.joined(token).member_id) == (ErrorCode.NONE, "a-1")


def test_assignment_is_kept_without_a_rebalance_when_a_static_follower_restarts() -> None:
    runtime = Runtime()
    leader, follower = runtime.static_group("a", "b")
    written = len(runtime.log)
    result = runtime.joined(runtime.join(group_instance_id="b"))
    assert (result.error, result.generation_id, result.leader) == (ErrorCode.NONE, 1, leader)
    assert result.member_id not in (leader, follower)
    assert (result.skip_assignment, result.members) == (False, ())
    assert runtime.state() == "Stable"
    assert len(runtime.log) == written + 1
    assert runtime.synced(runtime.sync(result.member_id, 1, group_instance_id="b")).assignment == b"1"
    described = Runtime(log=runtime.log).groups.shards.read(DESCRIBE_GROUP, DescribeGroupRequest(GROUP))
    assert [member.member_id for member in described.members] == [leader, result.member_id]


def test_leader_is_told_to_skip_the_assignment_when_it_restarts_and_can_bear_it() -> None:
    runtime = Runtime()
    _, follower = runtime.static_group("a", "b")
    result = runtime.joined(runtime.join(group_instance_id="a"))
    assert (result.skip_assignment, result.leader) == (True, result.member_id)
    assert [member.member_id for member in result.members] == [result.member_id, follower]


def test_leader_hears_its_old_id_as_leader_when_its_client_cannot_skip_the_assignment() -> None:
    runtime = Runtime()
    leader, _ = runtime.static_group("a", "b")
    result = runtime.joined(runtime.join(group_instance_id="a", accepts_skip_assignment=False))
    assert (result.skip_assignment, result.leader, result.members) == (False, leader, ())


def test_old_process_is_fenced_when_a_new_one_took_its_place() -> None:
    runtime = Runtime()
    _, follower = runtime.static_group("a", "b")
    runtime.join(group_instance_id="b")
    assert runtime.heartbeat(follower, 1, "b") is ErrorCode.FENCED_INSTANCE_ID
    assert runtime.heartbeat(follower, 1) is ErrorCode.UNKNOWN_MEMBER_ID
    assert runtime.synced(runtime.sync(follower, 1, group_instance_id="b")).error is ErrorCode.FENCED_INSTANCE_ID
    assert runtime.joined(runtime.join(follower, group_instance_id="b")).error is ErrorCode.FENCED_INSTANCE_ID
    assert runtime.leave(LeavingMember(follower, "b")).single_error is ErrorCode.FENCED_INSTANCE_ID


def test_instance_is_unknown_when_it_was_never_in_the_group() -> None:
    runtime = Runtime()
    member, _ = runtime.static_group("a", "b")
    assert runtime.heartbeat(member, 1, "c") is ErrorCode.UNKNOWN_MEMBER_ID


def test_waiting_join_is_fenced_when_a_new_process_takes_the_place() -> None:
    runtime = Runtime()
    old = runtime.join(group_instance_id="a")
    new = runtime.join(group_instance_id="a")
    result = runtime.joined(old)
    assert (result.error, result.member_id) == (ErrorCode.FENCED_INSTANCE_ID, "a-1")
    runtime.advance(6_000)
    assert [member.member_id for member in runtime.joined(new).members] == ["a-2"]


def test_successor_is_waited_for_when_the_rebalance_takes_longer_than_its_session() -> None:
    runtime = Runtime()
    runtime.stable_group(1, session_timeout_ms=1_800_000)
    runtime.join(group_instance_id="a")
    successor = runtime.join(group_instance_id="a")
    runtime.advance(REBALANCE_MS - 1)
    assert runtime.is_parked(successor)
    runtime.advance(1)
    assert runtime.joined(successor).error is ErrorCode.NONE


def test_waiting_sync_is_fenced_and_the_rebalance_begins_again_when_a_new_process_takes_the_place() -> None:
    runtime = Runtime()
    tokens = [runtime.join(group_instance_id=instance) for instance in ("a", "b", "c")]
    runtime.advance(6_000)
    _, second, third = [runtime.joined(token).member_id for token in tokens]
    replaced = runtime.sync(second, 1, group_instance_id="b")
    bystander = runtime.sync(third, 1, group_instance_id="c")
    token = runtime.join(group_instance_id="b")
    assert runtime.synced(replaced).error is ErrorCode.FENCED_INSTANCE_ID
    assert runtime.synced(bystander).error is ErrorCode.REBALANCE_IN_PROGRESS
    assert runtime.state() == "PreparingRebalance"
    assert runtime.is_parked(token)


def test_rebalance_begins_when_a_restarted_static_member_changes_the_chosen_protocol() -> None:
    runtime = Runtime()
    runtime.static_group("a", "b", protocols=(RANGE, STICKY))
    runtime.join(group_instance_id="b", protocols=(STICKY,))
    assert runtime.state() == "PreparingRebalance"


def test_static_member_stays_when_it_does_not_rejoin_in_time() -> None:
    runtime = Runtime()
    leader, follower = runtime.static_group("a", "b", session_timeout_ms=1_800_000)
    token = runtime.join(leader, group_instance_id="a", session_timeout_ms=1_800_000)
    runtime.advance(REBALANCE_MS)
    assert [member.member_id for member in runtime.joined(token).members] == [leader, follower]


def test_rebalance_goes_on_waiting_when_only_absent_static_members_are_left() -> None:
    runtime = Runtime()
    static, dynamic = runtime.static_group("a")[0], runtime.new_member_id(session_timeout_ms=1_800_000)
    long: dict[str, Any] = {"session_timeout_ms": 1_800_000}
    rejoined = runtime.join(static, group_instance_id="a", **long)
    runtime.join(dynamic, **long)
    generation = runtime.joined(rejoined).generation_id
    runtime.finish([static, dynamic], generation)
    runtime.leave(LeavingMember(dynamic))
    runtime.advance(3 * REBALANCE_MS)
    assert runtime.state() == "PreparingRebalance"
    token = runtime.join(static, group_instance_id="a", **long)
    assert runtime.joined(token).generation_id == generation + 1


def test_static_member_is_removed_when_an_administrator_names_its_instance() -> None:
    runtime = Runtime()
    leader, follower = runtime.static_group("a", "b")
    result = runtime.leave(LeavingMember("", "b"), LeavingMember("", "missing"), LeavingMember("", None))
    assert [member.error for member in result.members] == [
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.UNKNOWN_MEMBER_ID,
    ]
    assert runtime.heartbeat(follower, 1, "b") is ErrorCode.UNKNOWN_MEMBER_ID
    assert runtime.heartbeat(leader, 1, "a") is ErrorCode.REBALANCE_IN_PROGRESS


def test_pending_id_is_unknown_when_it_is_used_with_an_instance() -> None:
    runtime = Runtime()
    member = runtime.new_member_id()
    assert runtime.joined(runtime.join(member, group_instance_id="a")).error is ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize("error", [ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.MESSAGE_TOO_LARGE])
def test_old_process_keeps_its_place_when_the_replacement_cannot_be_written(error: ErrorCode) -> None:
    runtime = Runtime()
    leader, follower = runtime.static_group("a", "b")
    runtime.fail_appends_with = error
    result = runtime.joined(runtime.join(group_instance_id="a", session_timeout_ms=20_000))
    assert result.error is not ErrorCode.NONE
    assert result.member_id == ""
    assert runtime.heartbeat(leader, 1, "a") is ErrorCode.NONE
    described = runtime.groups.shards.read(DESCRIBE_GROUP, DescribeGroupRequest(GROUP))
    assert [member.member_id for member in described.members] == [leader, follower]
    assert {key.member_id for key in runtime.timers if key.member_id} == {leader, follower}
