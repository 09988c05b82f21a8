"""aiokafka: records, groups and administration from asyncio."""

from __future__ import annotations

import asyncio
import contextlib
import re
import time
from collections.abc import AsyncIterator, Callable, Iterable
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic, RecordsToDelete
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.coordinator.assignors.range import RangePartitionAssignor
from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from aiokafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor
from aiokafka.errors import MessageSizeTooLargeError, OffsetOutOfRangeError
from aiokafka.structs import OffsetAndMetadata

from tests.clients.conftest import RunningBroker
from tests.clients.support import CODEC_NUMBERS, CODECS, PATIENCE_S, STEADY_MEMBER, new_name, stored_batches

PARTITIONS = 6
PATIENCE_MS = int(PATIENCE_S * 1_000)
ASSIGNORS = [RangePartitionAssignor, RoundRobinPartitionAssignor, StickyPartitionAssignor]


@pytest.fixture
def servers(group_broker: RunningBroker) -> str:
    return group_broker.bootstrap_servers


@contextlib.asynccontextmanager
async def running(client: Any) -> AsyncIterator[Any]:
    await client.start()
    try:
        yield client
    finally:
        await (client.close() if hasattr(client, "close") else client.stop())


def admin_of(servers: str) -> Any:
    return running(AIOKafkaAdminClient(bootstrap_servers=servers))


def producer_of(servers: str, **config: Any) -> Any:
    return running(AIOKafkaProducer(bootstrap_servers=servers, **config))


def consumer_of(servers: str, *topics: str, **config: Any) -> Any:
    defaults = {"auto_offset_reset": "earliest", "enable_auto_commit": False, "fetch_max_wait_ms": 50}
    return running(AIOKafkaConsumer(*topics, bootstrap_servers=servers, **(defaults | config)))


async def create_topic(servers: str, partitions: int = 1, config: dict[str, str] | None = None, name: str = "") -> str:
    topic = NewTopic(name or new_name("async"), partitions, 1, topic_configs=config or {})
    async with admin_of(servers) as admin:
        answer = await admin.create_topics([topic])
    assert answer.topic_errors[0][1] == 0, answer
    found: str = topic.name
    return found


async def produce(servers: str, topic: str, values: Iterable[bytes | None], **config: Any) -> list[Any]:
    names = ("key", "headers", "partition", "timestamp_ms")
    options = {name: config.pop(name) for name in names if name in config}
    async with producer_of(servers, **config) as producer:
        futures = [await producer.send(topic, value, **options) for value in values]
        return list(await asyncio.gather(*futures))


async def read(consumer: Any, count: int) -> list[Any]:
    found: list[Any] = []
    deadline = time.monotonic() + PATIENCE_S
    while len(found) < count:
        assert time.monotonic() < deadline, f"{len(found)} of {count} records arrived"
        for records in (await consumer.getmany(timeout_ms=200, max_records=count - len(found))).values():
            found += records
    return found


async def read_topic(servers: str, topic: str, count: int, partition: int = 0, **config: Any) -> list[Any]:
    async with consumer_of(servers, **config) as consumer:
        where = TopicPartition(topic, partition)
        consumer.assign([where])
        await consumer.seek_to_beginning(where)
        return await read(consumer, count)


async def eventually(look: Callable[[], Any], what: str) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not look():
        assert time.monotonic() < deadline, f"{what} did not happen"
        await asyncio.sleep(0.01)


def values(records: Iterable[Any]) -> list[bytes | None]:
    return [record.value for record in records]


class TestRecords:
    def test_key_value_headers_and_timestamp_come_back_when_consumed(self, servers: str) -> None:
        async def scenario() -> None:
            topic = await create_topic(servers)
            headers = [("trace", b"\x00\xff"), ("trace", b"again")]
            await produce(servers, topic, [b"value"], key=b"key", headers=headers, timestamp_ms=1_600_000_000_123)
            (record,) = await read_topic(servers, topic, 1)
            assert (record.key, record.value, record.offset) == (b"key", b"value", 0)
            assert list(record.headers) == headers
            assert (record.timestamp_type, record.timestamp) == (0, 1_600_000_000_123)

        asyncio.run(scenario())

    @pytest.mark.parametrize("codec", CODECS)
    def test_batches_are_stored_as_sent_when_compressed(self, servers: str, codec: str) -> None:
        sent = [b"value %d " % number * 20 for number in range(200)]

        async def scenario() -> str:
            topic = await create_topic(servers)
            await produce(servers, topic, sent, compression_type=None if codec == "none" else codec)
            assert values(await read_topic(servers, topic, 200)) == sent
            return topic

        topic = asyncio.run(scenario())
        assert {batch.compression for batch in stored_batches(servers, topic)} == {CODEC_NUMBERS[codec]}

    @pytest.mark.parametrize("acks", [0, 1, "all"])
    def test_records_arrive_in_order_when_acknowledged_by(self, servers: str, acks: int | str) -> None:
        async def scenario() -> None:
            topic = await create_topic(servers)
            sent = [b"%d" % number for number in range(300)]
            await produce(servers, topic, sent, acks=acks)
            assert values(await read_topic(servers, topic, 300)) == sent

        asyncio.run(scenario())

    def test_records_arrive_once_and_numbered_when_producer_is_idempotent(self, servers: str) -> None:
        async def scenario() -> str:
            topic = await create_topic(servers)
            sent = [b"%d" % number * 50 for number in range(500)]
            await produce(servers, topic, sent, enable_idempotence=True, max_batch_size=4_096)
            assert values(await read_topic(servers, topic, 500)) == sent
            return topic

        batches = stored_batches(servers, asyncio.run(scenario()))
        assert batches[0].producer_id >= 0
        assert [batch.base_sequence for batch in batches] == [batch.base_offset for batch in batches]

    def test_message_passes_up_to_the_limit_and_is_refused_beyond_it(self, servers: str) -> None:
        async def scenario() -> None:
            topic = await create_topic(servers)
            largest = b"x" * (1_048_588 - 61 - 21)
            async with producer_of(servers, max_request_size=10_000_000) as producer:
                await producer.send_and_wait(topic, largest)
                with pytest.raises(MessageSizeTooLargeError):
                    await producer.send_and_wait(topic, b"x" * 1_048_588)
            (record,) = await read_topic(servers, topic, 1, max_partition_fetch_bytes=1_000)
            assert record.value == largest

        asyncio.run(scenario())

    def test_topic_comes_to_be_when_first_written_to(self, servers: str) -> None:
        async def scenario() -> None:
            topic = new_name("automatic")
            (report,) = await produce(servers, topic, [b"first"])
            assert values(await read_topic(servers, topic, 1, report.partition)) == [b"first"]

        asyncio.run(scenario())

    def test_records_carry_the_brokers_time_when_the_topic_asks_for_it(self, servers: str) -> None:
        async def scenario() -> None:
            topic = await create_topic(servers, config={"message.timestamp.type": "LogAppendTime"})
            (report,) = await produce(servers, topic, [b"x"], timestamp_ms=1_234)
            (record,) = await read_topic(servers, topic, 1)
            assert record.timestamp_type == 1
            assert record.timestamp == report.timestamp > 1_600_000_000_000

        asyncio.run(scenario())


class TestReading:
    @staticmethod
    async def topic_of_ten(servers: str) -> TopicPartition:
        topic = await create_topic(servers)
        async with producer_of(servers) as producer:
            for number in range(10):
                await producer.send(topic, b"%d" % number, timestamp_ms=1_700_000_000_000 + number * 1_000)
        return TopicPartition(topic, 0)

    def test_reading_begins_where_told_when_sought(self, servers: str) -> None:
        async def scenario() -> None:
            where = await self.topic_of_ten(servers)
            async with consumer_of(servers) as consumer:
                consumer.assign([where])
                consumer.seek(where, 7)
                assert values(await read(consumer, 3)) == [b"7", b"8", b"9"]
                await consumer.seek_to_beginning(where)
                assert values(await read(consumer, 1)) == [b"0"]
                await consumer.seek_to_end(where)
                assert await consumer.position(where) == 10

        asyncio.run(scenario())

    def test_offsets_are_told_by_time_and_by_end_when_asked(self, servers: str) -> None:
        async def scenario() -> None:
            where = await self.topic_of_ten(servers)
            async with consumer_of(servers) as consumer:
                found = await consumer.offsets_for_times({where: 1_700_000_003_500})
                assert (found[where].offset, found[where].timestamp) == (4, 1_700_000_004_000)
                assert (await consumer.offsets_for_times({where: 1_800_000_000_000}))[where] is None
                assert await consumer.beginning_offsets([where]) == {where: 0}
                assert await consumer.end_offsets([where]) == {where: 10}

        asyncio.run(scenario())

    def test_nothing_arrives_while_paused_and_all_of_it_when_resumed(self, servers: str) -> None:
        async def scenario() -> None:
            where = await self.topic_of_ten(servers)
            async with consumer_of(servers) as consumer:
                consumer.assign([where])
                consumer.pause(where)
                assert not await consumer.getmany(timeout_ms=200)
                consumer.resume(where)
                assert len(await read(consumer, 10)) == 10

        asyncio.run(scenario())

    def test_consumer_learns_that_an_offset_is_gone_when_it_has_no_reset_policy(self, servers: str) -> None:
        async def scenario() -> None:
            where = await self.topic_of_ten(servers)
            async with consumer_of(servers, auto_offset_reset="none") as consumer:
                consumer.assign([where])
                consumer.seek(where, 5_000)
                with pytest.raises(OffsetOutOfRangeError):
                    await read(consumer, 1)

        asyncio.run(scenario())


class TestGroups:
    @pytest.mark.parametrize("assignor", ASSIGNORS)
    def test_partitions_are_shared_when_members_come_and_go(self, servers: str, assignor: type) -> None:
        async def scenario() -> None:
            topic, group = await create_topic(servers, PARTITIONS), new_name("group")

            def member() -> Any:
                strategy = (assignor,)
                return consumer_of(
                    servers, topic, group_id=group, partition_assignment_strategy=strategy, **STEADY_MEMBER
                )

            async with member() as first, member() as second:
                async with member() as third:
                    await eventually(lambda: is_shared(first, second, third), "three members share")
                await eventually(lambda: is_shared(first, second), "two members share")

        asyncio.run(scenario())

    def test_static_member_keeps_its_partitions_when_it_returns_in_time(self, servers: str) -> None:
        async def scenario() -> None:
            topic, group = await create_topic(servers, PARTITIONS), new_name("group")

            def member(instance: str) -> Any:
                return consumer_of(
                    servers, topic, group_id=group, group_instance_id=instance, heartbeat_interval_ms=200
                )

            async with member("one") as one:
                async with member("two") as two:
                    await eventually(lambda: is_shared(one, two), "both share")
                    kept, before = one.assignment(), two.assignment()
                async with member("two") as two:
                    await eventually(lambda: two.assignment() == before, "the second has its partitions back")
                    assert one.assignment() == kept

        asyncio.run(scenario())

    def test_reading_goes_on_after_the_commit_when_a_member_returns(self, servers: str) -> None:
        async def scenario() -> None:
            topic, group = await create_topic(servers), new_name("group")
            where = TopicPartition(topic, 0)
            await produce(servers, topic, [b"%d" % number for number in range(10)])
            async with consumer_of(servers, topic, group_id=group) as consumer:
                await read(consumer, 4)
                await consumer.commit({where: OffsetAndMetadata(4, "so far")})
                assert await consumer.committed(where) == 4
            async with consumer_of(servers, topic, group_id=group) as consumer:
                assert values(await read(consumer, 1)) == [b"4"]

        asyncio.run(scenario())

    def test_offsets_are_committed_at_the_end_when_auto_commit_is_on(self, servers: str) -> None:
        async def scenario() -> None:
            topic, group = await create_topic(servers), new_name("group")
            await produce(servers, topic, [b"x"] * 5)
            async with consumer_of(servers, topic, group_id=group, enable_auto_commit=True) as consumer:
                await read(consumer, 5)
            async with admin_of(servers) as admin:
                offsets = await admin.list_consumer_group_offsets(group)
            assert offsets[TopicPartition(topic, 0)].offset == 5

        asyncio.run(scenario())

    def test_new_topic_is_read_when_its_name_matches_the_pattern(self, servers: str) -> None:
        async def scenario() -> None:
            stem = new_name("pattern")
            await produce(servers, await create_topic(servers, name=f"{stem}.one"), [b"one"])
            async with consumer_of(servers, group_id=new_name("group"), metadata_max_age_ms=200) as consumer:
                consumer.subscribe(pattern=f"^{re.escape(stem)}.*")
                assert values(await read(consumer, 1)) == [b"one"]
                await consumer.commit()
                await produce(servers, await create_topic(servers, name=f"{stem}.two"), [b"two"])
                assert values(await read(consumer, 1)) == [b"two"]

        asyncio.run(scenario())


class TestAdministration:
    def test_topics_come_grow_and_go_when_told(self, servers: str) -> None:
        async def scenario() -> None:
            topic = await create_topic(servers, 2)
            async with admin_of(servers) as admin:
                assert topic in await admin.list_topics()
                await admin.create_partitions({topic: NewPartitions(total_count=4)})
                (described,) = await admin.describe_topics([topic])
                assert len(described["partitions"]) == 4
                await admin.delete_topics([topic])
                assert topic not in await admin.list_topics()

        asyncio.run(scenario())

    def test_configs_change_when_altered(self, servers: str) -> None:
        async def scenario() -> None:
            topic = await create_topic(servers)
            async with admin_of(servers) as admin:
                change = ConfigResource(ConfigResourceType.TOPIC, topic, {"max.message.bytes": "2000"})
                await admin.alter_configs([change])
                (answer,) = await admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, topic)])
            (resource,) = answer.resources
            assert {entry[0]: entry[1] for entry in resource[4]}["max.message.bytes"] == "2000"

        asyncio.run(scenario())

    def test_records_are_gone_when_deleted_up_to_an_offset(self, servers: str) -> None:
        async def scenario() -> None:
            topic = await create_topic(servers)
            where = TopicPartition(topic, 0)
            await produce(servers, topic, [b"%d" % number for number in range(10)])
            async with admin_of(servers) as admin:
                assert await admin.delete_records({where: RecordsToDelete(before_offset=6)}) == {where: 6}

        asyncio.run(scenario())

    def test_group_and_cluster_are_described_when_asked(self, servers: str) -> None:
        async def scenario() -> None:
            topic, group = await create_topic(servers), new_name("group")
            async with consumer_of(servers, topic, group_id=group) as consumer, admin_of(servers) as admin:
                await eventually(consumer.assignment, "an assignment")
                assert (group, "consumer") in await admin.list_consumer_groups()
                (answer,) = await admin.describe_consumer_groups([group])
                assert answer.groups[0][2] == "Stable"
                cluster = await admin.describe_cluster()
            assert [f"{one['host']}:{one['port']}" for one in cluster["brokers"]] == [servers]

        asyncio.run(scenario())


def is_shared(*members: Any) -> bool:
    counts = [len(member.assignment()) for member in members]
    owned = set().union(*(member.assignment() for member in members))
    return sum(counts) == len(owned) == PARTITIONS and max(counts) <= -(-PARTITIONS // len(members))
