"""Members of classic groups, beside consumers of others and on their own."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import confluent_kafka
import pytest

import penstock
from penstock.client.brokers import Brokers
from penstock.client.consumer_protocol import (
    CONSUMER,
    RANGE,
    assign_by_range,
    assign_ranges,
    read_assignment,
    write_subscription,
)
from penstock.client.membership import Assign, GroupProtocol, JoinedMember, Listener, Member, MemberTimes
from penstock.core.types import TopicPartition
from penstock.protocol.errors import ApiError, ErrorCode
from tests.integration.client.support import Events, brokers_of, proxied_broker

QUICK = MemberTimes(session_timeout_ms=600, rebalance_timeout_ms=5_000)


@pytest.fixture(scope="module")
def broker() -> Iterator[penstock.Broker]:
    with penstock.Broker(config={"group.min.session.timeout.ms": "100"}) as running:
        yield running


def member(brokers: Brokers, group: str, listener: Listener, topics: list[str], times: MemberTimes = QUICK) -> Member:
    protocols = [GroupProtocol(RANGE, write_subscription(topics))]
    return Member(brokers, group, CONSUMER, lambda: protocols, assign_by_range(brokers), listener, times)


class TestMembership:
    def test_partitions_are_shared_out_anew_when_members_come_and_go(self, broker: penstock.Broker) -> None:
        broker.create_topic("shared", 3)

        async def run() -> None:
            async with brokers_of(broker.bootstrap_servers) as brokers:
                first, second = Events(), Events()
                one, two = (member(brokers, "group", events, ["shared", "absent"]) for events in (first, second))
                one.start()
                alone = await first.next("assigned")
                assert [each.partition for each in read_assignment(alone.assignment)] == [0, 1, 2]
                assert alone.leader_id == alone.member_id
                two.start()
                assert await first.next("revoked") == alone
                ours, theirs = await first.next("assigned"), await second.next("assigned")
                assert ours.generation_id == theirs.generation_id
                parts = read_assignment(ours.assignment) + read_assignment(theirs.assignment)
                assert sorted(each.partition for each in parts) == [0, 1, 2]
                await two.close()
                assert (await second.next("revoked")) == theirs
                assert len(read_assignment((await first.next("assigned")).assignment)) == 3
                one.rejoin()
                await first.next("assigned")
                await one.close()
                assert one.generation is None

        asyncio.run(run())

    def test_group_is_shared_with_a_consumer_of_another_kind(self, broker: penstock.Broker) -> None:
        broker.create_topic("mixed", 4)

        async def run() -> None:
            async with brokers_of(broker.bootstrap_servers) as brokers:
                events = Events()
                ours = member(brokers, "mixed", events, ["mixed"])
                ours.start()
                await events.next("assigned")
                theirs = confluent_kafka.Consumer(
                    {
                        "bootstrap.servers": broker.bootstrap_servers,
                        "group.id": "mixed",
                        "partition.assignment.strategy": "range",
                        "group.protocol": "classic",
                    }
                )
                theirs.subscribe(["mixed"])
                while not theirs.assignment():
                    await asyncio.to_thread(theirs.poll, 0.1)
                generation = await events.next("assigned")
                mine = {each.partition for each in read_assignment(generation.assignment)}
                assert mine | {each.partition for each in theirs.assignment()} == {0, 1, 2, 3}
                assert len(mine) == 2
                await asyncio.to_thread(theirs.close)
                await events.next("assigned")
                await ours.close()

        asyncio.run(run())

    def test_metadata_and_assignment_are_any_bytes_when_the_type_is_another(self, broker: penstock.Broker) -> None:
        def assign(seen: list[JoinedMember]) -> Assign:
            async def decide(name: str, members: object) -> dict[str, bytes]:
                assert name == "v0"
                assert isinstance(members, list)
                seen[:] = members
                return {each.member_id: b"leader of %d" % len(members) for each in members}

            return decide

        async def run() -> None:
            async with brokers_of(broker.bootstrap_servers) as brokers:
                seen: list[JoinedMember] = []
                events = Events()
                registry = Member(
                    brokers, "registry", "sr", lambda: [GroupProtocol("v0", b"\xff{}")], assign(seen), events, QUICK
                )
                registry.start()
                assert (await events.next("assigned")).assignment == b"leader of 1"
                assert [each.metadata for each in seen] == [b"\xff{}"]
                stranger = Events()
                other = member(brokers, "registry", stranger, ["t"])
                other.start()
                failure = await stranger.failure()
                assert isinstance(failure, ApiError)
                assert failure.code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
                await other.close()
                await registry.close()

        asyncio.run(run())

    def test_member_hears_that_all_is_lost_and_joins_anew_when_the_group_went_on_without_it(self) -> None:
        async def run() -> None:
            config = {"group.min.session.timeout.ms": "100"}
            async with proxied_broker(config) as (broker, proxy, brokers):
                await broker.create_topic("t")
                events = Events()
                ours = member(brokers, "g", events, ["t"])
                ours.start()
                first = await events.next("assigned")
                proxy.cut()
                assert await events.next("lost") == first
                proxy.reset()
                proxy.heal()
                again = await events.next("assigned")
                assert again.generation_id > first.generation_id
                await ours.close()

        asyncio.run(run())

    def test_ranges_are_those_of_javas_assignor(self) -> None:
        given = assign_ranges({"b": ["t", "u"], "a": ["t"], "c": ["gone"]}, {"t": 5, "u": 2})
        assert given == {
            "a": [TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("t", 2)],
            "b": [TopicPartition("t", 3), TopicPartition("t", 4), TopicPartition("u", 0), TopicPartition("u", 1)],
            "c": [],
        }
