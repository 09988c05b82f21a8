from __future__ import annotations

import pytest

from penstock.core.types import NO_PRODUCER_ID, ZERO_TOPIC_ID, TopicPartition
from penstock.groups.offsets import OffsetStore
from penstock.groups.operations.administration import Removal
from penstock.groups.operations.table import DELETE_GROUP, FETCH_OFFSETS
from penstock.groups.records.consumer_offsets import CommittedOffset, encode_offset
from penstock.groups.requests import DeleteGroupRequest, OffsetFetchRequest
from penstock.protocol.errors import ErrorCode
from tests.unit.groups.harness import GROUP, Runtime

ORDERS_0 = TopicPartition("orders", 0)
PRODUCER = 7


def store_with_open_transaction() -> OffsetStore:
    store = OffsetStore()
    store.replay_commit(GROUP, ORDERS_0, CommittedOffset(10, record_offset=1), NO_PRODUCER_ID)
    store.replay_commit(GROUP, ORDERS_0, CommittedOffset(20, record_offset=2), PRODUCER)
    return store


@pytest.mark.parametrize(("is_committed", "expected"), [(True, 20), (False, 10)])
def test_offset_of_a_transaction_counts_when_it_is_committed(is_committed: bool, expected: int) -> None:
    store = store_with_open_transaction()
    assert store.of_group(GROUP)[ORDERS_0].offset == 10
    assert store.has_open_transaction(GROUP, ORDERS_0)
    store.replay_transaction_end(PRODUCER, is_committed)
    assert store.of_group(GROUP)[ORDERS_0].offset == expected
    assert not store.has_open_transaction(GROUP)
    assert [each.offset for each in store.versions(GROUP, ORDERS_0)] == [expected]  # nothing is pending


def test_later_plain_commit_wins_when_the_transaction_ends_after_it() -> None:
    store = store_with_open_transaction()
    store.replay_commit(GROUP, ORDERS_0, CommittedOffset(30, record_offset=3), NO_PRODUCER_ID)
    store.replay_transaction_end(PRODUCER, True)
    assert store.of_group(GROUP)[ORDERS_0].offset == 30


def test_deleted_offset_does_not_come_back_when_the_transaction_ends() -> None:
    store = store_with_open_transaction()
    store.replay_delete(GROUP, ORDERS_0)
    store.replay_transaction_end(PRODUCER, True)
    assert store.count() == 0
    assert store.groups() == []


def test_transaction_stays_open_when_another_producer_ends_its_own() -> None:
    store = store_with_open_transaction()
    store.replay_commit(GROUP, ORDERS_0, CommittedOffset(40, record_offset=3), 8)
    store.replay_transaction_end(8, True)
    assert store.has_open_transaction(GROUP, ORDERS_0)
    store.replay_transaction_end(99, True)
    store.replay_transaction_end(PRODUCER, True)
    assert store.of_group(GROUP)[ORDERS_0].offset == 40


def runtime_with_open_transaction() -> Runtime:
    runtime = Runtime()
    runtime.groups.shards.replay(0, *encode_offset(GROUP, "orders", 0, CommittedOffset(10)), 0)
    runtime.groups.shards.replay(0, *encode_offset(GROUP, "orders", 0, CommittedOffset(20)), 1, PRODUCER)
    return runtime


@pytest.mark.parametrize("partitions", [(ORDERS_0,), None])
def test_offset_is_unstable_when_a_transaction_is_open_and_the_reader_asks_for_stable_ones(
    partitions: tuple[TopicPartition, ...] | None,
) -> None:
    runtime = runtime_with_open_transaction()
    (found,) = runtime.groups.shards.read(
        FETCH_OFFSETS, OffsetFetchRequest(GROUP, partitions, require_stable=True)
    ).partitions
    assert (found.offset, found.error) == (-1, ErrorCode.UNSTABLE_OFFSET_COMMIT)
    (found,) = runtime.groups.shards.read(FETCH_OFFSETS, OffsetFetchRequest(GROUP, partitions)).partitions
    assert (found.offset, found.error) == (10, ErrorCode.NONE)
    runtime.groups.replay_transaction_end(0, PRODUCER, True)
    (found,) = runtime.groups.shards.read(
        FETCH_OFFSETS, OffsetFetchRequest(GROUP, partitions, require_stable=True)
    ).partitions
    assert found.offset == 20


def test_group_is_kept_when_a_transaction_on_it_is_open() -> None:
    runtime = runtime_with_open_transaction()
    runtime.run(runtime.groups.expire_offsets(0, 2**60))
    assert runtime.state() == "Empty"
    assert runtime.log == []


def test_pending_offsets_are_removed_when_their_topic_or_group_is() -> None:
    for removal in ("topic", "group"):
        runtime = runtime_with_open_transaction()
        if removal == "topic":
            runtime.run(runtime.groups.remove_topics(0, Removal({"orders": ZERO_TOPIC_ID})))
        else:
            runtime.run(
                runtime.groups.shards.perform(DELETE_GROUP, runtime.token(), DeleteGroupRequest(GROUP), runtime.now_ms)
            )
        runtime.groups.replay_transaction_end(0, PRODUCER, True)
        assert runtime.groups.offset_count() == 0
