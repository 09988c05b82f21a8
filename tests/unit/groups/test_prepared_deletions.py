"""A group with many offsets is deleted, and many offsets are, in steps that others may come between."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from penstock.core.types import TopicPartition
from penstock.groups.operations.table import COMMIT_IN_TRANSACTION, DELETE_GROUP, DELETE_OFFSETS
from penstock.groups.requests import (
    DeleteGroupRequest,
    OffsetDeleteRequest,
    OffsetToCommit,
    TransactionalCommitRequest,
)
from penstock.protocol.errors import ErrorCode
from tests.unit.groups.consumer_harness import ConsumerRuntime
from tests.unit.groups.harness import GROUP, Runtime, subscribed
from tests.unit.groups.test_prepared_commits import PRODUCER_ID, shown

OFFSETS = [OffsetToCommit("orders", index, 10) for index in range(6)]
PARTITIONS = [TopicPartition("orders", index) for index in range(6)]
DELETE = DeleteGroupRequest(GROUP)


def commit_in_transaction(runtime: Runtime, *offsets: OffsetToCommit) -> None:
    request = TransactionalCommitRequest(GROUP, PRODUCER_ID, 0, offsets)
    runtime.perform_prepared(COMMIT_IN_TRANSACTION, request, steps=0)


def filled() -> Runtime:
    runtime = Runtime()
    runtime.commit(*OFFSETS)
    runtime.commit(*OFFSETS, group_id="another")
    return runtime


# ---------------------------------------------------------------------------------------------------- DeleteGroups


def test_group_and_offsets_are_gone_when_a_group_was_deleted_in_steps() -> None:
    runtime = filled()
    commit_in_transaction(runtime, OffsetToCommit("users", 0, 1))
    assert runtime.perform_prepared(DELETE_GROUP, DELETE).error is ErrorCode.NONE
    assert list(shown(runtime)) == ["another"]
    runtime.groups.replay_transaction_end(0, PRODUCER_ID, True)
    assert list(shown(runtime)) == ["another"]
    assert runtime.state() == "Dead"
    restarted = Runtime(log=runtime.log)
    assert (list(shown(restarted)), restarted.state()) == (["another"], "Dead")


def test_records_are_the_same_when_a_group_was_deleted_in_steps() -> None:
    in_steps, at_once = filled(), filled()
    in_steps.perform_prepared(DELETE_GROUP, DELETE)
    token = at_once.token()
    at_once.run(at_once.groups.shards.perform(DELETE_GROUP, token, DELETE, at_once.now_ms))
    assert in_steps.log == at_once.log


def test_consumer_group_is_gone_when_it_was_deleted_in_steps() -> None:
    runtime = ConsumerRuntime()
    epoch = runtime.enter("m1").member_epoch
    runtime.commit(*OFFSETS[:4], member_id="m1", generation_id=epoch)
    runtime.beat("m1", -1)
    assert runtime.perform_prepared(DELETE_GROUP, DELETE).error is ErrorCode.NONE
    assert shown(runtime) == {}
    assert not runtime.groups.shards.hosted(0).groups
    assert not runtime.restarted().groups.shards.hosted(0).groups


@pytest.mark.parametrize(
    "commit",
    [
        pytest.param(lambda runtime: runtime.commit(OffsetToCommit("users", 0, 1)), id="plain"),
        pytest.param(
            lambda runtime: commit_in_transaction(runtime, OffsetToCommit("users", 0, 1)), id="in a transaction"
        ),
    ],
)
def test_deletion_is_prepared_anew_when_another_partition_is_committed_meanwhile(
    commit: Callable[[Runtime], object],
) -> None:
    runtime = filled()
    before = shown(runtime)[GROUP]
    assert runtime.perform_prepared(DELETE_GROUP, DELETE, lambda: commit(runtime)) is None
    assert shown(runtime)[GROUP].items() >= before.items()
    assert runtime.perform_prepared(DELETE_GROUP, DELETE).error is ErrorCode.NONE
    assert list(shown(runtime)) == list(shown(Runtime(log=runtime.log))) == ["another"]


def test_later_offset_is_deleted_when_the_same_partition_is_committed_meanwhile() -> None:
    runtime = filled()
    result = runtime.perform_prepared(DELETE_GROUP, DELETE, lambda: runtime.commit(OffsetToCommit("orders", 0, 99)))
    assert result.error is ErrorCode.NONE
    assert list(shown(runtime)) == ["another"]


def test_nothing_is_deleted_when_a_member_joins_meanwhile() -> None:
    runtime = filled()

    def join() -> None:
        runtime.join(runtime.new_member_id())

    result = runtime.perform_prepared(DELETE_GROUP, DELETE, join)
    assert result.error is ErrorCode.NON_EMPTY_GROUP
    assert len(shown(runtime)[GROUP]) == 6


def test_group_is_not_found_when_somebody_else_deletes_it_meanwhile() -> None:
    runtime = filled()
    result = runtime.perform_prepared(DELETE_GROUP, DELETE, lambda: runtime.perform_prepared(DELETE_GROUP, DELETE))
    assert result.error is ErrorCode.GROUP_ID_NOT_FOUND


def test_deletion_is_prepared_anew_when_a_group_of_the_other_kind_takes_its_place_meanwhile() -> None:
    runtime = ConsumerRuntime()
    runtime.commit(*OFFSETS)

    def become_consumer_group() -> None:
        runtime.enter("m1")
        runtime.beat("m1", -1)

    assert runtime.perform_prepared(DELETE_GROUP, DELETE, become_consumer_group) is None
    assert runtime.perform_prepared(DELETE_GROUP, DELETE).error is ErrorCode.NONE
    assert not runtime.restarted().groups.shards.hosted(0).groups


# ---------------------------------------------------------------------------------------------------- OffsetDelete


def test_offsets_are_gone_when_they_were_deleted_in_steps() -> None:
    runtime = filled()
    commit_in_transaction(runtime, *OFFSETS[:2])
    request = OffsetDeleteRequest(GROUP, [*PARTITIONS[:4], TopicPartition("users", 0)])
    result = runtime.perform_prepared(DELETE_OFFSETS, request)
    assert [entry.error for entry in result.partitions] == [ErrorCode.NONE] * 5
    runtime.groups.replay_transaction_end(0, PRODUCER_ID, True)
    assert set(shown(runtime)[GROUP]) == set(PARTITIONS[4:])
    assert set(shown(Runtime(log=runtime.log))[GROUP]) == set(PARTITIONS[4:])


def test_group_has_no_offsets_when_all_were_deleted_in_steps() -> None:
    runtime = filled()
    runtime.perform_prepared(DELETE_OFFSETS, OffsetDeleteRequest(GROUP, PARTITIONS))
    assert list(shown(runtime)) == ["another"]


def test_deletion_is_prepared_anew_when_a_missing_offset_is_committed_meanwhile() -> None:
    runtime = filled()
    request = OffsetDeleteRequest(GROUP, [TopicPartition("users", 0), *PARTITIONS])
    committed = OffsetToCommit("users", 0, 1)
    assert runtime.perform_prepared(DELETE_OFFSETS, request, lambda: runtime.commit(committed)) is None
    assert len(shown(runtime)[GROUP]) == 7
    runtime.perform_prepared(DELETE_OFFSETS, request)
    assert GROUP not in shown(runtime)


def test_deletion_is_prepared_anew_when_a_member_subscribes_meanwhile() -> None:
    runtime = filled()
    request = OffsetDeleteRequest(GROUP, PARTITIONS)

    def subscribe() -> None:
        runtime.stable_group(1, protocols=(subscribed("orders"),))

    assert runtime.perform_prepared(DELETE_OFFSETS, request, subscribe) is None
    assert len(shown(runtime)[GROUP]) == 6
    result = runtime.perform_prepared(DELETE_OFFSETS, request, steps=0)
    assert {entry.error for entry in result.partitions} == {ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC}
    assert len(shown(runtime)[GROUP]) == 6


def test_nothing_is_deleted_when_the_group_is_deleted_meanwhile() -> None:
    runtime = filled()
    request = OffsetDeleteRequest(GROUP, PARTITIONS)
    result = runtime.perform_prepared(DELETE_OFFSETS, request, lambda: runtime.perform_prepared(DELETE_GROUP, DELETE))
    assert result.error is ErrorCode.GROUP_ID_NOT_FOUND
