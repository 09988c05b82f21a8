from __future__ import annotations

from typing import Any

import pytest

from penstock.core.types import TopicPartition
from penstock.groups.operations.table import COMMIT_IN_TRANSACTION, FETCH_OFFSETS
from penstock.groups.outcome import GroupOutcome, TransactionalProducer
from penstock.groups.requests import LeavingMember, OffsetFetchRequest, OffsetToCommit, TransactionalCommitRequest
from penstock.groups.results import OffsetCommitResult
from penstock.groups.settings import GroupSettings
from penstock.protocol.errors import ErrorCode
from tests.unit.coordinators.tokens import NOBODY
from tests.unit.groups.harness import GROUP, Runtime

PRODUCER = TransactionalProducer(7, 2)
COMMIT = OffsetToCommit("orders", 0, 5)
ORDERS_0 = TopicPartition("orders", 0)


def decide(runtime: Runtime, *offsets: OffsetToCommit, group_id: str = GROUP, **values: Any) -> GroupOutcome:
    request = TransactionalCommitRequest(group_id, *PRODUCER, offsets or (COMMIT,), **values)
    return runtime.groups.shards.perform(COMMIT_IN_TRANSACTION, NOBODY, request, runtime.now_ms)


def append(runtime: Runtime, outcome: GroupOutcome) -> None:
    """As the real runtime does with the records of a transactional batch."""
    assert outcome.producer is not None
    for record in outcome.records:
        runtime.log.append(record)
        runtime.groups.shards.replay(0, *record, len(runtime.log) - 1, outcome.producer.producer_id)


def errors(outcome: GroupOutcome) -> tuple[ErrorCode, ...]:
    (reply,) = outcome.replies
    assert isinstance(reply.result, OffsetCommitResult)
    return tuple(entry.error for entry in reply.result.partitions)


def fetched(runtime: Runtime, *, require_stable: bool) -> tuple[int, ErrorCode]:
    request = OffsetFetchRequest(GROUP, [ORDERS_0], require_stable=require_stable)
    (found,) = runtime.groups.shards.read(FETCH_OFFSETS, request).partitions
    return found.offset, found.error


def test_records_are_the_producers_when_offsets_are_committed_in_its_transaction() -> None:
    outcome = decide(Runtime())
    assert errors(outcome) == (ErrorCode.NONE,)
    assert outcome.producer == PRODUCER
    assert len(outcome.records) == 1


@pytest.mark.parametrize(("is_committed", "expected"), [(True, 5), (False, -1)])
def test_offset_is_unstable_until_the_transaction_ends(is_committed: bool, expected: int) -> None:
    runtime = Runtime()
    append(runtime, decide(runtime))
    assert fetched(runtime, require_stable=True) == (-1, ErrorCode.UNSTABLE_OFFSET_COMMIT)
    assert fetched(runtime, require_stable=False) == (-1, ErrorCode.NONE)
    runtime.groups.replay_transaction_end(0, PRODUCER.producer_id, is_committed)
    assert fetched(runtime, require_stable=True) == (expected, ErrorCode.NONE)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({}, ErrorCode.NONE),  # TxnOffsetCommit before version 3 names nobody
        ({"member_id": "client-1", "generation_id": 1}, ErrorCode.NONE),
        ({"member_id": "stranger", "generation_id": 1}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"member_id": "client-1", "generation_id": 0}, ErrorCode.ILLEGAL_GENERATION),
        ({"member_id": "client-1"}, ErrorCode.ILLEGAL_GENERATION),
        ({"member_id": "client-1", "generation_id": 1, "group_instance_id": "x"}, ErrorCode.UNKNOWN_MEMBER_ID),
    ],
)
def test_commit_is_judged_by_member_and_generation_when_they_are_named(
    values: dict[str, Any], expected: ErrorCode
) -> None:
    runtime = Runtime()
    runtime.stable_group()
    outcome = decide(runtime, **values)
    assert errors(outcome) == (expected,)
    assert bool(outcome.records) is (expected is ErrorCode.NONE)


def test_commit_is_refused_when_a_static_member_was_replaced() -> None:
    runtime = Runtime()
    (old,) = runtime.static_group("a")
    runtime.join(group_instance_id="a")
    outcome = decide(runtime, member_id=old, generation_id=1, group_instance_id="a")
    assert errors(outcome) == (ErrorCode.FENCED_INSTANCE_ID,)


def test_commit_is_refused_when_the_group_is_unknown_and_a_generation_is_named() -> None:
    assert errors(decide(Runtime(), member_id="m", generation_id=1)) == (ErrorCode.ILLEGAL_GENERATION,)
    assert errors(decide(Runtime(), group_id="")) == (ErrorCode.INVALID_GROUP_ID,)


def test_commit_is_refused_when_it_names_no_producer() -> None:
    runtime = Runtime()
    request = TransactionalCommitRequest(GROUP, -1, -1, [COMMIT])
    outcome = runtime.groups.shards.perform(COMMIT_IN_TRANSACTION, NOBODY, request, runtime.now_ms)
    assert errors(outcome) == (ErrorCode.INVALID_PRODUCER_ID_MAPPING,)


def test_commit_is_taken_when_the_assignment_is_awaited() -> None:
    runtime = Runtime()
    member = runtime.new_member_id()
    runtime.join(member)
    runtime.advance(6_000)
    assert errors(decide(runtime, member_id=member, generation_id=1)) == (ErrorCode.NONE,)


def test_one_partition_is_refused_when_its_metadata_is_too_large() -> None:
    runtime = Runtime(GroupSettings(offset_metadata_max_bytes=3))
    outcome = decide(runtime, COMMIT, OffsetToCommit("orders", 1, 1, metadata="long"))
    assert errors(outcome) == (ErrorCode.NONE, ErrorCode.OFFSET_METADATA_TOO_LARGE)
    assert len(outcome.records) == 1


def test_every_partition_fails_when_the_log_knows_a_later_epoch() -> None:
    runtime = Runtime()
    failed = runtime.groups.shards.on_append_failed(decide(runtime), ErrorCode.INVALID_PRODUCER_EPOCH, runtime.now_ms)
    assert errors(failed) == (ErrorCode.INVALID_PRODUCER_EPOCH,)


def test_group_does_not_expire_when_a_transaction_is_open_on_it() -> None:
    runtime = Runtime(GroupSettings(offsets_retention_ms=1))
    (member,) = runtime.stable_group(1)
    append(runtime, decide(runtime, member_id=member, generation_id=1))
    runtime.leave(LeavingMember(member))
    runtime.advance(1_000)
    assert runtime.groups.expire_offsets(0, runtime.now_ms).records == []
    runtime.groups.replay_transaction_end(0, PRODUCER.producer_id, True)
    assert len(runtime.groups.expire_offsets(0, runtime.now_ms).records) == 2  # the offset and the group
