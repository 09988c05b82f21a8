"""Groups that change between the classic protocol and KIP-848 while they have members."""

from __future__ import annotations

import pytest

from penstock.core.steps import finish
from penstock.groups.classic.group import ClassicGroup
from penstock.groups.requests import LeavingMember, Protocol
from penstock.groups.settings import GroupSettings, MigrationPolicy
from penstock.groups.subscription import decode_assignment, encode_assignment_for
from penstock.groups.topics import Topic, TopicIdPartition, Topics
from penstock.protocol.errors import ErrorCode
from tests.unit.groups.consumer_harness import AT_ONCE, TOPICS, USERS, ConsumerRuntime, durable, of_orders
from tests.unit.groups.harness import GROUP, REBALANCE_MS, SESSION_MS, subscription

METADATA = subscription("orders")
RANGE, STICKY = Protocol("range", METADATA), Protocol("sticky", METADATA)
WITHOUT_ORDERS = Topics.of([Topic("users", USERS, 2)])
ORDERS_ANEW = b"n" * 16
WITH_ORDERS_ANEW = Topics.of([Topic("orders", ORDERS_ANEW, 4), Topic("users", USERS, 2)])


def classic_group(size: int = 2, settings: GroupSettings = AT_ONCE) -> tuple[ConsumerRuntime, list[str]]:
    """A stable classic group whose members share orders: the first has 0 and 1, the second 2 and 3."""
    runtime = ConsumerRuntime(settings)
    members = [runtime.new_member_id(protocols=(RANGE, STICKY)) for _ in range(size)]
    tokens = [runtime.join(member, protocols=(RANGE, STICKY)) for member in members]
    runtime.advance(6_000)
    share = 4 // size
    given = {
        member: encode_assignment_for(METADATA, of_orders(*range(number * share, (number + 1) * share)), TOPICS)
        for number, member in enumerate(members)
    }
    for number, member in enumerate(members):
        runtime.sync(member, runtime.joined(tokens[0]).generation_id, given if number == 0 else {})
    assert runtime.state() == "Stable"
    return runtime, members


def synced(runtime: ConsumerRuntime, member_id: str, generation: int) -> set[TopicIdPartition]:
    answer = runtime.synced(runtime.sync(member_id, generation))
    assert answer.error is ErrorCode.NONE
    return set(decode_assignment(answer.assignment, TOPICS)[0])


def upgraded() -> tuple[ConsumerRuntime, list[str]]:
    runtime, members = classic_group()
    assert runtime.enter("new").error is ErrorCode.NONE
    return runtime, members


# ------------------------------------------------------------------------------------------------ up


def test_classic_members_keep_what_they_have_when_the_group_is_upgraded() -> None:
    runtime, (first, second) = upgraded()
    group = runtime.consumer_group()
    assert set(group.members[first].assigned) == set(of_orders(0, 1))
    assert set(group.members[second].assigned) == set(of_orders(2, 3))
    assert (group.epoch, group.members[first].member_epoch, group.members["new"].member_epoch) == (2, 1, 2)
    assert durable(runtime.restarted().consumer_group()) == durable(group)


def test_classic_members_have_nothing_of_a_topic_when_it_was_deleted_before_the_upgrade() -> None:
    runtime, (first, second) = classic_group()
    runtime.groups.on_topics_changed(WITHOUT_ORDERS)
    runtime.enter("new", "users")
    group = runtime.consumer_group()
    assert group.members[first].assigned == group.members[second].assigned == {}
    # They still work on it, by name, until they are told to rejoin.
    for member in (first, second):
        assert runtime.heartbeat(member, 1) is ErrorCode.REBALANCE_IN_PROGRESS
        assert runtime.joined(runtime.join(member, protocols=(RANGE, STICKY))).generation_id == 2
        assert synced(runtime, member, 2) == set()


def test_classic_members_have_the_topic_of_that_name_when_it_was_made_anew_before_the_upgrade() -> None:
    runtime, (first, second) = classic_group()
    runtime.groups.on_topics_changed(WITH_ORDERS_ANEW)
    told = runtime.enter("new")
    group = runtime.consumer_group()
    assert set(group.members[first].assigned) == {TopicIdPartition(ORDERS_ANEW, index) for index in (0, 1)}
    assert set(group.members[second].assigned) == {TopicIdPartition(ORDERS_ANEW, index) for index in (2, 3)}
    assert told.assignment == ()


def test_classic_member_is_told_to_rejoin_when_the_target_has_moved() -> None:
    runtime, (first, second) = upgraded()
    owned = {}
    for member in (first, second):
        assert runtime.heartbeat(member, 1) is ErrorCode.REBALANCE_IN_PROGRESS
        rejoined = runtime.joined(runtime.join(member, protocols=(RANGE, STICKY)))
        assert (rejoined.error, rejoined.generation_id, rejoined.leader) == (ErrorCode.NONE, 2, "")
        assert rejoined.protocol_name == "range"
        owned[member] = synced(runtime, member, 2)
        assert runtime.heartbeat(member, 2) is ErrorCode.NONE
    got = runtime.beat("new", 2)
    assert got.assignment is not None
    assert set(got.assignment) | owned[first] | owned[second] == set(of_orders(0, 1, 2, 3))
    assert runtime.consumer_state() == "Stable"


def test_whoever_waits_is_told_to_rejoin_when_the_group_is_upgraded_meanwhile() -> None:
    runtime, (first, second) = classic_group()
    waiting = runtime.join(first, protocols=(STICKY,))
    assert runtime.is_parked(waiting)
    runtime.enter("new")
    assert runtime.joined(waiting).error is ErrorCode.REBALANCE_IN_PROGRESS
    runtime.advance(SESSION_MS)
    assert set(runtime.consumer_group().members) == {"new"}
    assert second not in runtime.consumer_group().members


@pytest.mark.parametrize("policy", [MigrationPolicy.DOWNGRADE, MigrationPolicy.DISABLED])
def test_upgrade_is_refused_when_the_policy_forbids_it(policy: MigrationPolicy) -> None:
    runtime, _ = classic_group(settings=AT_ONCE._replace(consumer_migration_policy=policy))
    assert runtime.enter("new").error is ErrorCode.GROUP_ID_NOT_FOUND
    assert runtime.state() == "Stable"


def test_upgrade_is_refused_when_it_would_be_too_large() -> None:
    runtime, _ = classic_group(settings=AT_ONCE._replace(consumer_max_size=1))
    assert runtime.enter("new").error is ErrorCode.GROUP_ID_NOT_FOUND


def test_upgrade_is_refused_when_the_embedded_protocol_cannot_be_read() -> None:
    runtime = ConsumerRuntime()
    runtime.stable_group(1)  # its assignment is no consumer's
    assert runtime.enter("new").error is ErrorCode.GROUP_ID_NOT_FOUND
    assert runtime.state() == "Stable"


def test_classic_group_goes_on_when_the_upgrade_cannot_be_written() -> None:
    runtime, (first, _) = classic_group()
    runtime.fail_next_append_with = ErrorCode.NOT_ENOUGH_REPLICAS
    assert runtime.enter("new").error is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert runtime.state() == "Stable"
    assert runtime.heartbeat(first, 1) is ErrorCode.NONE


def test_empty_classic_group_becomes_the_other_kind_when_a_new_member_joins() -> None:
    runtime, (first,) = classic_group(1)
    runtime.leave(LeavingMember(first))
    assert runtime.enter("new").assignment == of_orders(0, 1, 2, 3)
    assert list(runtime.restarted().consumer_group().members) == ["new"]


# ------------------------------------------------------------------------------------------------ classic members


def test_classic_member_joins_when_the_group_is_the_new_kind() -> None:
    runtime = ConsumerRuntime()
    runtime.enter("new")
    asked = runtime.joined(runtime.join(protocols=(RANGE,)))
    assert asked.error is ErrorCode.MEMBER_ID_REQUIRED
    joined = runtime.joined(runtime.join(asked.member_id, protocols=(RANGE,)))
    assert (joined.error, joined.generation_id, joined.members) == (ErrorCode.NONE, 3, ())
    assert synced(runtime, asked.member_id, 3) == set()
    assert runtime.heartbeat(asked.member_id, 3) is ErrorCode.NONE
    told = runtime.owns("new", 2, *of_orders(0, 1, 2, 3))
    runtime.owns("new", 2, *(told.assignment or ()))
    # What it waits for is free now.
    assert runtime.heartbeat(asked.member_id, 3) is ErrorCode.REBALANCE_IN_PROGRESS
    runtime.join(asked.member_id, protocols=(RANGE,))
    assert len(synced(runtime, asked.member_id, 3)) == 2


def test_join_is_refused_when_its_protocols_do_not_fit() -> None:
    runtime, _ = upgraded()
    other = (Protocol("round-robin", METADATA),)
    assert runtime.joined(runtime.join(protocols=other)).error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    wrong_type = runtime.join(protocols=(RANGE,), protocol_type="connect")
    assert runtime.joined(wrong_type).error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    malformed = runtime.join("x", protocols=(Protocol("range", b"\0"),))
    assert runtime.joined(malformed).error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_classic_member_is_out_when_it_does_not_rejoin_in_time() -> None:
    runtime, (first, second) = upgraded()
    for _ in range(REBALANCE_MS // 5_000):
        runtime.heartbeat(first, 1)
        runtime.heartbeat(second, 1)
        runtime.beat("new", 2)
        runtime.advance(5_000)
    assert set(runtime.consumer_group().members) == {"new"}
    assert runtime.beat("new", 2).assignment == of_orders(0, 1, 2, 3)


def test_classic_member_is_out_when_it_does_not_sync_in_time() -> None:
    runtime = ConsumerRuntime()
    runtime.enter("new")
    runtime.join("old", protocols=(RANGE,))
    for _ in range(REBALANCE_MS // 5_000):
        runtime.heartbeat("old", 3)
        runtime.beat("new", 2, owned=frozenset())
        runtime.advance(5_000)
    assert "old" not in runtime.consumer_group().members


# ------------------------------------------------------------------------------------------------ down


def test_group_is_classic_when_the_last_member_of_the_new_protocol_leaves() -> None:
    runtime, (first, second) = upgraded()
    runtime.beat("new", -1)
    assert runtime.state() == "PreparingRebalance"
    assert runtime.heartbeat(first, 1) is ErrorCode.ILLEGAL_GENERATION
    tokens = [runtime.join(member, protocols=(RANGE, STICKY)) for member in (first, second)]
    assert [runtime.joined(token).generation_id for token in tokens] == [3, 3]
    replayed = runtime.restarted().groups.shards.hosted(0).groups[GROUP]
    assert isinstance(replayed, ClassicGroup)
    assert set(replayed.members) == {first, second}
    assert replayed.generation_id == 2


def test_classic_group_has_nothing_of_a_topic_when_it_was_deleted_before_the_downgrade() -> None:
    runtime, (first, second) = upgraded()
    runtime.groups.on_topics_changed(WITHOUT_ORDERS)
    runtime.beat("new", -1)
    group = runtime.groups.shards.hosted(0).groups[GROUP]
    assert isinstance(group, ClassicGroup)
    for member in (first, second):
        assert decode_assignment(group.members[member].assignment, TOPICS) == (frozenset(), False)
        assert runtime.heartbeat(member, group.generation_id) is ErrorCode.REBALANCE_IN_PROGRESS


def test_group_is_classic_when_the_last_member_of_the_new_protocol_is_silent() -> None:
    runtime, (first, second) = upgraded()
    for _ in range(10):
        runtime.advance(5_000)
        runtime.heartbeat(first, 1)
        runtime.heartbeat(second, 1)
    assert finish(runtime.groups.list_groups()).groups[0].group_type == "classic"


def test_group_stays_when_the_policy_forbids_the_downgrade() -> None:
    settings = AT_ONCE._replace(consumer_migration_policy=MigrationPolicy.UPGRADE)
    runtime, _ = classic_group(settings=settings)
    runtime.enter("new")
    runtime.beat("new", -1)
    assert finish(runtime.groups.list_groups()).groups[0].group_type == "consumer"


def test_former_group_is_back_when_the_downgrade_cannot_be_written() -> None:
    runtime, _ = upgraded()
    before = durable(runtime.consumer_group())
    runtime.fail_next_append_with = ErrorCode.NOT_ENOUGH_REPLICAS
    assert runtime.beat("new", -1).error is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert durable(runtime.consumer_group()) == before
    assert runtime.beat("new", 2).error is ErrorCode.NONE


def test_group_is_classic_when_its_last_new_member_returns_with_the_classic_protocol() -> None:
    runtime, (first, second) = classic_group()
    runtime.enter("new", instance_id="i")
    runtime.beat("new", -2, instance_id="i")
    joined = runtime.joined(runtime.join(protocols=(RANGE, STICKY), group_instance_id="i"))
    assert joined.error is ErrorCode.NONE
    group = runtime.groups.shards.hosted(0).groups[GROUP]
    assert isinstance(group, ClassicGroup)
    assert set(group.members) == {first, second, joined.member_id}
    assert joined.generation_id == group.generation_id == 2
    replayed = runtime.restarted().groups.shards.hosted(0).groups[GROUP]
    assert isinstance(replayed, ClassicGroup)
    assert set(replayed.members) == set(group.members)


def test_empty_group_becomes_classic_when_a_classic_member_joins() -> None:
    runtime = ConsumerRuntime()
    runtime.enter("new")
    runtime.beat("new", -1)
    runtime.new_member_id()
    assert finish(runtime.groups.list_groups()).groups[0].group_type == "classic"
    assert finish(runtime.restarted().groups.list_groups()).groups[0].group_type == "classic"


def test_empty_group_is_back_when_its_end_cannot_be_written() -> None:
    runtime = ConsumerRuntime()
    runtime.enter("new")
    runtime.beat("new", -1)
    runtime.fail_next_append_with = ErrorCode.NOT_ENOUGH_REPLICAS
    runtime.join()
    assert runtime.consumer_state() == "Empty"
