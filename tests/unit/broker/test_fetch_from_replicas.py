"""What consumers are told by leaders and followers of a partition with several replicas."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from penstock.broker.authorizer import AllowEverything, Operation, ResourceType
from penstock.broker.session import RequestContext
from penstock.cluster.image import PartitionState
from penstock.core.config.keys.coordination import LEADER_SELECTOR, RACK_AWARE_SELECTOR
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ReplicaState
from tests.unit.broker.replication_rig import TOPIC, TOPIC_ID, Node, ReplicaCluster, replicating
from tests.unit.log.support import NOW, batch
from tests.waiting import until

SELECTING = {"replica.selector.class": RACK_AWARE_SELECTOR}


async def consume(
    node: Node,
    *,
    offset: int = 0,
    epoch: int = -1,
    rack: str = "",
    wait_ms: int = 0,
    session: tuple[int, int] = (0, -1),
) -> Any:
    asked = FetchPartition(
        partition=0, fetch_offset=offset, current_leader_epoch=epoch, partition_max_bytes=1_000, log_start_offset=-1
    )
    topic = FetchTopic(topic_id=TOPIC_ID, partitions=[asked])
    request = FetchRequest(
        topics=[topic] if session[1] <= 0 else [],
        rack_id=rack,
        max_wait_ms=wait_ms,
        min_bytes=1,
        session_id=session[0],
        session_epoch=session[1],
    )
    return await node.ask(request, 17)


async def compare(node: Node, version: int) -> Any:
    """As Kafka's debugging consumer asks, which names neither a rack nor an epoch."""
    asked = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1_000)
    request = FetchRequest(
        replica_id=-2,
        replica_state=ReplicaState(replica_id=-2),
        topics=[FetchTopic(topic=TOPIC, topic_id=TOPIC_ID, partitions=[asked])],
    )
    return only(await node.ask(request, version))


def only(response: Any) -> Any:
    return response.responses[0].partitions[0]


def test_a_consumer_hears_where_the_leader_is_when_it_asks_a_follower(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with replicating(tmp_path) as cluster:
            response = await consume(cluster.nodes[2])
            answer = only(response)
            assert answer.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
            assert (answer.current_leader.leader_id, answer.current_leader.leader_epoch) == (1, 0)
            assert [(node.node_id, node.host, node.rack) for node in response.node_endpoints] == [(1, "host1", "rack1")]
            cluster.elect(3)
            stale = only(await consume(cluster.nodes[1], epoch=0))
            assert stale.error_code == ErrorCode.FENCED_LEADER_EPOCH
            assert stale.current_leader.leader_id == 3
            assert only(await consume(cluster.nodes[1], epoch=5)).error_code == ErrorCode.UNKNOWN_LEADER_EPOCH

    asyncio.run(scenario())


def test_a_consumer_is_sent_away_when_it_asks_a_suspended_leader(tmp_path: Path) -> None:
    """Another may lead by now. A consumer that got an empty answer would stay for minutes."""

    async def scenario() -> None:
        async with replicating(tmp_path) as cluster:
            leader = cluster.nodes[1]
            assert only(await consume(leader, epoch=0)).error_code == ErrorCode.NONE
            leader.partition().allow_leading(False)
            for epoch, rack in ((0, ""), (0, "a"), (-1, "a")):
                assert (
                    only(await consume(leader, epoch=epoch, rack=rack)).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
                )

    asyncio.run(scenario())


def test_a_partition_on_other_brokers_is_known_and_not_led_here(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with replicating(tmp_path, PartitionState(0, (1, 2), (1, 2), 1)) as cluster:
            answer = only(await consume(cluster.nodes[3]))
            assert answer.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
            produced = await cluster.nodes[3].produce(batch("a"))
            assert produced.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
            assert produced.current_leader is not None

    asyncio.run(scenario())


def test_a_consumer_with_a_rack_reads_from_a_follower_up_to_its_watermark(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with replicating(tmp_path) as cluster:
            waiting = asyncio.ensure_future(consume(cluster.nodes[2], rack="rack2", wait_ms=10_000))
            await until(lambda: bool(cluster.nodes[2].partition().waiters))
            assert (await cluster.nodes[1].produce(batch("a"))).error_code == ErrorCode.NONE
            answer = only(await waiting)
            assert (answer.error_code, answer.high_watermark) == (ErrorCode.NONE, 1)
            assert answer.records

    asyncio.run(scenario())


def test_whoever_compares_replicas_reads_from_the_one_that_is_asked(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with replicating(tmp_path) as cluster:
            assert (await cluster.nodes[1].produce(batch("a"))).error_code == ErrorCode.NONE
            await cluster.until_equal()
            answers = [
                await compare(node, version) for node in cluster.nodes.values() for version in (10, 12, 14, 17, 18)
            ]
            assert {answer.error_code for answer in answers} == {ErrorCode.NONE}
            assert len({bytes(answer.records) for answer in answers}) == 1
            assert answers[0].records
            cluster.nodes[1].partition().allow_leading(False)
            suspended = await compare(cluster.nodes[1], 17)
            assert suspended.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER

    asyncio.run(scenario())


def test_a_consumer_gets_nothing_above_the_watermark_when_followers_lag(tmp_path: Path) -> None:
    async def scenario() -> None:
        cluster = ReplicaCluster(tmp_path, is_driven=True)
        cluster.start()
        cluster.set_states(PartitionState(0, (1, 2), (1, 2), 1))
        leader = cluster.nodes[1]
        leader.partition().append(batch("a"), 1, NOW)
        leader.partition().append(batch("b"), 1, NOW)
        for offset in (0, 1, 2):
            answer = only(await consume(leader, offset=offset))
            assert (answer.error_code, answer.high_watermark, answer.records) == (ErrorCode.NONE, 0, b"")
        for node in cluster.nodes.values():
            await node.close()

    asyncio.run(scenario())


def test_a_consumer_is_sent_to_the_follower_in_its_rack_when_a_selector_is_set(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with replicating(tmp_path, properties=SELECTING) as cluster:
            assert (await cluster.nodes[1].produce(batch("a"))).error_code == ErrorCode.NONE
            await cluster.until_equal()
            response = await consume(cluster.nodes[1], rack="rack2", wait_ms=10_000, session=(0, 0))
            answer = only(response)
            assert (answer.preferred_read_replica, answer.records, answer.high_watermark) == (2, b"", 1)
            # Each answer of a session says it, until the consumer goes.
            again = await consume(cluster.nodes[1], rack="rack2", wait_ms=10_000, session=(response.session_id, 1))
            assert only(again).preferred_read_replica == 2
            for rack in ("rack1", "elsewhere", ""):
                here = only(await consume(cluster.nodes[1], rack=rack))
                assert (here.preferred_read_replica, bool(here.records)) == (-1, True)
            there = only(await consume(cluster.nodes[2], rack="rack2"))
            assert (there.preferred_read_replica, bool(there.records)) == (-1, True)

    asyncio.run(scenario())


def test_a_consumer_stays_at_the_leader_when_its_rack_has_no_replica_to_read_from(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with replicating(tmp_path, properties=SELECTING) as cluster:
            assert (await cluster.nodes[1].produce(batch("a"))).error_code == ErrorCode.NONE
            await cluster.until_equal()
            leader = cluster.nodes[1]
            assert only(await consume(leader, rack="rack2", offset=7)).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
            assert only(await consume(leader, rack="rack2", epoch=9)).error_code == ErrorCode.UNKNOWN_LEADER_EPOCH
            cluster.change(isr=(1, 3))
            cluster.cuts.add(frozenset((1, 2)))
            await until(lambda: cluster.nodes[2].partition().state.isr == (1, 3))
            assert only(await consume(leader, rack="rack2")).records
            await cluster.stop(3)
            assert only(await consume(leader, rack="rack3")).records

    asyncio.run(scenario())


def test_a_consumer_reads_from_the_leader_when_the_selector_says_so(tmp_path: Path) -> None:
    async def scenario() -> None:
        for path, properties in (("none", None), ("leader", {"replica.selector.class": LEADER_SELECTOR})):
            async with replicating(tmp_path / path, properties=properties) as cluster:
                assert (await cluster.nodes[1].produce(batch("a"))).error_code == ErrorCode.NONE
                await cluster.until_equal()
                assert only(await consume(cluster.nodes[1], rack="rack2")).records

    asyncio.run(scenario())


def test_a_consumer_at_a_follower_hears_of_bounds_and_epochs_as_at_a_leader(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with replicating(tmp_path, properties=SELECTING) as cluster:
            assert (await cluster.nodes[1].produce(batch("a"))).error_code == ErrorCode.NONE
            await cluster.until_equal()
            follower = cluster.nodes[2]
            assert only(await consume(follower, epoch=0)).records  # whoever knows the epoch has chosen this broker
            assert only(await consume(follower, rack="rack2", offset=7)).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
            waiting = asyncio.ensure_future(consume(follower, rack="rack2", offset=1, epoch=0, wait_ms=600_000))
            await until(lambda: bool(follower.partition().waiters))
            cluster.elect(3)
            answer = only(await waiting)
            assert answer.error_code == ErrorCode.FENCED_LEADER_EPOCH
            assert answer.current_leader.leader_id == 3

    asyncio.run(scenario())


class NoClusterActions(AllowEverything):
    """For somebody who is no broker."""

    def is_allowed(self, context: RequestContext, operation: Operation, kind: ResourceType, name: str) -> bool:
        return operation is not Operation.CLUSTER_ACTION


def test_a_followers_session_stays_when_somebody_without_permission_takes_its_name(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with replicating(tmp_path, PartitionState(0, (1, 2), (1, 2), 1), count=2) as cluster:
            assert (await cluster.nodes[1].produce(batch("a"))).error_code == ErrorCode.NONE
            leader = cluster.nodes[1]
            before = dict(leader.broker.fetch_sessions._followers)
            assert before.keys() == {2}
            cluster.cuts.add(frozenset((1, 2)))
            leader.broker.authorizer = NoClusterActions()
            asked = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1_000)
            request = FetchRequest(
                topics=[FetchTopic(topic_id=TOPIC_ID, partitions=[asked])],
                replica_state=ReplicaState(replica_id=2, replica_epoch=2),
                session_epoch=0,
            )
            answer = only(await leader.ask(request, 17))
            assert answer.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
            assert dict(leader.broker.fetch_sessions._followers) == before
            assert leader.partition().high_watermark == 1

    asyncio.run(scenario())
