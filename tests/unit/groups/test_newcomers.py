"""Members that joined and were not heard of again: who counts as one, for how long, and what goes with them."""

from __future__ import annotations

from penstock.coordinators.newcomers import OWN_SIZE, Newcomer
from penstock.groups.outcome import TimerKey, TimerKind
from penstock.groups.requests import OffsetToCommit
from penstock.protocol.errors import ErrorCode
from tests.unit.groups.consumer_harness import ConsumerRuntime
from tests.unit.groups.harness import GROUP, RANGE, REBALANCE_MS, SESSION_MS, Runtime

CLIENT = "User:alice@10.0.0.1"


def session(member_id: str, group_id: str = GROUP) -> TimerKey:
    return TimerKey(TimerKind.SESSION, 0, group_id, member_id)


class TestWhoIsOne:
    def test_member_that_was_given_an_id_is_one_until_it_joins_with_the_id(self) -> None:
        runtime = Runtime()
        member = runtime.new_member_id(client=CLIENT)
        assert runtime.newcomers == {session(member): Newcomer(CLIENT, GROUP, OWN_SIZE + len(member))}
        runtime.join(member, client=CLIENT)
        assert runtime.newcomers == {}

    def test_new_member_is_one_from_its_first_generation_until_it_asks_for_its_assignment(self) -> None:
        runtime = Runtime()
        tokens = [runtime.join(accepts_member_id_required=False, client=CLIENT) for _ in range(2)]
        assert runtime.newcomers == {}
        runtime.advance(6_000)
        leader, follower = (runtime.joined(token).member_id for token in tokens)
        assert runtime.newcomers.keys() == {session(leader), session(follower)}
        said = len("client-1") + len("client") + len(RANGE.name) + len(RANGE.metadata)
        assert runtime.newcomers[session(leader)] == Newcomer(CLIENT, GROUP, OWN_SIZE + said)
        assert runtime.is_parked(runtime.sync(follower, 1))
        assert runtime.newcomers.keys() == {session(leader)}
        runtime.finish([leader, follower], 1)
        assert runtime.newcomers == {}
        assert runtime.timers.keys() == {session(leader), session(follower)}

    def test_new_member_is_none_any_more_when_it_sends_a_heartbeat(self) -> None:
        runtime = Runtime()
        token = runtime.join(accepts_member_id_required=False)
        runtime.advance(3_000)
        runtime.heartbeat(runtime.joined(token).member_id, 1)
        assert runtime.newcomers == {}

    def test_member_that_was_heard_of_is_none_in_a_later_generation(self) -> None:
        runtime = Runtime()
        members = runtime.stable_group(2)
        for member in members:
            runtime.join(member, protocols=(RANGE, RANGE._replace(name="other")))
        assert runtime.heartbeat(members[0], 2) is ErrorCode.NONE
        assert runtime.newcomers == {}

    def test_member_of_the_consumer_protocol_is_one_until_its_second_heartbeat(self) -> None:
        runtime = ConsumerRuntime()
        entered = runtime.enter("a", "orders")
        assert runtime.newcomers.keys() == {session("a")}
        runtime.beat("a", entered.member_epoch)
        assert runtime.newcomers == {}


class TestClientsThatGo:
    def test_new_member_is_gone_at_once_when_its_client_leaves_while_it_waits(self) -> None:
        runtime = Runtime()
        members = runtime.stable_group(1)
        member = runtime.new_member_id()
        without_id, with_id = runtime.join(accepts_member_id_required=False), runtime.join(member)
        runtime.hang_up(without_id)
        runtime.hang_up(with_id, member)
        assert runtime.joined(runtime.join(members[0])).generation_id == 2
        assert runtime.timers.keys() == {session(members[0]), TimerKey(TimerKind.SYNC, 0, GROUP)}

    def test_others_go_on_when_the_client_they_wait_with_leaves_last(self) -> None:
        runtime = Runtime()
        members = runtime.stable_group(1)
        waiting, rejoining = runtime.join(accepts_member_id_required=False), runtime.new_member_id()
        runtime.join(members[0])
        assert runtime.is_parked(waiting)  # for the one that was given an id
        runtime.hang_up(runtime.join(rejoining))
        assert runtime.joined(waiting).generation_id == 2

    def test_member_stays_when_it_has_seen_a_generation_before(self) -> None:
        runtime = Runtime()
        members = runtime.stable_group(2)
        token = runtime.join(members[0], protocols=(RANGE, RANGE._replace(name="other")))
        runtime.hang_up(token, members[0])
        runtime.join(members[1])
        assert runtime.joined(token).generation_id == 2

    def test_nothing_happens_when_another_request_of_the_member_waits_by_now(self) -> None:
        runtime = Runtime()
        member = runtime.new_member_id()
        first, second = runtime.join(member), runtime.join(member)
        runtime.hang_up(first, member)
        runtime.advance(3_000)
        assert runtime.joined(second).error is ErrorCode.NONE


class TestGroupsMadeForThem:
    def test_group_goes_with_the_last_join_that_did_not_come_back(self) -> None:
        runtime = Runtime()
        runtime.new_member_id()
        runtime.advance(1_000)
        runtime.new_member_id()
        runtime.advance(SESSION_MS - 1_000)
        assert runtime.state() == "Empty"
        runtime.advance(1_000)
        assert runtime.state() == Runtime(log=runtime.log).state() == "Dead"

    def test_group_goes_when_its_only_member_leaves_before_the_first_generation(self) -> None:
        runtime = Runtime()
        runtime.hang_up(runtime.join(accepts_member_id_required=False))
        runtime.advance(3_000)
        assert runtime.state() == Runtime(log=runtime.log).state() == "Dead"
        assert runtime.timers == {}

    def test_group_goes_when_its_only_member_never_asks_for_its_assignment(self) -> None:
        runtime = Runtime()
        runtime.join(accepts_member_id_required=False)
        runtime.advance(3_000 + REBALANCE_MS)
        assert runtime.state() == "Dead"

    def test_group_stays_when_it_has_offsets_or_had_assignments(self) -> None:
        runtime = Runtime()
        runtime.commit(OffsetToCommit("orders", 0, 5))
        runtime.new_member_id()
        runtime.advance(SESSION_MS)
        assert runtime.state() == "Empty"
        other = Runtime()
        other.stable_group(1)
        other.advance(SESSION_MS + REBALANCE_MS)
        assert other.state() == "Empty"
