"""Regular expressions are matched in steps before the heartbeat that needs them is decided on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from penstock.groups.operations.table import CONSUMER_HEARTBEAT
from penstock.groups.requests import ConsumerHeartbeatRequest
from penstock.groups.results import ConsumerHeartbeatResult
from penstock.groups.settings import GroupSettings
from penstock.groups.topics import Topic, Topics
from penstock.protocol.errors import ErrorCode
from tests.unit.groups.consumer_harness import ConsumerRuntime, durable
from tests.unit.groups.harness import GROUP

SOME = [Topic(f"orders-{number}", bytes([number]) * 16, 1) for number in range(1, 5)]
TOPICS = Topics.of([*SOME, Topic("users", b"u" * 16, 1)])


def joining(member_id: str, expression: str, **more: Any) -> ConsumerHeartbeatRequest:
    return ConsumerHeartbeatRequest(
        GROUP,
        member_id,
        0,
        rebalance_timeout_ms=30_000,
        topic_regex=expression,
        owned=frozenset(),
        client_id="client",
        client_host="/127.0.0.1",
        **more,
    )


def assigned(result: ConsumerHeartbeatResult) -> int:
    assert result.error is ErrorCode.NONE
    return len(result.assignment or ())


def test_topics_are_those_of_the_expression_when_it_was_matched_in_steps() -> None:
    runtime, at_once = ConsumerRuntime(topics=TOPICS), ConsumerRuntime(topics=TOPICS)
    assert assigned(runtime.perform_prepared(CONSUMER_HEARTBEAT, joining("m", "orders-[1-3]"))) == 3
    at_once.enter("m", topic_names=None, topic_regex="orders-[1-3]")
    assert runtime.log == at_once.log


def test_topics_stay_hidden_when_the_client_may_not_describe_them() -> None:
    runtime = ConsumerRuntime(topics=TOPICS)
    request = joining("m", ".*", may_describe=lambda name: name != "users")
    assert assigned(runtime.perform_prepared(CONSUMER_HEARTBEAT, request)) == 4


def test_expression_is_matched_anew_when_a_topic_is_created_meanwhile() -> None:
    runtime = ConsumerRuntime(topics=TOPICS)
    created = Topics.of([*TOPICS.by_name.values(), Topic("orders-9", b"n" * 16, 1)], TOPICS.version + 1)
    request = joining("m", "orders-.*")
    result = runtime.perform_prepared(CONSUMER_HEARTBEAT, request, lambda: runtime.groups.on_topics_changed(created))
    assert result is None
    assert not runtime.log
    assert assigned(runtime.perform_prepared(CONSUMER_HEARTBEAT, request)) == 5


def test_other_expressions_are_matched_too_when_they_become_due_meanwhile() -> None:
    runtime = ConsumerRuntime(topics=TOPICS)
    runtime.perform_prepared(CONSUMER_HEARTBEAT, joining("m1", "users"))
    request = joining("m2", "orders-.*")

    def years_later() -> None:
        runtime.now_ms += 365 * 24 * 60 * 60 * 1000

    assert runtime.perform_prepared(CONSUMER_HEARTBEAT, request, years_later) is None
    assert assigned(runtime.perform_prepared(CONSUMER_HEARTBEAT, request)) == 4
    assert set(runtime.consumer_group().expressions) == {"users", "orders-.*"}


def test_member_is_refused_when_its_expression_is_not_valid() -> None:
    runtime = ConsumerRuntime(topics=TOPICS)
    result = runtime.perform_prepared(CONSUMER_HEARTBEAT, joining("m", "orders-("), steps=0)
    assert result.error is ErrorCode.INVALID_REGULAR_EXPRESSION
    assert result.error_message.startswith("SubscribedTopicRegex `orders-(`")
    assert not runtime.log


def test_member_is_fenced_when_another_takes_its_instance_meanwhile() -> None:
    runtime = ConsumerRuntime(topics=TOPICS)

    def join_first() -> None:
        runtime.enter("m1", "users", instance_id="i")

    result = runtime.perform_prepared(CONSUMER_HEARTBEAT, joining("m2", "users", instance_id="i"), join_first)
    assert result.error is ErrorCode.UNRELEASED_INSTANCE_ID


def test_nothing_is_prepared_when_no_expression_is_new() -> None:
    runtime = ConsumerRuntime(topics=TOPICS)
    epoch = runtime.perform_prepared(CONSUMER_HEARTBEAT, joining("m", "users")).member_epoch
    staying = joining("m", "users")._replace(member_epoch=epoch)
    assert list(runtime.groups.shards.prepare(CONSUMER_HEARTBEAT, staying, runtime.now_ms)) == []


# ---------------------------------------------------------------------------------------------------- many partitions

LARGE = Topics.of([Topic("orders", b"o" * 16, 1_000), Topic("users", b"u" * 16, 1)])


def entering(member_id: str, **more: Any) -> ConsumerHeartbeatRequest:
    return joining(member_id, "")._replace(topic_regex=None, topic_names=frozenset({"orders"}), **more)


def check_reload(runtime: ConsumerRuntime) -> None:
    assert durable(runtime.consumer_group()) == durable(runtime.restarted().consumer_group())


def test_records_and_memory_are_those_of_one_turn_when_many_partitions_were_assigned_in_steps() -> None:
    runtime, at_once = ConsumerRuntime(topics=LARGE), ConsumerRuntime(topics=LARGE)
    for member_id in ("m1", "m2"):
        result = runtime.perform_prepared(CONSUMER_HEARTBEAT, entering(member_id))
        assert result == at_once.enter(member_id, "orders")
    first = runtime.consumer_group().members["m1"]
    staying = ConsumerHeartbeatRequest(
        GROUP, "m1", first.member_epoch, owned=frozenset(first.assigned), client_id="client", client_host="/127.0.0.1"
    )
    result = runtime.perform_prepared(CONSUMER_HEARTBEAT, staying)
    assert len(result.assignment) == 500
    assert result == at_once.owns("m1", first.member_epoch, *first.assigned)
    assert runtime.log == at_once.log
    assert runtime.timers == at_once.timers
    assert durable(runtime.consumer_group()) == durable(at_once.consumer_group())
    check_reload(runtime)


def test_static_member_has_what_its_former_self_had_when_it_returned_in_steps() -> None:
    runtime, at_once = ConsumerRuntime(topics=LARGE), ConsumerRuntime(topics=LARGE)
    for each in (runtime, at_once):
        each.enter("m1", "orders", instance_id="i")
        each.beat("m1", -2, instance_id="i")
    result = runtime.perform_prepared(CONSUMER_HEARTBEAT, entering("m2", instance_id="i"))
    assert result == at_once.enter("m2", "orders", instance_id="i")
    assert runtime.log == at_once.log
    check_reload(runtime)


@pytest.mark.parametrize("steps", [1, 5, 20, 50])
@pytest.mark.parametrize("event", ["join", "leave", "topic", "settings", "end"])
def test_nothing_happens_when_the_group_changes_between_two_steps(event: str, steps: int) -> None:
    runtime = ConsumerRuntime(topics=LARGE)
    runtime.enter("m1", "orders")
    runtime.enter("m2", "users")
    grown = Topics.of([Topic("orders", b"o" * 16, 1_200)], LARGE.version + 1)
    events: dict[str, Callable[[], object]] = {
        "join": lambda: runtime.enter("m4", "users"),
        "leave": lambda: runtime.beat("m2", -1),
        "topic": lambda: runtime.groups.on_topics_changed(grown),
        "settings": lambda: runtime.groups.change_settings(GroupSettings(), {}),
        "end": lambda: [runtime.beat(member_id, -1) for member_id in ("m1", "m2")],
    }
    lengths = []

    def happen() -> None:
        events[event]()
        lengths.append(len(runtime.log))

    assert runtime.perform_prepared(CONSUMER_HEARTBEAT, entering("m3"), happen, steps) is None
    assert [len(runtime.log)] == lengths
    assert runtime.perform_prepared(CONSUMER_HEARTBEAT, entering("m3")).error is ErrorCode.NONE
    check_reload(runtime)


def test_two_members_join_one_after_the_other_when_both_founded_the_group() -> None:
    runtime = ConsumerRuntime(topics=LARGE)

    def found() -> None:
        runtime.perform_prepared(CONSUMER_HEARTBEAT, entering("m1"))

    assert runtime.perform_prepared(CONSUMER_HEARTBEAT, entering("m2"), found) is None
    runtime.perform_prepared(CONSUMER_HEARTBEAT, entering("m2"))
    assert set(runtime.consumer_group().members) == {"m1", "m2"}
    check_reload(runtime)
