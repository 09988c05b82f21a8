"""Coordinators go with the leadership of their partitions."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

from penstock.broker.runtimes.group_runtime import GroupRuntime
from penstock.cluster.image import NO_LEADER
from penstock.core.internal_topics import CONSUMER_OFFSETS
from penstock.core.types import TopicPartition
from penstock.groups.operations.table import (
    COMMIT_OFFSETS,
    FETCH_OFFSETS,
    HEARTBEAT,
    JOIN_GROUP,
    LEAVE_GROUP,
    SYNC_GROUP,
)
from penstock.groups.requests import (
    HeartbeatRequest,
    JoinRequest,
    LeaveRequest,
    LeavingMember,
    MemberAssignment,
    OffsetCommitRequest,
    OffsetFetchRequest,
    OffsetToCommit,
    Protocol,
    SyncRequest,
)
from penstock.groups.results import JoinResult
from penstock.protocol.errors import ErrorCode
from tests.own_time import pass_time, run_in_own_time
from tests.unit.broker.two_brokers import ONE, TWO, TwoBrokers, led, two_brokers
from tests.waiting import until


def run(directory: Path, scenario: Callable[[TwoBrokers], Awaitable[None]]) -> None:
    async def whole() -> None:
        async with two_brokers(directory, {"group.initial.rebalance.delay.ms": "0"}) as pair:
            pair.show(led("orders", ONE))
            await scenario(pair)

    run_in_own_time(whole())


async def active(groups: GroupRuntime) -> None:
    await until(lambda: groups.shards.is_active(0))


async def commit(groups: GroupRuntime, offset: int) -> ErrorCode:
    request = OffsetCommitRequest("g", [OffsetToCommit("orders", 0, offset)])
    (entry,) = (await groups.submit(COMMIT_OFFSETS, request)).partitions
    return entry.error


def committed(groups: GroupRuntime) -> int | ErrorCode:
    result = groups.shards.read(FETCH_OFFSETS, OffsetFetchRequest("g", [TopicPartition("orders", 0)]))
    return result.error or result.partitions[0].offset


async def join(groups: GroupRuntime, member_id: str = "") -> JoinResult:
    request = JoinRequest("g", member_id, "consumer", (Protocol("range", b""),), 10_000, 10_000)
    return await groups.submit(JOIN_GROUP, request)


async def heartbeat(groups: GroupRuntime, member_id: str, generation_id: int) -> ErrorCode:
    return (await groups.submit(HEARTBEAT, HeartbeatRequest("g", member_id, generation_id))).error


def test_group_goes_on_with_offsets_and_generation_when_its_partition_moves_there_and_back(tmp_path: Path) -> None:
    async def scenario(pair: TwoBrokers) -> None:
        pair.show(led(CONSUMER_OFFSETS, ONE, 0))
        one, two = pair.one.broker.groups, pair.two.broker.groups
        member_id = (await join(one)).member_id
        joined = await join(one, member_id)
        assignment = (MemberAssignment(member_id, b"mine"),)
        await one.submit(SYNC_GROUP, SyncRequest("g", member_id, joined.generation_id, assignments=assignment))
        assert await heartbeat(two, member_id, joined.generation_id) is ErrorCode.NOT_COORDINATOR
        request = OffsetCommitRequest("g", [OffsetToCommit("orders", 0, 7)], member_id, joined.generation_id)
        assert (await one.submit(COMMIT_OFFSETS, request)).partitions[0].error is ErrorCode.NONE

        pair.copy(CONSUMER_OFFSETS, ONE)
        pair.show(led(CONSUMER_OFFSETS, TWO, 1))
        assert committed(two) == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        assert await heartbeat(one, member_id, joined.generation_id) is ErrorCode.NOT_COORDINATOR
        assert committed(one) == ErrorCode.NOT_COORDINATOR
        await active(two)
        assert committed(two) == 7
        assert await heartbeat(two, member_id, joined.generation_id) is ErrorCode.NONE
        assert await heartbeat(two, member_id, joined.generation_id - 1) is ErrorCode.ILLEGAL_GENERATION
        synced = await two.submit(SYNC_GROUP, SyncRequest("g", member_id, joined.generation_id))
        assert synced.assignment == b"mine"
        again = OffsetCommitRequest("g", [OffsetToCommit("orders", 0, 8)], member_id, joined.generation_id)
        assert (await two.submit(COMMIT_OFFSETS, again)).partitions[0].error is ErrorCode.NONE

        await pair.move(CONSUMER_OFFSETS, TWO, ONE, leader_epoch=2)
        assert committed(one) == 8
        assert await heartbeat(one, member_id, joined.generation_id) is ErrorCode.NONE
        assert committed(two) == ErrorCode.NOT_COORDINATOR

    run(tmp_path, scenario)


def test_members_that_wait_are_sent_away_when_the_leadership_ends(tmp_path: Path) -> None:
    async def scenario(pair: TwoBrokers) -> None:
        pair.show(led(CONSUMER_OFFSETS, ONE, 0))
        member_id = (await join(pair.one.broker.groups)).member_id
        joining = asyncio.ensure_future(join(pair.one.broker.groups, member_id))
        await asyncio.sleep(0)
        pair.show(led(CONSUMER_OFFSETS, NO_LEADER, 1))
        assert (await joining).error is ErrorCode.NOT_COORDINATOR

    run(tmp_path, scenario)


def test_old_news_change_nothing_when_they_come_late(tmp_path: Path) -> None:
    async def scenario(pair: TwoBrokers) -> None:
        pair.show(led(CONSUMER_OFFSETS, ONE, 4))
        groups = pair.one.broker.groups
        await commit(groups, 7)
        groups.resign(0, 3)
        groups.resign(0, 4)
        groups.lead(0, 3)
        groups.lead(0, 4)
        assert committed(groups) == 7
        groups.resign(0, 5)
        groups.lead(0, 4)
        groups.lead(0, 5)
        assert committed(groups) == ErrorCode.NOT_COORDINATOR

    run(tmp_path, scenario)


def test_state_comes_from_the_log_when_the_same_broker_leads_at_another_epoch(tmp_path: Path) -> None:
    """An image may skip the leader that was between, who has cut the log."""

    async def scenario(pair: TwoBrokers) -> None:
        pair.show(led(CONSUMER_OFFSETS, ONE, 0))
        groups = pair.one.broker.groups
        await commit(groups, 7)
        end = pair.partition(CONSUMER_OFFSETS, ONE).log.log_end_offset
        await commit(groups, 8)
        pair.partition(CONSUMER_OFFSETS, ONE).log.truncate_to(end)
        pair.show(led(CONSUMER_OFFSETS, ONE, 2))
        assert committed(groups) == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        await active(groups)
        assert committed(groups) == 7

    run(tmp_path, scenario)


def test_partition_is_not_loaded_twice_when_only_the_in_sync_set_changes(tmp_path: Path) -> None:
    async def scenario(pair: TwoBrokers) -> None:
        pair.show(led(CONSUMER_OFFSETS, ONE, 0))
        groups = pair.one.broker.groups
        await commit(groups, 7)
        shard = groups.shards.hosted(0)
        pair.show(led(CONSUMER_OFFSETS, ONE, 0, isr=(ONE, TWO)))
        assert groups.shards.hosted(0) is shard
        assert committed(groups) == 7

    run(tmp_path, scenario)


def test_load_goes_nowhere_when_the_leadership_ends_and_comes_back_meanwhile(tmp_path: Path) -> None:
    async def scenario(pair: TwoBrokers) -> None:
        pair.show(led(CONSUMER_OFFSETS, ONE, 0))
        groups = pair.one.broker.groups
        for offset in range(20):
            await commit(groups, offset)
        groups.lead(0, 1)
        await asyncio.sleep(0)
        first = groups.shards.hosted(0)
        groups.resign(0, 2)
        groups.lead(0, 3)
        assert groups.shards.hosted(0) is not first
        await active(groups)
        assert committed(groups) == 19
        assert groups.shards.hosted(0) is not first

    run(tmp_path, scenario)


def test_offset_of_a_deleted_topic_is_gone_when_its_partition_was_on_its_way_meanwhile(tmp_path: Path) -> None:
    async def scenario(pair: TwoBrokers) -> None:
        pair.show(led(CONSUMER_OFFSETS, ONE, 0), led("kept", ONE))
        request = OffsetCommitRequest("g", [OffsetToCommit("orders", 0, 7), OffsetToCommit("kept", 0, 8)])
        await pair.one.broker.groups.submit(COMMIT_OFFSETS, request)
        pair.copy(CONSUMER_OFFSETS, ONE)
        pair.show(led(CONSUMER_OFFSETS, NO_LEADER, 1))
        del pair.topics["orders"]
        pair.show()
        pair.show(led(CONSUMER_OFFSETS, TWO, 2))
        await active(pair.two.broker.groups)
        await until(lambda: committed(pair.two.broker.groups) == -1)
        fetch = OffsetFetchRequest("g", [TopicPartition("kept", 0)])
        assert pair.two.broker.groups.shards.read(FETCH_OFFSETS, fetch).partitions[0].offset == 8
        await pair.move(CONSUMER_OFFSETS, TWO, ONE, leader_epoch=3)
        assert committed(pair.one.broker.groups) == -1

    run(tmp_path, scenario)


def test_offsets_keep_their_age_when_the_group_moves(tmp_path: Path) -> None:
    async def scenario(pair: TwoBrokers) -> None:
        pair.show(led(CONSUMER_OFFSETS, ONE, 0))
        await commit(pair.one.broker.groups, 7)
        retention_ms = pair.two.broker.groups.shards.settings.offsets_retention_ms
        pair.two.clock.advance(retention_ms - 1)
        await pair.move(CONSUMER_OFFSETS, ONE, TWO, leader_epoch=1)
        groups = pair.two.broker.groups
        await groups.expire_offsets()
        assert committed(groups) == 7
        pair.two.clock.advance(1)
        await groups.expire_offsets()
        assert committed(groups) == -1

    run(tmp_path, scenario)


def test_offsets_count_from_the_last_members_leave_when_the_empty_group_moves(tmp_path: Path) -> None:
    """They were cleaned up right after the load, because the commit was old (KAFKA-8069)."""

    async def scenario(pair: TwoBrokers) -> None:
        pair.show(led(CONSUMER_OFFSETS, ONE, 0))
        one, two = pair.one.broker.groups, pair.two.broker.groups
        retention_ms = two.shards.settings.offsets_retention_ms
        member_id = (await join(one)).member_id
        joined = await join(one, member_id)
        assignment = (MemberAssignment(member_id, b"mine"),)
        await one.submit(SYNC_GROUP, SyncRequest("g", member_id, joined.generation_id, assignments=assignment))
        request = OffsetCommitRequest("g", [OffsetToCommit("orders", 0, 7)], member_id, joined.generation_id)
        await one.submit(COMMIT_OFFSETS, request)
        for served in (pair.one, pair.two):
            served.clock.advance(2 * retention_ms)
        await one.submit(LEAVE_GROUP, LeaveRequest("g", (LeavingMember(member_id),)))
        await pair.move(CONSUMER_OFFSETS, ONE, TWO, leader_epoch=1)
        await two.expire_offsets()
        assert committed(two) == 7
        pair.two.clock.advance(retention_ms)
        await two.expire_offsets()
        assert committed(two) == -1

    run(tmp_path, scenario)


def test_member_has_a_whole_session_when_its_group_was_just_loaded(tmp_path: Path) -> None:
    async def scenario(pair: TwoBrokers) -> None:
        pair.show(led(CONSUMER_OFFSETS, ONE, 0))
        one, two = pair.one.broker.groups, pair.two.broker.groups
        member_id = (await join(one)).member_id
        joined = await join(one, member_id)
        assignment = (MemberAssignment(member_id, b"mine"),)
        await one.submit(SYNC_GROUP, SyncRequest("g", member_id, joined.generation_id, assignments=assignment))
        pair.two.clock.advance(3_600_000)  # the records are old; the session counts from the load
        await pair.move(CONSUMER_OFFSETS, ONE, TWO, leader_epoch=1)
        await pass_time(0.01)
        assert await heartbeat(two, member_id, joined.generation_id) is ErrorCode.NONE

    run(tmp_path, scenario)
