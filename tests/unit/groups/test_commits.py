from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from penstock.core.types import TopicPartition
from penstock.groups.operations.table import DELETE_OFFSETS, DESCRIBE_GROUP, FETCH_OFFSETS
from penstock.groups.records.consumer_offsets import CommittedOffset, OffsetChange, decode_record
from penstock.groups.requests import (
    DescribeGroupRequest,
    LeavingMember,
    OffsetDeleteRequest,
    OffsetFetchRequest,
    OffsetToCommit,
    Protocol,
)
from penstock.groups.results import FetchedOffset, OffsetDeleteResult
from penstock.groups.settings import GroupSettings
from penstock.protocol.errors import ErrorCode
from tests.unit.groups.harness import GROUP, SESSION_MS, START_MS, Runtime

ORDERS_0 = TopicPartition("orders", 0)
OTHER_0 = TopicPartition("other", 0)
COMMIT = OffsetToCommit("orders", 0, 42, 5, "note")


def fetch(runtime: Runtime, *partitions: TopicPartition, **more: Any) -> Sequence[FetchedOffset]:
    result = runtime.groups.shards.read(FETCH_OFFSETS, OffsetFetchRequest(GROUP, partitions or None, **more))
    assert result.error is ErrorCode.NONE
    return result.partitions


def test_offset_is_there_after_a_restart_when_a_simple_consumer_committed_it() -> None:
    runtime = Runtime()
    assert runtime.commit(COMMIT) == (ErrorCode.NONE,)
    for reader in (runtime, Runtime(log=runtime.log)):
        assert fetch(reader, ORDERS_0) == (FetchedOffset("orders", 0, 42, 5, "note"),)
        described = reader.groups.shards.read(DESCRIBE_GROUP, DescribeGroupRequest(GROUP))
        assert (described.state, described.protocol_type) == ("Empty", "")


def test_null_metadata_becomes_empty_when_it_is_committed() -> None:
    runtime = Runtime()
    runtime.commit(OffsetToCommit("orders", 0, 1, metadata=None))
    assert fetch(runtime, ORDERS_0)[0].metadata == ""


def test_offset_is_minus_one_without_error_when_group_or_partition_is_unknown() -> None:
    runtime = Runtime()
    assert fetch(runtime, ORDERS_0) == (FetchedOffset("orders", 0, -1, -1, "", ErrorCode.NONE),)
    assert fetch(runtime) == ()
    runtime.commit(COMMIT)
    assert fetch(runtime, OTHER_0)[0].offset == -1


def test_all_offsets_are_given_when_no_partition_is_named() -> None:
    runtime = Runtime()
    runtime.commit(COMMIT, OffsetToCommit("other", 7, 3))
    assert [(found.topic, found.partition, found.offset) for found in fetch(runtime)] == [
        ("orders", 0, 42),
        ("other", 7, 3),
    ]


def test_member_commits_when_it_knows_the_generation() -> None:
    runtime = Runtime()
    leader, _ = runtime.stable_group()
    assert runtime.commit(COMMIT, member_id=leader, generation_id=1) == (ErrorCode.NONE,)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"member_id": "stranger", "generation_id": 1}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"member_id": "client-1", "generation_id": 0}, ErrorCode.ILLEGAL_GENERATION),
        ({"member_id": "client-1", "generation_id": 2}, ErrorCode.ILLEGAL_GENERATION),
        ({"member_id": "client-1"}, ErrorCode.ILLEGAL_GENERATION),
        ({"member_id": "client-1", "generation_id": 1, "group_instance_id": "x"}, ErrorCode.UNKNOWN_MEMBER_ID),
    ],
)
def test_commit_is_refused_when_the_sender_is_not_a_member_of_the_generation(
    values: dict[str, Any], expected: ErrorCode
) -> None:
    runtime = Runtime()
    runtime.stable_group()
    before = len(runtime.log)
    assert runtime.commit(COMMIT, OffsetToCommit("other", 1, 1), **values) == (expected, expected)
    assert len(runtime.log) == before


def test_commit_is_refused_when_a_static_member_was_replaced() -> None:
    runtime = Runtime()
    (old,) = runtime.static_group("a")
    runtime.join(group_instance_id="a")
    values: dict[str, Any] = {"member_id": old, "generation_id": 1, "group_instance_id": "a"}
    assert runtime.commit(COMMIT, **values) == (ErrorCode.FENCED_INSTANCE_ID,)


@pytest.mark.parametrize(
    ("accepts", "expected"), [(True, ErrorCode.GROUP_ID_NOT_FOUND), (False, ErrorCode.ILLEGAL_GENERATION)]
)
def test_commit_is_refused_when_the_group_is_unknown_and_a_generation_is_named(
    accepts: bool, expected: ErrorCode
) -> None:
    runtime = Runtime()
    assert runtime.commit(COMMIT, member_id="m", generation_id=1, accepts_group_id_not_found=accepts) == (expected,)
    assert runtime.state() == "Dead"


def test_commit_is_refused_when_the_assignment_is_awaited() -> None:
    runtime = Runtime()
    member = runtime.new_member_id()
    runtime.join(member)
    runtime.advance(6_000)
    assert runtime.commit(COMMIT, member_id=member, generation_id=1) == (ErrorCode.REBALANCE_IN_PROGRESS,)


def test_member_may_still_commit_when_a_rebalance_has_begun() -> None:
    runtime = Runtime()
    leader, follower = runtime.stable_group()
    runtime.join(leader)
    assert runtime.commit(COMMIT, member_id=follower, generation_id=1) == (ErrorCode.NONE,)


def test_anybody_may_commit_without_generation_when_the_group_is_empty() -> None:
    runtime = Runtime()
    (member,) = runtime.stable_group(1)
    runtime.leave(LeavingMember(member))
    assert runtime.commit(COMMIT) == (ErrorCode.NONE,)


def test_session_goes_on_when_a_member_commits() -> None:
    runtime = Runtime()
    (member,) = runtime.stable_group(1)
    for _ in range(3):
        runtime.advance(SESSION_MS - 1)
        runtime.commit(COMMIT, member_id=member, generation_id=1)
    assert runtime.heartbeat(member, 1) is ErrorCode.NONE


@pytest.mark.parametrize(
    ("metadata", "limit", "expected"),
    [
        ("x" * 4_096, 4_096, ErrorCode.NONE),
        ("x" * 4_097, 4_096, ErrorCode.OFFSET_METADATA_TOO_LARGE),
        ("\U0001f600" * 2_048, 4_096, ErrorCode.NONE),
        ("\U0001f600" * 2_049, 4_096, ErrorCode.OFFSET_METADATA_TOO_LARGE),
        ("ä" * 20_000, 1_000_000, ErrorCode.OFFSET_METADATA_TOO_LARGE),  # no room in the record
    ],
)
def test_one_partition_is_refused_when_its_metadata_is_too_large(
    metadata: str, limit: int, expected: ErrorCode
) -> None:
    runtime = Runtime(GroupSettings(offset_metadata_max_bytes=limit))
    assert runtime.commit(COMMIT, OffsetToCommit("other", 0, 1, metadata=metadata)) == (ErrorCode.NONE, expected)


def test_every_partition_fails_when_the_offsets_cannot_be_written() -> None:
    runtime = Runtime()
    runtime.fail_appends_with = ErrorCode.NOT_LEADER_OR_FOLLOWER
    too_large = OffsetToCommit("other", 0, 1, metadata="x" * 5_000)
    assert runtime.commit(COMMIT, too_large) == (ErrorCode.NOT_COORDINATOR, ErrorCode.NOT_COORDINATOR)
    assert fetch(runtime, ORDERS_0)[0].offset == -1
    assert runtime.state() == "Dead"


def test_expiry_is_recorded_when_an_old_client_names_a_retention_time() -> None:
    runtime = Runtime()
    runtime.commit(COMMIT, retention_time_ms=60_000)
    change = decode_record(*runtime.log[-1])
    assert change == OffsetChange(GROUP, "orders", 0, CommittedOffset(42, -1, "note", START_MS, START_MS + 60_000))


def test_offset_is_written_when_a_client_wants_it_kept_for_ever() -> None:
    runtime = Runtime()
    assert runtime.commit(COMMIT, retention_time_ms=2**63 - 1) == (ErrorCode.NONE,)
    runtime.run(runtime.groups.expire_offsets(0, 2**62))
    assert fetch(runtime, ORDERS_0)[0].offset == 42


def test_offset_is_not_given_out_when_it_belongs_to_an_earlier_topic_of_the_same_name() -> None:
    runtime = Runtime()
    old, new = b"o" * 16, b"n" * 16
    runtime.commit(OffsetToCommit("orders", 0, 42, topic_id=old), OffsetToCommit("other", 0, 7))
    assert fetch(runtime, ORDERS_0, topic_ids={"orders": new})[0].offset == -1
    assert fetch(runtime, ORDERS_0, topic_ids={"orders": old})[0].offset == 42
    assert fetch(runtime, ORDERS_0)[0].offset == 42
    assert fetch(runtime, OTHER_0, topic_ids={"other": new})[0].offset == 7


# ---------------------------------------------------------------------------------------------------- OffsetDelete


def delete(runtime: Runtime, *partitions: TopicPartition, group_id: str = GROUP) -> tuple[ErrorCode, list[ErrorCode]]:
    token = runtime.token()
    runtime.run(
        runtime.groups.shards.perform(DELETE_OFFSETS, token, OffsetDeleteRequest(group_id, partitions), START_MS)
    )
    result = runtime.answer(token, OffsetDeleteResult)
    return result.error, [entry.error for entry in result.partitions]


def test_offsets_are_gone_when_they_are_deleted() -> None:
    runtime = Runtime()
    runtime.commit(COMMIT)
    written = len(runtime.log)
    assert delete(runtime, ORDERS_0, OTHER_0) == (ErrorCode.NONE, [ErrorCode.NONE, ErrorCode.NONE])
    assert len(runtime.log) == written + 1  # nothing is written for what was not there
    assert fetch(runtime) == fetch(Runtime(log=runtime.log)) == ()


def test_offsets_are_kept_when_a_member_subscribes_to_their_topic() -> None:
    runtime = Runtime()
    leader, _ = runtime.stable_group()
    runtime.commit(COMMIT, OffsetToCommit("other", 0, 7), member_id=leader, generation_id=1)
    assert delete(runtime, ORDERS_0, OTHER_0) == (ErrorCode.NONE, [ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC, ErrorCode.NONE])
    assert [found.topic for found in fetch(runtime)] == ["orders"]


def test_every_topic_counts_as_subscribed_when_the_subscriptions_cannot_be_read() -> None:
    runtime = Runtime()
    runtime.stable_group(protocols=(Protocol("range", b"garbage"),))
    assert delete(runtime, OTHER_0) == (ErrorCode.NONE, [ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC])


def test_offsets_cannot_be_deleted_when_an_opaque_group_has_members() -> None:
    runtime = Runtime()
    runtime.stable_group(protocols=(Protocol("v1", b"opaque"),), protocol_type="connect")
    assert delete(runtime, OTHER_0) == (ErrorCode.NON_EMPTY_GROUP, [])


def test_offsets_cannot_be_deleted_when_the_group_is_unknown() -> None:
    runtime = Runtime()
    assert delete(runtime, ORDERS_0) == (ErrorCode.GROUP_ID_NOT_FOUND, [])
    assert delete(runtime, ORDERS_0, group_id="") == (ErrorCode.INVALID_GROUP_ID, [])


def test_offsets_stay_when_their_deletion_cannot_be_written() -> None:
    runtime = Runtime()
    runtime.commit(COMMIT)
    runtime.fail_appends_with = ErrorCode.REQUEST_TIMED_OUT
    assert delete(runtime, ORDERS_0) == (ErrorCode.COORDINATOR_NOT_AVAILABLE, [])
    assert fetch(runtime, ORDERS_0)[0].offset == 42
