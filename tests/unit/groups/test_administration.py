from __future__ import annotations

import pytest

from penstock.core.steps import finish
from penstock.core.types import TopicPartition
from penstock.groups.classic.group import GroupState
from penstock.groups.operations.administration import Removal
from penstock.groups.operations.table import DELETE_GROUP, DESCRIBE_GROUP, FETCH_OFFSETS
from penstock.groups.records.consumer_offsets import CommittedOffset, RecordedGroup, encode_group, encode_offset
from penstock.groups.requests import (
    DeleteGroupRequest,
    DescribeGroupRequest,
    LeavingMember,
    OffsetFetchRequest,
    OffsetToCommit,
    Protocol,
)
from penstock.groups.results import DeleteGroupResult, ListedGroup
from penstock.groups.settings import GroupSettings
from penstock.protocol.errors import ErrorCode
from tests.unit.groups.harness import GROUP, RANGE, SESSION_MS, START_MS, Runtime, count_states, subscribed

COMMIT = OffsetToCommit("orders", 0, 42)
RETENTION_MS = GroupSettings().offsets_retention_ms


# ---------------------------------------------------------------------------------------------------- describe, list


def test_group_is_dead_when_it_does_not_exist() -> None:
    described = Runtime().groups.shards.read(DESCRIBE_GROUP, DescribeGroupRequest(GROUP))
    assert (described.error, described.state) == (ErrorCode.GROUP_ID_NOT_FOUND, "Dead")
    assert described.error_message == "Group g not found."


def test_protocol_and_metadata_are_shown_when_the_group_is_stable() -> None:
    runtime = Runtime()
    leader, _ = runtime.stable_group()
    described = runtime.groups.shards.read(DESCRIBE_GROUP, DescribeGroupRequest(GROUP))
    assert (described.error, described.state, described.protocol_type) == (ErrorCode.NONE, "Stable", "consumer")
    assert described.protocol_data == "range"
    member = described.members[0]
    assert (member.member_id, member.client_id, member.client_host) == (leader, "client", "/127.0.0.1")
    assert (member.metadata, member.assignment) == (RANGE.metadata, b"0")


def test_protocol_and_metadata_are_hidden_when_the_group_rebalances() -> None:
    runtime = Runtime()
    leader, _ = runtime.stable_group()
    runtime.join(leader)
    described = runtime.groups.shards.read(DESCRIBE_GROUP, DescribeGroupRequest(GROUP))
    assert (described.state, described.protocol_data) == ("PreparingRebalance", "")
    assert {member.metadata for member in described.members} == {b""}


@pytest.mark.parametrize(
    ("states", "types", "expected"),
    [
        ((), (), ["g", "simple"]),
        (("Stable",), (), ["g"]),
        ((" stable ", "EMPTY"), (), ["g", "simple"]),
        (("Dead",), (), []),
        ((), ("Classic",), ["g", "simple"]),
        ((), ("consumer",), []),
        (("Empty",), ("classic", "share"), ["simple"]),
    ],
)
def test_groups_are_listed_when_they_pass_the_filters(
    states: tuple[str, ...], types: tuple[str, ...], expected: list[str]
) -> None:
    runtime = Runtime()
    runtime.stable_group()
    runtime.commit(COMMIT, group_id="simple")
    result = finish(runtime.groups.list_groups(states, types))
    assert [group.group_id for group in result.groups] == expected


def test_list_names_protocol_state_and_type_when_a_group_is_listed() -> None:
    runtime = Runtime()
    runtime.stable_group()
    assert finish(runtime.groups.list_groups()).groups == (ListedGroup(GROUP, "consumer", "Stable", "classic"),)
    assert count_states(runtime.groups) == {GroupState.STABLE: 1}


# ---------------------------------------------------------------------------------------------------- delete


def delete(runtime: Runtime, group_id: str = GROUP) -> ErrorCode:
    token = runtime.token()
    runtime.run(runtime.groups.shards.perform(DELETE_GROUP, token, DeleteGroupRequest(group_id), START_MS))
    return runtime.answer(token, DeleteGroupResult).error


def test_group_and_offsets_are_gone_when_an_empty_group_is_deleted() -> None:
    runtime = Runtime()
    (member,) = runtime.stable_group(1)
    runtime.commit(COMMIT, OffsetToCommit("other", 1, 1), member_id=member, generation_id=1)
    runtime.leave(LeavingMember(member))
    assert delete(runtime) is ErrorCode.NONE
    assert [record.value for record in runtime.log[-3:]] == [None] * 3
    for reader in (runtime, Runtime(log=runtime.log)):
        assert reader.state() == "Dead"
        assert reader.groups.offset_count() == 0


def test_group_is_kept_when_it_has_members_or_cannot_be_written() -> None:
    runtime = Runtime()
    (member,) = runtime.stable_group(1)
    assert delete(runtime) is ErrorCode.NON_EMPTY_GROUP
    runtime.leave(LeavingMember(member))
    runtime.fail_appends_with = ErrorCode.NOT_ENOUGH_REPLICAS
    assert delete(runtime) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert runtime.state() == "Empty"


def test_unknown_group_cannot_be_deleted_when_it_is_named() -> None:
    assert delete(Runtime()) is ErrorCode.GROUP_ID_NOT_FOUND


def test_pending_member_is_unknown_when_its_group_is_deleted() -> None:
    runtime = Runtime()
    member = runtime.new_member_id()
    assert delete(runtime) is ErrorCode.NONE
    assert runtime.joined(runtime.join(member)).error is ErrorCode.UNKNOWN_MEMBER_ID
    runtime.advance(SESSION_MS)
    assert runtime.state() == "Dead"


def test_pending_member_still_expires_when_the_deletion_of_its_group_cannot_be_written() -> None:
    runtime = Runtime()
    member = runtime.new_member_id()
    runtime.fail_appends_with = ErrorCode.KAFKA_STORAGE_ERROR
    delete(runtime)
    runtime.advance(SESSION_MS)
    assert runtime.joined(runtime.join(member)).error is ErrorCode.UNKNOWN_MEMBER_ID


# ---------------------------------------------------------------------------------------------------- expiry


def offsets(runtime: Runtime, group_id: str = GROUP) -> list[str]:
    return [
        found.topic
        for found in runtime.groups.shards.read(FETCH_OFFSETS, OffsetFetchRequest(group_id, None)).partitions
    ]


def expire(runtime: Runtime) -> None:
    outcome = runtime.groups.expire_offsets(0, runtime.now_ms)
    assert not outcome.is_atomic
    runtime.run(outcome)


def test_offset_of_a_simple_group_expires_when_its_last_commit_is_old() -> None:
    runtime = Runtime()
    runtime.commit(COMMIT)
    runtime.now_ms += 1
    runtime.commit(OffsetToCommit("other", 0, 1))
    runtime.now_ms = START_MS + RETENTION_MS
    expire(runtime)
    assert offsets(runtime) == ["other"]
    assert runtime.state() == "Empty"
    runtime.now_ms += 1
    expire(runtime)
    assert runtime.state() == Runtime(log=runtime.log).state() == "Dead"


def test_time_counts_from_the_last_member_when_a_group_became_empty() -> None:
    runtime = Runtime()
    (member,) = runtime.stable_group(1)
    runtime.commit(COMMIT, member_id=member, generation_id=1)
    for _ in range(3):
        runtime.advance(SESSION_MS - 1)
        runtime.heartbeat(member, 1)
    runtime.leave(LeavingMember(member))
    left_ms = runtime.now_ms
    restarted = Runtime(log=runtime.log)
    for reader in (runtime, restarted):
        reader.now_ms = left_ms + RETENTION_MS - 1
        expire(reader)
        assert offsets(reader) == ["orders"]
        reader.now_ms += 1
        expire(reader)
        assert reader.state() == "Dead"


def test_subscribed_topics_are_kept_when_a_consumer_group_is_stable() -> None:
    runtime = Runtime(GroupSettings(offsets_retention_ms=1_000))
    (member,) = runtime.stable_group(1, protocols=(subscribed("orders"),))
    runtime.commit(COMMIT, OffsetToCommit("other", 0, 1), member_id=member, generation_id=1)
    runtime.now_ms += 1_000
    expire(runtime)
    assert offsets(runtime) == ["orders"]
    assert runtime.state() == "Stable"


@pytest.mark.parametrize("why", ["rebalance", "opaque", "garbage"])
def test_nothing_expires_when_it_is_not_known_what_is_read(why: str) -> None:
    runtime = Runtime(GroupSettings(offsets_retention_ms=1_000))
    protocol = RANGE if why == "rebalance" else Protocol("p", b"?")
    protocol_type = "connect" if why == "opaque" else "consumer"
    (member,) = runtime.stable_group(1, protocols=(protocol,), protocol_type=protocol_type)
    runtime.commit(OffsetToCommit("other", 0, 1), member_id=member, generation_id=1)
    if why == "rebalance":
        runtime.new_member_id(protocols=(protocol,))
        runtime.join(member, protocols=(protocol,))
    runtime.now_ms += 1_000
    expire(runtime)
    assert offsets(runtime) == ["other"]


def test_own_retention_time_counts_when_an_old_client_named_one() -> None:
    runtime = Runtime()
    runtime.commit(COMMIT, retention_time_ms=500)
    runtime.now_ms += 499
    expire(runtime)
    assert offsets(runtime) == ["orders"]
    runtime.now_ms += 1
    expire(runtime)
    assert runtime.state() == "Dead"


def test_commit_time_counts_when_the_group_record_is_too_old_to_say_when_it_became_empty() -> None:
    log = [
        encode_group(GROUP, RecordedGroup("consumer", 3)),
        encode_offset(GROUP, "orders", 0, CommittedOffset(1, commit_timestamp_ms=START_MS)),
    ]
    runtime = Runtime(log=log)
    expire(runtime)
    assert offsets(runtime) == ["orders"]
    runtime.now_ms += RETENTION_MS
    expire(runtime)
    assert runtime.state() == "Dead"


def test_group_without_offsets_is_removed_when_it_is_empty() -> None:
    runtime = Runtime()
    (member,) = runtime.stable_group(1)
    expire(runtime)
    assert runtime.state() == "Stable"
    runtime.leave(LeavingMember(member))
    expire(runtime)
    assert runtime.log[-1].value is None
    assert runtime.state() == "Dead"


# ---------------------------------------------------------------------------------------------------- deleted topics


def test_offsets_are_removed_when_their_topic_is_deleted() -> None:
    runtime = Runtime()
    old, new = b"o" * 16, b"n" * 16
    runtime.commit(
        OffsetToCommit("orders", 0, 1, topic_id=old),
        OffsetToCommit("orders", 1, 1, topic_id=new),
        OffsetToCommit("orders", 2, 1),
        OffsetToCommit("other", 0, 1),
    )
    runtime.run(runtime.groups.remove_topics(0, Removal({"orders": old})))
    remaining = runtime.groups.shards.read(FETCH_OFFSETS, OffsetFetchRequest(GROUP, None)).partitions
    assert [TopicPartition(found.topic, found.partition) for found in remaining] == [("orders", 1), ("other", 0)]
