"""For how long leaders lead without the store, and when they lead again."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from penstock.cluster.image import PartitionState
from penstock.protocol.errors import ApiError, ErrorCode
from penstock.protocol.messages.produce import PartitionProduceResponse
from tests.unit.broker.in_sync_rig import ALL, Following, advance, close, driven, fetch, look
from tests.unit.broker.replication_rig import Node, ReplicaCluster
from tests.unit.log.support import NOW, batch, sequenced
from tests.waiting import until


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


def test_a_leader_that_stood_still_is_not_sure_when_fetches_waited_in_sockets_meanwhile(tmp_path: Path) -> None:
    """The followers sent their fetches before one of them was elected."""

    async def scenario() -> None:
        cluster = driven(tmp_path, PartitionState(0, ALL, ALL, 1))
        leader, partition = cluster.nodes[1], cluster.nodes[1].partition()
        look(leader)
        check_leases(leader)
        assert leader.replicas.is_sure(partition.topic_partition)
        leader.session_is_sure = False
        advance(leader, 2_500)
        for follower in (2, 3):
            assert await fetch(leader, follower, 0) == ErrorCode.NONE
        assert partition.is_leader
        assert not leader.replicas.is_sure(partition.topic_partition)
        check_leases(leader)
        assert not leads(leader)
        await close(cluster)

    asyncio.run(scenario())


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


async def suspended_with_a_write(
    path: Path, timeout_ms: int = 20_000
) -> tuple[ReplicaCluster, Node, asyncio.Future[PartitionProduceResponse]]:
    """A leader that was suspended while a record waited for its followers."""
    cluster = driven(path, PartitionState(0, ALL, ALL, 1))
    leader = cluster.nodes[1]
    look(leader)
    writing = asyncio.ensure_future(leader.produce(batch("a"), timeout_ms=timeout_ms))
    await until(lambda: leader.partition().log.log_end_offset == 1)
    leader.session_is_sure = False
    advance(leader, 3_000)
    check_leases(leader)
    assert not leads(leader)
    return cluster, leader, writing


def test_a_write_waits_on_when_its_leader_is_suspended_and_is_acknowledged_when_it_leads_again(tmp_path: Path) -> None:
    """It was answered NOT_LEADER_OR_FOLLOWER, which clients take for "not written", and came twice."""

    async def scenario() -> None:
        cluster, leader, writing = await suspended_with_a_write(tmp_path)
        for follower in (Following(leader, 2), Following(leader, 3)):
            await follower.fetch()
            await follower.fetch()
        assert not writing.done()
        check_leases(leader)
        assert leads(leader)
        assert not writing.done()
        for node_id in (2, 3):
            assert await fetch(leader, node_id, 0) == await fetch(leader, node_id, 1) == ErrorCode.NONE
        assert (await writing).error_code == ErrorCode.NONE
        await close(cluster)

    asyncio.run(scenario())


def test_a_write_may_have_been_made_when_its_time_ends_while_its_leader_is_suspended(tmp_path: Path) -> None:
    async def scenario() -> None:
        cluster, _, writing = await suspended_with_a_write(tmp_path, timeout_ms=50)
        assert (await writing).error_code == ErrorCode.REQUEST_TIMED_OUT
        await close(cluster)

    asyncio.run(scenario())


def test_a_write_is_refused_when_another_leads_after_its_leader_was_suspended(tmp_path: Path) -> None:
    async def scenario() -> None:
        cluster, _, writing = await suspended_with_a_write(tmp_path)
        cluster.elect(2)
        answer = await writing
        assert answer.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert answer.current_leader is not None
        assert answer.current_leader.leader_id == 2
        await close(cluster)

    asyncio.run(scenario())


def test_a_write_is_acknowledged_when_a_suspended_leader_is_elected_again(tmp_path: Path) -> None:
    async def scenario() -> None:
        cluster, leader, writing = await suspended_with_a_write(tmp_path)
        cluster.elect(1, (1,))
        assert leads(leader)
        assert (await writing).error_code == ErrorCode.NONE
        await close(cluster)

    asyncio.run(scenario())


def test_a_write_is_acknowledged_when_its_suspended_leader_becomes_the_only_replica(tmp_path: Path) -> None:
    async def scenario() -> None:
        cluster, leader, writing = await suspended_with_a_write(tmp_path)
        state = leader.partition().state
        cluster.set_states(state._replace(replicas=(1,), isr=(1,), partition_epoch=state.partition_epoch + 1))
        assert (await writing).error_code == ErrorCode.NONE
        await close(cluster)

    asyncio.run(scenario())


def test_a_write_is_refused_when_its_suspended_leader_gives_the_partition_up(tmp_path: Path) -> None:
    async def scenario() -> None:
        cluster, _, writing = await suspended_with_a_write(tmp_path)
        cluster.publish(replace(cluster.image, topics={}))
        assert (await writing).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        await close(cluster)

    asyncio.run(scenario())


@pytest.mark.parametrize("first", [0, 5])
def test_nothing_is_out_of_order_when_a_pipeline_meets_the_moment_in_which_its_leader_leads_again(
    tmp_path: Path, first: int
) -> None:
    """The first batch was refused and the next one out of order: librdkafka then sent everything under a new epoch.
    A log that did not know the producer took the second batch for its first one.
    """

    async def scenario() -> None:
        cluster = driven(tmp_path, PartitionState(0, ALL, ALL, 1))
        leader = cluster.nodes[1]
        look(leader)
        if first:
            assert (await leader.produce(sequenced(0, first), acks=1)).error_code == ErrorCode.NONE
        leader.session_is_sure = False
        advance(leader, 3_000)
        check_leases(leader)
        refused = await leader.produce(sequenced(first), acks=1)
        assert refused.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        leader.session_is_sure = True
        check_leases(leader)
        assert leads(leader)
        pipeline = range(first, first + 4)
        answers = [await leader.produce(sequenced(number), acks=1) for number in pipeline[1:]]
        assert {answer.error_code for answer in answers} == {ErrorCode.NOT_LEADER_OR_FOLLOWER}
        again = [await leader.produce(sequenced(number), acks=1) for number in pipeline]
        assert [(answer.error_code, answer.base_offset) for answer in again] == [
            (ErrorCode.NONE, number) for number in pipeline
        ]
        await close(cluster)

    asyncio.run(scenario())


def leads(node: Node) -> bool:
    return node.partition().is_leader


def check_leases(node: Node) -> None:
    for _ in node.replicas.look_at_leases():
        pass
