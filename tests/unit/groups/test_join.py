from __future__ import annotations

import tracemalloc
from typing import Any

import pytest

from penstock.groups.operations.table import DESCRIBE_GROUP
from penstock.groups.requests import DescribeGroupRequest, LeavingMember, Protocol
from penstock.groups.settings import GroupSettings
from penstock.protocol.errors import ErrorCode
from tests.unit.groups.harness import GROUP, RANGE, REBALANCE_MS, SESSION_MS, Runtime, subscription

STICKY = Protocol("sticky", subscription("orders"))


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({"group_id": ""}, ErrorCode.INVALID_GROUP_ID),
        ({"session_timeout_ms": 5_999}, ErrorCode.INVALID_SESSION_TIMEOUT),
        ({"session_timeout_ms": 1_800_001}, ErrorCode.INVALID_SESSION_TIMEOUT),
        ({"member_id": "stranger"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"protocol_type": ""}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocols": ()}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
    ],
)
def test_join_is_refused_when_a_new_group_cannot_be_made(changed: dict[str, Any], expected: ErrorCode) -> None:
    runtime = Runtime()
    assert runtime.joined(runtime.join(**changed)).error is expected
    assert runtime.log == []
    assert runtime.state() == "Dead"


def test_group_is_recorded_when_its_first_member_asks_for_an_id() -> None:
    runtime = Runtime()
    result = runtime.joined(runtime.join())
    assert (result.error, result.member_id) == (ErrorCode.MEMBER_ID_REQUIRED, "client-1")
    assert len(runtime.log) == 1
    assert runtime.state() == Runtime(log=runtime.log).state() == "Empty"


def test_member_is_added_at_once_when_the_client_does_not_know_of_required_ids() -> None:
    runtime = Runtime()
    token = runtime.join(accepts_member_id_required=False)
    assert runtime.is_parked(token)
    assert runtime.state() == "PreparingRebalance"
    assert len(runtime.log) == 1
    runtime.advance(3_000)
    result = runtime.joined(token)
    assert (result.error, result.generation_id, result.leader) == (ErrorCode.NONE, 1, "client-1")


def test_pending_member_is_forgotten_when_it_does_not_join_within_its_session() -> None:
    runtime = Runtime()
    member = runtime.new_member_id()
    runtime.advance(SESSION_MS)
    assert runtime.joined(runtime.join(member)).error is ErrorCode.UNKNOWN_MEMBER_ID


def test_first_generation_waits_once_more_when_members_keep_coming() -> None:
    runtime = Runtime()
    first = runtime.join(runtime.new_member_id())
    runtime.advance(2_999)
    second = runtime.join(runtime.new_member_id())
    runtime.advance(1)
    assert runtime.is_parked(first)
    runtime.advance(3_000)
    assert runtime.joined(first).generation_id == runtime.joined(second).generation_id == 1


def test_first_generation_does_not_wait_longer_than_a_rebalance_may_take() -> None:
    runtime = Runtime()
    first = runtime.join(accepts_member_id_required=False, rebalance_timeout_ms=7_000)
    for _ in range(6):
        runtime.advance(1_000)
        runtime.join(accepts_member_id_required=False, rebalance_timeout_ms=7_000)
    assert runtime.is_parked(first)
    runtime.advance(1_000)
    assert not runtime.is_parked(first)


def test_leader_alone_hears_of_the_members_when_a_generation_begins() -> None:
    runtime = Runtime()
    members = [runtime.new_member_id() for _ in range(3)]
    tokens = [runtime.join(member) for member in members]
    runtime.advance(6_000)
    results = [runtime.joined(token) for token in tokens]
    assert [member.member_id for member in results[0].members] == members
    assert results[0].members[1].metadata == RANGE.metadata
    assert results[1].members == results[2].members == ()
    assert {result.leader for result in results} == {members[0]}
    assert {(result.protocol_type, result.protocol_name) for result in results} == {("consumer", "range")}


def test_protocol_with_most_votes_is_chosen_when_all_members_offer_it() -> None:
    runtime = Runtime()
    only_one = Protocol("only-one", b"")
    tokens = [
        runtime.join(accepts_member_id_required=False, protocols=protocols)
        for protocols in [(only_one, RANGE, STICKY), (STICKY, RANGE), (STICKY, RANGE)]
    ]
    runtime.advance(6_000)
    assert {runtime.joined(token).protocol_name for token in tokens} == {"sticky"}


def test_join_is_refused_when_no_protocol_is_common_to_all() -> None:
    runtime = Runtime()
    runtime.stable_group()
    for changed in ({"protocols": (STICKY,)}, {"protocol_type": "connect"}):
        assert runtime.joined(runtime.join(**changed)).error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_member_that_does_not_rejoin_is_out_when_the_rebalance_timeout_ends() -> None:
    runtime = Runtime()
    leader, follower = runtime.stable_group(2, session_timeout_ms=1_800_000)
    token = runtime.join(leader, session_timeout_ms=1_800_000)
    assert runtime.heartbeat(follower, 1) is ErrorCode.REBALANCE_IN_PROGRESS
    runtime.advance(REBALANCE_MS - 1)
    assert runtime.is_parked(token)
    runtime.advance(1)
    result = runtime.joined(token)
    assert (result.generation_id, [member.member_id for member in result.members]) == (2, [leader])
    assert runtime.heartbeat(follower, 1) is ErrorCode.UNKNOWN_MEMBER_ID


def test_another_member_leads_when_the_leader_does_not_rejoin() -> None:
    runtime = Runtime()
    leader, follower = runtime.stable_group(2, session_timeout_ms=1_800_000)
    token = runtime.join(follower, protocols=(RANGE, STICKY), session_timeout_ms=1_800_000)
    runtime.advance(REBALANCE_MS)
    result = runtime.joined(token)
    assert result.leader == follower
    assert [member.member_id for member in result.members] == [follower]
    assert leader != follower


def test_rebalance_ends_early_when_all_members_have_rejoined() -> None:
    runtime = Runtime()
    leader, follower = runtime.stable_group()
    first = runtime.join(leader)
    second = runtime.join(follower)
    assert runtime.joined(first).generation_id == runtime.joined(second).generation_id == 2


def test_rebalance_waits_when_a_member_was_given_an_id_and_has_not_joined_yet() -> None:
    runtime = Runtime()
    (leader,) = runtime.stable_group(1)
    newcomer = runtime.new_member_id()
    token = runtime.join(leader)
    assert runtime.is_parked(token)
    runtime.join(newcomer)
    assert not runtime.is_parked(token)


def test_follower_hears_the_present_generation_when_it_rejoins_unchanged() -> None:
    runtime = Runtime()
    leader, follower = runtime.stable_group()
    result = runtime.joined(runtime.join(follower))
    assert (result.error, result.generation_id, result.leader, result.members) == (ErrorCode.NONE, 1, leader, ())
    assert runtime.state() == "Stable"


@pytest.mark.parametrize("who", ["leader", "changed follower"])
def test_rebalance_begins_when_a_stable_member_rejoins_with_a_reason(who: str) -> None:
    runtime = Runtime()
    leader, follower = runtime.stable_group()
    if who == "leader":
        runtime.join(leader)
    else:
        runtime.join(follower, protocols=(Protocol("range", subscription("payments")),))
    assert runtime.state() == "PreparingRebalance"


def test_lost_answer_is_given_again_when_the_member_joins_before_the_assignment() -> None:
    runtime = Runtime()
    members = [runtime.new_member_id() for _ in range(2)]
    for member in members:
        runtime.join(member)
    runtime.advance(6_000)
    again = [runtime.joined(runtime.join(member)) for member in members]
    assert [result.generation_id for result in again] == [1, 1]
    assert [len(result.members) for result in again] == [2, 0]
    assert runtime.state() == "CompletingRebalance"


def test_rebalance_begins_again_when_a_member_changes_its_offer_before_the_assignment() -> None:
    runtime = Runtime()
    members = [runtime.new_member_id() for _ in range(2)]
    for member in members:
        runtime.join(member)
    runtime.advance(6_000)
    waiting = runtime.sync(members[1], 1)
    runtime.join(members[0], protocols=(RANGE, STICKY))
    assert runtime.state() == "PreparingRebalance"
    assert runtime.synced(waiting).error is ErrorCode.REBALANCE_IN_PROGRESS


def test_earlier_request_is_answered_when_the_same_member_joins_on_a_new_connection() -> None:
    runtime = Runtime()
    member = runtime.new_member_id()
    earlier = runtime.join(member)
    later = runtime.join(member)
    assert runtime.joined(earlier).error is ErrorCode.REBALANCE_IN_PROGRESS
    runtime.advance(6_000)
    assert runtime.joined(later).error is ErrorCode.NONE


def test_new_member_is_expired_when_its_join_stays_unanswered_for_five_minutes() -> None:
    runtime = Runtime()
    (leader,) = runtime.stable_group(1, session_timeout_ms=1_800_000, rebalance_timeout_ms=3_000_000)
    token = runtime.join(runtime.new_member_id(session_timeout_ms=1_800_000), session_timeout_ms=1_800_000)
    runtime.advance(300_000)
    assert runtime.joined(token).error is ErrorCode.UNKNOWN_MEMBER_ID
    assert [
        member.member_id for member in runtime.groups.shards.read(DESCRIBE_GROUP, DescribeGroupRequest(GROUP)).members
    ] == [leader]


def test_join_is_refused_when_the_group_is_full() -> None:
    runtime = Runtime(GroupSettings(max_size=2))
    runtime.stable_group(2)
    result = runtime.joined(runtime.join())
    assert (result.error, result.member_id) == (ErrorCode.GROUP_MAX_SIZE_REACHED, "")


OFFER = Protocol("range", bytes(400))
SMALL_GROUP = GroupSettings(max_metadata_bytes=1_000, initial_rebalance_delay_ms=0)


def test_join_is_refused_when_the_members_of_the_group_would_say_too_much() -> None:
    runtime = Runtime(SMALL_GROUP)
    members = runtime.stable_group(2, protocols=(OFFER,))
    result = runtime.joined(runtime.join(protocols=(OFFER,)))
    assert (result.error, result.member_id) == (ErrorCode.GROUP_MAX_SIZE_REACHED, "")
    assert runtime.state() == "Stable"
    runtime.leave(LeavingMember(members[0]))
    assert runtime.joined(runtime.join(protocols=(OFFER,))).error is ErrorCode.MEMBER_ID_REQUIRED


def test_member_is_out_when_it_rejoins_and_says_too_much() -> None:
    runtime = Runtime(SMALL_GROUP)
    members = runtime.stable_group(2, protocols=(OFFER,))
    same = runtime.join(members[1], protocols=(OFFER,))
    assert runtime.joined(same).error is ErrorCode.NONE
    more = runtime.join(members[1], protocols=(Protocol("range", bytes(900)),))
    assert runtime.joined(more).error is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert runtime.heartbeat(members[1], 1) is ErrorCode.UNKNOWN_MEMBER_ID
    assert runtime.state() == "PreparingRebalance"  # the others get its partitions
    assert runtime.heartbeat(members[0], 1) is ErrorCode.REBALANCE_IN_PROGRESS


def test_static_member_is_counted_once_when_another_process_takes_its_place() -> None:
    runtime = Runtime(SMALL_GROUP)
    runtime.static_group("a", "b", protocols=(OFFER,))
    for _ in range(3):
        assert runtime.joined(runtime.join(group_instance_id="a", protocols=(OFFER,))).error is ErrorCode.NONE


def test_assignment_is_refused_when_it_is_too_large() -> None:
    runtime = Runtime(SMALL_GROUP)
    token = runtime.join(accepts_member_id_required=False)
    runtime.advance(1)
    member = runtime.joined(token).member_id
    assert runtime.synced(runtime.sync(member, 1, {member: bytes(1_001)})).error is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert runtime.joined(runtime.join(member)).generation_id == 2
    assert runtime.synced(runtime.sync(member, 2, {member: bytes(1_000)})).error is ErrorCode.NONE


def test_others_join_again_when_the_assignment_of_their_leader_is_too_large() -> None:
    runtime = Runtime(SMALL_GROUP)
    tokens = [runtime.join(accepts_member_id_required=False) for _ in range(2)]
    runtime.advance(1)
    leader, other = (runtime.joined(each).member_id for each in tokens)
    waiting = runtime.sync(other, 1)
    refused = runtime.sync(leader, 1, {leader: bytes(600), other: bytes(600)})
    assert runtime.synced(refused).error is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert runtime.synced(waiting).error is ErrorCode.REBALANCE_IN_PROGRESS
    assert runtime.state() == "PreparingRebalance"


def test_size_of_a_group_is_that_of_its_members_when_it_is_loaded() -> None:
    before = Runtime()
    members = before.stable_group(2, protocols=(OFFER,))
    runtime = Runtime(SMALL_GROUP, log=before.log)
    assert runtime.joined(runtime.join(protocols=(OFFER,))).error is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert runtime.joined(runtime.join(members[1], protocols=(OFFER,))).error is ErrorCode.NONE


def test_last_member_to_rejoin_is_out_when_the_group_became_larger_than_allowed() -> None:
    before = Runtime()
    members = before.stable_group(3)
    runtime = Runtime(GroupSettings(max_size=2), log=before.log)
    assert runtime.state() == "PreparingRebalance"
    tokens = [runtime.join(member) for member in members]
    assert runtime.joined(tokens[2]).error is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert [runtime.joined(token).generation_id for token in tokens[:2]] == [2, 2]


def test_session_timeout_bounds_the_rebalance_when_the_client_names_no_rebalance_timeout() -> None:
    runtime = Runtime()
    (leader,) = runtime.stable_group(1, rebalance_timeout_ms=-1, session_timeout_ms=20_000)
    token = runtime.join(accepts_member_id_required=False, rebalance_timeout_ms=-1)
    assert runtime.heartbeat(leader, 1) is ErrorCode.REBALANCE_IN_PROGRESS
    runtime.advance(20_000)
    assert [member.member_id for member in runtime.joined(token).members] == [runtime.joined(token).member_id]


def test_generation_continues_when_everybody_left_and_others_come() -> None:
    runtime = Runtime()
    (member,) = runtime.stable_group(1)
    runtime.leave(LeavingMember(member))
    assert runtime.state() == "Empty"
    token = runtime.join(runtime.new_member_id(protocol_type="connect"), protocol_type="connect")
    runtime.advance(6_000)
    assert (runtime.joined(token).generation_id, runtime.joined(token).protocol_type) == (3, "connect")


def test_member_id_fits_a_record_when_the_client_id_is_as_long_as_can_be() -> None:
    runtime = Runtime()
    token = runtime.join(client_id="\U0001f600" * 8_191, accepts_member_id_required=False)
    runtime.advance(3_000)
    member = runtime.joined(token).member_id
    assert runtime.synced(runtime.sync(member, 1, {member: b"all"})).assignment == b"all"


def test_no_memory_is_held_when_a_member_keeps_changing_what_it_offers() -> None:
    runtime = Runtime()
    first, _ = runtime.stable_group(2)
    tracemalloc.start()
    try:
        for number in range(200):  # the other member does not rejoin, so no generation begins
            runtime.join(first, protocols=(Protocol(f"{number:04}" * 5_000, b""), RANGE))
            runtime.replies.clear()
        assert runtime.state() == "PreparingRebalance"
        assert tracemalloc.get_traced_memory()[0] < 1 << 20
    finally:
        tracemalloc.stop()
