from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import pytest

from penstock.coordinators.operations import Operation, Query, Refusal
from penstock.coordinators.outcome import CoordinatorRecord, Outcome, Result, Token
from penstock.coordinators.routing import ShardKind, Shards
from penstock.protocol.errors import ApiError, ErrorCode
from tests.unit.coordinators.tokens import NOBODY, Receipt

NOW_MS = 1_000


class Key(NamedTuple):
    partition: int


class Answer(NamedTuple):
    error: ErrorCode

    def failed(self, error: ErrorCode) -> Answer:
        return Answer(error)


class Counter:
    """A shard that counts its records."""

    def __init__(self, partition: int, leader_epoch: int) -> None:
        self.partition = partition
        self.leader_epoch = leader_epoch
        self.settings = "first"
        self.count = 0

    def replay(self, key: bytes, value: bytes | None, record_offset: int, producer_id: int) -> None:
        self.count += 1

    def abandon(self, now_ms: int) -> Iterator[Outcome[Key]]:
        return iter([Outcome(self.partition)])

    def on_append_failed(self, failed: Outcome[Key], append_error: ErrorCode, now_ms: int) -> Outcome[Key]:
        return Outcome(self.partition, replies=failed.failed_replies(append_error))


def add(shard: Counter, token: Token[Answer], request: str, now_ms: int) -> Outcome[Key]:
    if request == "refused":
        raise ApiError(ErrorCode.INVALID_TXN_STATE)
    outcome: Outcome[Key] = Outcome(shard.partition, [CoordinatorRecord(request.encode(), None)])
    outcome.reply(token, Answer(ErrorCode.NONE))
    return outcome


def check(request: str, settings: str) -> Refusal | None:
    return None if request else Refusal(ErrorCode.INVALID_REQUEST)


ADD: Operation[Counter, Outcome[Key], str, str, Answer] = Operation(
    lambda request: request, check, add, lambda _, refusal: Answer(refusal.error)
)
COUNT: Query[Counter, str, int | ErrorCode] = Query(
    lambda request: request, lambda _: None, lambda shard, _: shard.count, lambda _, refusal: refusal.error
)


CounterShards = Shards[Counter, Outcome[Key], Key, str]


@pytest.fixture
def shards() -> CounterShards:
    kind: ShardKind[Counter, Outcome[Key], Key] = ShardKind(
        Outcome, Counter, lambda shard, _: Outcome(shard.partition), lambda shard, _key, _now: Outcome(shard.partition)
    )
    return Shards(kind, "first", 1)


@pytest.fixture
def active(shards: CounterShards) -> CounterShards:
    shards.begin_loading(0, 7)
    shards.finish_loading(0, NOW_MS)
    return shards


def ask(shards: CounterShards, request: str) -> tuple[Outcome[Key], object]:
    replies: dict[object, Result] = {}
    outcome = shards.perform(ADD, Receipt(replies), request, NOW_MS)
    for reply in outcome.replies:
        reply.release()
    (result,) = replies.values()
    return outcome, result


def test_request_and_question_are_refused_when_the_partition_is_not_here(
    shards: CounterShards,
) -> None:
    assert ask(shards, "x")[1] == Answer(ErrorCode.NOT_COORDINATOR)
    assert shards.read(COUNT, "x") is ErrorCode.NOT_COORDINATOR
    shards.begin_loading(0, 7)
    assert ask(shards, "x")[1] == Answer(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    assert shards.read(COUNT, "x") is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


def test_request_is_checked_first_when_the_partition_is_not_here(
    shards: CounterShards,
) -> None:
    assert ask(shards, "")[1] == Answer(ErrorCode.INVALID_REQUEST)


def test_request_is_refused_without_records_when_the_operation_raises(
    active: CounterShards,
) -> None:
    outcome, result = ask(active, "refused")
    assert (outcome.records, result) == ([], Answer(ErrorCode.INVALID_TXN_STATE))


def test_state_is_seen_when_the_records_were_replayed(active: CounterShards) -> None:
    outcome, _ = ask(active, "x")
    assert active.read(COUNT, "x") == 0
    for key, value in outcome.records:
        active.replay(0, key, value)
    assert active.read(COUNT, "x") == 1


def test_runtime_is_stopped_when_it_neither_replays_nor_fails(
    active: CounterShards,
) -> None:
    outcome = active.perform(ADD, NOBODY, "x", NOW_MS)
    with pytest.raises(AssertionError, match="neither replayed nor failed"):
        active.perform(ADD, NOBODY, "y", NOW_MS)
    active.on_append_failed(outcome, ErrorCode.KAFKA_STORAGE_ERROR, NOW_MS)
    active.perform(ADD, NOBODY, "y", NOW_MS)


def test_reply_fails_with_a_code_that_clients_know_when_the_append_failed(
    active: CounterShards,
) -> None:
    outcome = active.perform(ADD, NOBODY, "x", NOW_MS)
    failed = active.on_append_failed(outcome, ErrorCode.KAFKA_STORAGE_ERROR, NOW_MS)
    assert [reply.result for reply in failed.replies] == [Answer(ErrorCode.NOT_COORDINATOR)]
    list(active.unload_in_steps(0, NOW_MS))
    gone = active.on_append_failed(outcome, ErrorCode.KAFKA_STORAGE_ERROR, NOW_MS)
    assert [reply.result for reply in gone.replies] == [Answer(ErrorCode.NOT_COORDINATOR)]


def test_every_shard_has_the_settings_when_they_change(active: CounterShards) -> None:
    active.change_settings("second")
    assert (active.settings, active.hosted(0).settings, active.hosted(0).leader_epoch) == ("second", "second", 7)
