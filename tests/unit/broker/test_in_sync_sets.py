"""In-sync sets: who joins, who leaves, what the controller's answers do."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import cast

import pytest

from penstock.broker.replicas.in_sync_sets import InSyncSets
from penstock.cluster.image import ImageDelta, MetadataImage, PartitionState
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from penstock.replication.changes import AlterPartitionResult, InSyncChange
from tests.unit.broker.in_sync_rig import ALL, LAG_MS, advance, close, driven, fetch, look
from tests.unit.broker.replication_rig import TOPIC, Node, ReplicaCluster, replicating
from tests.unit.log.support import NOW, batch
from tests.waiting import until


def test_a_member_leaves_when_it_lags_for_too_long(tmp_path: Path) -> None:
    async def scenario() -> None:
        cluster = driven(tmp_path, PartitionState(0, ALL, ALL, 1))
        leader = cluster.nodes[1]
        leader.partition().append(batch("a"), 1, NOW)
        advance(leader, LAG_MS)
        await fetch(leader, 2, 1)
        look(leader)
        assert not cluster.changes
        advance(leader, 1)
        look(leader)
        leading = leader.partition().leading
        assert leading is not None
        assert leading.pending_isr == (1, 2)
        assert leading.maximal_isr == frozenset(ALL)
        assert leader.partition().log.high_watermark == 0  # the controller has not answered
        await until(lambda: leader.partition().state.isr == (1, 2))
        assert leader.partition().log.high_watermark == 1
        assert [change.isr for change in cluster.changes] == [((1, 1), (2, 2))]
        await close(cluster)

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("code", "is_pending"),
    [
        (ErrorCode.INELIGIBLE_REPLICA, False),
        (ErrorCode.INVALID_UPDATE_VERSION, True),
        (ErrorCode.NEW_LEADER_ELECTED, True),
        (ErrorCode.UNKNOWN_TOPIC_ID, True),
    ],
)
def test_a_refused_change_is_given_up_or_waits_for_the_image(tmp_path: Path, code: ErrorCode, is_pending: bool) -> None:
    async def scenario() -> None:
        cluster = driven(tmp_path, PartitionState(0, ALL, (1, 2), 1))
        cluster.refusal = code
        leader = cluster.nodes[1]
        await fetch(leader, 3, 0)
        leading = leader.partition().leading
        assert leading is not None
        assert leading.maximal_isr == frozenset(ALL)
        await until(lambda: bool(cluster.changes))
        await until(lambda: leader.replicas.in_sync_sets._sending is None)
        assert (leading.pending_isr is not None) == is_pending
        cluster.change(isr=(1, 2))
        assert leading.pending_isr is None
        assert leading.maximal_isr == frozenset((1, 2))
        await close(cluster)

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("follower", "epoch", "broker_epoch", "code"),
    [
        (2, 0, 2, ErrorCode.NONE),
        (2, 1, 2, ErrorCode.UNKNOWN_LEADER_EPOCH),
        (9, 0, 9, ErrorCode.UNKNOWN_LEADER_EPOCH),
        (9, -1, 9, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        (2, 0, 1, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        (2, 0, 999, ErrorCode.NOT_LEADER_OR_FOLLOWER),
    ],
    ids=["a replica", "a newer epoch", "no replica", "no replica, no epoch", "a former self", "nobody's epoch"],
)
def test_only_replicas_of_their_newest_start_are_served_as_followers(
    tmp_path: Path, follower: int, epoch: int, broker_epoch: int, code: ErrorCode
) -> None:
    async def scenario() -> None:
        cluster = driven(tmp_path, PartitionState(0, ALL, ALL, 1))
        leader = cluster.nodes[1]
        await fetch(leader, 2, 0)
        assert await fetch(leader, follower, 0, epoch=epoch, broker_epoch=broker_epoch) == code
        assert await fetch(leader, 2, 0) == ErrorCode.NONE  # whatever somebody said in its name
        assert await fetch(cluster.nodes[2], 3, 0) == ErrorCode.NOT_LEADER_OR_FOLLOWER
        await close(cluster)

    asyncio.run(scenario())


def test_no_progress_counts_when_a_fetch_diverges_or_is_out_of_range(tmp_path: Path) -> None:
    async def scenario() -> None:
        cluster = driven(tmp_path, PartitionState(0, (1, 2), (1, 2), 1, 5), None)
        leader = cluster.nodes[1]
        leader.partition().append(batch("a"), 1, NOW)
        await fetch(leader, 2, 1, epoch=5, last_epoch=3)  # an epoch that ended elsewhere
        assert await fetch(leader, 2, 7, epoch=5) == ErrorCode.OFFSET_OUT_OF_RANGE
        leading = leader.partition().leading
        assert leading is not None
        assert leading.followers[2].log_end_offset == -1
        assert leader.partition().log.high_watermark == 0
        assert await fetch(leader, 2, 1, epoch=5, last_epoch=5) == ErrorCode.NONE
        assert leader.partition().log.high_watermark == 1
        await close(cluster)

    asyncio.run(scenario())


async def latest(node: Node, version: int = 7, replica_id: int = -1) -> tuple[int, int]:
    asked = ListOffsetsPartition(partition_index=0, timestamp=-1)
    topic = ListOffsetsTopic(name=TOPIC, partitions=[asked])
    response = await node.ask(ListOffsetsRequest(replica_id=replica_id, topics=[topic]), version)
    answer = response.topics[0].partitions[0]
    return answer.error_code, answer.offset


def test_the_latest_offset_is_not_told_when_a_new_leader_does_not_know_it_yet(tmp_path: Path) -> None:
    async def scenario() -> None:
        cluster = driven(tmp_path, PartitionState(0, (1, 2), (1, 2), 1))
        leader = cluster.nodes[1]
        leader.partition().append(batch("a"), 1, NOW)
        assert await latest(leader) == (ErrorCode.NONE, 0)
        assert await latest(leader, replica_id=2) == (ErrorCode.NONE, 1)
        cluster.elect(1)
        assert await latest(leader) == (ErrorCode.OFFSET_NOT_AVAILABLE, -1)
        assert await latest(leader, version=4) == (ErrorCode.LEADER_NOT_AVAILABLE, -1)
        assert await latest(cluster.nodes[2]) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)
        await fetch(leader, 2, 1, epoch=1)
        assert await latest(leader) == (ErrorCode.NONE, 1)
        await close(cluster)

    asyncio.run(scenario())


def test_a_follower_that_could_not_join_is_asked_for_again_when_brokers_change(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with replicating(tmp_path, PartitionState(0, ALL, (1, 2), 1)) as cluster:
            leader = cluster.nodes[1]
            cluster.refusal = ErrorCode.INELIGIBLE_REPLICA
            await until(lambda: bool(cluster.changes))
            cluster.refusal = None
            cluster.publish(
                replace(cluster.image, brokers=dict(cluster.image.brokers) | {9: cluster.registration(9, 9)})
            )
            await until(lambda: set(leader.partition().state.isr) == set(ALL))

    asyncio.run(scenario())


def test_a_refused_follower_is_asked_for_again_when_the_image_has_changed_or_after_a_while(tmp_path: Path) -> None:
    """It was asked for with each of its fetches."""

    async def scenario() -> None:
        cluster = driven(tmp_path, PartitionState(0, ALL, (1, 2), 1))
        cluster.refusal = ErrorCode.INELIGIBLE_REPLICA
        leader = cluster.nodes[1]

        async def fetch_often() -> int:
            for _ in range(5):
                await fetch(leader, 3, 0)
                await until(lambda: leader.replicas.in_sync_sets._sending is None)
            return len(cluster.changes)

        assert await fetch_often() == 1
        advance(leader, 5_000)
        assert await fetch_often() == 2
        cluster.publish(replace(cluster.image, brokers=dict(cluster.image.brokers) | {9: cluster.registration(9, 9)}))
        assert await fetch_often() == 3
        cluster.refusal = None
        advance(leader, 5_000)
        await fetch_often()
        assert set(leader.partition().state.isr) == set(ALL)
        await close(cluster)

    asyncio.run(scenario())


def test_a_change_is_asked_for_again_when_its_answer_cannot_be_taken(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The question ended without a word, and the partition's in-sync set never changed again."""

    async def scenario() -> None:
        cluster = driven(tmp_path, PartitionState(0, ALL, (1, 2), 1))
        leader = cluster.nodes[1]
        answers = 0

        async def answer(changes: Sequence[InSyncChange]) -> Sequence[AlterPartitionResult]:
            nonlocal answers
            answers += 1
            if answers < 3:
                nonsense = cast("PartitionState", object())
                return [AlterPartitionResult(each.topic_id, 0, ErrorCode.NONE, nonsense) for each in changes]
            return await cluster.change_in_sync(changes)

        sets = InSyncSets(leader.partitions, answer, Random(1).random)
        await fetch(leader, 3, 0)
        await until(lambda: set(leader.partition().state.isr) == set(ALL))
        await sets.close()
        await close(cluster)

    asyncio.run(scenario())
    assert [record.message for record in caplog.records if record.levelname == "ERROR"] == [
        "an in-sync set could not be changed, and is tried again"
    ]


def test_others_get_turns_when_a_broker_comes_that_follows_many_partitions(tmp_path: Path) -> None:
    async def scenario() -> None:
        cluster = ReplicaCluster(tmp_path, 1, is_driven=True)
        cluster.start()
        cluster.set_states(*(PartitionState(index, ALL, (1, 2), 1) for index in range(1_001)))
        leader, old = cluster.nodes[1], cluster.image
        leader.replicas.apply(MetadataImage("cluster"), old, ImageDelta.between(MetadataImage("cluster"), old))
        new = replace(old, brokers=dict(old.brokers) | {3: cluster.registration(3, 3)})
        leader.replicas.apply(old, new, ImageDelta.between(old, new))
        turns = 0
        while leader.replicas._looking is not None:
            await asyncio.sleep(0)
            turns += 1
        assert turns >= 3
        await close(cluster)

    asyncio.run(scenario())


def test_a_broker_that_registers_anew_joins_again_when_nothing_was_written(tmp_path: Path) -> None:
    """Its session ended and began anew, and its idle partitions must be named with the new epoch."""

    async def scenario() -> None:
        async with replicating(tmp_path) as cluster:
            leader = cluster.nodes[1]
            await leader.produce(batch("a"))
            await cluster.until_equal()
            cluster.publish(
                replace(cluster.image, brokers=dict(cluster.image.brokers) | {3: cluster.registration(3, 77)})
            )
            cluster.change(isr=(1, 2))
            await until(lambda: set(leader.partition().state.isr) == set(ALL))
            assert cluster.changes[-1].isr == ((1, 1), (2, 2), (3, 77))

    asyncio.run(scenario())
