"""Regular expressions are matched in steps before the heartbeat that needs them is decided on."""

from __future__ import annotations

from typing import Any

from penstock.groups.operations.table import CONSUMER_HEARTBEAT
from penstock.groups.requests import ConsumerHeartbeatRequest
from penstock.groups.results import ConsumerHeartbeatResult
from penstock.groups.topics import Topic, Topics
from penstock.protocol.errors import ErrorCode
from tests.unit.groups.consumer_harness import ConsumerRuntime
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
