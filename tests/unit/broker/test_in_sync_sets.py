"""In-sync sets and leases of leaders: who joins, who leaves, what the controller's answers do."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest

from penstock.broker.partitions.acknowledgements import Acknowledgements
from penstock.broker.replicas.in_sync_sets import InSyncSets
from penstock.cluster.image import ImageDelta, MetadataImage, PartitionState
from penstock.core.log_settings import LogSettings
from penstock.protocol.errors import ApiError, ErrorCode
from penstock.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ReplicaState
from penstock.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from penstock.replication.changes import AlterPartitionResult, InSyncChange
from penstock.testing.clock import ManualClock
from tests.unit.broker.harness import until
from tests.unit.broker.replication_rig import TOPIC, TOPIC_ID, Node, ReplicaCluster, replicating
from tests.unit.log.support import NOW, batch

LAG_MS = 10_000
ALL = (1, 2, 3)


def driven(path: Path, state: PartitionState, settings: LogSettings | None = None) -> ReplicaCluster:
    cluster = ReplicaCluster(path, settings=settings, is_driven=True)
    cluster.start()
    cluster.set_states(state)
    return cluster


async def fetch(
    leader: Node, follower: int, offset: int, *, epoch: int = 0, last_epoch: int = -1, broker_epoch: int | None = None
) -> int:
    """The error code of the answer."""
    partition = FetchPartition(
        partition=0,
        current_leader_epoch=epoch,
        fetch_offset=offset,
        last_fetched_epoch=last_epoch,
        log_start_offset=0,
        partition_max_bytes=1_000,
        high_watermark=0,
    )
    state = ReplicaState(replica_id=follower, replica_epoch=follower if broker_epoch is None else broker_epoch)
    topic = FetchTopic(topic_id=TOPIC_ID, partitions=[partition])
    response = await leader.ask(FetchRequest(replica_state=state, topics=[topic]), 18)
    return int(response.responses[0].partitions[0].error_code)


def advance(node: Node, milliseconds: int) -> None:
    assert isinstance(node.clock, ManualClock)
    node.clock.advance(milliseconds)


def look(node: Node) -> None:
    node.replicas._led[node.partition().topic_partition] = node.partition()  # driven by hand
    for _ in node.replicas.look_for_lagging():
        pass


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


async def close(cluster: ReplicaCluster) -> None:
    for node in cluster.nodes.values():
        await node.close()


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
    ],
    ids=["a replica", "a newer epoch", "no replica", "no replica, no epoch", "a former self"],
)
def test_only_replicas_of_their_newest_start_are_served_as_followers(
    tmp_path: Path, follower: int, epoch: int, broker_epoch: int, code: ErrorCode
) -> None:
    async def scenario() -> None:
        cluster = driven(tmp_path, PartitionState(0, ALL, ALL, 1))
        leader = cluster.nodes[1]
        await fetch(leader, 2, 0)
        assert await fetch(leader, follower, 0, epoch=epoch, broker_epoch=broker_epoch) == code
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


def test_a_leader_steps_down_without_session_and_followers_and_leads_again_with_a_session(tmp_path: Path) -> None:
    async def scenario() -> None:
        cluster = driven(tmp_path, PartitionState(0, ALL, ALL, 1))
        leader, partition = cluster.nodes[1], cluster.nodes[1].partition()
        look(leader)
        leader.session_is_sure = False
        advance(leader, 1_500)
        await fetch(leader, 2, 0)
        check_leases(leader)
        assert leads(leader)  # both have fetched, or may still
        advance(leader, 1_000)
        check_leases(leader)
        assert not leads(leader)
        with pytest.raises(ApiError) as caught:
            partition.append(batch("a"), 1, NOW)
        assert caught.value.code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        (topic,) = cluster.image.topics.values()  # news of the topic that say nothing new of its leader
        configured = topic._replace(configs={"retention.ms": "5"})
        cluster.publish(replace(cluster.image, topics={topic.name: configured}))
        assert not leads(leader)
        leader.session_is_sure = True
        check_leases(leader)
        assert leads(leader)
        partition.append(batch("a"), 1, NOW)
        await close(cluster)

    asyncio.run(scenario())


class Following:
    """One follower's fetch session with a leader."""

    def __init__(self, leader: Node, node_id: int) -> None:
        self._leader = leader
        self._node_id = node_id
        self._session_id = self._session_epoch = 0

    async def fetch(self, epoch: int = 0, broker_epoch: int | None = None) -> int:
        partition = FetchPartition(partition=0, current_leader_epoch=epoch, fetch_offset=0, partition_max_bytes=1_000)
        epoch_sent = self._node_id if broker_epoch is None else broker_epoch
        request = FetchRequest(
            replica_state=ReplicaState(replica_id=self._node_id, replica_epoch=epoch_sent),
            session_id=self._session_id,
            session_epoch=self._session_epoch,
            topics=[FetchTopic(topic_id=TOPIC_ID, partitions=[partition])],
        )
        response = await self._leader.ask(request, 18)
        self._session_id = response.session_id
        self._session_epoch += 1
        return int(response.responses[0].partitions[0].error_code)


async def suspended_leader(path: Path, isr: tuple[int, ...] = ALL) -> tuple[ReplicaCluster, Node]:
    cluster = driven(path, PartitionState(0, ALL, isr, 1))
    leader = cluster.nodes[1]
    look(leader)
    leader.session_is_sure = False
    advance(leader, 3_000)
    check_leases(leader)
    assert not leads(leader)
    return cluster, leader


def test_a_leader_leads_again_without_a_session_when_all_in_sync_followers_fetch_on_at_its_epoch(
    tmp_path: Path,
) -> None:
    """The leader stood still for 3 s while the store was away, and would refuse writers until the store is back."""

    async def scenario() -> None:
        cluster, leader = await suspended_leader(tmp_path)
        second, third = Following(leader, 2), Following(leader, 3)
        for _ in range(2):
            advance(leader, 20)
            assert await second.fetch() == ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert await third.fetch() == ErrorCode.NOT_LEADER_OR_FOLLOWER
        check_leases(leader)
        assert not leads(leader)  # the third may have sent its fetch before it was elected
        assert await third.fetch() == ErrorCode.NOT_LEADER_OR_FOLLOWER
        check_leases(leader)
        assert leads(leader)
        writing = asyncio.ensure_future(leader.produce(batch("a")))
        await until(lambda: leader.partition().log.log_end_offset == 1)
        assert await fetch(leader, 2, 0) == await fetch(leader, 3, 0) == ErrorCode.NONE
        assert await fetch(leader, 2, 1) == await fetch(leader, 3, 1) == ErrorCode.NONE
        assert (await writing).error_code == ErrorCode.NONE
        advance(leader, 2_001)
        check_leases(leader)
        assert not leads(leader)  # by the same rule as before
        await close(cluster)

    asyncio.run(scenario())


def test_a_suspended_leader_waits_when_fetches_prove_nothing(tmp_path: Path) -> None:
    async def scenario() -> None:
        cluster, leader = await suspended_leader(tmp_path)
        second = Following(leader, 2)
        for _ in range(4):
            await second.fetch()
            await fetch(leader, 3, 0)  # without a session: nobody knows when it was sent
        check_leases(leader)
        assert not leads(leader)
        for _ in range(4):
            await Following(leader, 3).fetch()  # each in a session of its own, perhaps from before the suspension
        check_leases(leader)
        assert not leads(leader)
        for epoch in (-1, -1, 1, 1):
            await Following(leader, 3).fetch(epoch)
        check_leases(leader)
        assert not leads(leader)
        third = Following(leader, 3)
        await third.fetch()
        advance(leader, 2_001)
        await third.fetch()  # it may have waited in a socket for as long as that
        check_leases(leader)
        assert not leads(leader)
        await close(cluster)

    asyncio.run(scenario())


def test_a_suspended_leader_asks_no_follower_that_is_not_in_sync_but_one_that_may_be_by_now(tmp_path: Path) -> None:
    async def scenario(asked_for: tuple[int, ...], is_enough: bool) -> None:
        cluster = driven(tmp_path / str(is_enough), PartitionState(0, ALL, (1, 2), 1))
        leader = cluster.nodes[1]
        look(leader)
        leading = leader.partition().leading
        assert leading is not None
        leading.propose(asked_for)  # and the controller's answer is lost
        leader.session_is_sure = False
        advance(leader, 3_000)
        check_leases(leader)
        second = Following(leader, 2)
        await second.fetch()
        await second.fetch()
        check_leases(leader)
        assert leads(leader) == is_enough
        await close(cluster)

    asyncio.run(scenario((1, 2), is_enough=True))
    asyncio.run(scenario(ALL, is_enough=False))


@pytest.mark.parametrize("is_sure_again", [True, False])
def test_a_member_that_was_asked_for_holds_acknowledgements_when_a_suspended_leader_leads_again(
    tmp_path: Path, *, is_sure_again: bool
) -> None:
    """The controller may have made the change, and its answer came while nobody led: the member may be elected."""

    async def scenario() -> None:
        cluster = driven(tmp_path, PartitionState(0, ALL, (1, 2), 1))
        leader = cluster.nodes[1]
        look(leader)
        leading = leader.partition().leading
        assert leading is not None
        leading.propose(ALL)
        leader.session_is_sure = False
        advance(leader, 3_000)
        check_leases(leader)
        assert not leads(leader)
        leader.session_is_sure = is_sure_again
        followers = Following(leader, 2), Following(leader, 3)
        for _ in range(2):
            for follower in followers:
                await follower.fetch()
        check_leases(leader)
        assert leads(leader)
        again = leader.partition().leading
        assert again is not None
        assert again.maximal_isr == set(ALL)
        writing = asyncio.ensure_future(leader.produce(batch("a")))
        await until(lambda: leader.partition().log.log_end_offset == 1)
        assert await fetch(leader, 2, 0) == await fetch(leader, 2, 1) == ErrorCode.NONE
        assert leader.partition().log.high_watermark == 0
        assert await fetch(leader, 3, 0) == await fetch(leader, 3, 1) == ErrorCode.NONE
        assert (await writing).error_code == ErrorCode.NONE
        await until(lambda: leader.partition().state.isr == ALL)  # it was asked for once more
        await close(cluster)

    asyncio.run(scenario())


def test_a_suspended_leader_is_none_when_the_image_names_another(tmp_path: Path) -> None:
    async def scenario() -> None:
        cluster, leader = await suspended_leader(tmp_path)
        third = Following(leader, 3)
        await third.fetch()
        cluster.elect(2)
        assert leader.partition().suspension is None
        assert await third.fetch() == ErrorCode.FENCED_LEADER_EPOCH
        await close(cluster)

    asyncio.run(scenario())


def leads(node: Node) -> bool:
    return node.partition().is_leader


def check_leases(node: Node) -> None:
    for _ in node.replicas.look_at_leases():
        pass


def test_a_thousand_writers_hear_in_order_when_the_watermark_rises() -> None:
    async def scenario() -> None:
        waiting = Acknowledgements()
        futures = [waiting.wait(offset, 60_000) for offset in range(1, 1_001)]
        waiting.release(500, ErrorCode.NONE)
        assert [future.done() for future in futures] == [True] * 500 + [False] * 500
        assert len(waiting) == 500
        waiting.refuse_all(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        assert {future.result() for future in futures[500:]} == {ErrorCode.NOT_LEADER_OR_FOLLOWER}

    asyncio.run(scenario())


def test_writers_without_patience_leave_nothing_behind() -> None:
    async def scenario() -> None:
        waiting = Acknowledgements()
        futures = [waiting.wait(1, 0) for _ in range(100)]
        assert set(await asyncio.gather(*futures)) == {ErrorCode.REQUEST_TIMED_OUT}
        assert len(waiting) == 0

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

        sets = InSyncSets(leader.partitions, answer)
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
