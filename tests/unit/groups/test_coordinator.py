from __future__ import annotations

import logging

import pytest

from penstock.coordinators.errors import coordinator_error
from penstock.core.steps import finish
from penstock.groups.coordinator import GroupCoordinator
from penstock.groups.operations.table import (
    COMMIT_OFFSETS,
    DELETE_GROUP,
    DELETE_OFFSETS,
    DESCRIBE_GROUP,
    FETCH_OFFSETS,
    HEARTBEAT,
    JOIN_GROUP,
    LEAVE_GROUP,
    SYNC_GROUP,
)
from penstock.groups.outcome import GroupOutcome, TimerKey, TimerKind
from penstock.groups.records.consumer_offsets import encode_group
from penstock.groups.requests import (
    DeleteGroupRequest,
    DescribeGroupRequest,
    HeartbeatRequest,
    JoinRequest,
    LeaveRequest,
    LeavingMember,
    OffsetCommitRequest,
    OffsetDeleteRequest,
    OffsetFetchRequest,
    OffsetToCommit,
    Protocol,
    SyncRequest,
)
from penstock.groups.results import OffsetCommitResult
from penstock.groups.settings import GroupSettings
from penstock.protocol.errors import ApiError, ErrorCode
from tests.unit.coordinators.tokens import NOBODY, error_of
from tests.unit.groups.harness import GROUP, RANGE, SESSION_MS, START_MS, Runtime

JOIN = JoinRequest(GROUP, "", "consumer", (RANGE,), 10_000)
COMMIT = OffsetToCommit("orders", 0, 1)


def errors_of_all_operations(groups: GroupCoordinator) -> dict[str, ErrorCode]:
    outcomes = {
        "join": groups.shards.perform(JOIN_GROUP, NOBODY, JOIN, START_MS),
        "sync": groups.shards.perform(SYNC_GROUP, NOBODY, SyncRequest(GROUP, "m", 1), START_MS),
        "heartbeat": groups.shards.perform(HEARTBEAT, NOBODY, HeartbeatRequest(GROUP, "m", 1), START_MS),
        "leave": groups.shards.perform(LEAVE_GROUP, NOBODY, LeaveRequest(GROUP, (LeavingMember("m"),)), START_MS),
        "commit": groups.shards.perform(COMMIT_OFFSETS, NOBODY, OffsetCommitRequest(GROUP, [COMMIT]), START_MS),
        "delete offsets": groups.shards.perform(DELETE_OFFSETS, NOBODY, OffsetDeleteRequest(GROUP, []), START_MS),
        "delete group": groups.shards.perform(DELETE_GROUP, NOBODY, DeleteGroupRequest(GROUP), START_MS),
    }
    found = {}
    for name, outcome in outcomes.items():
        (reply,) = outcome.replies
        result = reply.result
        found[name] = result.partitions[0].error if isinstance(result, OffsetCommitResult) else error_of(result)
        assert outcome.records == []
    found["fetch"] = groups.shards.read(FETCH_OFFSETS, OffsetFetchRequest(GROUP, None)).error
    found["describe"] = groups.shards.read(DESCRIBE_GROUP, DescribeGroupRequest(GROUP)).error
    return found


def test_operations_are_refused_when_another_broker_has_the_group() -> None:
    groups = GroupCoordinator(GroupSettings(), 50)
    assert set(errors_of_all_operations(groups).values()) == {ErrorCode.NOT_COORDINATOR}
    assert finish(groups.list_groups()).error is ErrorCode.NONE


def test_operations_are_put_off_when_the_group_is_being_loaded() -> None:
    groups = GroupCoordinator(GroupSettings(), 1)
    groups.shards.begin_loading(0, 0)
    found = errors_of_all_operations(groups)
    assert found.pop("heartbeat") is ErrorCode.NONE  # a member must not think it lost its place
    assert set(found.values()) == {ErrorCode.COORDINATOR_LOAD_IN_PROGRESS}
    assert finish(groups.list_groups()).error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


def test_request_is_checked_first_when_another_broker_has_the_group() -> None:
    groups = GroupCoordinator(GroupSettings(), 50)
    (reply,) = groups.shards.perform(
        JOIN_GROUP, NOBODY, JoinRequest(GROUP, "", "consumer", (RANGE,), 1), START_MS
    ).replies
    assert getattr(reply.result, "error", None) is ErrorCode.INVALID_SESSION_TIMEOUT


def test_outcome_names_the_partition_when_a_group_is_placed() -> None:
    groups = GroupCoordinator(GroupSettings(), 50)
    partition = groups.shards.partition_for("group")
    groups.shards.begin_loading(partition, 0)
    groups.shards.finish_loading(partition, START_MS)
    outcome = groups.shards.perform(COMMIT_OFFSETS, NOBODY, OffsetCommitRequest("group", [COMMIT]), START_MS)
    assert (partition, outcome.partition) == (47, 47)
    assert groups.shards.active_partitions() == [47]


def test_members_have_a_whole_session_when_their_group_was_loaded() -> None:
    before = Runtime()
    members = before.stable_group(2)
    runtime = Runtime(log=before.log)
    assert runtime.timers == {
        TimerKey(TimerKind.SESSION, 0, GROUP, member): START_MS + SESSION_MS for member in members
    }
    assert runtime.state() == "Stable"
    runtime.advance(SESSION_MS - 1)
    assert runtime.heartbeat(members[0], 1) is ErrorCode.NONE
    runtime.advance(1)
    assert runtime.state() == "PreparingRebalance"


def test_recorded_generation_is_back_when_the_coordinator_dies_during_a_rebalance() -> None:
    runtime = Runtime()
    members = runtime.stable_group(2)
    for member in members:
        runtime.join(member)
    assert runtime.state() == "CompletingRebalance"
    restarted = Runtime(log=runtime.log)
    assert restarted.state() == "Stable"
    assert restarted.heartbeat(members[0], 2) is ErrorCode.ILLEGAL_GENERATION
    assert restarted.heartbeat(members[0], 1) is ErrorCode.NONE


def test_latest_offer_counts_when_a_log_holds_several_generations() -> None:
    runtime = Runtime()
    (member,) = runtime.stable_group(1)
    both = (Protocol("sticky", b"s"), RANGE)
    generation = runtime.joined(runtime.join(member, protocols=both)).generation_id
    runtime.finish([member], generation)
    (described,) = Runtime(log=runtime.log).groups.shards.read(DESCRIBE_GROUP, DescribeGroupRequest(GROUP)).members
    assert described.metadata == b"s"


def test_waiting_requests_are_sent_away_when_the_partition_is_unloaded() -> None:
    runtime = Runtime()
    members = runtime.stable_group(3)
    joining = runtime.join(members[0])
    runtime.new_member_id()
    for abandoned in runtime.groups.shards.unload_in_steps(0, runtime.now_ms):
        runtime.run(abandoned)
    assert runtime.joined(joining).error is ErrorCode.NOT_COORDINATOR
    assert runtime.timers == {}
    assert runtime.heartbeat(members[1], 1) is ErrorCode.NOT_COORDINATOR
    assert list(runtime.groups.shards.unload_in_steps(0, runtime.now_ms)) == []


def test_waiting_syncs_are_sent_away_when_the_partition_is_unloaded() -> None:
    runtime = Runtime()
    members = runtime.stable_group(2)
    for member in members:
        runtime.join(member)
    waiting = runtime.sync(members[1], 2)
    for abandoned in runtime.groups.shards.unload_in_steps(0, runtime.now_ms):
        runtime.run(abandoned)
    assert runtime.synced(waiting).error is ErrorCode.NOT_COORDINATOR


@pytest.mark.parametrize("kind", TimerKind)
def test_nothing_happens_when_a_timer_fires_for_what_is_gone(kind: TimerKind) -> None:
    runtime = Runtime()
    assert runtime.groups.shards.on_timer(TimerKey(kind, 0, "gone", "m"), START_MS) == GroupOutcome(0)
    assert runtime.groups.shards.on_timer(TimerKey(kind, 9, GROUP, "m"), START_MS) == GroupOutcome(9)
    runtime.stable_group(2)
    outcome = runtime.groups.shards.on_timer(TimerKey(kind, 0, GROUP, "stranger"), START_MS)
    assert outcome == GroupOutcome(0)


def test_new_group_is_gone_and_its_member_told_when_it_cannot_be_written() -> None:
    runtime = Runtime()
    runtime.fail_appends_with = ErrorCode.NOT_ENOUGH_REPLICAS
    asked = runtime.join()
    waiting = runtime.join(accepts_member_id_required=False)
    assert runtime.joined(asked).error is runtime.joined(waiting).error is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert runtime.state() == "Dead"
    assert runtime.timers == {}


def test_replies_fail_when_the_partition_was_unloaded_before_the_append_failed() -> None:
    runtime = Runtime()
    token = runtime.token()
    outcome = runtime.groups.shards.perform(COMMIT_OFFSETS, token, OffsetCommitRequest(GROUP, [COMMIT]), START_MS)
    list(runtime.groups.shards.unload_in_steps(0, START_MS))
    runtime.run(runtime.groups.shards.on_append_failed(outcome, ErrorCode.NOT_LEADER_OR_FOLLOWER, START_MS))
    assert runtime.answer(token, OffsetCommitResult).partitions[0].error is ErrorCode.NOT_COORDINATOR


def test_runtime_is_stopped_when_it_forgets_to_replay() -> None:
    runtime = Runtime()
    runtime.groups.shards.perform(COMMIT_OFFSETS, NOBODY, OffsetCommitRequest(GROUP, [COMMIT]), START_MS)
    with pytest.raises(AssertionError, match="neither replayed nor failed"):
        runtime.groups.shards.perform(COMMIT_OFFSETS, NOBODY, OffsetCommitRequest(GROUP, [COMMIT]), START_MS)


class Lines(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())


def test_one_warning_is_logged_when_the_log_holds_records_of_newer_software() -> None:
    runtime = Runtime()
    lines = Lines()
    logger = logging.getLogger("penstock.coordinators.record_framing")
    logger.addHandler(lines)
    for _ in range(3):
        runtime.groups.shards.replay(0, b"\x00\x63\x00\x01g", b"\x00\x00\x00\x00\x00\x01")
    logger.removeHandler(lines)
    assert lines.lines == ["records of newer software are skipped"]
    assert finish(runtime.groups.list_groups()).groups == ()


def test_loading_fails_when_a_record_is_damaged() -> None:
    groups = GroupCoordinator(GroupSettings(), 1)
    groups.shards.begin_loading(0, 0)
    key, value = encode_group(GROUP, None)[0], b"\x00\x03damaged"
    with pytest.raises(ApiError):
        groups.shards.replay(0, key, value)


@pytest.mark.parametrize(
    ("append_error", "expected"),
    [
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.REQUEST_TIMED_OUT, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.UNKNOWN_SERVER_ERROR),
        (ErrorCode.RECORD_LIST_TOO_LARGE, ErrorCode.UNKNOWN_SERVER_ERROR),
        (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
    ],
)
def test_client_gets_an_error_it_knows_when_the_append_fails(append_error: ErrorCode, expected: ErrorCode) -> None:
    assert coordinator_error(append_error) is expected
