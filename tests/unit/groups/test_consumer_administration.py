"""Offsets, descriptions, deletion and expiry of KIP-848 groups."""

from __future__ import annotations

import pytest

from penstock.core.steps import finish
from penstock.core.types import TopicPartition
from penstock.groups.operations.table import (
    DELETE_GROUP,
    DELETE_OFFSETS,
    DESCRIBE_CONSUMER_GROUP,
    DESCRIBE_GROUP,
    FETCH_OFFSETS,
)
from penstock.groups.requests import (
    DeleteGroupRequest,
    DescribeGroupRequest,
    OffsetDeleteRequest,
    OffsetFetchRequest,
    OffsetToCommit,
)
from penstock.groups.results import DeleteGroupResult, OffsetDeleteResult
from penstock.protocol.errors import ErrorCode
from tests.unit.groups.consumer_harness import ConsumerRuntime, of_orders
from tests.unit.groups.harness import GROUP

ORDER = OffsetToCommit("orders", 0, 7)
WEEK_MS = 7 * 24 * 3_600_000


def alone() -> ConsumerRuntime:
    runtime = ConsumerRuntime()
    runtime.enter("a")
    return runtime


@pytest.mark.parametrize(
    ("member_id", "epoch", "expected"),
    [
        ("a", 2, ErrorCode.NONE),
        ("a", 3, ErrorCode.STALE_MEMBER_EPOCH),
        ("a", 1, ErrorCode.STALE_MEMBER_EPOCH),
        ("b", 2, ErrorCode.UNKNOWN_MEMBER_ID),
        ("", -1, ErrorCode.UNKNOWN_MEMBER_ID),
    ],
)
def test_commit_is_judged_by_the_epoch_when_it_comes_from_a_member(
    member_id: str, epoch: int, expected: ErrorCode
) -> None:
    assert alone().commit(ORDER, member_id=member_id, generation_id=epoch) == (expected,)


def test_commit_of_an_older_epoch_counts_when_the_partition_was_assigned_before() -> None:
    runtime = alone()
    runtime.enter("b")
    told = runtime.owns("a", 2, *of_orders(0, 1, 2, 3))
    assert told.assignment is not None
    runtime.owns("a", 2, *told.assignment)
    runtime.beat("b", 3)
    kept = told.assignment[0].partition
    lost = next(index for index in range(4) if index not in {each.partition for each in told.assignment})
    errors = runtime.commit(
        OffsetToCommit("orders", kept, 1), OffsetToCommit("orders", lost, 1), member_id="a", generation_id=2
    )
    assert errors == (ErrorCode.NONE, ErrorCode.STALE_MEMBER_EPOCH)
    assert runtime.commit(OffsetToCommit("orders", lost, 1), member_id="b", generation_id=2) == (
        ErrorCode.STALE_MEMBER_EPOCH,
    )


def test_anybody_commits_when_the_group_is_empty() -> None:
    runtime = alone()
    runtime.beat("a", -1)
    assert runtime.commit(ORDER) == (ErrorCode.NONE,)
    assert runtime.consumer_state() == "Empty"


def test_version_is_refused_when_it_is_too_old_for_such_a_member() -> None:
    errors = alone().commit(ORDER, member_id="a", generation_id=2, accepts_group_id_not_found=False)
    assert errors == (ErrorCode.UNSUPPORTED_VERSION,)


@pytest.mark.parametrize(
    ("member_id", "epoch", "expected"),
    [
        (None, -1, ErrorCode.NONE),
        ("a", 2, ErrorCode.NONE),
        ("a", 1, ErrorCode.STALE_MEMBER_EPOCH),
        ("b", 2, ErrorCode.UNKNOWN_MEMBER_ID),
    ],
)
def test_fetch_is_judged_by_the_epoch_when_it_names_a_member(
    member_id: str | None, epoch: int, expected: ErrorCode
) -> None:
    request = OffsetFetchRequest(GROUP, None, member_id=member_id, member_epoch=epoch)
    assert alone().groups.shards.read(FETCH_OFFSETS, request).error is expected


def test_offsets_stay_when_their_topic_is_subscribed_to() -> None:
    runtime = alone()
    runtime.commit(ORDER, OffsetToCommit("users", 0, 1), member_id="a", generation_id=2)
    token = runtime.token()
    wanted = [TopicPartition("orders", 0), TopicPartition("users", 0)]
    runtime.run(
        runtime.groups.shards.perform(DELETE_OFFSETS, token, OffsetDeleteRequest(GROUP, wanted), runtime.now_ms)
    )
    answer = runtime.answer(token, OffsetDeleteResult)
    assert [entry.error for entry in answer.partitions] == [ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC, ErrorCode.NONE]


def test_offsets_expire_when_nobody_subscribes_and_the_group_goes_with_the_last() -> None:
    runtime = alone()
    runtime.commit(ORDER, member_id="a", generation_id=2)
    runtime.now_ms += WEEK_MS
    runtime.run(runtime.groups.expire_offsets(0, runtime.now_ms))
    assert runtime.groups.offset_count() == 1
    runtime.beat("a", -1)
    runtime.run(runtime.groups.expire_offsets(0, runtime.now_ms))
    assert runtime.groups.offset_count() == 0
    assert finish(runtime.groups.list_groups()).groups == ()
    assert finish(runtime.restarted().groups.list_groups()).groups == ()


def test_group_is_deleted_when_it_is_empty() -> None:
    runtime = alone()
    runtime.commit(ORDER, member_id="a", generation_id=2)
    refused, deleted = runtime.token(), runtime.token()
    runtime.run(runtime.groups.shards.perform(DELETE_GROUP, refused, DeleteGroupRequest(GROUP), runtime.now_ms))
    assert runtime.answer(refused, DeleteGroupResult).error is ErrorCode.NON_EMPTY_GROUP
    runtime.beat("a", -1)
    runtime.run(runtime.groups.shards.perform(DELETE_GROUP, deleted, DeleteGroupRequest(GROUP), runtime.now_ms))
    assert runtime.answer(deleted, DeleteGroupResult).error is ErrorCode.NONE
    assert finish(runtime.restarted().groups.list_groups()).groups == ()
    assert runtime.groups.offset_count() == 0


def test_group_is_described_when_it_is_of_this_kind() -> None:
    runtime = alone()
    described = runtime.groups.shards.read(DESCRIBE_CONSUMER_GROUP, DescribeGroupRequest(GROUP))
    (member,) = described.members
    assert (described.epoch, described.target_epoch, described.assignor) == (2, 2, "uniform")
    assert (member.assignment, member.target) == (of_orders(0, 1, 2, 3), of_orders(0, 1, 2, 3))
    assert runtime.groups.shards.read(DESCRIBE_GROUP, DescribeGroupRequest(GROUP)).error is ErrorCode.GROUP_ID_NOT_FOUND
    assert runtime.groups.shards.read(DESCRIBE_GROUP, DescribeGroupRequest(GROUP)).state == "Dead"
    assert (
        runtime.groups.shards.read(DESCRIBE_CONSUMER_GROUP, DescribeGroupRequest("other")).error
        is ErrorCode.GROUP_ID_NOT_FOUND
    )
    assert (
        runtime.groups.shards.read(DESCRIBE_CONSUMER_GROUP, DescribeGroupRequest("")).error
        is ErrorCode.INVALID_GROUP_ID
    )
    assert finish(runtime.groups.list_groups(["stable"], ["Consumer"])).groups[0].group_type == "consumer"
    assert finish(runtime.groups.list_groups([], ["classic"])).groups == ()
