"""A large commit is prepared in steps. What happens between the steps counts, and memory is as the log says."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.coordinators.outcome import CoordinatorRecord
from penstock.core.types import NO_PRODUCER_ID, TopicPartition
from penstock.groups.offsets import OffsetStore
from penstock.groups.operations.table import COMMIT_IN_TRANSACTION, COMMIT_OFFSETS, DELETE_GROUP
from penstock.groups.records.consumer_offsets import BatchPlace, CommittedOffset
from penstock.groups.requests import (
    DeleteGroupRequest,
    LeavingMember,
    OffsetCommitRequest,
    OffsetToCommit,
    TransactionalCommitRequest,
)
from penstock.groups.results import OffsetCommitResult
from penstock.protocol.errors import ErrorCode
from tests.unit.groups.consumer_harness import ORDERS, ConsumerRuntime, of_orders
from tests.unit.groups.harness import GROUP, Runtime

OFFSETS = [OffsetToCommit("orders", index, 10 + index, metadata=f"m{index}") for index in range(6)]
PRODUCER_ID = 7


def shown(runtime: Runtime) -> dict[str, dict[TopicPartition, tuple[Any, ...]]]:
    store = runtime.groups.shards.hosted(0).offsets
    return {
        group_id: {
            partition: (*committed[:-2], committed.log_offset)
            for partition, committed in store.of_group(group_id).items()
        }
        for group_id in store.groups()
    }


def errors(result: OffsetCommitResult) -> list[ErrorCode]:
    return [entry.error for entry in result.partitions]


def commit_of(member_id: str, generation_id: int) -> OffsetCommitRequest:
    return OffsetCommitRequest(GROUP, OFFSETS, member_id, generation_id)


@pytest.mark.parametrize(
    "extra",
    [
        pytest.param({}, id="usual"),
        pytest.param({"retention_time_ms": 5_000}, id="with retention time"),
    ],
)
def test_memory_is_as_the_log_says_when_a_commit_was_prepared(extra: dict[str, Any]) -> None:
    runtime = Runtime()
    runtime.commit(OffsetToCommit("orders", 2, 1), OffsetToCommit("users", 0, 1))
    offsets = [*OFFSETS, OffsetToCommit("orders", 0, 99, 3, topic_id=ORDERS)]  # one partition twice
    result = runtime.perform_prepared(COMMIT_OFFSETS, OffsetCommitRequest(GROUP, offsets, **extra))
    assert errors(result) == [ErrorCode.NONE] * 7
    assert shown(runtime)[GROUP][TopicPartition("orders", 0)][0] == 99
    assert shown(runtime) == shown(Runtime(log=runtime.log))


def test_records_are_the_same_when_a_commit_was_prepared() -> None:
    prepared, at_once = Runtime(), Runtime()
    prepared.perform_prepared(COMMIT_OFFSETS, OffsetCommitRequest(GROUP, OFFSETS))
    at_once.commit(*OFFSETS)
    assert prepared.log == at_once.log


def test_only_sound_offsets_are_committed_when_one_has_too_much_metadata() -> None:
    runtime = Runtime()
    offsets = [*OFFSETS[:3], OffsetToCommit("orders", 9, 1, metadata="m" * 5_000), *OFFSETS[3:]]
    result = runtime.perform_prepared(COMMIT_OFFSETS, OffsetCommitRequest(GROUP, offsets))
    assert errors(result)[3] is ErrorCode.OFFSET_METADATA_TOO_LARGE
    assert len(runtime.log) == 6
    assert shown(runtime) == shown(Runtime(log=runtime.log))


def test_nothing_is_committed_when_the_member_leaves_meanwhile() -> None:
    runtime = Runtime()
    _leader, other = runtime.stable_group()
    before = list(runtime.log)
    result = runtime.perform_prepared(COMMIT_OFFSETS, commit_of(other, 1), lambda: runtime.leave(LeavingMember(other)))
    assert set(errors(result)) == {ErrorCode.UNKNOWN_MEMBER_ID}
    assert runtime.log == before


def test_nothing_is_committed_when_the_generation_changes_meanwhile() -> None:
    runtime = Runtime()
    leader, other = runtime.stable_group()

    def rebalance() -> None:
        runtime.join(leader)
        runtime.join(other)

    result = runtime.perform_prepared(COMMIT_OFFSETS, commit_of(leader, 1), rebalance)
    assert set(errors(result)) == {ErrorCode.ILLEGAL_GENERATION}
    assert shown(runtime) == {}


def test_group_is_made_anew_when_it_is_deleted_meanwhile() -> None:
    """As if the commit had come after the deletion."""
    runtime = Runtime()
    runtime.commit(OffsetToCommit("users", 0, 1))

    def delete() -> None:
        token = runtime.token()
        runtime.run(runtime.groups.shards.perform(DELETE_GROUP, token, DeleteGroupRequest(GROUP), runtime.now_ms))

    result = runtime.perform_prepared(COMMIT_OFFSETS, OffsetCommitRequest(GROUP, OFFSETS), delete)
    assert set(errors(result)) == {ErrorCode.NONE}
    assert len(shown(runtime)[GROUP]) == len(OFFSETS)
    assert shown(runtime) == shown(Runtime(log=runtime.log))


def test_commit_is_prepared_anew_when_a_member_of_a_consumer_group_enters_another_epoch_meanwhile() -> None:
    """An offset may count in an older epoch of its member. Which offsets do is found out offset by offset."""
    runtime = ConsumerRuntime()
    epoch = runtime.enter("m1").member_epoch
    request = OffsetCommitRequest(GROUP, OFFSETS[:4], "m1", epoch)

    def next_epoch() -> None:
        runtime.enter("m2")
        runtime.owns("m1", epoch, *of_orders(0, 1, 2, 3))
        runtime.owns("m1", epoch, *of_orders(0, 1))

    assert runtime.perform_prepared(COMMIT_OFFSETS, request, next_epoch) is None
    result = runtime.perform_prepared(COMMIT_OFFSETS, request)
    assert sorted(errors(result)) == [ErrorCode.NONE] * 2 + [ErrorCode.STALE_MEMBER_EPOCH] * 2
    assert shown(runtime) == shown(runtime.restarted())


def test_replies_fail_and_nothing_changes_when_a_prepared_batch_cannot_be_written() -> None:
    runtime = Runtime()
    runtime.fail_next_append_with = ErrorCode.KAFKA_STORAGE_ERROR
    result = runtime.perform_prepared(COMMIT_OFFSETS, OffsetCommitRequest(GROUP, OFFSETS))
    assert set(errors(result)) == {ErrorCode.NOT_COORDINATOR}
    assert shown(runtime) == {}
    assert set(runtime.commit(*OFFSETS)) == {ErrorCode.NONE}


@pytest.mark.parametrize("is_committed", [True, False])
def test_offsets_count_with_the_transaction_when_a_transactional_commit_was_prepared(is_committed: bool) -> None:
    runtime = Runtime()
    runtime.commit(OffsetToCommit("orders", 0, 1))
    request = TransactionalCommitRequest(GROUP, PRODUCER_ID, 0, OFFSETS)
    runtime.perform_prepared(COMMIT_IN_TRANSACTION, request)
    runtime.commit(OffsetToCommit("orders", 1, 2))  # later than the transaction's
    store = runtime.groups.shards.hosted(0).offsets
    assert store.partitions_with_open_transaction(GROUP) == {TopicPartition("orders", index) for index in range(6)}
    runtime.groups.replay_transaction_end(0, PRODUCER_ID, is_committed)
    assert not store.has_open_transaction(GROUP)
    offsets = {partition.partition: entry[0] for partition, entry in shown(runtime)[GROUP].items()}
    assert offsets == ({0: 10, 1: 2, 2: 12, 3: 13, 4: 14, 5: 15} if is_committed else {0: 1, 1: 2})


def test_nothing_is_pending_when_a_commit_has_no_producer() -> None:
    runtime = Runtime()
    runtime.perform_prepared(COMMIT_OFFSETS, OffsetCommitRequest(GROUP, OFFSETS))
    store = runtime.groups.shards.hosted(0).offsets
    store.replay_transaction_end(NO_PRODUCER_ID, False)
    assert len(store.of_group(GROUP)) == len(OFFSETS)


@pytest.mark.parametrize("is_first", [True, False])
@pytest.mark.parametrize("is_restarted", [True, False])
def test_the_later_commit_counts_when_a_transaction_of_many_offsets_ends(is_first: bool, is_restarted: bool) -> None:
    """Many offsets are compared by the places of their batches alone, where that is enough."""
    store, log = OffsetStore(), Runtime()
    plain = [OffsetToCommit("orders", index, 1) for index in range(300)]
    pending = [OffsetToCommit("orders", index, 2) for index in range(100, 400)]
    commits = [(plain, NO_PRODUCER_ID), (pending, PRODUCER_ID)]
    for offsets, producer_id in commits if is_first else reversed(commits):
        place, base_offset = BatchPlace(), len(log.log)
        place.base_offset = base_offset
        for index, offset in enumerate(offsets):
            committed = CommittedOffset(offset.offset, record_offset=base_offset + index)
            if not is_restarted:
                committed = CommittedOffset(offset.offset, record_offset=index, batch=place)
            store.replay_commit(GROUP, TopicPartition("orders", offset.partition), committed, producer_id)
            log.log.append(CoordinatorRecord(b"", None))
    store.replay_transaction_end(PRODUCER_ID, True)
    found = {partition.partition: committed.offset for partition, committed in store.of_group(GROUP).items()}
    later = 2 if is_first else 1
    assert found == {index: 1 if index < 100 else later if index < 300 else 2 for index in range(400)}
