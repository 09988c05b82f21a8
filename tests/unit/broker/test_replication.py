"""Replication between brokers in one process: produce on the leader, fetch on followers, elections by hand."""

from __future__ import annotations

import asyncio
from pathlib import Path

from penstock.broker.partitions.follower_watch import HIGH_WATERMARK_DELAY_MS
from penstock.cluster.image import PartitionState
from penstock.core.log_settings import LogSettings
from penstock.protocol.errors import ErrorCode
from penstock.testing.disks.faulty_files import Fault, FaultyFiles
from tests.unit.broker.replication_rig import TOPIC, ReplicaCluster, replicating
from tests.unit.log.support import NOW, batch, read_all, sequenced, transactional
from tests.waiting import until


async def fill(cluster: ReplicaCluster, leader: int, *values: str) -> None:
    for value in values:
        answer = await cluster.nodes[leader].produce(batch(value))
        assert answer.error_code == ErrorCode.NONE


def test_a_write_with_acks_all_is_on_all_in_sync_replicas_when_it_is_acknowledged(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with replicating(tmp_path) as cluster:
            answer = await cluster.nodes[1].produce(batch("a", "b"))
            assert (answer.error_code, answer.base_offset) == (ErrorCode.NONE, 0)
            assert [node.partition().log.log_end_offset for node in cluster.nodes.values()] == [2, 2, 2]
            assert cluster.nodes[1].partition().log.high_watermark == 2
            await cluster.until_equal()
            assert len({cluster.log_bytes(node_id) for node_id in cluster.nodes}) == 1

    asyncio.run(scenario())


def test_a_follower_fetches_once_for_each_batch_when_batches_come_one_after_another(tmp_path: Path) -> None:
    """It fetched twice: the second answer had nothing but the high watermark, which the next records carry along."""

    async def scenario() -> None:
        async with replicating(tmp_path) as cluster:
            await fill(cluster, 1, "first")
            await cluster.until_equal()
            loop = asyncio.get_running_loop()
            before, began = cluster.fetch_count, loop.time()
            await fill(cluster, 1, *("next" for _ in range(50)))
            fetches = cluster.fetch_count - before
            # A batch that lets the watermark wait for too long does not count: the machine may be busy.
            waits = int((loop.time() - began) * 1000 / HIGH_WATERMARK_DELAY_MS) + 1
            assert fetches <= 2 * (50 + waits)
            await cluster.until_equal()  # the followers hear of the last watermark, although nothing follows

    asyncio.run(scenario())


def test_logs_are_equal_byte_by_byte_when_producers_are_idempotent_and_transactional(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with replicating(tmp_path, settings=LogSettings(segment_bytes=1_000)) as cluster:
            leader = cluster.nodes[1].partition()
            for number in range(40):
                leader.append(sequenced(number), -1, NOW)
                leader.append(transactional(number, producer_id=9), -1, NOW)
                if number % 10 == 9:
                    leader.append_end_marker(9, 0, 0, number % 20 == 9, NOW)
            assert await leader.wait_until_replicated(leader.log.log_end_offset, 10_000) == ErrorCode.NONE
            await cluster.until_equal()
            assert len({cluster.log_bytes(node_id) for node_id in cluster.nodes}) == 1
            logs = [node.partition().log for node in cluster.nodes.values()]
            assert len({log.last_stable_offset for log in logs}) == 1
            assert len({tuple(log.reader.aborted_transactions(0, 100)) for log in logs}) == 1
            cluster.elect(2)
            answer = await cluster.nodes[2].produce(sequenced(39))  # again, to the new leader
            assert (answer.error_code, answer.base_offset) == (ErrorCode.NONE, 81)

    asyncio.run(scenario())


def test_readers_see_nothing_when_an_in_sync_replica_does_not_have_it(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with replicating(tmp_path) as cluster:
            await fill(cluster, 1, "a")
            cluster.cuts.add(frozenset((1, 3)))
            leader = cluster.nodes[1]
            answer = await leader.produce(batch("b"), timeout_ms=200)
            assert answer.error_code == ErrorCode.REQUEST_TIMED_OUT
            assert cluster.nodes[2].partition().log.log_end_offset == 2
            assert [node.partition().log.high_watermark for node in cluster.nodes.values()][:2] == [1, 1]
            cluster.cuts.clear()
            await cluster.until_equal()
            assert leader.partition().log.high_watermark == 2

    asyncio.run(scenario())


def test_a_write_is_refused_when_too_few_replicas_are_in_sync(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with replicating(tmp_path, settings=LogSettings(min_insync_replicas=2)) as cluster:
            await fill(cluster, 1, "a")
            await cluster.until_equal()
            cluster.cuts |= {frozenset((1, 2)), frozenset((1, 3))}
            cluster.change(isr=(1,))
            leader = cluster.nodes[1]
            assert (await leader.produce(batch("b"))).error_code == ErrorCode.NOT_ENOUGH_REPLICAS
            assert (await leader.produce(batch("b"), acks=1)).error_code == ErrorCode.NONE
            assert leader.partition().log.high_watermark == 1  # frozen
            cluster.cuts.clear()
            await until_in_sync(cluster, 1, {1, 2, 3})
            await cluster.until_equal()
            assert leader.partition().log.high_watermark == 2

    asyncio.run(scenario())


async def until_in_sync(cluster: ReplicaCluster, leader: int, isr: set[int]) -> None:
    await until(lambda: set(cluster.nodes[leader].partition().state.isr) == isr)


def test_writers_hear_of_the_new_leader_when_leadership_is_lost_while_they_wait(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with replicating(tmp_path) as cluster:
            cluster.cuts |= {frozenset((1, 2)), frozenset((1, 3))}
            leader = cluster.nodes[1]
            waiting = asyncio.ensure_future(leader.produce_response(batch("a")))
            await until(lambda: leader.partition().log.log_end_offset == 1)
            cluster.elect(2, (2, 3))
            response = await waiting
            answer = response.responses[0].partition_responses[0]
            assert answer.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
            assert answer.current_leader is not None
            assert (answer.current_leader.leader_id, answer.current_leader.leader_epoch) == (2, 1)
            assert [(node.node_id, node.host) for node in response.node_endpoints] == [(2, "host2")]
            cluster.cuts.clear()
            await fill(cluster, 2, "b")
            await cluster.until_equal()
            assert read_all(cluster.nodes[1].partition().log) == [(0, "b")]

    asyncio.run(scenario())


def test_a_follower_catches_up_and_joins_when_it_was_down(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with replicating(tmp_path) as cluster:
            await fill(cluster, 1, "a")
            await cluster.stop(3)
            cluster.change(isr=(1, 2))
            await fill(cluster, 1, "b", "c")
            cluster.restart(3)
            await until_in_sync(cluster, 1, {1, 2, 3})
            await fill(cluster, 1, "d")
            await cluster.until_equal()
            assert len({cluster.log_bytes(node_id) for node_id in cluster.nodes}) == 1

    asyncio.run(scenario())


def test_a_former_leader_cuts_what_nobody_else_has_when_it_comes_back(tmp_path: Path) -> None:
    """KIP-101: cutting by the high watermark would lose the second record, which was acknowledged."""

    async def scenario() -> None:
        async with replicating(tmp_path, count=2) as cluster:
            await fill(cluster, 1, "a", "b")
            cluster.cuts.add(frozenset((1, 2)))
            assert (await cluster.nodes[1].produce(batch("lost"), acks=1)).error_code == ErrorCode.NONE
            cluster.elect(2, (2,))
            await fill(cluster, 2, "c", "d")
            cluster.cuts.clear()
            await until_in_sync(cluster, 2, {1, 2})
            await cluster.until_equal()
            expected = [(0, "a"), (1, "b"), (2, "c"), (3, "d")]
            assert read_all(cluster.nodes[1].partition().log) == expected
            assert cluster.log_bytes(1) == cluster.log_bytes(2)

    asyncio.run(scenario())


def test_logs_agree_when_leaders_changed_fast_and_each_wrote_alone(tmp_path: Path) -> None:
    """KIP-279: several epochs diverge, with records that only one broker ever had."""

    async def scenario() -> None:
        async with replicating(tmp_path, count=2) as cluster:
            await fill(cluster, 1, "a")
            await cluster.until_equal()
            cluster.cuts.add(frozenset((1, 2)))
            for number in range(4):
                leader = 1 + number % 2
                cluster.elect(leader, (leader,))
                for each in range(number + 1):
                    await cluster.nodes[leader].produce(batch(f"{number}.{each}"), acks=1)
            cluster.elect(1, (1,))
            cluster.cuts.clear()
            await fill(cluster, 1, "z")
            await until_in_sync(cluster, 1, {1, 2})
            await cluster.until_equal()
            assert cluster.log_bytes(1) == cluster.log_bytes(2)
            values = [value for _, value in read_all(cluster.nodes[2].partition().log)]
            assert values == ["a", "0.0", "2.0", "2.1", "2.2", "z"]

    asyncio.run(scenario())


def test_a_follower_starts_over_when_its_next_record_was_deleted(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with replicating(tmp_path, count=2) as cluster:
            await fill(cluster, 1, "a")
            await cluster.until_equal()
            await cluster.stop(2)
            cluster.change(isr=(1,))
            await fill(cluster, 1, "b", "c", "d")
            cluster.nodes[1].partition().delete_records_before(3)
            cluster.restart(2)
            await until_in_sync(cluster, 1, {1, 2})
            await cluster.until_equal()
            log = cluster.nodes[2].partition().log
            assert (log.log_start_offset, read_all(log)) == (3, [(3, "d")])

    asyncio.run(scenario())


def test_many_partitions_move_when_leaders_change(tmp_path: Path) -> None:
    async def scenario() -> None:
        states = [PartitionState(index, (1, 2, 3), (1, 2, 3), 1 + index % 3) for index in range(250)]
        async with replicating(tmp_path, *states) as cluster:
            async with asyncio.TaskGroup() as group:
                for state in states:
                    group.create_task(cluster.nodes[state.leader].produce(batch("a"), index=state.partition))
            for state in states:
                await cluster.until_equal(state.partition)
            cluster.set_states(
                *(
                    state._replace(leader=1, leader_epoch=1, partition_epoch=1)
                    for state in cluster.image.topics[TOPIC].partitions
                )
            )
            async with asyncio.TaskGroup() as group:
                for state in states:
                    group.create_task(cluster.nodes[1].produce(batch("b"), index=state.partition))
            for state in states:
                await cluster.until_equal(state.partition)
                assert read_all(cluster.nodes[3].partition(state.partition).log) == [(0, "a"), (1, "b")]

    asyncio.run(scenario())


def test_a_follower_drops_one_partition_when_its_disk_fails_there(tmp_path: Path) -> None:
    async def scenario() -> None:
        states = [PartitionState(index, (1, 2), (1, 2), 1) for index in range(2)]
        cluster = ReplicaCluster(tmp_path, count=2)
        files = cluster.nodes[2].files = FaultyFiles()
        cluster.start()
        cluster.set_states(*states)
        try:
            files.fail(Fault.on("write", f"{TOPIC}-0"))
            failed = await cluster.nodes[1].produce(batch("a"), timeout_ms=100)
            assert failed.error_code == ErrorCode.REQUEST_TIMED_OUT
            answer = await cluster.nodes[1].produce(batch("b"), index=1)
            assert answer.error_code == ErrorCode.NONE
            assert not cluster.nodes[2].partition(0).is_online
            assert cluster.nodes[2].partition(1).is_online
        finally:
            for node in cluster.nodes.values():
                await node.close(clean=False)

    asyncio.run(scenario())


def test_what_must_be_flushed_is_on_the_followers_disk_when_the_leader_hears_of_it(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with replicating(tmp_path, settings=LogSettings(flush_messages=1)) as cluster:
            await fill(cluster, 1, "a", "b")
            assert [node.partition().log.recovery_point for node in cluster.nodes.values()] == [2, 2, 2]

    asyncio.run(scenario())


def test_a_write_goes_on_when_the_leader_has_no_followers_in_sync(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with replicating(tmp_path, count=2) as cluster:
            await fill(cluster, 1, "a")
            await cluster.stop(2)
            waiting = asyncio.ensure_future(cluster.nodes[1].produce(batch("b")))
            await until(lambda: cluster.nodes[1].partition().log.log_end_offset == 2)
            cluster.change(isr=(1,))
            assert (await waiting).error_code == ErrorCode.NONE
            await fill(cluster, 1, "c")

    asyncio.run(scenario())


def test_a_partition_leaves_the_broker_when_its_replica_moves(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with replicating(tmp_path) as cluster:
            await fill(cluster, 1, "a")
            cluster.change(replicas=(2, 3), isr=(2, 3), leader=2, leader_epoch=1)
            assert cluster.nodes[1].partitions.find(TOPIC, 0) is None
            assert (await cluster.nodes[1].produce(batch("b"))).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
            await fill(cluster, 2, "b")
            assert read_all(cluster.nodes[3].partition().log) == [(0, "a"), (1, "b")]

    asyncio.run(scenario())
