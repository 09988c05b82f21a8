"""Replicas that catch up under a throttle, in the time of the loop: how fast, in which order, and who does not wait."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest

from penstock.cluster.image import PartitionState
from penstock.protocol.errors import ErrorCode
from tests.own_time import LoopClock, pass_time, run_in_own_time
from tests.unit.broker.replication_rig import ReplicaCluster, replicating
from tests.unit.log.support import batch
from tests.waiting import until

RATE = 10_000
BATCH = batch("x" * 900)
# One batch, and what a window may hold before the rate is known.
SLACK = RATE + len(BATCH)
EVERYTHING = {
    "leader": {"leader_replication_throttled_replicas": "*"},
    "follower": {"follower_replication_throttled_replicas": "*"},
    "both": {"leader_replication_throttled_replicas": "*", "follower_replication_throttled_replicas": "*"},
}
RATES = {
    "leader": {"leader": RATE},
    "follower": {"follower": RATE},
    "both": {"leader": RATE, "follower": RATE},
}
LEADER, NEW = 1, 2


def moving(index: int, leader: int = LEADER) -> PartitionState:
    """Broker 2 is being added."""
    return PartitionState(index, (leader, NEW), (leader,), leader, adding=(NEW,))


def fill(cluster: ReplicaCluster, count: int, index: int = 0, leader: int = LEADER) -> int:
    """All bytes that are to be copied."""
    for _ in range(count):
        cluster.nodes[leader].partition(index).append(BATCH, 1, LoopClock().now_ms())
    return count * len(BATCH)


def copied(cluster: ReplicaCluster, index: int = 0) -> int:
    found = cluster.nodes[NEW].partitions.find("orders", index)
    return 0 if found is None else found.log.size


async def until_copied(cluster: ReplicaCluster, size: int, indexes: Sequence[int] = (0,)) -> list[int]:
    """What was there after each tenth of a second."""
    sizes = [0]
    async with asyncio.timeout(600):
        while sizes[-1] < size:
            await pass_time(0.1)
            sizes.append(sum(copied(cluster, index) for index in indexes))
    return sizes


def assert_no_faster(sizes: Sequence[int], rate: int, slack: int = SLACK) -> None:
    """In no stretch of time more than the rate allows."""
    for begin, before in enumerate(sizes):
        for end in range(begin + 1, len(sizes)):
            assert sizes[end] - before <= rate * (end - begin) / 10 + slack, (begin, end)


def unled(index: int = 0) -> PartitionState:
    return PartitionState(index, (LEADER,), (LEADER,), LEADER)


@pytest.mark.parametrize("side", ["leader", "follower", "both"])
def test_a_new_replica_is_filled_no_faster_than_the_rate_when_its_replication_is_throttled(
    tmp_path: Path, side: str
) -> None:
    async def scenario() -> None:
        async with replicating(tmp_path, unled(), count=2, clock=LoopClock()) as cluster:
            size = fill(cluster, 300)
            cluster.limit(**RATES[side])
            cluster.configure(**EVERYTHING[side])
            cluster.set_states(moving(0)._replace(partition_epoch=1))
            sizes = await until_copied(cluster, size)
            assert_no_faster(sizes, RATE)
            seconds = len(sizes) / 10
            assert seconds >= (size - SLACK) / RATE
            assert seconds <= 1.2 * size / RATE + 1  # and not much slower either
            assert cluster.fetch_count <= 4 * size / len(BATCH) + 30 * seconds  # nobody asks again and again in vain
            await until(lambda: set(cluster.state().isr) == {LEADER, NEW})
            assert cluster.log_bytes(LEADER) == cluster.log_bytes(NEW)

    run_in_own_time(scenario())


@pytest.mark.parametrize("side", ["leader", "follower"])
def test_the_rate_holds_for_all_partitions_together_and_none_starves_when_many_move(tmp_path: Path, side: str) -> None:
    async def scenario() -> None:
        indexes = range(15)
        async with replicating(tmp_path, *map(unled, indexes), count=2, clock=LoopClock()) as cluster:
            size = sum(fill(cluster, 10, index) for index in indexes)
            cluster.limit(**RATES[side])
            cluster.configure(**EVERYTHING[side])
            cluster.set_states(*(moving(index)._replace(partition_epoch=1) for index in indexes))
            await pass_time(size / RATE / 2)
            parts = [copied(cluster, index) for index in indexes]
            assert min(parts) > 0
            sizes = await until_copied(cluster, size, indexes)
            assert_no_faster(sizes[1:], RATE)

    run_in_own_time(scenario())


def test_the_rate_of_a_follower_holds_for_all_its_leaders_together(tmp_path: Path) -> None:
    async def scenario() -> None:
        states = (unled(), PartitionState(1, (3,), (3,), 3))
        async with replicating(tmp_path, *states, count=3, clock=LoopClock()) as cluster:
            size = fill(cluster, 150) + fill(cluster, 150, 1, leader=3)
            cluster.limit(**RATES["follower"])
            cluster.configure(**EVERYTHING["follower"])
            cluster.set_states(
                *(moving(index, leader)._replace(partition_epoch=1) for index, leader in ((0, 1), (1, 3)))
            )
            sizes = await until_copied(cluster, size, (0, 1))
            assert_no_faster(sizes, RATE, 2 * SLACK)

    run_in_own_time(scenario())


@pytest.mark.parametrize("side", ["leader", "follower"])
def test_a_write_to_replicas_in_sync_does_not_wait_when_another_replica_is_throttled(tmp_path: Path, side: str) -> None:
    """Neither of the same topic, whose list names all replicas, nor from the same leader."""

    async def scenario() -> None:
        in_sync = PartitionState(1, (LEADER, NEW), (LEADER, NEW), LEADER)
        async with replicating(tmp_path, unled(), in_sync, count=2, clock=LoopClock()) as cluster:
            size = fill(cluster, 100)
            cluster.limit(**RATES[side])
            cluster.configure(**EVERYTHING[side])
            cluster.set_states(moving(0)._replace(partition_epoch=1), in_sync)
            loop, written = asyncio.get_running_loop(), 0
            while copied(cluster) < size:
                began = loop.time()
                answer = await cluster.nodes[LEADER].produce(BATCH, index=1)
                assert answer.error_code == ErrorCode.NONE
                assert loop.time() - began < 0.02
                written += len(BATCH)
                await pass_time(0.02)
            assert written > 2 * size  # far above the rate

    run_in_own_time(scenario())


@pytest.mark.parametrize("side", ["leader", "follower"])
@pytest.mark.parametrize("how", ["the list goes", "the rate goes"])
def test_everything_is_released_at_once_when_the_throttle_is_taken_away(tmp_path: Path, side: str, how: str) -> None:
    async def scenario() -> None:
        async with replicating(tmp_path, unled(), count=2, clock=LoopClock()) as cluster:
            size = fill(cluster, 300)
            cluster.limit(**RATES[side])
            cluster.configure(**EVERYTHING[side])
            cluster.set_states(moving(0)._replace(partition_epoch=1))
            await pass_time(3)
            assert 0 < copied(cluster) < size / 2
            if how == "the list goes":
                cluster.configure()
            else:
                cluster.limit()
            assert len(await until_copied(cluster, size)) <= 5

    run_in_own_time(scenario())


@pytest.mark.parametrize("side", ["leader", "follower"])
def test_the_new_rate_holds_when_it_is_changed_during_a_move(tmp_path: Path, side: str) -> None:
    async def scenario() -> None:
        async with replicating(tmp_path, unled(), count=2, clock=LoopClock()) as cluster:
            size = fill(cluster, 300)
            cluster.limit(**{side: RATE // 10})
            cluster.configure(**EVERYTHING[side])
            cluster.set_states(moving(0)._replace(partition_epoch=1))
            await pass_time(20)
            slow = copied(cluster)
            assert 0 < slow <= 2 * RATE + SLACK
            cluster.limit(**{side: 5 * RATE})
            sizes = await until_copied(cluster, size)
            assert_no_faster(sizes[1:], 5 * RATE, 5 * SLACK + 5 * RATE)
            assert len(sizes) / 10 <= 2 * size / (5 * RATE)

    run_in_own_time(scenario())


@pytest.mark.parametrize("side", ["leader", "follower", "both"])
def test_a_replica_gets_on_when_the_rate_is_smaller_than_one_batch(tmp_path: Path, side: str) -> None:
    """While a partition in sync has records in every answer, and comes first."""

    async def scenario() -> None:
        in_sync = PartitionState(1, (LEADER, NEW), (LEADER, NEW), LEADER)
        async with replicating(tmp_path, unled(), in_sync, count=2, clock=LoopClock()) as cluster:
            fill(cluster, 5)
            cluster.limit(**dict.fromkeys(RATES[side], 1))
            cluster.configure(**EVERYTHING[side])
            cluster.set_states(moving(0)._replace(partition_epoch=1), in_sync)
            for _ in range(600):
                fill(cluster, 1, 1)
                await pass_time(0.05)
            assert 2 * len(BATCH) <= copied(cluster) <= 4 * len(BATCH)  # one for each span of windows
            assert cluster.fetch_count < 3_000

    run_in_own_time(scenario())


def test_only_the_named_replicas_are_throttled_when_the_list_names_pairs(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with replicating(tmp_path, unled(), unled(1), count=2, clock=LoopClock()) as cluster:
            size = fill(cluster, 100) + fill(cluster, 100, 1)
            cluster.limit(leader=1, follower=1)
            cluster.configure(
                leader_replication_throttled_replicas="0:2,0:1",
                follower_replication_throttled_replicas="0:2,1:1",
            )
            cluster.set_states(*(moving(index)._replace(partition_epoch=1) for index in (0, 1)))
            await until_copied(cluster, size // 2, (1,))
            assert copied(cluster) <= 2 * len(BATCH)

    run_in_own_time(scenario())


def test_a_throttled_replica_is_in_sync_as_soon_as_it_has_caught_up_when_writes_go_on(tmp_path: Path) -> None:
    """Writers are faster than the throttle, and the replicas in sync do not use it up."""

    async def scenario() -> None:
        three = PartitionState(0, (1, 3), (1, 3), 1)
        async with replicating(tmp_path, three, count=3, clock=LoopClock()) as cluster:
            fill(cluster, 50)
            cluster.limit(leader=20 * RATE, follower=20 * RATE)
            cluster.configure(**EVERYTHING["both"])
            cluster.set_states(PartitionState(0, (1, 3, NEW), (1, 3), 1, adding=(NEW,), partition_epoch=1))
            async with asyncio.timeout(60):
                while NEW not in cluster.state().isr:
                    assert (await cluster.nodes[1].produce(BATCH)).error_code == ErrorCode.NONE
            began = asyncio.get_running_loop().time()
            cluster.limit(leader=1, follower=1)
            for _ in range(20):
                assert (await cluster.nodes[1].produce(BATCH)).error_code == ErrorCode.NONE
            assert asyncio.get_running_loop().time() - began < 2

    run_in_own_time(scenario())
