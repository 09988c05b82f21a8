"""Members of the KIP-848 protocol: joining, reconciling, leaving, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.groups.requests import NO_MEMBER_ID
from penstock.groups.settings import GroupSettings
from penstock.groups.topics import Topic, Topics
from penstock.protocol.errors import ErrorCode
from tests.unit.groups.consumer_harness import (
    AT_ONCE,
    ORDERS,
    REVOCATION_MS,
    USERS,
    ConsumerRuntime,
    durable,
    of_orders,
    of_users,
)
from tests.unit.groups.harness import GROUP

SESSION_MS = 45_000


def two_members() -> ConsumerRuntime:
    """`a` and `b` share the four partitions of orders evenly, in epoch 3."""
    runtime = ConsumerRuntime()
    runtime.enter("a")
    runtime.enter("b")
    told = runtime.owns("a", 2, *of_orders(0, 1, 2, 3))
    assert told.assignment is not None
    runtime.owns("a", 2, *told.assignment)
    runtime.beat("b", 3)
    assert runtime.consumer_state() == "Stable"
    return runtime


def assigned(runtime: ConsumerRuntime, member_id: str) -> set[Any]:
    return set(runtime.consumer_group().members[member_id].assigned)


# ------------------------------------------------------------------------------------------------ joining


def test_member_gets_everything_when_it_is_alone() -> None:
    runtime = ConsumerRuntime()
    answer = runtime.enter("a")
    assert answer.error is ErrorCode.NONE
    assert (answer.member_id, answer.member_epoch, answer.heartbeat_interval_ms) == ("a", 2, 5_000)
    assert answer.assignment == of_orders(0, 1, 2, 3)
    assert runtime.consumer_state() == "Stable"


def test_member_id_is_made_up_when_an_old_client_brings_none() -> None:
    answer = ConsumerRuntime().enter(NO_MEMBER_ID, must_bring_member_id=False)
    assert answer.member_id


def test_nothing_is_said_of_the_assignment_when_it_has_not_changed() -> None:
    runtime = ConsumerRuntime()
    runtime.enter("a")
    assert runtime.beat("a", 2).assignment is None
    assert runtime.owns("a", 2, *of_orders(0, 1, 2, 3)).assignment is None


def test_assignment_is_told_again_when_the_request_is_a_full_one() -> None:
    runtime = ConsumerRuntime()
    runtime.enter("a")
    full = {"rebalance_timeout_ms": REVOCATION_MS, "topic_names": frozenset({"orders"})}
    answer = runtime.beat("a", 2, owned=frozenset(of_orders(0)), **full)
    assert answer.assignment == of_orders(0, 1, 2, 3)


def test_nothing_is_written_when_a_heartbeat_says_nothing_new() -> None:
    runtime = ConsumerRuntime()
    runtime.enter("a")
    before = len(runtime.log)
    runtime.beat("a", 2)
    assert len(runtime.log) == before


def test_partition_moves_only_after_its_owner_gave_it_up() -> None:
    runtime = ConsumerRuntime()
    runtime.enter("a")
    newcomer = runtime.enter("b")
    assert (newcomer.member_epoch, newcomer.assignment) == (3, ())
    told = runtime.owns("a", 2, *of_orders(0, 1, 2, 3))
    assert told.member_epoch == 2
    assert told.assignment is not None
    assert len(told.assignment) == 2
    assert runtime.beat("b", 3).assignment is None
    assert runtime.consumer_state() == "Reconciling"
    done = runtime.owns("a", 2, *told.assignment)
    assert (done.member_epoch, done.assignment) == (3, None)
    got = runtime.beat("b", 3)
    assert got.assignment is not None
    assert set(got.assignment) | set(told.assignment) == set(of_orders(0, 1, 2, 3))
    assert runtime.consumer_state() == "Stable"


def test_target_waits_when_the_last_one_is_too_recent() -> None:
    runtime = ConsumerRuntime(GroupSettings(consumer_assignment_interval_ms=1_000))
    runtime.enter("a")
    assert runtime.enter("b").member_epoch == 2
    assert runtime.consumer_state() == "Assigning"
    runtime.advance(1_000)
    assert runtime.beat("b", 2).member_epoch == 3
    assert runtime.consumer_state() == "Reconciling"


# ------------------------------------------------------------------------------------------------ what is refused


@pytest.mark.parametrize(
    ("bent", "message"),
    [
        ({"member_id": ""}, "MemberId can't be empty."),
        ({"group_id": ""}, "GroupId can't be empty."),
        ({"instance_id": ""}, "InstanceId can't be empty."),
        ({"rack_id": ""}, "RackId can't be empty."),
        ({"rebalance_timeout_ms": -1}, "RebalanceTimeoutMs must be provided in first request."),
        ({"owned": None}, "TopicPartitions must be empty when (re-)joining."),
        ({"owned": frozenset(of_orders(0))}, "TopicPartitions must be empty when (re-)joining."),
        (
            {"topic_names": None},
            "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining.",
        ),
        ({"member_epoch": -2}, "InstanceId can't be null."),
        ({"member_epoch": -3}, "MemberEpoch is invalid."),
    ],
)
def test_request_is_refused_when_it_makes_no_sense(bent: dict[str, Any], message: str) -> None:
    runtime = ConsumerRuntime()
    answer = runtime.enter(**{"member_id": "a", **bent})
    assert (answer.error, answer.error_message) == (ErrorCode.INVALID_REQUEST, message)
    assert runtime.log == []


def test_assignor_is_refused_when_it_is_not_known() -> None:
    answer = ConsumerRuntime().enter("a", server_assignor="mine")
    assert answer.error is ErrorCode.UNSUPPORTED_ASSIGNOR


def test_member_is_refused_when_the_group_is_full() -> None:
    runtime = ConsumerRuntime(AT_ONCE._replace(consumer_max_size=1))
    runtime.enter("a")
    assert runtime.enter("b").error is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert runtime.enter("a").error is ErrorCode.NONE


def test_member_is_refused_when_the_members_of_the_group_would_say_too_much() -> None:
    runtime = ConsumerRuntime(AT_ONCE._replace(max_metadata_bytes=1_000))
    long, longer = "x" * 400, "y" * 900
    for member in ("a", "b"):
        epoch = runtime.enter(member, topic_names=frozenset({long})).member_epoch
    answer = runtime.enter("c", topic_names=frozenset({long}))
    assert answer.error is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert "1000" in (answer.error_message or "")
    assert runtime.beat("b", epoch, topic_names=frozenset({longer})).error is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert runtime.beat("b", epoch, topic_names=frozenset({"y" * 400})).error is ErrorCode.NONE
    runtime.beat("b", -1)
    assert runtime.enter("c", topic_names=frozenset({long})).error is ErrorCode.NONE


def test_heartbeat_is_refused_when_the_group_or_the_member_is_unknown() -> None:
    runtime = ConsumerRuntime()
    assert runtime.beat("a", 2).error is ErrorCode.GROUP_ID_NOT_FOUND
    runtime.enter("a")
    assert runtime.beat("b", 2).error is ErrorCode.UNKNOWN_MEMBER_ID
    assert runtime.beat("b", -1).error is ErrorCode.UNKNOWN_MEMBER_ID
    assert runtime.beat("a", -1, instance_id="i").error is ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize("epoch", [2, 4])
def test_member_is_fenced_when_its_epoch_is_not_the_known_one(epoch: int) -> None:
    runtime = two_members()
    answer = runtime.owns("a", epoch, *of_orders(0, 1, 2, 3))
    assert answer.error is ErrorCode.FENCED_MEMBER_EPOCH


def test_previous_epoch_is_good_when_the_answer_with_the_new_one_was_lost() -> None:
    runtime = two_members()
    answer = runtime.owns("a", 2, *assigned(runtime, "a"))
    assert (answer.error, answer.member_epoch) == (ErrorCode.NONE, 3)
    assert runtime.beat("a", 2).error is ErrorCode.FENCED_MEMBER_EPOCH


def test_member_has_what_it_had_when_it_joins_again_under_its_id() -> None:
    runtime = two_members()
    answer = runtime.enter("a")
    assert answer.assignment == tuple(sorted(assigned(runtime, "a")))
    assert answer.member_epoch == 3


# ------------------------------------------------------------------------------------------------ leaving


def test_partitions_are_free_when_their_member_left() -> None:
    runtime = two_members()
    left = runtime.beat("b", -1)
    assert (left.error, left.member_epoch) == (ErrorCode.NONE, -1)
    answer = runtime.beat("a", 3)
    assert (answer.member_epoch, answer.assignment) == (4, of_orders(0, 1, 2, 3))


def test_group_is_empty_when_the_last_member_left() -> None:
    runtime = ConsumerRuntime()
    runtime.enter("a")
    runtime.beat("a", -1)
    assert runtime.consumer_state() == "Empty"
    assert runtime.consumer_group().owners == {}


def test_member_is_out_when_it_was_silent_for_too_long() -> None:
    runtime = two_members()
    runtime.advance(SESSION_MS - 1)
    runtime.beat("a", 3)
    runtime.advance(1)
    assert list(runtime.consumer_group().members) == ["a"]
    assert runtime.beat("b", 3).error is ErrorCode.UNKNOWN_MEMBER_ID


def test_member_is_out_when_it_does_not_give_up_in_time() -> None:
    runtime = ConsumerRuntime()
    runtime.enter("a")
    runtime.enter("b")
    runtime.owns("a", 2, *of_orders(0, 1, 2, 3))
    runtime.advance(REVOCATION_MS - 1)
    runtime.owns("a", 2, *of_orders(0, 1, 2, 3))
    runtime.beat("b", 3)
    runtime.advance(1)
    assert list(runtime.consumer_group().members) == ["b"]
    assert runtime.beat("b", 3).assignment == of_orders(0, 1, 2, 3)


def test_member_stays_when_it_gave_up_in_time() -> None:
    runtime = two_members()
    runtime.advance(REVOCATION_MS + 1)
    assert set(runtime.consumer_group().members) == {"a", "b"}


# ------------------------------------------------------------------------------------------------ static members


def test_static_member_keeps_its_partitions_when_it_leaves_for_a_while() -> None:
    runtime = ConsumerRuntime()
    runtime.enter("a", instance_id="i")
    runtime.enter("b")
    runtime.owns("a", 2, *of_orders(0, 1, 2, 3))
    before = runtime.owns("a", 2, *assigned(runtime, "a"))
    assert before.member_epoch == 3
    kept = assigned(runtime, "a")
    left = runtime.beat("a", -2, instance_id="i")
    assert (left.error, left.member_epoch) == (ErrorCode.NONE, -2)
    back = runtime.enter("c", instance_id="i")
    assert back.error is ErrorCode.NONE
    assert set(back.assignment or ()) == kept
    assert back.member_epoch == 3
    assert runtime.consumer_group().static_members == {"i": "c"}
    assert "a" not in runtime.consumer_group().members
    assert runtime.beat("a", 3, instance_id="i").error is ErrorCode.FENCED_INSTANCE_ID


def test_static_member_is_out_when_it_does_not_come_back() -> None:
    runtime = ConsumerRuntime()
    runtime.enter("a", instance_id="i")
    runtime.beat("a", -2, instance_id="i")
    runtime.advance(SESSION_MS)
    assert runtime.consumer_state() == "Empty"
    assert runtime.consumer_group().static_members == {}


def test_instance_is_refused_when_another_process_holds_it() -> None:
    runtime = ConsumerRuntime()
    runtime.enter("a", instance_id="i")
    assert runtime.enter("b", instance_id="i").error is ErrorCode.UNRELEASED_INSTANCE_ID
    assert runtime.beat("b", 2, instance_id="i").error is ErrorCode.FENCED_INSTANCE_ID
    assert runtime.beat("b", -1, instance_id="i").error is ErrorCode.FENCED_INSTANCE_ID
    assert runtime.beat("b", 2, instance_id="j").error is ErrorCode.UNKNOWN_MEMBER_ID


# ------------------------------------------------------------------------------------------------ topics


def test_new_partitions_are_assigned_when_a_topic_gets_some() -> None:
    runtime = ConsumerRuntime()
    runtime.enter("a")
    runtime.groups.on_topics_changed(Topics.of([Topic("orders", ORDERS, 5), Topic("users", USERS, 2)]))
    answer = runtime.beat("a", 2)
    assert (answer.member_epoch, answer.assignment) == (3, of_orders(0, 1, 2, 3, 4))


def test_epoch_stays_when_a_topic_of_no_interest_changes() -> None:
    runtime = ConsumerRuntime()
    runtime.enter("a")
    runtime.groups.on_topics_changed(Topics.of([Topic("orders", ORDERS, 4), Topic("users", USERS, 9)]))
    assert runtime.beat("a", 2).member_epoch == 2


def test_partitions_are_taken_away_when_their_topic_is_deleted() -> None:
    runtime = ConsumerRuntime()
    runtime.enter("a", "orders", "users")
    runtime.groups.on_topics_changed(Topics.of([Topic("users", USERS, 2)]))
    answer = runtime.owns("a", 2, *of_orders(0, 1, 2, 3), *of_users(0, 1))
    assert answer.assignment == of_users(0, 1)


def test_topic_is_assigned_when_it_is_created_after_it_was_subscribed_to() -> None:
    runtime = ConsumerRuntime(topics=Topics())
    assert runtime.enter("a", "orders").assignment == ()
    runtime.groups.on_topics_changed(Topics.of([Topic("orders", ORDERS, 1)]))
    assert runtime.beat("a", 2).assignment == of_orders(0)


def test_topics_are_exchanged_when_the_subscription_changes() -> None:
    runtime = ConsumerRuntime()
    runtime.enter("a", "orders")
    told = runtime.beat("a", 2, topic_names=frozenset({"users"}), owned=frozenset(of_orders(0, 1, 2, 3)))
    assert (told.member_epoch, told.assignment) == (2, ())
    done = runtime.owns("a", 2)
    assert (done.member_epoch, done.assignment) == (3, of_users(0, 1))


# ------------------------------------------------------------------------------------------------ expressions


def test_expression_picks_topics_when_they_match_it_whole() -> None:
    runtime = ConsumerRuntime()
    answer = runtime.enter("a", topic_names=None, topic_regex="ord.*")
    assert answer.assignment == of_orders(0, 1, 2, 3)
    assert runtime.consumer_group().expressions["ord.*"].topics == {"orders"}


def test_expression_is_refused_when_it_is_none() -> None:
    runtime = ConsumerRuntime()
    answer = runtime.enter("a", topic_names=None, topic_regex="(")
    assert answer.error is ErrorCode.INVALID_REGULAR_EXPRESSION
    assert runtime.log == []


def test_expression_hides_topics_when_the_client_may_not_see_them() -> None:
    runtime = ConsumerRuntime()
    answer = runtime.enter("a", topic_regex=".*", topic_names=None, may_describe=lambda topic: topic == "users")
    assert answer.assignment == of_users(0, 1)


def test_new_topic_is_found_by_an_expression_when_ten_seconds_have_passed() -> None:
    runtime = ConsumerRuntime(topics=Topics.of([Topic("users", USERS, 2)]))
    runtime.enter("a", topic_names=None, topic_regex=".*")
    runtime.groups.on_topics_changed(Topics.of([Topic("orders", ORDERS, 4), Topic("users", USERS, 2)]))
    assert runtime.beat("a", 2).member_epoch == 2
    runtime.advance(10_001)
    answer = runtime.beat("a", 2)
    assert (answer.member_epoch, answer.assignment) == (3, (*of_orders(0, 1, 2, 3), *of_users(0, 1)))


def test_expression_is_forgotten_when_nobody_uses_it() -> None:
    runtime = ConsumerRuntime()
    runtime.enter("a", topic_names=None, topic_regex="ord.*")
    runtime.enter("b", topic_names=None, topic_regex="use.*")
    runtime.beat("b", -1)
    assert set(runtime.consumer_group().expressions) == {"ord.*"}
    runtime.beat("a", 2, topic_regex="", topic_names=frozenset({"users"}))
    assert runtime.consumer_group().expressions == {}


# ------------------------------------------------------------------------------------------------ logs


def test_state_is_the_same_when_the_coordinator_restarts() -> None:
    runtime = two_members()
    runtime.enter("c", instance_id="i", topic_names=None, topic_regex="use.*", server_assignor="range", rack_id="r")
    again = runtime.restarted()
    assert durable(again.consumer_group()) == durable(runtime.consumer_group())
    again.advance(SESSION_MS)
    assert again.consumer_state() == "Empty"


def test_nothing_has_happened_when_the_records_cannot_be_written() -> None:
    runtime = two_members()
    before = durable(runtime.consumer_group())
    runtime.fail_next_append_with = ErrorCode.NOT_ENOUGH_REPLICAS
    answer = runtime.beat("b", -1)
    assert answer.error is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert durable(runtime.consumer_group()) == before
    runtime.advance(SESSION_MS)  # its session still counts
    assert runtime.consumer_state() == "Empty"


# ----------------------------------------------------------------------------------------------- settings


def test_member_is_told_its_groups_interval_when_the_group_has_settings_of_its_own() -> None:
    runtime = ConsumerRuntime()
    epoch = runtime.enter("a").member_epoch
    own = AT_ONCE._replace(consumer_heartbeat_interval_ms=7_000, consumer_session_timeout_ms=50_000)
    runtime.groups.change_settings(AT_ONCE, {GROUP: own})
    assert runtime.beat("a", epoch).heartbeat_interval_ms == 7_000
    runtime.advance(SESSION_MS)
    assert runtime.consumer_state() == "Stable"
    runtime.advance(50_000 - SESSION_MS)
    assert runtime.consumer_state() == "Empty"


def test_settings_are_the_brokers_again_when_the_group_loses_its_own() -> None:
    runtime = ConsumerRuntime()
    runtime.groups.change_settings(AT_ONCE, {GROUP: AT_ONCE._replace(consumer_heartbeat_interval_ms=7_000)})
    epoch = runtime.enter("a").member_epoch
    runtime.groups.change_settings(AT_ONCE._replace(consumer_heartbeat_interval_ms=6_000), {})
    assert runtime.beat("a", epoch).heartbeat_interval_ms == 6_000
